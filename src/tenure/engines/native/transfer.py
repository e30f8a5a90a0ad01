"""The native engine for queues that move to another server, with rows that it alone reads: see `engines.kit.moving`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tenure.core.errors import InvalidArgument, QueueFull, ReplyError, UnsupportedFeature
from tenure.core.flows import flow_of
from tenure.core.job import NewJob
from tenure.core.steps import Draw, Nonce, Steps
from tenure.engines.kit.chunks import JOB_BYTES
from tenure.engines.kit.encoding import as_bytes, as_text
from tenure.engines.kit.moving import CLOSED, EXPORT_LANED, Page, Remains, Row, letters_of
from tenure.engines.native.engine import NativeEngine
from tenure.engines.native.keys import decoded, encoded
from tenure.engines.native.records import read_record
from tenure.engines.native.wire import TOO_LONG, WOKE, too_long

EXPORT_LOOKS: Final = 1_000
"""Entries of lists that one call removes, jobs and tombstones of jobs that were cancelled while they waited."""
_BUSY: Final = "TNMOVING"


class NativeTransfer:
    """Takes jobs with their history out of a queue, and adds them in front of those that wait in another one."""

    def __init__(self, engine: NativeEngine, looks: int = EXPORT_LOOKS) -> None:
        self._engine = engine
        self._looks = looks
        self.prefix, self.end_import = engine.prefix, engine.end_import

    def export(self, queue: str, to: str, limit: int = EXPORT_LANED) -> Steps[Page[Row]]:
        nonce: Nonce = yield Draw()
        most = min(limit, EXPORT_LANED)
        numbers = (most, most * JOB_BYTES, self._looks)
        args = (nonce.session, nonce.number, f"{nonce.session}-{nonce.number}", as_bytes(to), *numbers)
        name, stored, age_ms, found, is_cut = yield from self._engine._ask("export", queue, *args)
        rows = tuple(
            Row(queue, as_text(id), row, read_record(queue, id, head).shape if head else None)
            for row, id, head in found
        )
        return Page(as_text(name), as_text(stored), age_ms, rows, len(rows) or is_cut)

    def end_export(self, queue: str, page: Page[Row], added: Sequence[bool] | None) -> Steps[None]:
        # A job with an id that is there is the same job.
        yield from self._engine._ask("end_export", queue, page.name, letters_of(added and [True] * len(added)))

    def import_jobs(self, name: str, jobs: Sequence[Row]) -> Steps[list[bool]]:
        """As `MoveTarget` has it. Closes the lanes of the jobs."""
        queue = jobs[0].queue
        for row in jobs:
            if row.shape is not None and row.shape.flow:
                raise UnsupportedFeature(
                    f"Job {row.id!r} of queue {queue!r} is a member of the flow {flow_of(row.id, row.shape)!r}, which "
                    "does not move. Let the flow end, or cancel it. Then run the command again: it resumes the queue."
                )
        try:
            yield from self._engine.prepare([NewJob(queue, row.id, b"", shape=row.shape) for row in jobs if row.shape])
        except UnsupportedFeature as error:
            raise UnsupportedFeature(
                f"{error} Or let workers of the source run the jobs of this limit. Then run the command again: it "
                "resumes the queue."
            ) from error
        yield from self._engine.register(queue)
        try:
            token = ""  # they come from another server
            reply: bytes = yield self._engine._import("arrive", queue, name, token, *(row.data for row in jobs))
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
        return [letter == ord("1") for letter in reply.removesuffix(WOKE)]

    def set_lanes(self, queue: str, lanes: Mapping[str, str]) -> Steps[None]:
        pairs = (arg for lane, parked in lanes.items() for arg in (encoded(lane), as_bytes(parked)))
        yield from self._engine._act("close_lanes", queue, *pairs)

    def remains(self, queue: str, lanes: Sequence[str]) -> Steps[Remains]:
        texts, followed, moving = yield from self._engine._ask("remains", queue, *map(encoded, lanes))
        empty = {lane: as_text(text) for lane, text in zip(lanes, texts, strict=True) if text != CLOSED.encode()}
        return Remains(empty, tuple(decoded(as_text(lane)) for lane in followed), moving)
