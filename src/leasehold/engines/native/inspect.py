"""The native engine for those who look: queues, counts, jobs, workers. Nothing here changes a job."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from leasehold.core import limits
from leasehold.core.errors import InvalidArgument
from leasehold.core.job import JobView, Page, QueueView, State, WorkerView
from leasehold.core.steps import Command, Invoke, Steps
from leasehold.engines.native.keys import namespace_prefix, queue_prefix
from leasehold.engines.native.records import as_bytes, as_text, read_view
from leasehold.engines.native.scripts import SCRIPTS

_COUNTED = (
    State.READY,
    State.SCHEDULED,
    State.ACTIVE,
    State.UNROUTABLE,
    State.COMPLETED,
    State.FAILED,
    State.BROKEN,
    State.CANCELLED,
)
_HIDDEN_TOTALS = frozenset({"token", "seen", "amnesty", "before", "ghosts"})
_decode_worker = msgspec.json.Decoder(WorkerView).decode


class NativeInspector:
    """Reading half of the native engine."""

    namespace: str

    def queues(self) -> Steps[list[str]]:
        reply = yield Command(("ZRANGE", f"{namespace_prefix(self.namespace)}:queues", 0, -1))
        return sorted(as_text(name) for name in reply)

    def queue(self, name: str) -> Steps[QueueView]:
        reply = yield Invoke(SCRIPTS["counts"], (queue_prefix(self.namespace, name),), ())
        *numbers, meta = reply
        totals = {as_text(meta[i]): meta[i + 1] for i in range(0, len(meta), 2)}
        return QueueView(
            name,
            dict(zip(_COUNTED, numbers, strict=True)),
            {field: int(value) for field, value in sorted(totals.items()) if field not in _HIDDEN_TOTALS},
        )

    def job(self, queue: str, id: str) -> Steps[JobView | None]:
        raw_id = as_bytes(id)
        reply = yield Invoke(SCRIPTS["show"], (queue_prefix(self.namespace, queue),), (raw_id, 0))
        return read_view(queue, State(reply[0].decode()), raw_id, reply[1:]) if reply else None

    def page(self, queue: str, state: State, offset: int = 0, limit: int = limits.PAGE_MAX) -> Steps[Page]:
        if not 0 <= offset <= limits.PAGE_OFFSET_MAX or not 1 <= limit <= limits.PAGE_MAX:
            raise InvalidArgument(
                f"A page begins at 0 to {limits.PAGE_OFFSET_MAX} and has 1 to {limits.PAGE_MAX} jobs, "
                f"not offset {offset} and limit {limit}."
            )
        args = (state.value, offset, limit)
        rows = yield Invoke(SCRIPTS["page"], (queue_prefix(self.namespace, queue),), args)
        view = yield from self.queue(queue)
        jobs = tuple(read_view(queue, state, row[0], row[1:]) for row in rows)
        return Page(jobs, view.counts[state])

    def workers(self) -> Steps[list[WorkerView]]:
        args = (limits.PRESENCE_TTL_MS,)
        rows = yield Invoke(SCRIPTS["workers"], (namespace_prefix(self.namespace),), args)
        seen = [replace(view, seen_ms=int(float(at))) for _, at, text in rows if (view := _read_worker(text))]
        active: dict[str, int] = {}
        for queue in sorted({queue for worker in seen for queue in worker.queues}):
            pairs = yield Invoke(SCRIPTS["holders"], (queue_prefix(self.namespace, queue),), ())
            for i in range(0, len(pairs), 2):
                name = as_text(pairs[i])
                active[name] = active.get(name, 0) + pairs[i + 1]
        return [replace(worker, active=active.get(worker.id, 0)) for worker in seen]


def _read_worker(text: bytes) -> WorkerView | None:
    """What a worker said of itself; None when another version, or somebody else, wrote it."""
    try:
        return _decode_worker(text)
    except msgspec.MsgspecError:
        return None
