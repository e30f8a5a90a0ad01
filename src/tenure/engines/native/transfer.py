"""The native engine for queues that move to another server: see `engines.kit.transfer`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tenure.core import limits
from tenure.core.errors import InvalidArgument, QueueFull, ReplyError, UnsupportedFeature
from tenure.core.job import NewJob
from tenure.core.steps import Arg, Draw, Invoke, Nonce, Steps
from tenure.engines.kit.chunks import JOB_BYTES
from tenure.engines.kit.encoding import as_bytes, as_text
from tenure.engines.kit.transfer import Remains, Rows
from tenure.engines.native.engine import NativeEngine
from tenure.engines.native.keys import decoded, encoded
from tenure.engines.native.records import read_record
from tenure.engines.native.scripts import IMPORTS
from tenure.engines.native.wire import TOO_LONG, too_long

EXPORT_MOST: Final = limits.MAX_BATCH // 5
"""Jobs of one move: they may have lanes and keys, and Redis serves no other client while it adds them."""
EXPORT_LOOKS: Final = 1_000
"""Entries of lists that one call removes, jobs and tombstones of jobs that were cancelled while they waited."""
_BUSY: Final = "TNMOVING"
_CLOSED: Final = "-"


class NativeTransfer:
    """Takes jobs with their history out of a queue, and adds them to another one."""

    def __init__(self, engine: NativeEngine, looks: int = EXPORT_LOOKS) -> None:
        self._engine = engine
        self._looks = looks

    def export(self, queue: str, to: str) -> Steps[Rows]:
        nonce: Nonce = yield Draw()
        limits_of_page = (EXPORT_MOST, EXPORT_MOST * JOB_BYTES, self._looks)
        args = (nonce.session, nonce.number, f"{nonce.session}-{nonce.number}", as_bytes(to), *limits_of_page)
        name, stored, age_ms, is_cut, found = yield self._call("export", queue, *args)
        rows, ids = tuple(row for row, _, _ in found), tuple(as_text(id) for _, id, _ in found)
        limited = {as_text(id): read_record(queue, id, head).shape for _, id, head in found if head}
        return Rows(as_text(name), as_text(stored), age_ms, rows, ids, limited, bool(is_cut))

    def end_export(self, queue: str, name: str, arrived: bool) -> Steps[None]:
        yield self._call("end_export", queue, name, int(arrived))

    def import_rows(self, queue: str, rows: Rows) -> Steps[list[str]]:
        try:
            yield from self._engine.prepare([NewJob(queue, id, b"", shape=one) for id, one in rows.limited.items()])
        except UnsupportedFeature as error:
            raise UnsupportedFeature(
                f"{error} Or let workers of the source run the jobs of this limit. Then run the command again: it "
                "resumes the queue."
            ) from error
        yield from self._engine.register(queue)
        try:
            args: tuple[Arg, ...] = (f"move-{rows.name}", 1, *rows.rows)
            reply: bytes = yield Invoke(IMPORTS["import"], self._call("import", queue).keys, args)
        except ReplyError as error:
            if error.prefix == TOO_LONG:
                raise too_long(queue, error) from error
            if error.prefix == _BUSY:
                raise InvalidArgument(
                    f"Jobs of queue {queue!r} at the destination are on their way to another server themselves: end "
                    "that migration first."
                ) from error
            raise
        if reply == b"-":
            raise QueueFull(f"Another run of the migration found queue {queue!r} full.")
        return [id for id, letter in zip(rows.ids, reply, strict=True) if letter != ord("1")]

    def given_up(self, queue: str, name: str) -> Steps[bool]:
        return (yield from self._engine.end_import(queue, name)) is None

    def close_lanes(self, queue: str, lanes: Sequence[str]) -> Steps[None]:
        yield from self.open_lanes(queue, dict.fromkeys(lanes, _CLOSED))

    def open_lanes(self, queue: str, lanes: Mapping[str, str]) -> Steps[None]:
        nonce: Nonce = yield Draw()
        pairs = (arg for lane, parked in lanes.items() for arg in (encoded(lane), as_bytes(parked)))
        yield self._call("close_lanes", queue, nonce.session, nonce.number, *pairs)

    def remains(self, queue: str, lanes: Sequence[str]) -> Steps[Remains]:
        texts, followed, moving = yield self._call("remains", queue, *map(encoded, lanes))
        empty = {lane: as_text(text) for lane, text in zip(lanes, texts, strict=True) if text != _CLOSED.encode()}
        return Remains(empty, tuple(decoded(as_text(lane)) for lane in followed), moving)

    def _call(self, script: str, queue: str, *args: Arg) -> Invoke:
        return self._engine._call(script, queue, args)
