"""What each engine writes: keys, types and values of one job of every kind and state, compared with a kept snapshot.

Other programs read these keys, so they change on purpose only. With TENURE_SNAPSHOT=write this test rewrites the
snapshot. Times and tokens are masked in it, and remembered answers are left out.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tenure.core.engine import Feature, Trait
from tenure.core.minutes import Ends
from tenure.core.outcome import Broken, Completed, Failed, Retried, Unroutable
from tenure.core.shape import Conflict, Shape, UniqueRule, Until
from tests.support.keyspace import keys
from tests.support.world import BOOM, World

SNAPSHOTS: Final = Path(__file__).parent / "snapshots"
_MASKS: Final = (
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "<time>"),
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uuid>"),
    (r"(?<!\d)\d{19}(?!\d)", "<ns>"),
    (r"(?<!\d)\d{16}(?!\d)", "<token>"),
    (r"(?<!\d)\d{13}(?!\d)", "<ms>"),
)


def play(world: World) -> None:
    """One job in every state, and with everything that a job can have in this format."""
    world.put("ready", payload=b"\xffraw" if Feature.BYTES in world.entry.features else b"raw")
    world.put(
        "done",
        "retried",
        "failed",
        "broken",
        "parked",
        "held",
        task="t",
        payload=b"[[1],{}]",
        timeout_ms=30_000,
        retries=3,
    )
    leases = {lease.record.id: lease for lease in world.take(7)}
    world.finish(leases["done"])
    world.settle(leases["retried"], Retried(BOOM, 60_000))
    world.settle(leases["failed"], Failed(BOOM))
    world.settle(leases["broken"], Broken(BOOM))
    world.settle(leases["parked"], Unroutable())
    world.put("cancelled")
    world.cancel("cancelled", "why")
    if Feature.RESULTS in world.engine.features:
        world.put("result")
        world.settle(world.take_one("by"), Completed(b"42", 60_000))
    if Feature.DELAY in world.engine.features:
        world.put("later", delay_ms=60_000)
    if Feature.LANE_POLICIES in world.engine.features:
        world.put_in("user:7", "lane-1", "lane-2", limit=2)
        world.put_at(5, "urgent")
        world.put_only("unique", "key", Until.WINDOW, Conflict.EXISTING, window_ms=60_000)
        world.put("persistent", shape=Shape(unique=UniqueRule("a", Until.ENDED, Conflict.REJECT), persistent=True))
        world.take(1, "lanes")
        world.configure(max_length=1_000)
    elif Feature.LANES in world.engine.features:
        world.put_in("user:7", "lane-1", "lane-2", "lane-3")
        world.take(3, "lanes", of_lane=2)
    if Feature.HISTORY in world.engine.features:
        world.run(world.engine.history.note_ends("q", Ends(completed=1)))
        world.run(world.engine.history.note_audit(b"{}"))
    world.beat("w", [leases["held"], leases["ready"]])


def lines(world: World) -> list[str]:
    found = []
    for name, key in sorted(keys(world.server).items()):
        if f":{world.entry.answers}:".encode() in name:
            continue
        expires = " expires" if key.ttl_ms >= 0 else ""
        found.append(f"{masked(name.decode())} {key.kind}{expires}")
        if name.endswith(b":minutes"):
            continue  # its bytes depend on the time of day
        if isinstance(key.value, dict):
            times = key.kind == "zset"
            found += sorted(
                f"    {quoted(field)}: {'<score>' if times else quoted(text)}" for field, text in key.value.items()
            )
        else:
            values = sorted(key.value) if isinstance(key.value, set) else key.value
            found += [f"    {quoted(value)}" for value in ([values] if isinstance(values, bytes) else values)]
    return found


def quoted(value: bytes) -> str:
    """As Python writes it; MessagePack of an object or a list with the fields in their order."""
    try:
        packed = msgspec.msgpack.decode(value, type=dict[str, object] | list[object])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return masked(repr(value)[1:])
    return masked(msgspec.json.encode(packed, order="sorted").decode())


def masked(text: str) -> str:
    for pattern, mask in _MASKS:
        text = re.sub(pattern, mask, text)
    return text


@pytest.mark.needs(Trait.PUBLIC_KEYS)
def test_the_keys_are_those_of_the_snapshot(world: World) -> None:
    play(world)
    now, snapshot = lines(world), SNAPSHOTS / f"{world.entry.name}.txt"
    if os.environ.get("TENURE_SNAPSHOT") == "write":
        snapshot.write_text("\n".join(now) + "\n")
    assert now == snapshot.read_text().splitlines()
