"""Limits and shares of the engine for clusters, on one server: those of one queue, and what a second queue may do."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final

import pytest

from tenure.core.engine import Feature
from tenure.core.errors import InvalidArgument, UnsupportedFeature
from tenure.core.job import NewJob
from tenure.core.outcome import Retried
from tenure.core.rates import LimitRule
from tenure.core.schedules.schedule import Ticked
from tenure.core.shape import Shape
from tenure.core.steps import Call, Steps
from tenure.core.values import replace
from tenure.engines.native.cluster import NativeClusterEngine
from tenure.engines.native.partitions.engine import PartitionedEngine
from tenure.protocols.registry import engine_of, engine_spec_of
from tests.conformance import test_limits
from tests.support.engines import NATIVE, Entry, Options
from tests.support.schedules import now_of, spec, stored, tick_of
from tests.support.schedules import put as put_schedule
from tests.support.world import BOOM, NAMESPACE, World

pytestmark = pytest.mark.needs(Feature.LIMITS)

OF_SEVERAL_QUEUES: Final = {
    "test_a_limit_holds_for_all_queues",
    "test_a_full_queue_beside_a_paused_one_gets_the_place",
    "test_stored_numbers_replace_those_of_the_code_at_once",
    "test_a_limit_rests_also_when_no_job_of_the_queue_has_one",
}
globals().update(
    (name, test)
    for name, test in vars(test_limits).items()
    if name.startswith("test_") and name not in OF_SEVERAL_QUEUES
)


def _make(namespace: str, options: Options) -> PartitionedEngine:
    engine = NATIVE.make(namespace, options)
    return PartitionedEngine(namespace, engine.config, NativeClusterEngine)


@pytest.fixture
def entry() -> Entry:
    return replace(NATIVE, make=_make)


def put(world: World, template: str, *ids: str, queue: str = "q", name: str | None = None) -> None:
    rule = LimitRule(name or template, concurrency=1, template=template)
    world.enqueue([NewJob(queue, id, b"p", shape=Shape(limits=(rule,))) for id in ids])


@pytest.mark.parametrize(
    ("first", "second", "meet"),
    [
        ("stripe", "stripe", True),
        ("stripe", "stripes", False),
        ("tenant:{tenant}", "tenant:{name}", True),
        ("tenant:{tenant}", "tenant:7", True),
        ("tenant:7", "tenant:{tenant}", True),
        ("tenant:{tenant}", "tenant:{tenant}:mail", True),
        ("{kind}", "stripe", True),
        ("tenant:{tenant}", "tenants", False),
        ("a:{x}", "b:{x}", False),
    ],
)
def test_a_limit_of_another_queue_is_refused_by_name(world: World, first: str, second: str, meet: bool) -> None:
    """In the code of one process before anything is sent, and by the notes in Redis between processes."""
    code, other = _make(NAMESPACE, world.options), world.with_options()
    code.limits.note_limit(first, "q")
    put(world, first, "a", name="n:1")
    if meet:
        with pytest.raises(UnsupportedFeature, match=r"belongs to one queue: .* queue 'r', and .* queue 'q'"):
            code.limits.note_limit(second, "r")
        with pytest.raises(UnsupportedFeature, match=r"belongs to one queue: .* queue 'r', and .* queue 'q'"):
            put(other, second, "b", queue="r", name="n:2")
        assert world.counts("r") == {}
        code.limits.note_limit(second, "q")
        put(other, second, "b", name="n:2")
    else:
        code.limits.note_limit(second, "r")
        put(other, second, "b", queue="r", name="n:2")
        assert world.take_ids(queues=("r",)) == ["b"]


def test_the_engine_of_another_process_has_its_keys_in_the_same_places(world: World) -> None:
    """A keeper ends the leases of a dead worker."""
    put(world, "gpu", "a", "b")
    assert world.take_ids() == ["a"]
    keeper = engine_of(engine_spec_of(world.engine))
    assert world.run(keeper.leave("w", ["q"])) == 1
    assert world.take_ids() == ["a"]
    assert world.run(world.engine.limits.limit("gpu")).active == 1


def interrupted(world: World, between: Callable[[Call], Steps[object]]) -> Steps[None]:
    """Enqueue a job with a limit; `between` runs before its first call is sent."""
    steps = world.engine.enqueue([NewJob("q", "a", b"p", shape=Shape(limits=(LimitRule("gpu", concurrency=1),)))])
    call = next(steps)
    yield from between(call)
    with contextlib.suppress(StopIteration):
        while True:
            call = steps.send((yield call))


def test_of_two_processes_with_one_limit_one_is_refused(world: World) -> None:
    """Both know of no note: the one that is second reads that of the other before it adds its own."""
    other = LimitRule("gpu", concurrency=1)
    another = world.with_options().engine.enqueue([NewJob("r", "b", b"p", shape=Shape(limits=(other,)))])
    with pytest.raises(UnsupportedFeature, match=r"queue 'q'.*queue 'r'"):
        world.run(interrupted(world, lambda call: another))
    assert (world.counts("q"), world.counts("r")) == ({}, {"ready": 1})


def test_a_note_that_is_sent_again_is_found(world: World) -> None:
    def first_reply_lost(call: Call) -> Steps[None]:
        yield call

    world.run(interrupted(world, first_reply_lost))
    assert world.take_ids() == ["a"]
    assert world.command("HGETALL", "{test}:homes") == [b"gpu", b"q"]


def test_stored_numbers_are_those_of_the_queue_that_has_the_limit(world: World) -> None:
    with pytest.raises(InvalidArgument, match="none has used 'gpu' yet"):
        world.run(world.engine.limits.set_limit("gpu", concurrency=2))
    assert not world.run(world.engine.limits.clear_limit("gpu"))
    put(world, "gpu", *"abc")
    put(world, "tenant:{tenant}", *"xyz", queue="r", name="tenant:7")
    admin = world.with_options()
    admin.run(admin.engine.limits.set_limit("gpu", concurrency=2))
    assert world.take_ids() == ["a", "b"]
    admin.run(admin.engine.limits.set_limit("tenant:7", concurrency=3))
    assert sorted(world.take_ids(queues=("r",))) == ["x", "y", "z"]
    names, cursor = [], ""
    for _ in range(6):
        page = admin.run(admin.engine.limits.limit_names(cursor))
        names += page.names
        cursor = page.cursor
        if not cursor:
            break
    assert sorted({*names}) == ["gpu", "tenant:7"]
    assert admin.run(admin.engine.limits.limit("gpu")).lanes == {"q": 1}
    assert admin.run(admin.engine.limits.limit("tenant:7")).active == 3
    assert admin.run(admin.engine.limits.clear_limit("gpu"))


def test_a_job_lets_the_limit_of_another_queue_rest(world: World) -> None:
    put(world, "mail", "a", queue="r")
    world.put("b")
    lease = world.take_one()
    assert world.settle(lease, Retried(BOOM, 60_000, deferred=True, limit="mail"))
    assert world.take_ids(queues=("r",)) == []
    assert world.run(world.engine.limits.limit("mail")).rests_ms
    assert world.counts() == {"scheduled": 1}
    world.pass_time(61_000)
    assert world.take_ids() == ["b"]


def test_a_limit_of_another_queue_stops_only_its_tick(world: World) -> None:
    put(world, "mail", "a", queue="r")
    mail, now = Shape(limits=(LimitRule("mail", concurrency=1, template="mail"),)), now_of(world)
    for one in (spec("first"), spec("refused", shape=mail), spec("last")):
        assert put_schedule(world, one, now - 1_000)
    ticks = [tick_of(stored(world, name), now, name) for name in ("first", "refused", "last")]
    first, refused, last = world.run(world.engine.schedules.tick("q", ticks))
    assert (first, last) == (Ticked.ENQUEUED, Ticked.ENQUEUED)
    assert isinstance(refused, UnsupportedFeature)
    assert stored(world, "refused").state.runs == 0
    assert world.drain() == ["first", "last"]


def test_weights_of_shares_reach_queues_of_before_and_after(world: World) -> None:
    def share(name: str, *ids: str, queue: str) -> None:
        world.enqueue([NewJob(queue, id, b"p", shape=Shape(share=name)) for id in ids])

    share("big", *"abcdef", queue="q")
    world.run(world.engine.limits.set_share("big", 3))
    share("small", "x", "y", queue="q")
    share("big", *"abcdef", queue="r")
    share("small", "x", "y", queue="r")
    for queue in ("q", "r"):
        assert world.take_ids(5, queues=(queue,)) == ["a", "b", "c", "x", "d"]
    assert world.run(world.engine.limits.shares()).weights == {"big": 3}
