"""What the user's code opens before the first job of a process and closes after its last one."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack
from typing import Any, Final

from tenure.runtime.errors import describe
from tenure.runtime.log import log_event, source_location

END_S: Final = 10.0
"""How long the end may take. Then it is cancelled."""


class LifespanFailed(Exception):
    """The user's code raised at the start. Its error is the cause."""


class _Exited(Exception):
    """The user's code called `sys.exit`. Its `SystemExit` is the cause: it must not leave a task, because it would end
    the event loop at once, without its message."""


class Lifespan:
    """Enters the context manager and calls `startup`; at the end calls `shutdown` and leaves the manager.

        lifespan = app.lifespan()
        await lifespan.begin()
        await lifespan.end()

    Both ends are in one task, as context managers of anyio demand it.
    """

    def __init__(
        self,
        manager: AbstractAsyncContextManager[Any] | AbstractContextManager[Any] | None = None,
        startup: Sequence[Callable[[], Any]] = (),
        shutdown: Sequence[Callable[[], Any]] = (),
    ) -> None:
        self._manager = manager
        self._startup = startup
        self._shutdown = shutdown
        self._task: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()

    async def begin(self) -> None:
        """Raises `LifespanFailed` if the user's code raises."""
        if self._manager is None and not self._startup and not self._shutdown:
            return
        begun = asyncio.Event()
        self._task = asyncio.create_task(self._run(begun), name="tenure-lifespan")
        waiting = asyncio.create_task(begun.wait())
        try:
            await asyncio.wait({self._task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            if not begun.is_set():
                self._task.cancel()
        if self._task.done():
            try:
                self._task.result()
            except Exception as error:
                raise LifespanFailed("The lifespan of the app failed at its start.") from _users_error(error)

    async def end(self) -> None:
        """Log what the user's code raises, and a timeout after `END_S`."""
        if self._task is None:
            return
        self._ended.set()
        try:
            async with asyncio.timeout(END_S):
                await asyncio.wait({self._task})
        except TimeoutError:
            self._task.cancel()
            log_event("lifespan_failed", error="Timeout", seconds=END_S)
            return
        if not self._task.cancelled() and (error := self._task.exception()) is not None:
            info = describe(_users_error(error))
            log_event(
                "lifespan_failed", error=info.type, error_message=info.message, at=source_location(info.traceback)
            )

    async def _run(self, begun: asyncio.Event) -> None:
        try:
            await self._run_all(begun)
        except SystemExit as error:
            raise _Exited from error

    async def _run_all(self, begun: asyncio.Event) -> None:
        async with AsyncExitStack() as stack:
            if isinstance(self._manager, AbstractAsyncContextManager):
                await stack.enter_async_context(self._manager)
            elif self._manager is not None:
                stack.enter_context(self._manager)
            for function in self._startup:
                await _called(function)
            begun.set()
            await self._ended.wait()
            for function in self._shutdown:
                await _called(function)


async def _called(function: Callable[[], Any]) -> None:
    answer = function()
    if inspect.isawaitable(answer):
        await answer


def _users_error(error: BaseException) -> BaseException:
    return error.__cause__ or error if isinstance(error, _Exited) else error
