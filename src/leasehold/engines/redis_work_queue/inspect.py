"""The engine for those who look: queues, counts, jobs, workers. Nothing here changes a job."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import msgspec

from leasehold.core import limits
from leasehold.core.errors import InvalidArgument
from leasehold.core.job import JobView, Page, QueueView, State, WorkerView
from leasehold.core.shape import LanePage, LaneState, LaneView, QueueSettings
from leasehold.core.steps import Command, Invoke, Steps
from leasehold.engines.redis_work_queue.records import as_bytes, as_text, read_view
from leasehold.engines.redis_work_queue.scripts import SCRIPTS
from leasehold.engines.redis_work_queue.wire import unsupported

_COUNTED: Final = (
    State.READY,
    State.SCHEDULED,
    State.ACTIVE,
    State.UNROUTABLE,
    State.FAILED,
    State.BROKEN,
    State.CANCELLED,
)
_TOTALS: Final = frozenset(
    {"completed", "failed", "broken", "cancelled", "crashed", "retried"}
    | {f"trimmed_{state}" for state in ("failed", "broken", "cancelled")}
)
_decode_worker = msgspec.json.Decoder(WorkerView).decode


class RedisWorkQueueInspector:
    """Reading half of the engine."""

    named: dict[str, str]

    def prefix(self, queue: str) -> str:
        raise NotImplementedError

    def shared(self) -> str:
        raise NotImplementedError

    def queues(self) -> Steps[list[str]]:
        """Those that our producers and workers have used lately. What only other clients use is not listed anywhere."""
        reply = yield Command(("ZRANGE", f"{self.shared()}:queues", 0, -1))
        return sorted({as_text(name) for name in reply} | self.named.keys())

    def queue(self, name: str) -> Steps[QueueView]:
        *numbers, meta = yield Invoke(SCRIPTS["counts"], (self.prefix(name),), ())
        totals = {as_text(meta[i]): meta[i + 1] for i in range(0, len(meta), 2)}
        counts = dict.fromkeys(State, 0) | dict(zip(_COUNTED, numbers, strict=True))
        return QueueView(name, counts, {key: int(value) for key, value in sorted(totals.items()) if key in _TOTALS})

    def job(self, queue: str, id: str) -> Steps[JobView | None]:
        raw_id = as_bytes(id)
        reply = yield Invoke(SCRIPTS["show"], (self.prefix(queue),), (raw_id,))
        return read_view(queue, raw_id, reply) if reply else None

    def page(
        self, queue: str, state: State, offset: int = 0, limit: int = limits.PAGE_MAX, lane: str | None = None
    ) -> Steps[Page]:
        if lane is not None:
            raise unsupported("lanes")
        if not 0 <= offset <= limits.PAGE_OFFSET_MAX or not 1 <= limit <= limits.PAGE_MAX:
            raise InvalidArgument(
                f"A page begins at 0 to {limits.PAGE_OFFSET_MAX} and has 1 to {limits.PAGE_MAX} jobs, "
                f"not offset {offset} and limit {limit}."
            )
        if state is State.COMPLETED:
            return Page((), 0)
        rows = yield Invoke(SCRIPTS["page"], (self.prefix(queue),), (state.value, offset, limit))
        total = (yield from self.queue(queue)).counts[state]
        return Page(tuple(read_view(queue, row[0], row[1:]) for row in rows), total)

    def lane(self, queue: str, lane: str) -> Steps[LaneView]:
        raise unsupported("lanes")

    def lanes(self, queue: str, state: LaneState, cursor: int = 0, limit: int = limits.PAGE_MAX) -> Steps[LanePage]:
        raise unsupported("lanes")

    def settings(self, queue: str) -> Steps[QueueSettings]:
        return (yield from self.queue(queue)).settings

    def workers(self) -> Steps[list[WorkerView]]:
        """Our own: other clients do not say that they are there."""
        rows = yield Invoke(SCRIPTS["workers"], (self.shared(),), (limits.PRESENCE_TTL_MS,))
        seen = [replace(view, seen_ms=int(float(at))) for _, at, text in rows if (view := _read_worker(text))]
        found = []
        for worker in seen:
            active = 0
            for queue in worker.queues:
                active += yield Command(("ZCARD", f"{self.prefix(queue)}:held:{worker.id}"))
            found.append(replace(worker, active=active))
        return found


def _read_worker(text: bytes) -> WorkerView | None:
    """What a worker said of itself; None when another version, or somebody else, wrote it."""
    try:
        return _decode_worker(text)
    except msgspec.MsgspecError:
        return None
