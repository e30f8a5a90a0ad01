"""Layout versions: an older release leaves a queue alone that a newer one has written to, and says so."""

from __future__ import annotations

import pytest

from tenure.core.errors import NewerLayout
from tenure.core.outcome import Completed
from tenure.engines.kit.scripts import load
from tests.support.engines import GRACE_MS, LEASE_MS, inner
from tests.support.world import World


def newer_release(world: World) -> None:
    world.set_layout(world.engine.layout + 1)


def test_an_older_worker_claims_nothing_of_a_newer_queue(world: World) -> None:
    world.put("a")
    newer_release(world)
    with pytest.raises(NewerLayout) as caught:
        world.take()
    assert (caught.value.queue, caught.value.layout, caught.value.readable) == (
        "q",
        world.engine.layout + 1,
        world.engine.layout,
    )
    with pytest.raises(NewerLayout):
        world.maintain()
    assert world.run(world.engine.layout_of("q")) == world.engine.layout + 1
    shown = world.run(world.engine.queue("q"))
    assert (shown.newer_layout, shown.totals.get("layout")) == (world.engine.layout + 1, None)
    for version in (world.engine.layout, None):
        world.set_layout(version)
        assert world.run(world.engine.queue("q")).newer_layout is None
    assert world.take_ids() == ["a"]


def test_other_queues_go_on(world: World) -> None:
    world.put("a")
    world.put("b", queue="other")
    newer_release(world)
    leased = world.run(world.engine.lease("w", ["q", "other"], 10))
    assert [lease.record.id for lease in leased.leases] == ["b"]
    assert [refused.queue for refused in leased.refused] == ["q"]


def test_an_older_worker_keeps_and_ends_what_it_runs(world: World) -> None:
    world.put("a")
    lease = world.take_one()
    newer_release(world)
    assert not world.beat("w", [lease]).lost
    assert world.settle(lease, Completed(b"", 0))


def test_an_older_worker_takes_nothing_back_from_the_workers_of_a_newer_release(world: World) -> None:
    world.put("a", "b")
    world.take_one("dead")
    mine = world.take_one("w")
    newer_release(world)
    for ms in (LEASE_MS // 2, LEASE_MS // 2 + 100, GRACE_MS + 100):
        world.pass_time(ms)
        world.beat("w", [mine])
    assert world.view("a").worker == "dead"


def test_an_enqueue_of_an_older_release_is_taken(world: World) -> None:
    newer_release(world)
    assert world.put("a") == [True]


def next_release(world: World) -> World:
    """The same engine, of a release that writes the next layout version."""
    release = world.with_options()
    package = world.entry.scripts.__package__
    words = world.entry.scripts.WORDS | {"LAYOUT": world.engine.layout + 1}
    assert package is not None
    inner(getattr(release.engine, "unnamed", release.engine)).scripts = load(
        package, words, kits=getattr(world.entry.scripts, "KITS", ())
    )
    return release


def test_the_first_claim_of_a_newer_release_stops_the_older_one(world: World) -> None:
    world.put("a", "b")
    assert next_release(world).take_ids(1, "newer") == ["a"]
    with pytest.raises(NewerLayout):
        world.take()
