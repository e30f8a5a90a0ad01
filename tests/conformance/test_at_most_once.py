"""Jobs that run at most once: one that may have begun never runs again."""

from __future__ import annotations

import pytest

from tenure.core.engine import Feature
from tenure.core.job import State
from tenure.core.outcome import Crashed, Released
from tenure.core.shape import Shape
from tests.support.world import World

pytestmark = pytest.mark.needs(Feature.AT_MOST_ONCE)
ONCE = Shape(at_most_once=True)


def error_of(world: World, id: str) -> str | None:
    error = world.view(id).error
    return error.type if error else None


def test_it_ends_when_its_worker_is_silent(world: World) -> None:
    """And others of the worker come back."""
    world.put("once", shape=ONCE)
    world.put("in lane", shape=Shape(lane="L", at_most_once=True))
    world.put("behind", shape=Shape(lane="L"))
    world.put("again")
    assert len(world.take()) == 3
    world.silence()
    assert [world.state(id) for id in ("once", "in lane")] == [State.BROKEN] * 2
    assert error_of(world, "once") == "AtMostOnce"
    assert sorted(world.take_ids(worker="v")) == ["again", "behind"]


@pytest.mark.parametrize("crashed", [True, False])
def test_it_ends_when_its_worker_leaves(world: World, crashed: bool) -> None:
    world.put("once", shape=ONCE)
    world.take_one()
    world.leave(crashed=crashed)
    assert (world.state("once"), error_of(world, "once")) == (State.BROKEN, "AtMostOnce")


def test_it_ends_when_what_ran_it_died(world: World) -> None:
    world.put("once", shape=ONCE)
    world.settle(world.take_one(), Crashed())
    assert (world.state("once"), error_of(world, "once")) == (State.BROKEN, "AtMostOnce")


def test_one_that_has_not_begun_is_returned(world: World) -> None:
    world.put("once", shape=ONCE)
    world.settle(world.take_one(), Released())
    assert world.take_ids() == ["once"]


def test_a_user_may_run_it_again(world: World) -> None:
    world.put("once", shape=ONCE)
    world.settle(world.take_one(), Crashed())
    assert world.retry("once")
    assert world.take_ids() == ["once"]
