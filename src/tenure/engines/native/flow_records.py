"""How flows are read."""

from __future__ import annotations

from tenure.core.flows import FlowState, FlowView, flow_id
from tenure.engines.kit.encoding import as_text, fields_of


def read_flow(queue: str, id: bytes, fields: list[bytes]) -> FlowView:
    found = {name: as_text(value) for name, value in fields_of(fields).items()}
    ended = found.get("ended_ms")
    return FlowView(
        flow_id(queue, as_text(id)),
        queue,
        FlowState(found["state"]),
        total=int(found["total"]),
        completed=int(found["completed"]),
        failed=int(found["failed"]),
        cancelled=int(found["cancelled"]),
        sealed=found["sealed"] == "1",
        made_ms=int(found["at"]),
        ended_ms=None if ended is None else int(ended),
        reason=found.get("reason"),
        is_chain="chain" in found,
    )
