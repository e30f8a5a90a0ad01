"""The engine for those who act on jobs from outside: retry, discard, cancel, purge."""

from __future__ import annotations

from msgspec import structs

from tenure.core.engine import Feature
from tenure.core.shape import CancelAnswer, CancelCount, Shape
from tenure.core.steps import Arg, Steps
from tenure.core.unsupported import unsupported
from tenure.engines.hworker.inspect import NAME, HworkerInspector
from tenure.engines.hworker.records import read_job, write_job
from tenure.engines.kit.encoding import as_bytes, cancelled


class HworkerController(HworkerInspector):
    """Acting half of the engine."""

    def retry(self, queue: str, id: str, payload: bytes | None = None, reshaped: Shape | None = None) -> Steps[bool]:
        """With a payload, a job that was no pair becomes one."""
        data = b""
        if payload is not None:
            row = yield from self._ask("show", queue, as_bytes(id))
            if not row:
                return False
            record = read_job(queue, row[0], row[2])
            data = write_job(id, structs.replace(record, payload=payload, malformed=""))
        return (yield from self._act("retry", queue, as_bytes(id), int(payload is not None), data)) == b"1"

    def discard(self, queue: str, id: str) -> Steps[bool]:
        data = yield from self._data(queue, id)
        return (yield from self._act("discard", queue, as_bytes(id), data)) == b"1"

    def cancel(self, queue: str, id: str, reason: str = "") -> Steps[CancelAnswer]:
        data = yield from self._data(queue, id)
        who: tuple[Arg, ...] = (self._config, as_bytes(id), cancelled(reason), data)
        reply = yield from self._act("cancel", queue, *who)
        return CancelAnswer.CANCELLED if reply == b"1" else CancelAnswer.NOTHING

    def cancel_all(self, queue: str, lane: str | None = None, reason: str = "") -> Steps[CancelCount]:
        if lane is not None:
            raise unsupported(NAME, Feature.LANES)
        return CancelCount((yield from self._cancel_waiting(queue, cancelled(reason))))
