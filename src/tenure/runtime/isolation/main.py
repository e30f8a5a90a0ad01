"""The program of a job process: takes one job after the other from its channel, runs it, and sends the outcome.

A sync handler runs in the main thread, an async one on an event loop that all jobs share, as in a worker.
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

from tenure.core import limits
from tenure.core.outcome import Outcome, Released, Unroutable
from tenure.core.shape import Progress
from tenure.core.task import TaskSpec
from tenure.runtime.forks import CLONE_STATUS, ForkGuard
from tenure.runtime.handlers.invoke import Caller
from tenure.runtime.handlers.loop import HandlerLoop, kept_running
from tenure.runtime.handlers.middleware import Layers, Middleware
from tenure.runtime.handlers.routes import Routes
from tenure.runtime.handlers.stacks import stack_text, suspended_frames, thread_frames
from tenure.runtime.isolation.channel import WorkerChannel
from tenure.runtime.isolation.messages import Done, Ready, RunJob
from tenure.runtime.jobs.held import Held, Outcomes, Phase
from tenure.runtime.jobs.job import JobServices
from tenure.runtime.lifespan import Lifespan
from tenure.runtime.stored import StoredPayloads

_PAGES: Final = Path("/proc/self/statm")


class JobRunner:
    """Runs the jobs of one channel. `run` returns when no more jobs follow."""

    def __init__(
        self,
        channel: WorkerChannel,
        specs: Iterable[TaskSpec],
        middleware: Sequence[Middleware],
        payloads: StoredPayloads | None = None,
    ) -> None:
        self._routes = Routes(map(Layers(middleware).around, specs))
        self._channel = channel
        self._own = ForkGuard()
        self._context = copy_context()
        self._recursion = sys.getrecursionlimit()
        self._outcomes: Outcomes = []
        self._caller = Caller(random.random, time.monotonic, payloads=payloads)
        self._lock = threading.Lock()
        self._held: Held | None = None
        self._task: asyncio.Task[None] | None = None
        self._number = 0
        channel.cancel, channel.stack = self._cancel, self._stack

    def run(self, lifespan: Lifespan) -> None:
        with asyncio.Runner(loop_factory=HandlerLoop) as runner:
            runner.run(lifespan.begin())
            loop = runner.get_loop()
            services = JobServices(
                loop, time.monotonic, random.random, self._extend, self._progress, _no_batch, self._extend_now
            )
            self._channel.send(Ready())
            while (order := self._channel.next()) is not None:
                outcome = self._run_job(order, services, runner)
                self._own.end_clone()
                self._reset()
                self._channel.done(Done(order.number, outcome))
            runner.run(lifespan.end())

    def _run_job(self, order: RunJob, services: JobServices, runner: asyncio.Runner) -> Outcome:
        lease, now = order.lease, time.monotonic()
        record, spec = lease.record, self._routes.route(lease)
        if spec is None:  # the app has changed since the worker loaded it
            return Unroutable()
        held = Held(lease, (record.queue, record.id, lease.token), spec, now)
        held.persistent, held.cancelled, held.phase = record.shape.persistent, order.cancelled, Phase.RUNNING
        held.started_at, held.timeout_s = now, order.left_s
        if order.left_s is not None:
            held.ends_at = now + order.left_s
        held.services = services
        with self._lock:
            self._held, self._task, self._number = held, None, order.number
        outcomes = self._call(held, runner)
        with self._lock:
            self._held = None
        return outcomes[0][1] if outcomes else Released()

    def _call(self, held: Held, runner: asyncio.Runner) -> Outcomes:
        context = self._context.copy()
        with memory_limit(held.spec.max_memory):
            if not held.spec.is_async:
                return context.run(self._caller.in_thread, held)
            self._outcomes = []
            # A cancellation may come when the handler has just ended.
            with contextlib.suppress(asyncio.CancelledError):
                runner.run(self._on_loop(held), context=context)
            return self._outcomes

    async def _on_loop(self, held: Held) -> None:
        task = asyncio.current_task()
        assert task is not None
        with self._lock:
            self._task = task
            if held.cancelled is not None:
                task.cancel()
        with kept_running():
            _, self._outcomes, _ = await self._caller.on_loop(held)

    def _cancel(self, number: int, reason: str) -> None:
        """Called in the thread of the channel."""
        with self._lock:
            if self._held is None or self._number != number:
                return
            self._held.cancelled = reason
            if self._task is not None:
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    self._task.get_loop().call_soon_threadsafe(self._task.cancel)

    def _stack(self) -> tuple[int, str]:
        """Called in the thread of the channel."""
        with self._lock:
            number, call = self._number, None if self._task is None else self._task.get_coro()
        if call is None or getattr(call, "cr_running", False):
            return number, stack_text(thread_frames(threading.main_thread().ident))
        return number, stack_text(suspended_frames(call))

    async def _extend(self, held: Held, ms: int) -> bool:
        return self._extended(held, ms, await asyncio.wrap_future(self._channel.extend(self._number, ms)))

    def _extend_now(self, held: Held, ms: int) -> bool:
        return self._extended(held, ms, self._channel.extend(self._number, ms).result())

    def _extended(self, held: Held, ms: int, is_held: bool) -> bool:
        if is_held:
            held.timeout_s, held.ends_at = None, time.monotonic() + ms / limits.SECOND
        else:
            held.phase = Phase.LOST
        return is_held

    def _progress(self, held: Held, progress: Progress) -> None:
        if held is self._held:
            self._channel.report(self._number, progress)

    def _reset(self) -> None:
        """Undo what a handler may have changed that would end the next one."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        if sys.getrecursionlimit() != self._recursion:
            sys.setrecursionlimit(self._recursion)


def ignore_signals() -> None:
    """Ignore signals that may reach the whole service (Ctrl-C, `kill`): the worker decides when to stop.

    Not by SIG_IGN, which programs that handlers start would inherit. A child that a handler forked reacts as usual.
    """
    own = os.getpid()

    def received(number: int, _frame: object) -> None:
        if os.getpid() != own:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, received)


@contextlib.contextmanager
def memory_limit(extra: int) -> Iterator[None]:
    """Let this process allocate at most `extra` bytes; 0: no limit. Beyond that it gets a `MemoryError`."""
    if not extra:
        yield
        return
    import resource  # not on every system

    has = int(_PAGES.read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = has + extra if hard == resource.RLIM_INFINITY else min(has + extra, hard)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def serve(
    channel: WorkerChannel,
    specs: Callable[[], Iterable[TaskSpec]],
    middleware: Sequence[Middleware] = (),
    lifespan: Callable[[], Lifespan] = Lifespan,
    payloads: StoredPayloads | None = None,
) -> None:
    """Resolve the tasks and run the jobs of the channel to its end. An error outside of handlers ends this process."""
    try:
        JobRunner(channel, specs(), middleware, payloads).run(lifespan())
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stdout.flush()
        os._exit(CLONE_STATUS)


def _no_batch(held: Held, outcome: Outcome) -> None:
    raise AssertionError("batches do not run in job processes")
