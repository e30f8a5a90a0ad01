"""Jobs that run apart, in processes: what the end of such a process means for its job."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence

from leasehold.core.outcome import Cancelled, Completed, Crashed, Outcome, Released, Unroutable
from leasehold.core.shape import Progress
from leasehold.runtime.isolation.child import Launch
from leasehold.runtime.isolation.pool import Ports, ProcessPool
from leasehold.runtime.jobs import outcomes
from leasehold.runtime.jobs.batches import Outcomes
from leasehold.runtime.jobs.held import Held, Phase, Stop


class ProcessRunner:
    """The executor's way to job processes. `finished` is told how an attempt ended, once its handler runs no more."""

    def __init__(
        self,
        launch: Launch,
        slots: int,
        random: outcomes.Random,
        clock: Callable[[], float],
        finished: Callable[[Held, Outcomes, float], None],
        extend: Callable[[Held, int], Awaitable[bool]],
        progress: Callable[[Held, Progress], None],
        may_start: Callable[[Held], bool],
    ) -> None:
        self._random = random
        self._clock = clock
        self._finished = finished
        self._pool = ProcessPool(launch, slots, Ports(may_start, self._began, self._ended, extend, progress), clock)
        self.run = self._pool.run
        self.close = self._pool.close
        self.end = self._pool.end

    def guarded_by(self, guard: Callable[[Sequence[int]], None]) -> None:
        """Have this told which processes there are: see `Keeper.guard`."""
        self._pool.guard = guard

    @property
    def trouble(self) -> str | None:
        """Why it refuses jobs, when it does."""
        return self._pool.trouble

    def start(self, run: Held) -> None:
        """Have it run. Its time begins when a process has it: to start one may take longer than the job."""
        run.ends_at = math.inf
        self._pool.submit(run)

    def stop(self, run: Held, why: Stop) -> None:
        """A cancellation is an ask at first; for anything else its process is killed."""
        if why is Stop.CANCEL:
            self._pool.cancel(run, run.cancelled or "")
        else:
            self._pool.kill(run)

    def _began(self, run: Held) -> None:
        run.began = True
        run.started_at = self._clock()
        if run.timeout_s is not None:
            run.ends_at = run.started_at + run.timeout_s

    def _ended(self, run: Held, said: Outcome | None) -> None:
        run.ends_at = math.inf
        outcome = self._as_asked(run, said) if said is not None else self._without_word(run)
        self._finished(run, [] if outcome is None else [(run, outcome)], self._clock())

    def _as_asked(self, run: Held, said: Outcome) -> Outcome:
        """What the handler was judged to mean. It may not have known yet that the job was to be cancelled."""
        if run.cancelled is None or (isinstance(said, (Completed, Unroutable)) and not run.persistent):
            return said
        return Cancelled(run.cancelled)

    def _without_word(self, run: Held) -> Outcome | None:
        """Its process has died, by itself or by us. None: nothing is to be said of the job here."""
        if run.phase is Phase.LOST:
            return None
        if run.cancelled is not None:
            return Cancelled(run.cancelled)
        match run.stop:
            case Stop.TIMEOUT:
                return outcomes.outcome_of_timeout(run.spec, run.lease, run.timeout_s, self._random)
            case Stop.SILENCE | Stop.SHUTDOWN | Stop.LOST:
                # Others are given back with the rest when the worker leaves, so that the order is kept.
                return Released() if run.persistent else None
            case _:
                return Crashed()
