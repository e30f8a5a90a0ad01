"""Where a handler runs: on the event loop, or in a thread. `ProcessPool` runs it in a process."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import copy_context
from functools import partial
from types import coroutine
from typing import Any, Final, TypeAlias

from tenure.core.job import Lease
from tenure.runtime.forks import ForkGuard
from tenure.runtime.handlers.invoke import Caller, Done
from tenure.runtime.handlers.stacks import frames_below, stack_text, suspended_frames, with_threads
from tenure.runtime.handlers.threads import CallThreads, Pools
from tenure.runtime.jobs.held import Batch, Ended, Held, Stop

TURN_S: Final = 0.001
"""For how long handlers are called in one turn of the event loop. The last of them may take longer."""
_Call: TypeAlias = Coroutine[Any, Any, Ended]
_Step: TypeAlias = Callable[[Callable[[Any], object], Any], object]


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
        """The runs with handlers that are called next."""
        self._callers: set[asyncio.Task[None]] = set()
        """The tasks that call them."""
        self._have_suspended = False
        """Whether the last handler has suspended: the next is expected to do so, too."""
        self._called: tuple[asyncio.Task[None], Held | Batch] | None = None
        """The run with a handler that was called and has not suspended, and the task that called it."""
        self._suspended: dict[Held | Batch, tuple[asyncio.Task[None], _Call]] = {}
        """The tasks and calls of handlers that have suspended."""
        self._ended: list[Ended] = []
        """What has suspended and then ended in this turn of the event loop."""

    def start(self, run: Held | Batch) -> None:
        self._ready.append(run)
        if self._have_suspended or not self._callers:
            self._add_caller()

    def job_of(self, task: asyncio.Task[None]) -> Lease | None:
        """The job with a handler that runs in this task; in a batch the first. For any thread."""
        called = self._called
        run = called[1] if called is not None and called[0] is task else None
        run = next((run for run, (one, _) in list(self._suspended.items()) if one is task), run)
        return run.members[0].lease if run is not None and run.members else None

    def stop(self, run: Held | Batch, why: Stop) -> None:
        """Cancel the handler. One that is not called yet is cancelled when it suspends."""
        called = self._called
        task, _ = called if called is not None and called[1] is run else self._suspended.get(run, (None, None))
        if task is not None:
            task.cancel()

    def stacks(self) -> dict[Held | Batch, str]:
        """Return where the handlers that have suspended are."""
        calls = list(frames_below(CallThreads._call.__code__, "answer"))
        frames = {run: suspended_frames(call) for run, (_, call) in self._suspended.items()}
        return {run: stack_text(with_threads(found, calls)) for run, found in frames.items()}

    def _add_caller(self) -> None:
        # The current context may belong to a job.
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
        is_fresh = True
        while self._ready and not task.cancelling():  # by a handler that has not suspended
            rest = self._turn(task, is_fresh and self._have_suspended)
            if rest is not None:
                await rest
                return
            is_fresh = False
            await asyncio.sleep(0)

    def _turn(self, task: asyncio.Task[None], is_own: bool) -> Awaitable[None] | None:
        """Call handlers until one suspends, and return its rest. None: each has ended.

        `is_own`: the first gets the context of the task, which costs less where it suspends.
        """
        rest: Awaitable[None] | None = None
        ended: list[Ended] = []
        until = self._clock() + TURN_S
        self._caller.begin_turn()
        while self._ready:
            run = self._ready.popleft()
            self._called, is_stopped = (task, run), run.stop is not None
            call, step = self._caller.on_loop(run), _step if is_own else self._context.copy().run
            is_own = False
            try:
                waits_for = step(call.send, None)
            except StopIteration as returned:
                self._own.end_clone()
                ended.append(returned.value)
                # After a long handler, and after the machine was suspended, each lease is looked at again.
                if self._clock() >= until or task.cancelling():
                    break
            else:
                self._suspended[run] = task, call
                rest = self._rest(run, step, call, waits_for)
                if is_stopped:
                    task.cancel()
                break
        self._called, self._have_suspended = None, rest is not None
        if rest is not None:
            self._callers.discard(task)
            task.remove_done_callback(self._caller_ended)
            for _ in range(len(self._ready) - len(self._callers)):
                self._add_caller()
        self._end(ended)
        return rest

    @coroutine
    def _rest(self, run: Held | Batch, step: _Step, call: _Call, waits_for: object) -> Generator[Any, Any, None]:
        """Call a handler that has suspended to its end, each step in its context."""
        while True:
            resume: Callable[[Any], object] = call.send
            try:
                sent = yield waits_for
            except BaseException as error:
                resume, sent = call.throw, error
            try:
                waits_for = step(resume, sent)
            except StopIteration as returned:
                self._own.end_clone()
                del self._suspended[run]
                self._end([returned.value])
                return
            finally:
                sent = None  # the error's traceback has this frame and the handler's: their locals would never be freed

    def _end(self, ended: list[Ended]) -> None:
        """Report these with the others that end in this turn of the loop. The present context may be a job's."""
        if ended and not self._ended:
            self._loop.call_soon(self._report, context=self._context)
        self._ended += ended

    def _report(self) -> None:
        ended, self._ended = self._ended, []
        self._finished(ended)


def _step(resume: Callable[[Any], object], sent: object) -> object:
    """Resume a coroutine in the present context, as `Context.run` does in another."""
    return resume(sent)


class ThreadRunner:
    """Runs sync handlers in threads. Nothing can end a thread: a handler sees `Job.lost` and `Job.cancelled`."""

    given_up_s = 0.0

    def __init__(self, caller: Caller, finished: Done, size: int, clock: Callable[[], float], pools: Pools) -> None:
        self._caller = caller
        self._finished = finished
        self._clock = clock
        self._own = ForkGuard()
        self._context = copy_context()
        self._threads = pools(size, self._ended)

    def start(self, run: Held | Batch) -> None:
        self._threads.submit(partial(self._call, run))

    def stop(self, run: Held | Batch, why: Stop) -> None:
        """Do nothing."""

    def stacks(self) -> dict[Held | Batch, str]:
        """Return where the handlers are."""
        return {run: stack_text(frames) for run, frames in frames_below(ThreadRunner._call.__code__, "run")}

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
