"""Inside a job process: takes one job after the other from the line, runs its handler, and says what came of it.

A sync handler runs in the main thread, an async one on a loop that stays from job to job, as in a worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import copy_context
from pathlib import Path
from typing import Final

from leasehold.core import limits
from leasehold.core.outcome import Outcome, Released, Unroutable
from leasehold.core.shape import Progress
from leasehold.core.task import TaskSpec
from leasehold.runtime.forks import CLONE_STATUS, ForkGuard
from leasehold.runtime.handlers.invoke import Caller
from leasehold.runtime.handlers.loop import HandlerLoop, kept_running
from leasehold.runtime.handlers.middleware import Layers, Middleware
from leasehold.runtime.handlers.routes import Routes
from leasehold.runtime.isolation.channel import WorkerChannel
from leasehold.runtime.isolation.messages import Done, Ready, RunJob
from leasehold.runtime.jobs.held import Batch, Held, Outcomes, Phase
from leasehold.runtime.jobs.job import Job, JobServices

_PAGES: Final = Path("/proc/self/statm")


class Inside:
    """Serves one line. `run` returns when the worker says that no more comes.

    Inside(line, app.specs(), app.layers).run()
    """

    def __init__(self, line: WorkerChannel, specs: Iterable[TaskSpec], middleware: Sequence[Middleware] = ()) -> None:
        self._known = Routes(map(Layers(middleware).around, specs))
        self._line = line
        self._own = ForkGuard()
        self._context = copy_context()
        self._recursion = sys.getrecursionlimit()
        self._judged: Outcomes = []
        self._caller = Caller(random.random, time.monotonic)
        self._lock = threading.Lock()
        self._held: Held | None = None
        self._task: asyncio.Task[None] | None = None
        self._number = 0
        line.cancel = self._cancel

    def run(self) -> None:
        with asyncio.Runner(loop_factory=HandlerLoop) as runner:
            loop = runner.get_loop()
            reach = JobServices(
                loop, time.monotonic, random.random, self._extend, self._progress, _no_batch, self._extend_now
            )
            self._line.send(Ready())
            while (order := self._line.next()) is not None:
                outcome = self._one(order, reach, runner)
                self._own.end_clone()
                self._tidy()
                self._line.done(Done(order.number, outcome))

    def _one(self, order: RunJob, reach: JobServices, runner: asyncio.Runner) -> Outcome:
        lease, now = order.lease, time.monotonic()
        record, spec = lease.record, self._known.route(lease)
        if spec is None:  # the app is not what it was when the worker loaded it
            return Unroutable()
        held = Held(lease, (record.queue, record.id, lease.token), spec, now)
        held.persistent, held.cancelled, held.phase = record.shape.persistent, order.cancelled, Phase.RUNNING
        held.started_at, held.timeout_s = now, order.left_s
        if order.left_s is not None:
            held.ends_at = now + order.left_s
        held.job = Job(held, reach)
        with self._lock:
            self._held, self._task, self._number = held, None, order.number
        judged = self._call(held, runner)
        with self._lock:
            self._held = None
        return judged[0][1] if judged else Released()

    def _call(self, held: Held, runner: asyncio.Runner) -> Outcomes:
        context = self._context.copy()
        with memory_limit(held.spec.max_memory):
            if not held.spec.is_async:
                return context.run(self._caller.in_thread, held)
            self._judged = []
            # A cancellation that comes when the handler has just ended is for nobody.
            with contextlib.suppress(asyncio.CancelledError):
                runner.run(self._on_loop(held), context=context)
            return self._judged

    async def _on_loop(self, held: Held) -> None:
        task = asyncio.current_task()
        assert task is not None
        with self._lock:
            self._task = task
            if held.cancelled is not None:
                task.cancel()
        with kept_running():
            await self._caller.on_loop(held, self._on_loop_ended)

    def _on_loop_ended(self, run: Held | Batch, judged: Outcomes, at: float) -> None:
        self._judged = judged

    def _cancel(self, number: int, reason: str) -> None:
        """From the line's thread."""
        with self._lock:
            if self._held is None or self._number != number:
                return
            self._held.cancelled = reason
            task = self._task
            if task is not None:
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    task.get_loop().call_soon_threadsafe(task.cancel)

    async def _extend(self, held: Held, ms: int) -> bool:
        return self._extended(held, ms, await asyncio.wrap_future(self._line.extend(self._number, ms)))

    def _extend_now(self, held: Held, ms: int) -> bool:
        return self._extended(held, ms, self._line.extend(self._number, ms).result())

    def _extended(self, held: Held, ms: int, ours: bool) -> bool:
        if ours:
            held.timeout_s, held.ends_at = None, time.monotonic() + ms / limits.SECOND
        else:
            held.phase = Phase.LOST
        return ours

    def _progress(self, held: Held, progress: Progress) -> None:
        if held is self._held:
            self._line.report(self._number, progress)

    def _tidy(self) -> None:
        """What a handler may leave behind that would be the next one's death."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        if sys.getrecursionlimit() != self._recursion:
            sys.setrecursionlimit(self._recursion)


def ignore_signals() -> None:
    """Ctrl-C and `kill` may reach the whole service: it is the worker that decides when to stop.

    Not SIG_IGN, which what handlers start would inherit. In a child that a handler forked they act as they should.
    """
    own = os.getpid()

    def came(number: int, _frame: object) -> None:
        if os.getpid() != own:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, came)


@contextlib.contextmanager
def memory_limit(most: int) -> Iterator[None]:
    """Let this process take so many bytes more than it has; 0: no limit. Beyond that there is a `MemoryError`."""
    if not most:
        yield
        return
    import resource  # not on every system

    has = int(_PAGES.read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = has + most if hard == resource.RLIM_INFINITY else min(has + most, hard)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def serve(line: WorkerChannel, specs: Callable[[], Iterable[TaskSpec]], middleware: Sequence[Middleware] = ()) -> None:
    """Resolve the tasks and serve the line to its end. Whatever escapes the handlers' own walls ends this process."""
    try:
        Inside(line, specs(), middleware).run()
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stdout.flush()
        os._exit(CLONE_STATUS)


def _no_batch(held: Held, outcome: Outcome) -> None:
    raise AssertionError("batches do not run in job processes")
