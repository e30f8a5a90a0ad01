"""Job processes: start them when jobs need them, reuse them, replace them when they die.

Each runs one job at a time. A job ends only after its process has ended it or has died, so that no other worker runs
the job at the same time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from tenure.core import limits
from tenure.core.errors import InvalidArgument, RedisError, Unreachable
from tenure.core.outcome import Cancelled, Completed, Crashed, Outcome, Released, Unroutable
from tenure.core.task import RunIn, TaskSpec
from tenure.core.text import cut
from tenure.runtime.isolation.child import JobProcess, Launch
from tenure.runtime.isolation.messages import (
    PROCESS_EXIT_MS,
    Answer,
    Cancel,
    Done,
    ExitOrder,
    Extend,
    Extended,
    ProgressReport,
    Ready,
    ShowStack,
    Stack,
)
from tenure.runtime.jobs import outcomes
from tenure.runtime.jobs.held import Batch, Ended, Held, Phase, Stop
from tenure.runtime.jobs.job import JobServices
from tenure.runtime.log import log_event
from tenure.runtime.ports import Exclusive

STACK_MS: Final = 1 * limits.SECOND
"""How long the worker waits for the stacks of job processes."""
Guard: TypeAlias = Callable[[Sequence[int], Sequence[Exclusive]], None]


class ProcessPool:
    """Runs jobs in up to `size` processes. Used from the event loop's thread only.

    `may_start`: whether this worker still holds the lease. `finished`: gets each job's outcome after its handler has
    ended.

    pool = ProcessPool(launch, size=4, services=services, may_start=kept.may_start, finished=finished)
    pool.start(held)
    """

    def __init__(
        self,
        launch: Launch,
        *,
        size: int,
        services: JobServices,
        may_start: Callable[[Held], bool],
        finished: Callable[[Sequence[Ended]], None],
    ) -> None:
        self.given_up_s: float | None = None
        """A process can always be killed, so the worker never gives up its handler."""
        self._launch = launch
        self._limits = launch.limits
        self._size = size
        self._services = services
        self._may_start = may_start
        self._finished = finished
        self._guard: Guard = lambda pids, exclusive: None
        self._exclusive: dict[JobProcess, Exclusive] = {}
        self._waiting: deque[Held] = deque()
        self._starting: set[JobProcess] = set()
        self._working: set[JobProcess] = set()
        self._idle: list[JobProcess] = []
        """The process that was used last is at the end and is used next, so that the others stay idle and end."""
        self._exiting: set[JobProcess] = set()
        self._has_exited = asyncio.Event()
        self._extensions: dict[asyncio.Task[None], JobProcess] = {}
        self._asked: dict[JobProcess, asyncio.Future[str]] = {}
        """The processes that are to show where their handlers are."""
        self._failures = 0
        self._next_start: asyncio.TimerHandle | None = None
        self._closed = False
        self.trouble: str | None = None
        """Why jobs are refused: no process can be started. The pool tries again from time to time."""

    def guarded_by(self, guard: Guard) -> None:
        """Call this whenever the processes change, and before a process gets a job. See `Keeper.guard`."""
        self._guard = guard

    def start(self, run: Held) -> None:
        """Run the job's handler. Its time begins when a process gets it: starting one may take longer than the job."""
        run.ends_by(math.inf)
        self._waiting.append(run)
        if self.trouble is None:
            self._dispatch()
        else:
            self._refuse_all()

    def stop(self, run: Held, why: Stop) -> None:
        """End the job's handler. A cancellation is a request at first; any other stop kills its process."""
        process = next((one for one in self._working if one.run is run), None)
        if process is not None and why is Stop.CANCEL:
            process.send(Cancel(process.jobs, cut(run.cancelled or "", limits.MAX_ERROR_TEXT)))
            process.after(self._limits.cancel_ms, process.kill)
        elif process is not None:
            process.kill()
        elif run in self._waiting:
            self._waiting.remove(run)
            self._end_soon(run, None)

    async def stacks(self) -> dict[Held | Batch, str]:
        """Return where the handlers are. A process that does not answer within `STACK_MS` is left out."""
        loop = self._services.loop
        asked = {process: (process.run, loop.create_future()) for process in self._working}
        self._asked = {process: answer for process, (_, answer) in asked.items()}
        for process in asked:
            process.send(ShowStack())
        if asked:
            await asyncio.wait(self._asked.values(), timeout=STACK_MS / limits.SECOND)
        return {run: answer.result() for run, answer in asked.values() if run is not None and answer.done()}

    async def close(self) -> None:
        """End idle processes, and wait for them until `PROCESS_EXIT_MS`. Processes with a job continue until `end`."""
        self._closed = True
        for process in list(self._idle):
            self._dismiss(process)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PROCESS_EXIT_MS / limits.SECOND):
                while self._exiting:
                    self._has_exited.clear()
                    await self._has_exited.wait()

    def end(self) -> None:
        """Kill all processes that are left."""
        self._closed = True
        if self._next_start is not None:
            self._next_start.cancel()
        for task in self._extensions:
            task.cancel()
        left = [*self._all(), *self._exiting]
        for process in left:
            process.kill()
        for process in left:
            process.reap()

    # -------------------------------------------------------------------------------------- from jobs to processes

    def _all(self) -> list[JobProcess]:
        return [*self._working, *self._idle, *self._starting]

    def _dispatch(self) -> None:
        while self._waiting and self._idle:
            run = self._waiting.popleft()
            if self._may_start(run):
                self._begin(self._idle.pop(), run)
            else:
                self._end_soon(run, Released())
        if self._next_start is None and not self._closed:
            limit = min(len(self._waiting), self._limits.starting)
            while len(self._starting) < limit and len(self._all()) < self._size:
                if not self._start_process():
                    break

    def _begin(self, process: JobProcess, run: Held) -> None:
        self._working.add(process)
        if run.must_be_alone:
            self._exclusive[process] = Exclusive(process.pid, run.lease.record.queue, run.asked_at)
            self._pids_changed()
        run.begin_in_process(self._services.clock())
        process.begin(run, run.timeout_s)

    def _reuse(self, process: JobProcess) -> None:
        """Give an idle process the next job. Without one, it ends after `idle_ms`."""
        self._dispatch()
        if process in self._idle:
            process.after(self._limits.idle_ms, lambda: self._dismiss(process))

    def _dismiss(self, process: JobProcess) -> None:
        self._idle.remove(process)
        self._exiting.add(process)
        process.send(ExitOrder())
        process.after(PROCESS_EXIT_MS, process.kill)

    def _start_process(self) -> bool:
        try:
            process = JobProcess(self._launch, self._received, self._process_ended)
        except OSError as error:
            self._start_failed(str(error))
            return False
        self._starting.add(process)
        self._pids_changed()
        process.after(self._limits.start_ms, process.kill)
        return True

    def _start_failed(self, how: str) -> None:
        self._failures += 1
        level, parked = logging.WARNING, None
        if self._failures >= self._limits.starts and not self._working and not self._idle:
            if self.trouble is None:
                self.trouble = f"no job process can be started ({how})"
                level, parked = logging.ERROR, len(self._waiting)
            self._refuse_all()
        log_event("start_failed", level, kind="job_process", how=how, failures=self._failures, parked=parked)
        if self._next_start is None and not self._closed:
            pause_ms = self._limits.probe_ms
            if self.trouble is None:
                pause_ms = self._limits.backoff.delay_ms(self._failures, self._services.random)
            loop = self._services.loop
            self._next_start = loop.call_later(pause_ms / limits.SECOND, self._start_again)

    def _start_again(self) -> None:
        self._next_start = None
        if self.trouble is None:
            self._dispatch()
        elif not self._closed:
            self._start_process()

    def _refuse_all(self) -> None:
        """Park jobs that need a process, until one can be started. Other jobs are not affected."""
        while self._waiting:
            self._end_soon(self._waiting.popleft(), Unroutable())

    def _pids_changed(self) -> None:
        pids = [process.pid for process in (*self._all(), *self._exiting)]
        self._guard(pids, list(self._exclusive.values()))

    # ---------------------------------------------------------------------------------------- from processes to jobs

    def _received(self, process: JobProcess, message: Answer) -> None:
        run = process.run
        match message:
            case Ready() if process in self._starting:
                self._ready(process)
            case Done(number, outcome) if run is not None and number == process.jobs:
                self._working.discard(process)
                process.take_job()
                self._idle.append(process)
                if self._exclusive.pop(process, None) is not None:
                    self._pids_changed()
                if process.jobs >= self._limits.jobs or self._closed:
                    self._dismiss(process)
                self._end(run, outcome)
                self._reuse(process)
            case Extend(number, request, ms) if self._can_extend(process, ms):
                held = run if number == process.jobs else None
                task = self._services.loop.create_task(self._extend(process, held, request, ms))
                self._extensions[task] = process
                task.add_done_callback(self._extensions.pop)
            case ProgressReport(number, progress):
                if run is not None and number == process.jobs:  # not from a thread that an earlier handler left behind
                    self._services.progress(run, progress)
            case Stack(number, text):
                answer = self._asked.pop(process, None)
                if answer is not None and number == process.jobs:
                    answer.set_result(text)
            case _:
                process.kill()

    def _ready(self, process: JobProcess) -> None:
        self._starting.discard(process)
        self._failures = 0
        if self.trouble is not None:
            self.trouble = None
            log_event("processes_restored")
        self._idle.append(process)
        if self._closed:
            self._dismiss(process)
        self._reuse(process)

    def _can_extend(self, process: JobProcess, ms: int) -> bool:
        under_way = list(self._extensions.values()).count(process)
        return 0 < ms <= limits.MAX_LEASE_MS and under_way < self._limits.extensions

    async def _extend(self, process: JobProcess, run: Held | None, request: int, ms: int) -> None:
        answer = Extended(request, False)
        try:
            answer = Extended(request, run is not None and await self._services.extend(run, ms))
        except RedisError as error:
            answer = Extended(request, False, cut(str(error), limits.MAX_ERROR_TEXT), isinstance(error, Unreachable))
        finally:
            process.send(answer)

    def _process_ended(self, process: JobProcess) -> None:
        has_started = process not in self._starting
        for processes in (self._starting, self._working, self._exiting):
            processes.discard(process)
        with contextlib.suppress(ValueError):
            self._idle.remove(process)
        self._has_exited.set()
        self._exclusive.pop(process, None)
        self._pids_changed()
        if (run := process.take_job()) is not None:
            level, record = logging.INFO if run.stop is not None else logging.WARNING, run.lease.record
            job = {"queue": record.queue, "task": record.task, "id": record.id}
            log_event("process_died", level, **job, pid=process.pid, how=process.end_reason)
            self._end(run, None)
        if not has_started and not self._closed:
            self._start_failed(process.end_reason)
        self._dispatch()

    def _end_soon(self, run: Held, outcome: Outcome | None) -> None:
        """End the job in a later step of the loop: the caller may be iterating over jobs."""
        self._services.loop.call_soon(self._end, run, outcome)

    def _end(self, run: Held, outcome: Outcome | None) -> None:
        run.ends_by(math.inf)
        final = self._outcome(run, outcome)
        self._finished([(run, [] if final is None else [(run, final)], self._services.clock())])

    def _outcome(self, run: Held, outcome: Outcome | None) -> Outcome | None:
        """How the attempt ended, given the process's outcome; `outcome` None: it has died. None: the worker decides."""
        if outcome is not None:
            # A cancellation may have come after the handler's end.
            counts = isinstance(outcome, (Completed, Unroutable)) and not run.persistent
            return outcome if run.cancelled is None or counts else Cancelled(run.cancelled)
        if run.phase is Phase.LOST:
            return None
        if run.cancelled is not None:
            return Cancelled(run.cancelled)
        match run.stop:
            case Stop.TIMEOUT:
                return outcomes.outcome_of_timeout(run, self._services.random)
            case Stop.SILENCE:
                return Released()
            case Stop.SHUTDOWN | Stop.LOST:
                # The worker releases the others together when it stops, so that they keep their order.
                return Released() if run.persistent else None
            case _ if run.must_be_alone and not self._may_start(run):
                return Released()  # the keeper has killed it, as the lease has expired
            case _:
                return Crashed()


def require_launcher(specs: Sequence[TaskSpec], launch: Launch | None) -> Launch | None:
    """Check that this worker can run these tasks. Return `launch` if one of them needs job processes, else None.

    Raises `InvalidArgument`.
    """
    needed = None
    for spec in specs:
        if spec.run_in is not RunIn.PROCESS:
            continue
        what = f"The handler of queue {spec.queue!r}" if spec.name is None else f"Task {spec.name}"
        if launch is None:
            raise InvalidArgument(
                f'{what} says run_in="process", and this worker does not know how such a process finds the app. Run it '
                "with `tenure worker MODULE:APP`."
            )
        if spec.max_memory and not sys.platform.startswith("linux"):
            raise InvalidArgument(
                f"{what} says max_memory, which this system ({sys.platform}) cannot enforce. Leave it out here."
            )
        needed = launch
    return needed
