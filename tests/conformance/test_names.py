"""Names and ids of every kind stay apart, and come back as they were."""

from __future__ import annotations

import pytest

from tenure.core.engine import Feature, Trait
from tenure.core.job import State
from tenure.core.outcome import Completed, Failed, Released
from tests.support.world import BOOM, World

ODD = [
    "a:b",
    "{x}",
    "a}b{c",
    "*",
    "?",
    "[a]",
    "\\",
    "a b",
    "\x00",
    "a\nb",
    "é☃",
    "%3A",
    "a%3Ab",
    "ready",
    "q:ready",
    "'\"",
    "1" * 200,
]


def test_queues_with_odd_names_stay_apart(world: World) -> None:
    for number, name in enumerate(ODD):
        assert world.put(f"job {number}", queue=name) == [True]
    assert world.run(world.engine.queues()) == sorted(ODD)
    for number, name in enumerate(ODD):
        assert world.counts(name) == {"ready": 1}
        (lease,) = world.take(5, "w", [name])
        assert (lease.record.id, lease.record.queue) == (f"job {number}", name)
        assert not world.beat("w", [lease], [name]).lost
        world.finish(lease)
        assert world.counts(name) == {}


@pytest.mark.needs(Feature.RESULTS)
def test_results_of_queues_with_odd_names_stay_apart(world: World) -> None:
    for name in ODD:
        world.put("a", queue=name)
        assert world.settle(world.take_one(queue=name), Completed(name.encode(), 60_000))
    assert {name: world.view("a", name).result for name in ODD} == {name: name.encode() for name in ODD}


@pytest.mark.needs(Trait.KEPT_WAKE)
def test_waiting_for_queues_with_odd_names(world: World) -> None:
    world.put("a", queue="a}b{c")
    assert world.wait(ODD, 20_000) == "a}b{c"
    world.drain("a}b{c")


@pytest.mark.parametrize("id", [*ODD, "\udcff\udc80 not UTF-8", "0", "-1", "nil", "@a", "x" * 255])
@pytest.mark.needs(Feature.OWN_ID)
def test_ids_of_every_kind(world: World, id: str) -> None:
    assert world.put(id, own_id=True) == [True]
    assert world.put(id, own_id=True) == [False]
    assert world.put("other") == [True]
    lease = world.take_one()
    assert lease.record.id == id
    assert world.view(id).state is State.ACTIVE
    assert not world.beat("w", [lease]).lost
    assert world.run(world.engine.extend(lease, 5_000))
    assert world.settle(lease, Failed(BOOM))
    assert world.ids(State.FAILED) == [id]
    assert world.run(world.engine.retry("q", id))
    assert world.run(world.engine.cancel("q", id))
    assert world.run(world.engine.retry("q", id))
    assert world.drain() == ["other", id]


@pytest.mark.parametrize("worker", ["w:1", "w}x{", "host name:1:☃", "*", "a\nb"])
def test_workers_with_odd_names(world: World, worker: str) -> None:
    world.put("a")
    lease = world.take_one(worker)
    assert world.view("a").worker == worker
    assert not world.beat(worker, [lease]).lost
    assert world.settle(lease, Released())
    world.take_one(worker)
    assert world.silence() == 1


@pytest.mark.needs(Feature.OWN_ID)
def test_ids_that_look_alike_stay_apart(world: World) -> None:
    alike = ["a", "A", "a ", " a", "a\x00", "a\n", "\u00e1", "a\u0301"]
    world.put(*alike)
    leases = world.take(len(alike))
    assert [lease.record.id for lease in leases] == alike
    assert all(world.run(world.engine.settle([(lease, Completed(b"", 0)) for lease in leases[::2]])))
    assert world.beat("w", leases).lost == {lease.ref for lease in leases[::2]}
