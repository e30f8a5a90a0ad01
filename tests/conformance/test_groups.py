"""Leases that settle together."""

from __future__ import annotations

import pytest

from tenure.core.engine import Feature, Trait
from tenure.core.outcome import Completed, Failed, Released
from tests.support.world import BOOM, World

pytestmark = pytest.mark.needs(Trait.GROUPS)


def put(world: World, *ids: str, lane: str = "L") -> None:
    """Jobs that can be a batch."""
    if Feature.LANES in world.engine.features:
        world.put_in(lane, *ids)
    else:
        world.put(*ids)


def test_a_group_ends_in_one_call(world: World) -> None:
    put(world, *"abcd")
    leases = world.take(3, of_lane=3)
    assert len({lease.group for lease in leases}) == 1
    assert leases[0].group
    world.settle_each(leases, Completed(b"", 0), Failed(BOOM), Released())
    assert world.counts() == {"ready": 2, "failed": 1}


def test_a_part_of_a_group_does_not_end(world: World) -> None:
    put(world, *"abc")
    leases = world.take(3, of_lane=3)
    for some in (leases[:1], leases[:2]):
        assert world.run(world.engine.settle([(lease, Completed(b"", 0)) for lease in some])) == [False] * len(some)
    assert world.counts() == {"active": 3}
    world.finish(*leases)


def test_one_lost_lease_is_the_answer_for_its_group(world: World) -> None:
    put(world, *"abc")
    leases = world.take(3, of_lane=3)
    world.leave()
    assert world.run(world.engine.settle([(lease, Completed(b"", 0)) for lease in leases])) == [False] * 3
    assert world.drain() == ["a", "b", "c"]


def test_groups_of_several_claims_are_apart(world: World) -> None:
    put(world, *"ab")
    put(world, *"cd", lane="M")
    first, second = world.take(2, of_lane=2), world.take(2, of_lane=2)
    assert first[0].group != second[0].group
    world.finish(*second)
    world.finish(*first)
