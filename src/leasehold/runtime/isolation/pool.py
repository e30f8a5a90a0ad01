"""Processes for handlers that must be able to be killed: started when needed, used again, replaced when they die.

Each runs one job at a time. A job is told of its end only when its process has ended, so that nobody runs it again
while it may still be running here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from leasehold.core import limits
from leasehold.core.errors import InvalidArgument, RedisError, Unreachable
from leasehold.core.outcome import Outcome, Released, Unroutable
from leasehold.core.shape import Progress
from leasehold.core.task import RunIn, TaskSpec
from leasehold.runtime.isolation.child import JobProcess, Launch
from leasehold.runtime.isolation.messages import (
    PROCESS_BYE_MS,
    Bye,
    Cancel,
    Done,
    Extend,
    Extended,
    Ready,
    RunJob,
    Told,
)
from leasehold.runtime.jobs.held import Held
from leasehold.runtime.log import log_event

PROCESS_JOBS: Final = 1_000
"""Jobs that one job process runs, one after the other. Then another takes its place."""
PROCESS_IDLE_MS: Final = 5 * limits.MINUTE
"""A job process that was idle for this long ends."""
PROCESS_START_MS: Final = limits.MINUTE
"""How long a job process has to load the app."""
PROCESS_STARTING_MOST: Final = 4
"""Job processes that start at one moment: each takes a core until it has loaded the app."""
PROCESS_STARTS: Final = 7
"""After this many failed starts in a row, jobs that need a job process are parked until one starts."""
PROCESS_PROBE_MS: Final = 30 * limits.SECOND
"""How often a start is tried then."""
PROCESS_BACKOFF_MS: Final = 250
"""The pause after a job process could not be started. It doubles."""
PROCESS_BACKOFF_CAP_MS: Final = 5 * limits.SECOND
"""The longest of these pauses."""
PROCESS_CANCEL_MS: Final = 5 * limits.SECOND
"""How long a handler has to end after its job was cancelled. Then its job process is killed."""
PROCESS_ASKS: Final = 1_000
"""Requests for more time that a job process may have under way."""


@dataclass(frozen=True, slots=True)
class Ports:
    """What the pool says to the executor.

    may_start whether the job is still ours: to start a process takes a while
    began    a process has the job now: its time begins
    ended    with the outcome that its handler was judged to have, or None: its process ended before. `Unroutable`
             when no process can be started for it
    extend   the handler asks for so many milliseconds; whether the job is still ours
    progress how far it says it is
    """

    may_start: Callable[[Held], bool]
    began: Callable[[Held], None]
    ended: Callable[[Held, Outcome | None], None]
    extend: Callable[[Held, int], Awaitable[bool]]
    progress: Callable[[Held, Progress], None]


class ProcessPool:
    """Up to `size` processes. Used from the event loop's thread only.

    pool = ProcessPool(launch, size=4, ports=Ports(...), clock=time.monotonic)
    pool.submit(held)
    """

    def __init__(self, launch: Launch, size: int, ports: Ports, clock: Callable[[], float]) -> None:
        self._launch = launch
        self._size = size
        self._ports = ports
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Held] = deque()
        self._children: set[JobProcess] = set()
        self._idle: list[JobProcess] = []
        """The one that was used last comes last, and is used next: so those that are not needed stay idle and end."""
        self._at_work: dict[Held, JobProcess] = {}
        self._leaving: set[JobProcess] = set()
        self._all_left = asyncio.Event()
        self._asking: set[asyncio.Task[None]] = set()
        self._starting = 0
        self._failures = 0
        self._start_again: asyncio.TimerHandle | None = None
        self._closed = False
        self.guard: Callable[[Sequence[int]], None] = lambda pids: None
        """Told which processes there are, as soon as there is one more or less, and so before it gets a job."""
        self.trouble: str | None = None
        """Why jobs are refused, when they are: no process can be started. One is tried now and then."""

    async def run(self) -> None:
        """Look after processes that nobody needs."""
        most_s = PROCESS_IDLE_MS / limits.SECOND
        while True:
            await asyncio.sleep(most_s / 5)
            now = self._clock()
            while self._idle and now - self._idle[0].idle_since >= most_s:
                self._dismiss(self._idle.pop(0))

    def submit(self, run: Held) -> None:
        """Have its handler called in a process."""
        self._waiting.append(run)
        if self.trouble is None:
            self._feed()
        else:
            self._refuse_all()

    def cancel(self, run: Held, reason: str) -> None:
        """Tell its handler that the job is to be cancelled. If that does not end it, it is killed after a while."""
        child = self._at_work.get(run)
        if child is None:
            self.kill(run)
            return
        child.send(Cancel(child.number, reason))
        child.after(PROCESS_CANCEL_MS, child.kill)

    def kill(self, run: Held) -> None:
        """End its handler at once. Harmless when it has ended."""
        child = self._at_work.get(run)
        if child is not None:
            child.kill()
        elif run in self._waiting:
            self._waiting.remove(run)
            # Not at once: who kills several is going through a list that this would change.
            self._loop.call_soon(self._ports.ended, run, None)

    async def close(self) -> None:
        """Let idle processes end in order, and wait for it for a while. Those that run a job go on until `end`."""
        self._closed = True
        while self._idle:
            self._dismiss(self._idle.pop())
        if self._leaving:
            self._all_left.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PROCESS_BYE_MS / limits.SECOND):
                    await self._all_left.wait()

    def end(self) -> None:
        """Kill all that are left, here and now."""
        self._closed = True
        if self._start_again is not None:
            self._start_again.cancel()
        for task in self._asking:
            task.cancel()
        left = [*self._children, *self._leaving]
        for child in left:
            child.kill()
        for child in left:
            child.reap()

    # -------------------------------------------------------------------------------------- from jobs to processes

    def _feed(self) -> None:
        while self._waiting and self._idle:
            run = self._waiting.popleft()
            if self._ports.may_start(run):
                self._give(self._idle.pop(), run)
            else:  # not at once: whoever submits it goes through a list that this would change
                self._loop.call_soon(self._ports.ended, run, Released())
        if self._start_again is None and not self._closed:
            most = min(len(self._waiting), PROCESS_STARTING_MOST)
            while self._starting < most and len(self._children) < self._size:
                if not self._start():
                    break

    def _start(self) -> bool:
        try:
            child = JobProcess(self._launch, self._heard, self._ended)
        except OSError as error:
            self._not_started(str(error))
            return False
        self._children.add(child)
        self._tell_guard()
        self._starting += 1
        child.after(PROCESS_START_MS, child.kill)
        return True

    def _tell_guard(self) -> None:
        self.guard([child.pid for child in (*self._children, *self._leaving)])

    def _not_started(self, how: str) -> None:
        self._failures += 1
        log_event(logging.WARNING, "process_not_started", how=how, failures=self._failures)
        if self._failures >= PROCESS_STARTS and not any(child.ready for child in self._children):
            self._give_up(how)
        if self._start_again is None and not self._closed:
            pause_ms = min(PROCESS_BACKOFF_MS * 2 ** min(self._failures - 1, 16), PROCESS_BACKOFF_CAP_MS)
            if self.trouble is not None:
                pause_ms = PROCESS_PROBE_MS
            self._start_again = self._loop.call_later(pause_ms / limits.SECOND, self._try_again)

    def _try_again(self) -> None:
        self._start_again = None
        if self.trouble is None:
            self._feed()
        elif not self._closed:
            self._start()

    def _give_up(self, how: str) -> None:
        """Jobs that need a process are refused until one can be started. All other jobs are no concern of ours."""
        if self.trouble is None:
            self.trouble = f"no job process can be started ({how})"
            log_event(logging.ERROR, "processes_failing", how=how, failures=self._failures, waiting=len(self._waiting))
        self._refuse_all()

    def _refuse_all(self) -> None:
        while self._waiting:
            # Not at once: who submits them is going through a list that this would change.
            self._loop.call_soon(self._ports.ended, self._waiting.popleft(), Unroutable())

    def _give(self, child: JobProcess, run: Held) -> None:
        child.run = run
        child.number += 1
        self._at_work[run] = child
        self._ports.began(run)
        left_s = None if run.timeout_s is None else max(0.0, run.ends_at - self._clock())
        child.send(RunJob(child.number, run.lease, left_s, run.cancelled))

    def _dismiss(self, child: JobProcess) -> None:
        self._children.discard(child)
        self._leaving.add(child)
        child.send(Bye())
        child.after(PROCESS_BYE_MS, child.kill)

    # ---------------------------------------------------------------------------------------------------- what they say

    def _heard(self, child: JobProcess, frame: Any) -> None:
        match frame:
            case Ready() if not child.ready:
                child.ready = True
                self._starting -= 1
                self._failures = 0
                if self.trouble is not None:
                    self.trouble = None
                    log_event(logging.WARNING, "processes_work")
                self._free(child)
            case Told(number, progress) if self._runs(child, number):
                assert child.run is not None
                self._ports.progress(child.run, progress)
            case Extend(number, ask, ms) if child.asks < PROCESS_ASKS and 0 < ms <= limits.MAX_LEASE_MS:
                child.asks += 1
                run = child.run if self._runs(child, number) else None
                task = self._loop.create_task(self._extend(child, run, ask, ms))
                self._asking.add(task)
                task.add_done_callback(self._asking.discard)
            case Done(number, outcome) if self._runs(child, number):
                self._done(child, outcome)
            case Told() | Extend():
                pass  # of a job that has ended: a thread that its handler left behind
            case _:
                child.kill()

    def _runs(self, child: JobProcess, number: int) -> bool:
        return child.run is not None and child.number == number

    async def _extend(self, child: JobProcess, run: Held | None, ask: int, ms: int) -> None:
        answer = Extended(ask, False)
        try:
            answer = Extended(ask, run is not None and await self._ports.extend(run, ms))
        except RedisError as error:
            answer = Extended(ask, False, str(error), isinstance(error, Unreachable))
        finally:
            child.asks -= 1
            child.send(answer)

    def _done(self, child: JobProcess, outcome: Outcome) -> None:
        run, child.run = child.run, None
        assert run is not None
        del self._at_work[run]
        child.rest()
        if child.number >= PROCESS_JOBS or self._closed:
            self._dismiss(child)
        else:
            self._free(child)
        self._ports.ended(run, outcome)
        self._feed()

    def _free(self, child: JobProcess) -> None:
        child.rest()
        child.idle_since = self._clock()
        self._idle.append(child)
        self._feed()

    def _ended(self, child: JobProcess) -> None:
        """It has died, by itself or by us."""
        self._children.discard(child)
        self._leaving.discard(child)
        self._tell_guard()
        if not self._leaving:
            self._all_left.set()
        if child in self._idle:
            self._idle.remove(child)
        run, child.run = child.run, None
        if run is not None:
            del self._at_work[run]
            level = logging.WARNING if run.stop is None else logging.INFO
            record = run.lease.record
            log_event(
                level, "process_died", queue=record.queue, task=record.task, id=record.id, pid=child.pid, how=child.how
            )
            self._ports.ended(run, None)
        if not child.ready:
            self._starting -= 1
            if not self._closed:
                self._not_started(child.how)
        self._feed()


def require_launcher(specs: Sequence[TaskSpec], launch: Launch | None) -> Launch | None:
    """How processes for these are started; None: none needs one. Refuses what this worker could not run as it is asked
    for: raises `InvalidArgument`."""
    needed = None
    for spec in specs:
        if spec.run_in is not RunIn.PROCESS:
            continue
        what = f"The handler of queue {spec.queue!r}" if spec.name is None else f"Task {spec.name}"
        if launch is None:
            raise InvalidArgument(
                f'{what} says run_in="process", and this worker does not know how such a process finds the app. Run it '
                "with `leasehold worker MODULE:APP`."
            )
        if spec.max_memory and not sys.platform.startswith("linux"):
            raise InvalidArgument(
                f"{what} says max_memory, which this system ({sys.platform}) cannot enforce. Leave it out here."
            )
        needed = launch
    return needed
