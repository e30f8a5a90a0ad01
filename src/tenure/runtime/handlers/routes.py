"""Which task or handler runs a job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tenure.core.errors import TenureError
from tenure.core.job import ErrorInfo, Lease
from tenure.core.rates import LimitRule
from tenure.core.task import BatchRule, RunIn, TaskSpec


def _never(*_: Any) -> Any:
    raise TenureError("an unroutable job was run: this is a bug in Tenure")


MALFORMED: Final = "Malformed"
"""The type of the error if the bytes are not a job."""
NAMES_SHOWN: Final = 10
UNROUTABLE: Final = TaskSpec(None, "", _never, is_async=False, encode_result=_never)
"""Stands for a task that this worker does not know."""


class Routes:
    """The tasks of a worker by name, and its handlers of raw payloads by queue. `max_payload`: in bytes; None: any."""

    def __init__(self, specs: Iterable[TaskSpec], max_payload: int | None = None) -> None:
        self._specs = list(specs)
        self._tasks = {spec.name: spec for spec in self._specs if spec.name is not None}
        self._handlers = {spec.queue: spec for spec in self._specs if spec.name is None}
        self._max_payload = max_payload

    def route(self, lease: Lease) -> TaskSpec | None:
        record = lease.record
        return self._handlers.get(record.queue) if record.task is None else self._tasks.get(record.task)

    def refusal(self, lease: Lease) -> ErrorInfo | None:
        """Why a job must not run here; None: it may. Its payload is not decoded."""
        record, most = lease.record, self._max_payload
        if record.malformed:
            return ErrorInfo(MALFORMED, record.malformed)
        if most is None or len(record.payload) <= most:
            return None
        if self.route(lease) is None:
            return None
        size = f"The payload has {len(record.payload):,} bytes, the limit of this worker is {most:,}."
        return ErrorInfo("PayloadTooLarge", f"{size} Raise `max_payload` where it runs, and retry the job.")

    def known(self, queue: str, task: str | None) -> str:
        """What this worker has in place of a task, or of a queue's handler, that is missing."""
        if task is None:
            return f"no @app.handler({queue!r}); handlers of: {_first(self._handlers)}"
        return f"no such task in the app: is its module imported? Tasks: {_first(self._tasks)}"

    def offered(self, processes: bool) -> tuple[list[str], list[str]]:
        """The tasks and the queues with a handler here: their parked jobs can run. `processes`: include handlers
        that run in job processes."""
        return _offered(self._tasks, processes), _offered(self._handlers, processes)

    def limits(self) -> Sequence[LimitRule]:
        """The limits in the code of the app, which each of its tasks has."""
        return self._specs[0].limits if self._specs else ()

    def batch_rules(self) -> dict[str, BatchRule]:
        """The rules of the queues with batch handlers."""
        return {queue: spec.batch for queue, spec in self._handlers.items() if spec.batch is not None}

    def have_hooks(self) -> bool:
        return any((spec.on_failure or spec.on_success) is not None for spec in self._specs)


def _first(names: Iterable[str]) -> str:
    known = sorted(names)
    return (
        ", ".join(known[:NAMES_SHOWN]) + (f" and {len(known) - NAMES_SHOWN} more" if known[NAMES_SHOWN:] else "")
        or "none"
    )


def _offered(specs: Mapping[str, TaskSpec], processes: bool) -> list[str]:
    return [name for name, spec in specs.items() if processes or spec.run_in is not RunIn.PROCESS]
