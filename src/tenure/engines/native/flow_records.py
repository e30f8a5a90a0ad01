"""How flows are written for the scripts, and read."""

from __future__ import annotations

from tenure.core.flows import Element, FlowState, FlowView, NewFlow, flow_id
from tenure.engines.kit.encoding import as_text, fields_of
from tenure.engines.native.records import write_record
from tenure.engines.native.wire import follow_args, packed


def write_element(element: Element | None) -> bytes:
    """A part of a flow as lua/flows/lib/flow.lua has it. The record of a call that takes results is in two parts."""
    if element is None:
        return b""
    if isinstance(element, NewFlow):
        kind = "chain" if element.is_chain else "group"
        return packed(("", element.id, kind, str(int(element.results)), *map(write_element, element.members)))
    queue, id, record, due, rule = follow_args(element.job)
    if not element.takes_results:
        return packed((queue, id, record, due, rule))
    head = write_record(element.job).partition(b"\n")[0]
    return packed((queue, id, head + b"\n[[", due, rule, b"],{}]"))


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
