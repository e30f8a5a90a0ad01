"""The events: their names, and the callbacks of each."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final, TypeVar

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
C = TypeVar("C", bound=Callable[..., Any])


class JobEnded(TenureError):
    """Why a job ended without its handler: the error of `deleted-error`, `retry-limit` and `invalid-data`."""


class Emitter:
    """Calls callbacks. `is_async`: those of `push` and `delete` may be coroutine functions, too."""

    def __init__(self, is_async: bool) -> None:
        self._is_async = is_async
        self._callbacks: dict[str, tuple[tuple[Callable[..., Any], bool], ...]] = {}
        """By event, each with whether it is called once. Replaced as a whole: a thread may emit meanwhile."""

    def on(self, event: str, callback: C, once: bool = False) -> C:
        if event not in EVENTS:
            raise invalid("event", f"one of {', '.join(EVENTS)}", shown(event))
        if not self._is_async and event in OF_PRODUCERS and inspect.iscoroutinefunction(callback):
            raise InvalidArgument(
                f"The callback of {event!r} must be a plain function. Use the async class for others."
            )
        self._callbacks[event] = (*self._callbacks.get(event, ()), (callback, once))
        return callback

    def off(self, event: str, callback: Callable[..., Any]) -> None:
        """Remove the latest registration of this callback, if there is one."""
        entries = list(reversed(self._callbacks.get(event, ())))
        found = next((n for n, (one, _) in enumerate(entries) if one == callback), None)
        if found is not None:
            del entries[found]
            self._callbacks[event] = tuple(reversed(entries))

    def has(self, *events: str) -> bool:
        return any(self._callbacks.get(event) for event in events)

    def _take(self, event: str) -> list[Callable[..., Any]]:
        entries = self._callbacks.get(event, ())
        if any(is_once for _, is_once in entries):
            self._callbacks[event] = tuple(entry for entry in entries if not entry[1])
        return [callback for callback, _ in entries]

    def emit_blocking(self, event: str, *args: object) -> None:
        for callback in self._take(event):
            try:
                callback(*args)
            except Exception as error:
                callback_failed("listener", error, callback)

    async def emit(self, event: str, *args: object) -> None:
        """Call the callbacks one after another. Their errors are logged, and affect no job."""
        for callback in self._take(event):
            try:
                answer = callback(*args)
                if inspect.isawaitable(answer):
                    await answer
            except Exception as error:
                callback_failed("listener", error, callback)
