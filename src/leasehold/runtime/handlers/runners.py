"""Where a handler runs: on the event loop, or in a thread. `ProcessPool` runs it in a process."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from functools import partial
from types import coroutine
from typing import Any, Final

from leasehold.core.job import Lease
from leasehold.runtime.forks import ForkGuard
from leasehold.runtime.handlers.invoke import Caller, Done
from leasehold.runtime.handlers.threads import ThreadPool
from leasehold.runtime.jobs.held import Batch, Ended, Held, Stop

TURN_S: Final = 0.001
"""For how long handlers are called in one turn of the event loop. The last of them may take longer."""


class LoopRunner:
    """Runs async handlers, each in a context of its own.

    Where handlers end without suspending, one task calls them in turn. A handler that suspends keeps its task, and
    those that follow get a task each. So `asyncio.current_task()` stays the same across a suspension, as timeouts and
    task groups need, and to cancel the task ends this handler only.
    """

    def __init__(self, caller: Caller, finished: Done, given_up_s: float, lease_clock: Callable[[], float]) -> None:
        self.given_up_s = given_up_s
        self._caller = caller
        self._finished = finished
        self._clock = lease_clock
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self._own = ForkGuard()
        self._ready: deque[Held | Batch] = deque()
        """Whose handlers are called next."""
        self._callers: set[asyncio.Task[None]] = set()
        """The tasks that call them."""
        self._have_suspended = False
        """Whether the last handler has suspended: the next is expected to do so, too."""
        self._called: tuple[asyncio.Task[None], Held | Batch] | None = None
        """Whose handler has been called and has not suspended, and by which task."""
        self._suspended: dict[Held | Batch, asyncio.Task[None]] = {}
        """The tasks of handlers that have suspended."""

    def start(self, run: Held | Batch) -> None:
        self._ready.append(run)
        if self._have_suspended or not self._callers:
            self._add_caller()

    def job_of(self, task: asyncio.Task[None]) -> Lease | None:
        """The job whose handler is this task; of a batch the first. For any thread."""
        called = self._called
        run = called[1] if called is not None and called[0] is task else None
        run = next((run for run, one in list(self._suspended.items()) if one is task), run)
        return run.members[0].lease if run is not None and run.members else None

    def stop(self, run: Held | Batch, why: Stop) -> None:
        """Cancel the handler. One that is not called yet is cancelled when it suspends."""
        called = self._called
        task = called[0] if called is not None and called[1] is run else self._suspended.get(run)
        if task is not None:
            task.cancel()

    def _add_caller(self) -> None:
        # The current context may be that of a job.
        task = self._loop.create_task(self._call_ready(), context=self._context.copy())
        self._callers.add(task)
        task.add_done_callback(self._caller_ended)  # a handler may cancel all tasks, also those that have not begun

    def _caller_ended(self, task: asyncio.Task[None]) -> None:
        self._callers.discard(task)
        if self._ready and not self._callers:
            self._add_caller()

    async def _call_ready(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        while self._ready and not task.cancelling():  # by a handler that has not suspended
            rest = self._turn(task)
            if rest is not None:
                await rest
                return
            await asyncio.sleep(0)

    def _turn(self, task: asyncio.Task[None]) -> Coroutine[Any, Any, None] | None:
        """Call handlers until one suspends, and return its rest. None: each has ended."""
        rest: Coroutine[Any, Any, None] | None = None
        ended: list[Ended] = []
        until = self._clock() + TURN_S
        self._caller.begin_turn()
        while self._ready:
            run = self._ready.popleft()
            self._called, is_stopped = (task, run), run.stop is not None
            call, context = self._caller.on_loop(run), self._context.copy()
            try:
                waits_for = context.run(call.send, None)
            except StopIteration as returned:
                self._own.end_clone()
                ended.append(returned.value)
                # After a long handler, and after the machine was suspended, each lease is looked at again.
                if self._clock() >= until or task.cancelling():
                    break
            else:
                self._suspended[run] = task
                rest = self._rest(run, _resumed(context, call, waits_for))
                if is_stopped:
                    task.cancel()
                break
        self._called, self._have_suspended = None, rest is not None
        if rest is not None:
            self._callers.discard(task)
            task.remove_done_callback(self._caller_ended)
            for _ in range(len(self._ready) - len(self._callers)):
                self._add_caller()
        if ended:
            self._finished(ended)
        return rest

    async def _rest(self, run: Held | Batch, call: Coroutine[Any, Any, Ended]) -> None:
        ended = await call
        self._own.end_clone()
        del self._suspended[run]
        self._finished([ended])


@coroutine
def _resumed(context: Context, call: Coroutine[Any, Any, Ended], waits_for: object) -> Generator[Any, Any, Ended]:
    """Run a coroutine that has suspended to its end, in its context. A task runs each step in the task's own."""
    while True:
        try:
            sent = yield waits_for
        except BaseException as error:
            step: Callable[[], object] = partial(call.throw, error)
        else:
            step = partial(call.send, sent)
        try:
            waits_for = context.run(step)
        except StopIteration as returned:
            ended: Ended = returned.value
            return ended


class ThreadRunner:
    """Runs sync handlers in threads. Nothing can end a thread: a handler sees `Job.lost` and `Job.cancelled`."""

    given_up_s = 0.0

    def __init__(self, caller: Caller, finished: Done, size: int, clock: Callable[[], float]) -> None:
        self._caller = caller
        self._finished = finished
        self._clock = clock
        self._own = ForkGuard()
        self._context = copy_context()
        self._threads: ThreadPool[Ended] = ThreadPool(size, self._ended)

    def start(self, run: Held | Batch) -> None:
        self._threads.submit(partial(self._call, run))

    def stop(self, run: Held | Batch, why: Stop) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Let idle threads end."""
        self._threads.close()

    def _call(self, run: Held | Batch) -> Ended:
        """Runs in a thread, in a context of its own. Never raises."""
        outcomes = self._context.copy().run(self._caller.in_thread, run)
        self._own.end_clone()
        return run, outcomes, self._clock()

    def _ended(self, ended: list[Ended]) -> None:
        self._finished([(run, [] if run.stop is Stop.LOST else outcomes, at) for run, outcomes, at in ended])
