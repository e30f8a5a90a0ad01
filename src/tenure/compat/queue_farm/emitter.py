"""The events: their names, and the callbacks of each."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

from tenure.compat.emitter import Callbacks
from tenure.core.errors import InvalidArgument, TenureError, invalid
from tenure.core.names import shown
from tenure.runtime.log import callback_failed

PUSH: Final = "push"
DELETE: Final = "delete"
START: Final = "start"
FINISH: Final = "finish"
HANDLER_ERROR: Final = "handler-error"
DELETED_ERROR: Final = "deleted-error"
RETRY_LIMIT: Final = "retry-limit"
INVALID_DATA: Final = "invalid-data"
ALL_EMPTY: Final = "all-empty"
NO_ACTIVE_QUEUES: Final = "no-active-queues"
OF_PRODUCERS: Final = (PUSH, DELETE)
EVENTS: Final = {
    PUSH: ("queue", "job_id", "job", "options"),
    DELETE: ("queue", "job_id", "success"),
    START: ("queue", "job_ids", "jobs"),
    FINISH: ("queue", "job_ids", "jobs"),
    HANDLER_ERROR: ("queue", "job_ids", "error", "jobs"),
    DELETED_ERROR: ("queue", "job_ids", "error"),
    RETRY_LIMIT: ("queue", "job_ids", "datas", "error"),
    INVALID_DATA: ("queue", "job_ids", "datas", "error"),
    ALL_EMPTY: (),
    NO_ACTIVE_QUEUES: (),
}
"""The events, each with the arguments of its callbacks."""


class JobEnded(TenureError):
    """Why a job ended without its handler: the error of `deleted-error`, `retry-limit` and `invalid-data`."""


class Emitter(Callbacks):
    """Calls callbacks. `is_async`: the callbacks of `push` and `delete` may be coroutine functions, too."""

    def __init__(self, is_async: bool) -> None:
        super().__init__()
        self._is_async = is_async

    def add(self, event: str, callback: Callable[..., Any], once: bool = False) -> None:
        """Register a callback. Raises `InvalidArgument` for an unknown event."""
        if event not in EVENTS:
            raise invalid("event", f"one of {', '.join(EVENTS)}", shown(event))
        if not self._is_async and event in OF_PRODUCERS and inspect.iscoroutinefunction(callback):
            raise InvalidArgument(
                f"The callback of {event!r} must be a plain function. Use the async class for others."
            )
        super().add(event, callback, once)

    def emit_blocking(self, event: str, *args: object) -> None:
        for one in self.take(event):
            try:
                one.function(*args)
            except Exception as error:
                callback_failed("listener", error, one.function)

    async def emit(self, event: str, *args: object) -> None:
        """Call the callbacks one after another. Their errors are logged, and affect no job."""
        for one in self.take(event):
            try:
                answer = one.function(*args)
                if inspect.isawaitable(answer):
                    await answer
            except Exception as error:
                callback_failed("listener", error, one.function)
