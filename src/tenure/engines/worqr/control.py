"""The engine for those who act on jobs from outside: retry, discard, cancel, purge."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from tenure.core import limits
from tenure.core.engine import Feature
from tenure.core.job import NewJob
from tenure.core.shape import CancelAnswer, CancelCount, Shape
from tenure.core.steps import Arg, Command, Steps
from tenure.core.unsupported import check_job, unsupported
from tenure.engines.kit.encoding import as_bytes, cancelled
from tenure.engines.worqr.config import SWEEP_PAGE, UNMARK_PAGE
from tenure.engines.worqr.inspect import NAME, WorqrInspector
from tenure.engines.worqr.records import md5_of, read_task, write_task

_CANCELS: Final = {b"0": CancelAnswer.NOTHING, b"1": CancelAnswer.CANCELLED, b"2": CancelAnswer.REQUESTED}


class WorqrController(WorqrInspector):
    """Acting half of the engine."""

    _config: str

    def retry(self, queue: str, id: str, payload: bytes | None = None, reshaped: Shape | None = None) -> Steps[bool]:
        row = yield from self._ask("show", queue, as_bytes(id))
        if not row:
            return False
        own = task = row[2]
        if payload is not None:
            record = read_task(queue, id, own)
            check_job(NAME, {Feature.BYTES}, NewJob(queue, "", payload, task=record.task))
            task = write_task(structs.replace(record, payload=payload, malformed=""))
        args: tuple[Arg, ...] = (int(payload is not None), task, md5_of(own), md5_of(task))
        return (yield from self._act("retry", queue, as_bytes(id), *args)) == b"1"

    def discard(self, queue: str, id: str) -> Steps[bool]:
        task = yield from self._data(queue, id)
        return (yield from self._act("discard", queue, as_bytes(id), task, md5_of(task))) == b"1"

    def cancel(self, queue: str, id: str, reason: str = "") -> Steps[CancelAnswer]:
        row = yield from self._row(queue, id)
        if not row:
            return CancelAnswer.NOTHING
        name, _, task, *_ = row
        who: tuple[Arg, ...] = (self._config, name, cancelled(reason), task, md5_of(task))
        return _CANCELS[(yield from self._act("cancel", queue, *who))]

    def cancel_all(self, queue: str, lane: str | None = None, reason: str = "") -> Steps[CancelCount]:
        """Workers are asked first, so that the jobs that they hold do not wait again, and once more at the end."""
        if lane is not None:
            raise unsupported(NAME, Feature.LANES)
        body = cancelled(reason)
        requested = yield from self._ask_all(queue, body, first=True)
        ended = yield from self._cancel_waiting(queue, body)
        return CancelCount(ended, requested + (yield from self._ask_all(queue, body, first=False)))

    def _unmark(self, queue: str) -> Steps[None]:
        """Remove the markers of tasks that scripts removed. If the caller dies before, maintenance does."""
        removed = f"{self.prefix(queue)}:removed"
        for _ in range(limits.PURGE_ROUNDS):
            tasks: list[bytes] = yield Command(("LRANGE", removed, -UNMARK_PAGE, -1))
            if not tasks:
                break
            yield from self._act("unmark", queue, *(arg for task in reversed(tasks) for arg in (md5_of(task), task)))

    def _ask_all(self, queue: str, body: bytes, first: bool) -> Steps[int]:
        cursor, asked = b"0", 0
        for _ in range(limits.PURGE_ROUNDS):
            cursor, count = yield from self._ask("ask_all", queue, body, cursor, SWEEP_PAGE, int(first))
            asked += count
            if cursor == b"0":
                break
        return asked
