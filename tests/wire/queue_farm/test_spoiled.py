"""Another program's data at our keys stops one lane, with an error that names the key. The other lanes run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tenure.core.errors import WrongState
from tenure.core.job import State
from tenure.core.outcome import Failed
from tenure.engines.queue_farm.config import DEFAULT_TIMEOUT_MS, FIND_MS
from tenure.engines.queue_farm.wire import SPOILED, FarmDropped
from tests.support.world import BOOM, World
from tests.wire.queue_farm.player import BASE

OURS = f"{BASE}:tenure"


def held_field(world: World, text: str) -> None:
    world.command("HSET", f"{OURS}:held:w0", "bad1", text)


MALFORMED: dict[str, Callable[[World], object]] = {
    "a lease": lambda world: held_field(world, "garbage"),
    "a lease of nothing": lambda world: world.command("HSET", f"{OURS}:held:w0", "nothing", "garbage"),
    "a batch": lambda world: world.command("HSET", f"{OURS}:claims", "bad", "garbage"),
    "a batch of nobody": lambda world: world.command("HSET", f"{OURS}:claims", "bad", "1 2 3 1 nobody"),
    "what a worker holds": lambda world: world.command("SET", f"{OURS}:held:w0", "garbage"),
    "the time of a batch": lambda world: world.command("LPUSH", f"{BASE}:active:bad:fetchAt", "garbage"),
    "a job": lambda world: world.command("SET", f"{BASE}:job:bad1", "garbage"),
    "a lane of originals": lambda world: world.command("HSET", f"{OURS}:foreign", "bad", "garbage"),
    "the last look": lambda world: world.command("HSET", f"{OURS}:meta", "found", "x", "cursor", "x", "claimed", "x"),
    "the turns": lambda world: world.command("HSET", f"{OURS}:meta", "turn", "x", "front", "x"),
    "a record": lambda world: (
        world.command("ZADD", f"{OURS}:failed", 1, "k"),
        world.command("HSET", f"{OURS}:kept", "k", "garbage"),
    ),
    "a record that is gone": lambda world: world.command("ZADD", f"{OURS}:failed", 1, "k"),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_malformed_data_stops_no_other_lane_and_its_own_not_for_ever(world: World, what: str) -> None:
    world.put_in("bad", "bad1", "bad2", "bad3", own_id=True)
    (held,) = world.take(1, "w0")
    world.put_in("other", "o1", "o2", own_id=True)
    if what in ("what a worker holds", "the time of a batch"):
        world.command("DEL", f"{OURS}:held:w0" if what == "what a worker holds" else f"{BASE}:active:bad:fetchAt")
    MALFORMED[what](world)
    (lease,) = world.take(1, "w1")
    assert lease.record.id == "o1"
    world.finish(lease)
    world.beat("w0", [held])
    world.settle(held)
    if what == "what a worker holds":
        world.command("DEL", f"{OURS}:held:w0")
    for _ in range(3):
        world.maintain()
        world.command("HSET", f"{OURS}:meta", "found", "0")
        for lane, text in zip(*[iter(world.command("HGETALL", f"{OURS}:foreign"))] * 2, strict=True):
            seen, rest = text.split(b" ", 1)
            world.command("HSET", f"{OURS}:foreign", lane, b"%d %s" % (int(seen) - DEFAULT_TIMEOUT_MS - FIND_MS, rest))
    for state in (State.READY, State.ACTIVE, State.FAILED):
        world.run(world.engine.page("q", state))
    ran = world.drain()
    assert sorted(ran) in (["bad1", "bad2", "bad3", "o2"], ["bad2", "bad3", "o2"])
    assert ran.index("bad2") < ran.index("bad3")
    assert world.purge(State.FAILED) == 0
    assert world.counts() == {}
    world.server.flush()


@pytest.mark.parametrize("kind", ["queue", "active"])
def test_a_spoiled_lane_stops_alone_and_its_key_is_named(world: World, kind: str) -> None:
    key = f"{BASE}:{kind}:bad"
    world.put_in("bad", "failed", "bad1", own_id=True)
    (failed,) = world.take(1)
    assert world.settle(failed, Failed(BOOM))
    (held,) = world.take(1)
    world.put_in("good", "held", "good1", own_id=True)
    (other,) = world.take(1)
    world.command("SET", key, "another program's")
    with pytest.raises(WrongState, match=key):
        world.put_in("bad", "new", own_id=True)
    with pytest.raises(WrongState, match=key):
        world.retry("failed")
    assert world.beat("w", [held, other]).lost == (frozenset({held.ref}) if kind == "active" else frozenset())
    assert world.settle(held) == (kind == "queue")
    assert world.settle(other)
    assert world.drain() == ["good1"]
    world.command("DEL", key)
    world.maintain()
    assert world.retry("failed")
    assert world.drain() == ["failed"]
    world.server.flush()


def test_the_worker_reports_the_key_of_a_spoiled_lane_once(world: World) -> None:
    world.put_in("bad", "bad1", own_id=True)
    world.put_in("good", "good1", own_id=True)
    world.command("SET", f"{BASE}:queue:bad", "another program's")
    leased = world.lease()
    assert [lease.record.id for lease in leased.leases] == ["good1"]
    (dropped,) = leased.dropped
    assert isinstance(dropped, FarmDropped)
    assert (dropped.id, dropped.lane, dropped.kind) == (f"{BASE}:queue:bad", "bad", SPOILED)
    assert not world.lease().dropped
    world.server.flush()
