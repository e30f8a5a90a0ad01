"""The engine for those who act on jobs from outside: retry, discard, cancel, purge."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from tenure.core import limits
from tenure.core.engine import Feature
from tenure.core.job import JobRecord, State
from tenure.core.shape import CancelAnswer, CancelCount, Shape
from tenure.core.steps import Arg, Steps
from tenure.core.unsupported import unsupported
from tenure.engines.kit.base import Scripted, check_purge
from tenure.engines.kit.encoding import as_bytes, cancelled
from tenure.engines.kit.envelope import read_record, write_data
from tenure.engines.redis_work_queue.wire import NAME

_WAITING: Final = (State.UNROUTABLE, State.SCHEDULED, State.READY)
"""In this order: while a job is unroutable, another item of its id cannot end."""


class RedisWorkQueueController(Scripted):
    """Acting half of the engine."""

    def retry(self, queue: str, id: str, payload: bytes | None = None, reshaped: Shape | None = None) -> Steps[bool]:
        data = b""
        if payload is not None:
            reply = yield from self._ask("show", queue, as_bytes(id))
            if not reply:
                return False
            data = _edited(read_record(queue, as_bytes(id), reply[1]), payload)
        return (yield from self._act("retry", queue, as_bytes(id), int(payload is not None), data)) == b"1"

    def cancel(self, queue: str, id: str, reason: str = "") -> Steps[CancelAnswer]:
        answer = yield from self._act("cancel", queue, self._config, as_bytes(id), cancelled(reason))
        if answer == b"2":
            raise unsupported(NAME, Feature.CANCEL)
        return CancelAnswer.CANCELLED if answer == b"1" else CancelAnswer.NOTHING

    def cancel_all(self, queue: str, lane: str | None = None, reason: str = "") -> Steps[CancelCount]:
        """All that wait. Those that run are left alone: they cannot be asked."""
        if lane is not None:
            raise unsupported(NAME, Feature.LANES)
        ended = 0
        for state in _WAITING:
            ended += yield from self._remove_all(queue, state, True, reason)
        return CancelCount(ended, 0)

    def purge(self, queue: str, state: State) -> Steps[int]:
        check_purge(state)
        if state is State.COMPLETED:
            return 0
        return (yield from self._remove_all(queue, state, False, ""))

    def _remove_all(self, queue: str, state: State, cancel: bool, reason: str) -> Steps[int]:
        how: tuple[Arg, ...] = (state.value, limits.MAX_BATCH, int(cancel), cancelled(reason))
        return (yield from self._in_rounds("purge", queue, self._config, *how))


def _edited(record: JobRecord, payload: bytes) -> bytes:
    """The data of the same job with another payload."""
    return write_data(structs.replace(record, payload=payload, malformed=""))
