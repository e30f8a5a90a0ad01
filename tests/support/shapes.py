"""What is wrong with lanes, priorities, unique keys and notes in the native layout, in sentences."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from tenure.engines.kit.config import NEVER_MS

SHAPE_KEYS: Final = frozenset(
    b"turns lanes limits busy parked blocked priorities unique windows again cancelling progress holds expires"
    b" schedules ticks due moved then outs in flows flows_over flows_unsealed"
    b" stopping".split()
)


def scheduled_id(entry: bytes) -> bytes:
    """Of an entry of `scheduled`, `<enqueued_ns>/<id>`; with `*` in the place of `/` for a job that has a shape."""
    return re.sub(rb"^\d+[/*]", b"", entry)


@dataclass(frozen=True, slots=True)
class Key:
    """One key as it was found."""

    kind: str
    ttl_ms: int
    value: Any


def shape_faults(found: Mapping[bytes, Key]) -> list[str]:
    """`found`: the keys of one queue by suffix."""
    return [
        *_Lanes(found).faults(),
        *_levels(found),
        *_uniques(found),
        *_notes(found),
        *_schedules(found),
        *_expiries(found),
        *_follow_ups(found),
        *_flows(found),
    ]


def _value(found: Mapping[bytes, Key], suffix: bytes, empty: Any) -> Any:
    return found[suffix].value if suffix in found else empty


def _named(found: Mapping[bytes, Key], start: bytes) -> dict[bytes, Any]:
    return {suffix.removeprefix(start): key.value for suffix, key in found.items() if suffix.startswith(start)}


def _word(record: bytes, name: bytes) -> bytes:
    match = re.search(rb" " + name + rb"=(\S+)", record.partition(b"\n")[0])
    return match[1] if match else b""


class _Lanes:
    """A lane has one entry among the turns exactly while its next job may be claimed."""

    def __init__(self, found: Mapping[bytes, Key]) -> None:
        self.found = found
        self.lists = _named(found, b"lane:")
        self.busy: dict[bytes, bytes] = {id: text.partition(b" ")[2] for id, text in _value(found, b"busy", {}).items()}
        self.counts = {lane: int(count) for lane, count in _value(found, b"lanes", {}).items()}
        self.limits = {lane: int(limit) for lane, limit in _value(found, b"limits", {}).items()}
        self.parked = _value(found, b"parked", {})
        self.jobs: dict[bytes, bytes] = _value(found, b"jobs", {})

    def faults(self) -> list[str]:
        return [*self._turns(), *self._busy(), *self._lists(), *self._held()]

    def _turns(self) -> list[str]:
        entries = _value(self.found, b"turns", [])
        turns = Counter(lane for lane in entries if not lane.startswith(b"$"))
        turns.update(lane for lanes in _named(self.found, b"share:").values() for lane in lanes)
        due = {
            lane
            for lane in self.lists
            if self.counts.get(lane, 0) < self.limits.get(lane, 1)
            and lane not in self.parked
            and lane not in _value(self.found, b"holds", {})
            and lane not in _value(self.found, b"gated", {})
        }
        wrong = [f"lane {lane!r} is {count} times among the turns" for lane, count in turns.items() if count > 1]
        wrong += [f"lane {lane!r} may go on and has no turn" for lane in due - set(turns)]
        return wrong + [f"lane {lane!r} has a turn and cannot use it" for lane in set(turns) - due]

    def _busy(self) -> list[str]:
        wrong = []
        if Counter(self.busy.values()) != Counter(self.counts):
            wrong.append(f"lanes are counted {self.counts}, busy are {self.busy}")
        places = {id for held in _named(self.found, b"held:").values() for id in held}
        places |= {id for parked in _named(self.found, b"unroutable:").values() for id in parked}
        places |= set(map(scheduled_id, _value(self.found, b"scheduled", {}))) | set(
            _value(self.found, b"isolated", [])
        )
        blocking = _blocking(self.found)
        places |= blocking
        listed = [id for packed in _value(self.found, b"blocked", {}).values() for id in msgspec.msgpack.decode(packed)]
        if sorted(blocking) != sorted(id.encode() for id in listed):
            wrong.append(f"{sorted(blocking)} block their lanes, listed are {listed}")
        return wrong + [
            f"{id!r} keeps lane {lane!r} busy from nowhere" for id, lane in self.busy.items() if id not in places
        ]

    def _lists(self) -> list[str]:
        wrong, ghosts = [], _value(self.found, b"ghosts", {})
        for lane, entries in self.lists.items():
            for id in (re.sub(rb"^@\d+/", b"", entry) for entry in entries):
                if id in self.jobs and id in self.busy and b"@lane:" + lane + b"/" + id not in ghosts:
                    wrong.append(f"{id!r} waits in lane {lane!r} and keeps it busy")
        laned = sum(map(len, self.lists.values()))
        counted = int(_value(self.found, b"meta", {}).get(b"laned", 0))
        if laned != counted:
            wrong.append(f"meta counts {counted} entries of lanes, there are {laned}")
        for lane in self.limits:
            if lane not in self.lists and lane not in self.counts:
                wrong.append(f"lane {lane!r} is idle and has a limit")
        return wrong

    def _held(self) -> list[str]:
        wrong = []
        for held in _named(self.found, b"held:").values():
            for id in held:
                lane = _word(self.jobs.get(id, b""), b"l")
                if lane != self.busy.get(id, b""):
                    wrong.append(f"{id!r} of lane {lane!r} is held, busy says {self.busy.get(id)!r}")
        return wrong


def _blocking(found: Mapping[bytes, Key]) -> set[bytes]:
    """Failed jobs that block their lanes: their records have no end in time."""
    ended = [item for state in (b"failed", b"broken") for item in _value(found, state, {}).items()]
    return {id for id, expires in ended if float(expires) > NEVER_MS / 2}


def _levels(found: Mapping[bytes, Key]) -> list[str]:
    lists, listed = set(_named(found, b"ready:")), set(_value(found, b"priorities", {}))
    return [f"priority {level!r} is listed or has jobs, not both" for level in lists ^ listed]


def _uniques(found: Mapping[bytes, Key]) -> list[str]:
    jobs, again = dict(_value(found, b"jobs", {})), _value(found, b"again", {})
    kept = _value(found, b"kept", {})
    jobs |= {id: kept[id] for id in _blocking(found) if id in kept}
    wrong, windows = [], set()
    for key, text in _value(found, b"unique", {}).items():
        lasts, _, id = text.partition(b" ")
        if lasts != b"0":
            windows.add(key)
        elif id not in jobs or _word(jobs[id], b"u")[2:] != key:
            wrong.append(f"unique key {key!r} is kept for {id!r}, which has no use for it")
    if windows != set(_value(found, b"windows", {})):
        wrong.append("windows and unique keys with an end are not the same")
    for key, id in again.items():
        if id not in jobs or key not in _value(found, b"unique", {}):
            wrong.append(f"{id!r} waits for key {key!r}, which nobody has")
    for id, record in jobs.items():
        word = _word(record, b"u")
        if word[:2] == b"e:" and id not in again.values():
            owner = _value(found, b"unique", {}).get(word[2:], b"").partition(b" ")[2]
            if owner != id:
                wrong.append(f"{id!r} is unique by {word!r}, but the key is {owner!r}'s")
    return wrong


def _notes(found: Mapping[bytes, Key]) -> list[str]:
    held = {id for ids in _named(found, b"held:").values() for id in ids}
    return [
        f"{id!r} has {note.decode()} and is not held"
        for note in (b"cancelling", b"progress")
        for id in _value(found, note, {})
        if id not in held
    ]


def _expiries(found: Mapping[bytes, Key]) -> list[str]:
    """Each job with a deadline that waits is listed with it, and no other."""
    held = {id for ids in _named(found, b"held:").values() for id in ids}
    waiting = {id for id, record in _value(found, b"jobs", {}).items() if id not in held and _word(record, b"x")}
    return [
        f"{id!r} waits and may expire, or is listed, not both" for id in waiting ^ set(_value(found, b"expires", {}))
    ]


def _follow_ups(found: Mapping[bytes, Key]) -> list[str]:
    """What follows a job is there as long as the job, and the queues that jobs are on their way to are listed."""
    there = {*_value(found, b"jobs", {}), *_value(found, b"kept", {})}
    wrong = [f"jobs follow {id!r}, which is gone" for id in _value(found, b"then", {}) if id not in there]
    listed = _value(found, b"outs", set()) ^ _named(found, b"out:").keys()
    return wrong + [f"jobs for {queue!r} are on their way, or it is listed, not both" for queue in listed]


def _flows(found: Mapping[bytes, Key]) -> list[str]:
    """The numbers of a flow and its bits agree, and it has ended exactly when it is sealed and all members have."""
    wrong = []
    for id in _value(found, b"flows", {}):
        flow = _value(found, b"flow:" + id, {})
        if not flow:  # maintenance removes the id
            continue
        bits = int.from_bytes(_value(found, b"flow:" + id + b":ended", b"")).bit_count()
        ended, total = int(flow[b"ended"]), int(flow[b"total"])
        counted = sum(int(flow[state]) for state in (b"completed", b"failed", b"cancelled"))
        is_over = flow[b"sealed"] == b"1" and ended == total
        if not (bits <= ended == counted <= total and (b"chain" in flow or bits == ended)):
            wrong.append(f"flow {id!r} has {bits} bits, and {flow!r}")
        if is_over != (flow[b"state"] != b"open"):
            wrong.append(f"flow {id!r} is over or open, not both: {flow!r}")
    return wrong


def _schedules(found: Mapping[bytes, Key]) -> list[str]:
    """Each schedule has a state; it is listed as due exactly while it has a next tick and is not paused."""
    definitions, ticks = _value(found, b"schedules", {}), _value(found, b"ticks", {})
    due = _value(found, b"due", {})
    wrong = [f"schedule {name!r} has a definition or a state, not both" for name in definitions.keys() ^ ticks.keys()]
    active = set()
    for name, state in ticks.items():
        words = state.partition(b"\n")[0].split(b" ")
        active |= {name} if words[0] != b"0" and words[8] == b"0" else set()
    wrong += [f"schedule {name!r} is due or not, wrongly" for name in active ^ set(due)]
    for source, members in _named(found, b"announced:").items():
        if not set(members) - {b"@last", b"@since"}:
            wrong.append(f"source {source!r} is noted without a schedule")
    return wrong
