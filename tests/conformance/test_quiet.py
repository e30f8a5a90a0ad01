"""A worker may be asked to start nothing new: its announcement tells it, and whoever looks."""

from __future__ import annotations

import pytest

from tenure.core.engine import Feature
from tenure.core.worker_view import WorkerView
from tests.support.world import World

pytestmark = pytest.mark.needs(Feature.QUIET)


def announce(world: World, id: str = "w") -> bool:
    answer: bool = world.run(world.engine.announce(WorkerView(id, ("q",), "host", 1, 1, 1, 1)))
    return answer


def quiet(world: World, id: str = "w", quiet: bool = True) -> bool:
    answer: bool = world.run(world.engine.presence.quiet(id, quiet))
    return answer


def test_its_announcements_say_so_until_it_may_go_on(world: World) -> None:
    assert not announce(world)
    assert quiet(world)
    assert [announce(world) for _ in range(3)] == [True] * 3
    assert quiet(world)
    assert quiet(world, quiet=False)
    assert not announce(world)
    assert quiet(world, quiet=False)


def test_only_the_one_that_was_asked(world: World) -> None:
    announce(world, "w1")
    announce(world, "w2")
    quiet(world, "w1")
    assert announce(world, "w1")
    assert not announce(world, "w2")


def test_a_worker_that_nobody_knows(world: World) -> None:
    before = world.dump()
    assert not quiet(world, "nobody")
    assert not quiet(world, "nobody", quiet=False)
    assert world.dump() == before


def test_a_worker_that_has_left_is_known_no_longer(world: World) -> None:
    announce(world)
    quiet(world)
    world.leave()
    assert not quiet(world)
    assert not announce(world), "a new worker of the same name starts afresh"


def test_it_is_told_at_once(world: World) -> None:
    announce(world)
    with world.driver.subscribe(world.engine.signal_channel("w")) as messages:
        quiet(world)
        assert messages.get(timeout_s=5) == b""
        quiet(world, quiet=False)
        assert messages.get(timeout_s=5) == b""


def test_what_it_holds_goes_on(world: World) -> None:
    announce(world)
    world.put("a", "b")
    lease = world.take_one()
    quiet(world)
    assert not world.beat("w", [lease]).lost
    world.finish(lease)
    assert world.take_ids() == ["b"], "the engine does not refuse it: the worker no longer asks"
