"""Reads the reply of lua/why.lua: what a job depends on that does not run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tenure.core.job import JobView
from tenure.core.why import JobFacts, LaneFacts, LimitFacts, OtherJob
from tenure.engines.kit.encoding import as_text
from tenure.engines.kit.moving import CLOSED_BY
from tenure.engines.native.config import WHY_LOOK
from tenure.engines.native.keys import decoded, queue_of

_DIGITS_MAX: Final = 20
_ERROR: Final = re.compile(r"[A-Z]{3,20} [^\r\n]*")


def read_facts(view: JobView | None, pairs: list[Any], layout: int) -> JobFacts:
    """Read the facts of one job. `layout`: the newest layout version that this release reads."""
    found: dict[str, list[str]] = {}
    for name, value in zip(pairs[::2], pairs[1::2], strict=True):
        found.setdefault(as_text(name), []).append(as_text(value))
    one = {name: values[0] for name, values in found.items()}
    numbers = {name: number for name, value in one.items() if (number := _number(value)) is not None}
    stored = numbers.get("layout") or 1
    return JobFacts(
        view=view,
        now_ms=numbers.get("now"),
        most_looked=WHY_LOOK,
        refusal=_refusal(one.get("refused", "")),
        newer_layout=stored if stored > layout else None,
        amnesty_ms=numbers.get("amnesty"),
        is_paused="paused" in one,
        is_on_hold=_is_on_hold(one, "hold"),
        owner=_other(one, "owner"),
        lane=_lane(one, numbers),
        limit=_limit(one, numbers, found),
        before=numbers.get("before"),
        higher=numbers.get("higher") or 0,
        suspect=numbers.get("suspect"),
        longest=_other(one, "longest"),
        held={worker: int(count) for count, _, worker in (text.partition(" ") for text in found.get("holder", ()))},
        lease_ends_ms=numbers.get("lease_ends"),
        silent_ms=numbers.get("silent"),
    )


def _refusal(text: str) -> str:
    """Return an error of Redis in a script, without the place in the script."""
    found = _ERROR.search(text)
    return found[0] if found else text


def _number(text: str) -> int | None:
    """None for text that is no number, as another program may have written it."""
    try:
        return int(float(text[:_DIGITS_MAX]))
    except (ValueError, OverflowError):
        return None


def _is_on_hold(one: Mapping[str, str], name: str) -> bool:
    return one.get(name, "0") != "0"


def _other(one: Mapping[str, str], name: str) -> OtherJob | None:
    if name not in one:
        return None
    return OtherJob(
        id=one[name],
        state=one.get(f"{name}_state", ""),
        worker=one.get(f"{name}_worker", ""),
        since_ms=_number(one.get(f"{name}_since", "")),
        due_ms=_number(one.get(f"{name}_due", "")),
    )


def _lane(one: Mapping[str, str], numbers: Mapping[str, int]) -> LaneFacts | None:
    if "lane" not in one:
        return None
    name = one["lane"]
    parked_at, _, parked_by = one.get("lane_parked", "").partition(" ")
    return LaneFacts(
        name="" if name.startswith("@") else decoded(name),
        busy=numbers.get("lane_busy") or 0,
        most=numbers.get("lane_limit") or 1,
        parked_ms=_number(parked_at),
        parked_by="" if parked_by == CLOSED_BY else parked_by,
        is_moving=parked_by == CLOSED_BY,
        blocked_by=one.get("lane_blocked", ""),
        is_on_hold=_is_on_hold(one, "lane_hold"),
        place=numbers.get("lane_place") or 0,
        front=one.get("lane_front", ""),
        occupant=_other(one, "occupant"),
        share=decoded(one.get("share", "")),
        share_place=numbers.get("share_place"),
        turn=numbers.get("turn"),
    )


def _limit(one: Mapping[str, str], numbers: Mapping[str, int], found: Mapping[str, list[str]]) -> LimitFacts | None:
    if "limit" not in one:
        return None
    return LimitFacts(
        name=decoded(one["limit"]),
        taken=numbers.get("limit_taken") or 0,
        most=_number(one.get("limit_stored", "").partition(":")[0]),
        rests_ms=_number(one.get("limit_state", "").partition(" ")[2]),
        moment_ms=_number(one.get("limit_moment", "")),
        gate=numbers.get("limit_gate"),
        holding=tuple(found.get("holding", ())),
        holding_queues=tuple(sorted({queue_of(prefix) for prefix in found.get("holding_queue", ())})),
    )
