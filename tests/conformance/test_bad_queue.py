"""A queue that the engine refuses, as another program's data is among its keys: the other queues go on."""

from __future__ import annotations

import pytest

from tenure.core.errors import WrongState
from tenure.core.job import NewJob, State
from tests.support.keyspace import keys
from tests.support.world import World

pytestmark = [pytest.mark.garbage, pytest.mark.every_server]


def test_a_bad_queue_does_not_keep_a_worker_from_the_others(world: World) -> None:
    """Each operation over several queues does what it can, then says what was wrong."""
    queues = ["a", "bad", "z"]
    world.put("a1", "a2", queue="a")
    world.put("z1", "z2", queue="z")
    world.spoil("bad")
    leases = []
    for _ in range(4):
        leases += world.take(1, "w", queues)
    assert sorted(lease.record.id for lease in leases) == ["a1", "a2", "z1", "z2"]
    for _ in range(4):
        for queue in ("a", "z"):
            world.pass_time(9_000, queue)
        with pytest.raises(WrongState):
            world.beat("w", leases, queues)
    with pytest.raises(WrongState):
        world.run(world.engine.maintain(queues, []))
    with pytest.raises(WrongState):
        world.run(world.engine.leave("w", queues))
    assert world.counts("a") == world.counts("z") == {"ready": 2}


def test_what_one_queue_gave_is_not_lost_because_another_is_bad(world: World) -> None:
    world.put("a1", queue="a")
    world.spoil("bad")
    leased = world.run(world.engine.lease("w", ["bad", "a"], 5))
    assert [lease.record.id for lease in leased.leases] == ["a1"]
    assert [refused.queue for refused in leased.refused] == ["bad"]
    with pytest.raises(WrongState):
        world.take(5, "w", ["bad"])


def test_the_error_about_a_bad_queue_names_the_key(world: World) -> None:
    world.put("a", queue="bad")
    world.spoil("bad")
    wrong = {repr(key.decode()) for key in keys(world.server) if world.command("TYPE", key) == b"string"}
    calls = {
        "counts": world.engine.queue("bad"),
        "jobs": world.engine.page("bad", State.READY),
        "a claim": world.engine.lease("w", ["bad"], 1),
        "maintenance": world.engine.maintain(["bad"], []),
        "an enqueue": world.engine.enqueue([NewJob("bad", "b", b"p")]),
    }
    for name, steps in calls.items():
        with pytest.raises(WrongState) as caught:
            world.run(steps)
        assert any(f"The key {key} at " in str(caught.value) for key in wrong), (name, str(caught.value), wrong)
