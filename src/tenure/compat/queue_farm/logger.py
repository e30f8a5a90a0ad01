"""The logger: one log record for each event."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from tenure.compat.queue_farm.emitter import (
    ALL_EMPTY,
    DELETE,
    DELETED_ERROR,
    EVENTS,
    FINISH,
    HANDLER_ERROR,
    INVALID_DATA,
    NO_ACTIVE_QUEUES,
    PUSH,
    RETRY_LIMIT,
    START,
)
from tenure.compat.queue_farm.manager import ManagerBase
from tenure.core.errors import invalid

RECORDS: Final = {
    PUSH: (logging.INFO, "Job pushed"),
    DELETE: (logging.DEBUG, "Job deleted"),
    START: (logging.INFO, "Jobs started"),
    FINISH: (logging.INFO, "Jobs finished"),
    HANDLER_ERROR: (logging.ERROR, "Jobs error"),
    DELETED_ERROR: (logging.DEBUG, "Jobs error"),
    RETRY_LIMIT: (logging.WARNING, "Jobs retry limit"),
    INVALID_DATA: (logging.WARNING, "Jobs data invalid"),
    ALL_EMPTY: (logging.DEBUG, "All queues empty"),
    NO_ACTIVE_QUEUES: (logging.DEBUG, "No active queues"),
}
"""Level and message of each event."""
_JOBS: Final = ("job", "jobs", "datas")
_META: Final = {"job_id": "jobId", "job_ids": "jobIds"}


class Logger:
    """Logs the events of a manager or worker, each as one record; its `meta` has the queue, `jobIds` and so on.

        Logger(worker, logging.getLogger("farm")).on()

    `extended`: `meta` has the jobs' data, too. `except_events`: events that are not logged. `default_meta`: is added to
    each `meta`.
    """

    def __init__(
        self,
        manager: ManagerBase,
        logger: logging.Logger | None = None,
        *,
        extended: bool = False,
        except_events: Iterable[str] = (ALL_EMPTY, NO_ACTIVE_QUEUES),
        default_meta: Mapping[str, Any] | None = None,
    ) -> None:
        self._manager = manager
        self._logger = logger or logging.getLogger("queue-farm")
        self._extended = extended
        self._except = frozenset(except_events)
        self._meta = {**(default_meta or {}), "namespace": manager.namespace, "id": manager.id}
        self._callbacks: dict[str, Callable[..., None]] = {}
        if unknown := sorted(self._except - EVENTS.keys()):
            raise invalid("except_events", f"some of {', '.join(EVENTS)}", ", ".join(unknown))

    def on(self) -> None:
        """Begin to log."""
        for event in EVENTS:
            if event not in self._except and event not in self._callbacks:
                self._callbacks[event] = self._manager.on(event, self._callback(event))

    def off(self) -> None:
        """Log no more."""
        for event, callback in self._callbacks.items():
            self._manager.off(event, callback)
        self._callbacks = {}

    def _callback(self, event: str) -> Callable[..., None]:
        names, (level, message) = EVENTS[event], RECORDS[event]

        def log(*args: Any) -> None:
            given = {_META.get(name, name): value for name, value in zip(names, args, strict=True)}
            meta = {name: value for name, value in given.items() if self._extended or name not in _JOBS}
            self._logger.log(level, message, extra={"meta": meta | self._meta})

        return log
