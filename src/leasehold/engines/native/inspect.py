"""The native engine for those who look: queues, counts, jobs, workers. Nothing here changes a job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from leasehold.core import limits
from leasehold.core.errors import InvalidArgument
from leasehold.core.job import JobView, Page, QueueView, State, WorkerView
from leasehold.core.shape import LaneFailure, LanePage, LaneState, LaneView, QueueSettings
from leasehold.core.steps import Command, Invoke, Steps
from leasehold.engines.native.keys import decoded, encoded, namespace_prefix, queue_prefix
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
_HIDDEN_TOTALS = frozenset(
    ("token", "seen", "amnesty", "before", "ghosts", "laned", "turn", "passed", "level", "sweep_parked", "sweep_lanes")
)
_decode_worker = msgspec.json.Decoder(WorkerView).decode


class NativeInspector:
    """Reading half of the native engine."""

    namespace: str

    def queues(self) -> Steps[list[str]]:
        reply = yield Command(("ZRANGE", f"{namespace_prefix(self.namespace)}:queues", 0, -1))
        return sorted(as_text(name) for name in reply)

    def queue(self, name: str) -> Steps[QueueView]:
        reply = yield Invoke(SCRIPTS["counts"], (queue_prefix(self.namespace, name),), ())
        *numbers, meta, settings, parked, blocked = reply
        totals = {as_text(meta[i]): meta[i + 1] for i in range(0, len(meta), 2)}
        return QueueView(
            name,
            dict(zip(_COUNTED, numbers, strict=True)),
            {field: int(value) for field, value in sorted(totals.items()) if field not in _HIDDEN_TOTALS},
            read_settings({as_text(settings[i]): as_text(settings[i + 1]) for i in range(0, len(settings), 2)}),
            parked,
            blocked,
        )

    def job(self, queue: str, id: str) -> Steps[JobView | None]:
        raw_id = as_bytes(id)
        reply = yield Invoke(SCRIPTS["show"], (queue_prefix(self.namespace, queue),), (raw_id, 0))
        return read_view(queue, State(reply[0].decode()), raw_id, reply[1:]) if reply else None

    def page(
        self, queue: str, state: State, offset: int = 0, limit: int = limits.PAGE_MAX, lane: str | None = None
    ) -> Steps[Page]:
        if lane is not None and state is not State.READY:
            raise InvalidArgument(f"Of a lane, only the jobs that wait in it can be listed, not those {state.value}.")
        if not 0 <= offset <= limits.PAGE_OFFSET_MAX or not 1 <= limit <= limits.PAGE_MAX:
            raise InvalidArgument(
                f"A page begins at 0 to {limits.PAGE_OFFSET_MAX} and has 1 to {limits.PAGE_MAX} jobs, "
                f"not offset {offset} and limit {limit}."
            )
        args = (state.value, offset, limit, encoded(lane or ""))
        rows = yield Invoke(SCRIPTS["page"], (queue_prefix(self.namespace, queue),), args)
        if lane is not None:
            total = (yield from self.lane(queue, lane)).waiting
        else:
            total = (yield from self.queue(queue)).counts[state]
        jobs = tuple(read_view(queue, state, row[0], row[1:]) for row in rows)
        return Page(jobs, total)

    def lane(self, queue: str, lane: str) -> Steps[LaneView]:
        return _read_lane((yield Invoke(SCRIPTS["lane"], (queue_prefix(self.namespace, queue),), (encoded(lane),))))

    def lanes(self, queue: str, state: LaneState, cursor: int = 0, limit: int = limits.PAGE_MAX) -> Steps[LanePage]:
        if state is LaneState.IDLE:
            raise InvalidArgument("Of idle lanes nothing is known; expected ready, busy, blocked or parked ones.")
        args = (state.value, cursor, limit)
        following, rows = yield Invoke(SCRIPTS["lanes"], (queue_prefix(self.namespace, queue),), args)
        return LanePage(tuple(map(_read_lane, rows)), following)

    def settings(self, queue: str) -> Steps[QueueSettings]:
        return (yield from self.queue(queue)).settings

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


def read_settings(values: dict[str, str]) -> QueueSettings:
    """The settings of a queue as they lie in Redis. What another version wrote and we do not know is left out."""
    rule = values.get("lane_failure", "")
    return QueueSettings(
        max_length=int(values.get("max_length", 0)),
        lane_failure=LaneFailure(rule) if rule in set(LaneFailure) else LaneFailure.SKIP,
        paused="paused" in values,
    )


def _read_lane(row: list[Any]) -> LaneView:
    name, waiting, busy, limit, parked, blockers = row
    at, _, job = as_text(parked).partition(" ")
    state = LaneState.IDLE
    if parked:
        state = LaneState.PARKED
    elif len(blockers) >= limit:
        state = LaneState.BLOCKED
    elif busy >= limit:
        state = LaneState.BUSY
    elif waiting:
        state = LaneState.READY
    first = as_text(blockers[0]) if blockers else None
    return LaneView(decoded(as_text(name)), state, waiting, busy, limit, int(at) if at else None, job or None, first)
