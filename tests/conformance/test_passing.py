"""A worker with tasks and no handler for raw payloads, where raw payloads lie in front of its jobs."""

from __future__ import annotations

import pytest

from tenure.core.engine import Trait
from tenure.core.job import Lease, NewJob, State
from tenure.core.outcome import Unroutable
from tests.support.world import World

pytestmark = pytest.mark.needs(Trait.PASSED_RAW)

SECOND_MS = 1_000
LOOK_MOST = 2_000
"""Entries that one look goes through: see lua/lib/passing.lua."""


def put_raw(world: World, *ids: str, payload: bytes = b'{"raw":1}') -> None:
    world.put(*ids, payload=payload)


def put_tasks(world: World, *ids: str) -> None:
    world.put(*ids, task="t", payload=b"[[],{}]")


def turn_down(world: World, *leases: Lease) -> None:
    """The worker finds that it has no handler for them."""
    assert all(world.run(world.engine.settle([(lease, Unroutable()) for lease in leases])))


def pass_by(world: World, count: int = 1) -> None:
    """Let the worker find out that it has no handler for raw payloads."""
    turn_down(world, *world.take(count))


def test_raw_payloads_keep_their_places_and_their_order(world: World) -> None:
    put_raw(world, "r1", "r2", "r3")
    put_tasks(world, "t1")
    put_raw(world, "r4")
    put_tasks(world, "t2", "t3")
    pass_by(world, 2)
    assert world.ids(State.READY) == ["r1", "r2", "r3", "t1", "r4", "t2", "t3"]
    assert world.take_ids(2) == ["t1", "t2"]
    assert world.take_ids(2) == ["t3"]
    assert world.ids(State.READY) == ["r1", "r2", "r3", "r4"]
    assert world.take_ids(worker="with a handler") == ["r1", "r2", "r3", "r4"]
    world.audit()


def test_payloads_that_were_claimed_by_several_calls_return_in_their_order(world: World) -> None:
    put_raw(world, "r1", "r2", "r3", "r4", "r5")
    claims = [world.take(2), world.take(2), world.take(2)]
    for leases in claims:
        turn_down(world, *leases)
    assert world.ids(State.READY) == ["r1", "r2", "r3", "r4", "r5"]
    world.audit()


def test_a_look_that_finds_too_little_is_followed_by_a_pause(world: World) -> None:
    put_raw(world, "r1")
    pass_by(world)
    looked = world.lease()
    assert not looked.leases
    put_tasks(world, "t1")
    again = world.lease()
    assert not again.leases, "the last look was just now"
    assert again.next_ms is not None
    assert 0 < again.next_ms <= SECOND_MS
    assert world.until(world.take_ids) == ["t1"]


def test_jobs_in_front_of_raw_payloads_wait_for_no_look(world: World) -> None:
    put_raw(world, "r1")
    put_tasks(world, "t1")
    pass_by(world)
    (lease,) = world.take()
    assert not world.take()
    world.leave()
    assert lease.record.id == "t1"
    assert world.take_ids() == ["t1"]


def test_an_idle_look_costs_a_handful_of_commands_however_many_payloads_wait(world: World) -> None:
    put_raw(world, *(f"r{n}" for n in range(500)))
    pass_by(world)
    world.lease()
    pausing = world.calls_of(world.engine.lease("w", ["q"], 10, of_lane={}))
    world.pass_time(SECOND_MS)
    looking = world.calls_of(world.engine.lease("w", ["q"], 10, of_lane={}))
    assert pausing < 40
    assert looking < pausing + 30


def test_jobs_behind_more_payloads_than_one_look_reads_are_found(world: World) -> None:
    world.enqueue([NewJob("q", f"r{n}", b"1") for n in range(LOOK_MOST + 100)])
    put_tasks(world, "t1", "t2")
    pass_by(world)
    assert not world.take()
    world.pass_time(SECOND_MS)
    assert world.take_ids() == ["t1", "t2"]
    assert world.ids(State.READY)[:2] == ["r0", "r1"]


@pytest.mark.parametrize(
    "payload",
    [
        b'{"raw":"tenure"}',
        b'{"x":{"tenure":1,"task":"t"}}',
        b'{"tenure":true,"task":"t","text":"x"}',
        b'{"tenure":1,"task":7}',
        b'["id",{"tenure":1,"task":"t"}]',
    ],
)
def test_a_payload_that_looks_like_a_call_is_turned_down_once(world: World, payload: bytes) -> None:
    put_raw(world, "r1", payload=payload)
    put_tasks(world, "t1")
    for _ in range(3):
        turn_down(world, *(lease for lease in world.take() if lease.record.task is None))
    assert world.counts() == {"ready": 1, "active": 1}
    assert not world.take()


def test_a_wrapped_payload_is_passed_by_as_well(world: World) -> None:
    world.put("r1", payload=b"1", retries=3)
    put_tasks(world, "t1")
    pass_by(world)
    assert world.take_ids() == ["t1"]
    assert world.ids(State.READY) == ["r1"]


def test_a_lease_by_hand_takes_raw_payloads(world: World) -> None:
    put_raw(world, "r1", "r2")
    pass_by(world)
    assert world.take_ids(lease_ms=60_000) == ["r1", "r2"]
