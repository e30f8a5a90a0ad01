"""How a worker's log looks: for people, or as JSON, one object a line."""

from __future__ import annotations

import json
import logging
import math
from datetime import UTC, datetime
from typing import Any

from tenure.core import names
from tenure.core.log_events import LOG_EVENTS
from tenure.core.logfmt import PARTS, shortened
from tenure.runtime.log import TRACEBACK


class HumanFormatter(logging.Formatter):
    """`TIME LEVEL MESSAGE`, the time by the machine's own clock and zone, as ISO 8601."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        return datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds")


class JsonFormatter(logging.Formatter):
    """One JSON object a record: `time` (UTC), `level`, `logger`; for Tenure's events `event`, `message` and fields.

        handler = logging.StreamHandler()
        handler.setFormatter(tenure.JsonFormatter())
        logging.basicConfig(level="INFO", handlers=[handler])

    Other records have `message`, and after an exception `error` and `traceback`. If a handler logs one, it has `queue`,
    `task` and `id` of the job. Every record is one line of ASCII.
    """

    def format(self, record: logging.LogRecord) -> str:
        values: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        parts = getattr(record, PARTS, None)
        if parts is None:
            values |= self._of_others(record)
        else:
            name, fields = parts
            values |= {"event": name, "message": LOG_EVENTS[name].message}
            values |= {key: _plain(key, value) for key, value in fields.items() if value is not None}
        return json.dumps(values, default=str)

    def _of_others(self, record: logging.LogRecord) -> dict[str, Any]:
        from tenure.runtime.jobs.job import current_job  # here: each command logs, and few run jobs

        values: dict[str, Any] = {"message": record.getMessage()}
        job = current_job()
        if job is not None:
            values |= {"queue": job.queue, "task": job.task, "id": job.id}
        if record.exc_info and record.exc_info[0] is not None:
            values |= {"error": record.exc_info[0].__qualname__, TRACEBACK: self.formatException(record.exc_info)}
        if record.stack_info:
            values["stack"] = self.formatStack(record.stack_info)
        return values


def formatter(kind: str) -> logging.Formatter:
    """The formatter of this name, `human` or `json`. Raises `InvalidArgument`."""
    return JsonFormatter() if names.log_format(kind) == "json" else HumanFormatter()


def _plain(key: str, value: object) -> object:
    """A field as JSON: numbers and booleans as they are, everything else as bounded text."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= 64 else "a huge number"
    if isinstance(value, float):
        return round(value, 3) if math.isfinite(value) else str(value)
    return str(value) if key == TRACEBACK else shortened(str(value))
