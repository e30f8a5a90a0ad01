"""Follow-up jobs: they are enqueued in the step that completes another job, once, and never otherwise."""

from __future__ import annotations

import pytest

from tenure.core.engine import Feature
from tenure.core.job import Lease, NewJob, State
from tenure.core.outcome import Broken, Cancelled, Completed, Failed, Retried
from tenure.core.shape import Conflict, Shape, UniqueRule
from tenure.core.steps import Command, Invoke, Reply
from tests.support.stepping import Send, Session, send_with, step, stop_after
from tests.support.world import BOOM, World

pytestmark = pytest.mark.needs(Feature.FLOWS)


def following(*ids: str, queue: str = "q", **options: object) -> Completed:
    jobs = tuple(NewJob(queue, id, b"after", **options) for id in ids)  # type: ignore[arg-type]
    return Completed(b"r", 60_000, jobs)


def begin(world: World, id: str = "a", shape: Shape | None = None) -> Lease:
    world.put(id, shape=shape or Shape())
    return world.take_one()


def ids_of(world: World, queue: str) -> list[str]:
    return [lease.record.id for lease in world.take(queues=(queue,))]


@pytest.mark.parametrize("queue", ["q", "other"])
def test_a_completion_enqueues_what_follows(world: World, queue: str) -> None:
    assert world.settle(begin(world), following("b", "c", queue=queue))
    assert world.view("a").result == b"r"
    world.audit()
    assert ids_of(world, queue) == ["b", "c"]
    assert world.settle(begin(world, "a2"), following("d", queue=queue))
    assert ids_of(world, queue) == ["d"]


@pytest.mark.parametrize("outcome", [Retried(BOOM), Failed(BOOM), Cancelled("no")])
def test_no_other_end_enqueues_anything(world: World, outcome: Retried | Failed | Cancelled) -> None:
    assert world.settle(begin(world), outcome)
    assert world.counts().get(State.READY, 0) == (1 if isinstance(outcome, Retried) else 0)


@pytest.mark.parametrize("queue", ["q", "other"])
def test_a_lost_lease_enqueues_nothing(world: World, queue: str) -> None:
    lease = begin(world)
    assert world.leave() == 1
    assert not world.settle(lease, following("b", queue=queue))
    assert world.counts(queue).get(State.READY, 0) == (1 if queue == "q" else 0)


def follow(world: World, id: str, *ids: str, queue: str = "q") -> list[State | None]:
    assert world.engine.flows is not None
    return [world.run(world.engine.flows.follow("q", id, NewJob(queue, one, b"after"))) for one in ids]


@pytest.mark.parametrize("queue", ["q", "other"])
def test_a_job_can_follow_one_that_waits_or_runs(world: World, queue: str) -> None:
    world.put("a")
    assert follow(world, "a", "b", queue=queue) == [State.READY]
    lease = world.take_one()
    assert follow(world, "a", "c", queue=queue) == [State.ACTIVE]
    world.audit()
    assert world.settle(lease, Completed(b"", 0))
    world.audit()
    assert ids_of(world, queue) == ["b", "c"]


def test_a_job_that_follows_a_completed_one_is_enqueued_at_once(world: World) -> None:
    world.settle(begin(world))
    assert follow(world, "a", "b") == [State.COMPLETED]
    assert ids_of(world, "q") == ["b"]


def test_what_follows_a_failed_job_waits_for_its_retry(world: World) -> None:
    world.put("a")
    follow(world, "a", "b")
    world.settle(world.take_one(), Failed(BOOM))
    world.audit()
    assert follow(world, "a", "c") == [State.FAILED]
    assert world.retry("a")
    world.settle(world.take_one())
    world.audit()
    assert ids_of(world, "q") == ["b"]


@pytest.mark.parametrize("end", ["purge", "discard", "failed"])
def test_nothing_is_left_of_what_follows_a_job_that_is_gone(world: World, end: str) -> None:
    world.put("a")
    follow(world, "a", "b")
    if end == "failed":
        world.settle(world.take_one(), Failed(BOOM))
        world.purge(State.FAILED)
    elif end == "purge":
        world.purge(State.READY)
    else:
        world.discard("a")
    assert follow(world, "a", "c") == [None]
    world.audit()


def test_a_process_may_end_between_any_two_calls(world: World) -> None:
    """The job for another queue comes there once, also when it has ended there and left no record."""
    for calls in range(10):
        id, next_id = f"a{calls}", f"b{calls}"
        lease = begin(world, id)
        steps = world.engine.settle([(lease, following(next_id, queue="other"))])
        is_done = stop_after(calls, steps, world.driver)
        if not calls:
            assert world.settle(lease, following(next_id, queue="other"))
        for _ in range(2):
            for other in world.take(queues=("other",)):
                assert other.record.id == next_id
                world.finish(other)
            world.maintain()
        assert world.totals("other")["completed"] == calls + 1
        world.audit()
        if is_done:
            return
    raise AssertionError("more calls than expected")


def test_what_a_late_process_hands_over_once_more_is_ignored(world: World) -> None:
    lease = begin(world)
    settling = world.engine.settle([(lease, following("b", queue="other"))])
    taken: list[Invoke] = []

    def note(number: int, call: Command | Invoke, send: Send) -> Reply:
        if isinstance(call, Invoke) and call.script.name == "take":
            taken.append(call)
        return send(call)

    step(settling, Session("first"), send_with(world.driver), note)
    world.finish(*world.take(queues=("other",)))
    (late,) = taken
    send_with(world.driver)(late)
    assert ids_of(world, "other") == []
    world.settle(begin(world, "a2"), following("c", queue="other"))
    assert ids_of(world, "other") == ["c"]


def test_many_pages_of_jobs_are_handed_over(world: World) -> None:
    ids = [f"b{n}" for n in range(600)]
    assert world.settle(begin(world), following(*ids, queue="other"))
    found: list[str] = []
    while leases := world.take(300, queues=("other",)):
        found += [lease.record.id for lease in leases]
        world.finish(*leases)
    assert found == ids


def test_a_queue_that_refuses_jobs_gets_them_later(world: World) -> None:
    world.spoil("bad")
    jobs = (NewJob("bad", "b", b"after"), NewJob("other", "c", b"after"))
    assert world.settle(begin(world), Completed(b"r", 60_000, jobs))
    assert ids_of(world, "other") == ["c"]
    (refused,) = world.maintain().refused
    assert refused.queue == "bad"
    waiting = world.run(world.engine.queue("q"))
    ended_ms = world.view("a").ended_ms
    assert waiting.outgoing == 1
    assert ended_ms is not None
    assert abs(waiting.outgoing_ms - ended_ms) < 1_000
    world.repair("bad")
    assert world.maintain().refused == ()
    assert (waiting := world.run(world.engine.queue("q"))).outgoing == 0
    assert waiting.outgoing_ms is None
    assert ids_of(world, "bad") == ["b"]
    world.audit()


def test_a_full_queue_takes_what_follows(world: World) -> None:
    world.configure(max_length=1)
    assert world.settle(begin(world), following("b", "c"))
    assert ids_of(world, "q") == ["b", "c"]


def test_a_unique_key_decides_as_at_an_enqueue(world: World) -> None:
    rule = UniqueRule("k", conflict=Conflict.EXISTING)
    lease = begin(world)
    world.put("has-the-key", shape=Shape(unique=rule))
    assert world.settle(lease, following("b", shape=Shape(unique=rule)))
    assert ids_of(world, "q") == ["has-the-key"]


@pytest.mark.parametrize("shape", [Shape(lane="L"), Shape(priority=3), Shape(expires="+60000")])
def test_a_follow_up_has_a_shape_and_a_delay_of_its_own(world: World, shape: Shape) -> None:
    assert world.settle(begin(world), following("b", shape=shape, delay_ms=500))
    assert world.view("b").state is State.SCHEDULED
    world.pass_time(600)
    world.audit()
    (lease,) = world.take()
    assert lease.record.shape == shape


def when_failed(world: World, **options: object) -> Shape:
    assert world.engine.flows is not None
    job = NewJob("alerts", "alert", b"[]", task="alert", headers={"tenant": "7"})
    return Shape(on_failed=world.engine.flows.text_of(job), **options)  # type: ignore[arg-type]


def alerts(world: World) -> list[dict[str, str]]:
    """The headers of what has come to the queue of alerts, after maintenance of the queue where jobs have ended."""
    world.maintain()
    leases = world.take(queues=("alerts",))
    assert all(lease.record.task == "alert" for lease in leases)
    world.finish(*leases)
    return [dict(lease.record.headers or {}) for lease in leases]


ALERT = {"failed_job": "q/a%20b", "tenant": "7"}


@pytest.mark.parametrize("end", ["failed", "broken", "crashed", "expired", "discard", "purge"])
def test_a_bad_end_enqueues_what_was_asked_for(world: World, end: str) -> None:
    """Whatever has ended the job: hooks of a worker never see half of these."""
    world.put("a%20b", shape=when_failed(world, expires="+1000" if end == "expired" else None))
    if end == "failed":
        assert world.settle(world.take_one(), Failed(BOOM))
    elif end == "broken":
        assert world.settle(world.take_one(), Broken(BOOM))
    elif end == "crashed":
        for _ in range(20):
            if world.take() and world.leave(crashed=True) and world.view("a%20b").state is State.BROKEN:
                break
    elif end == "expired":
        world.pass_time(1_100)
    elif end == "discard":
        assert world.discard("a%20b")
    else:
        assert world.purge(State.READY) == 1
    assert alerts(world) == [ALERT]
    assert alerts(world) == []
    world.audit()


@pytest.mark.parametrize("end", ["completed", "cancelled", "retried"])
def test_no_other_end_does(world: World, end: str) -> None:
    world.put("a%20b", shape=when_failed(world))
    if end == "cancelled":
        world.cancel("a%20b")
    else:
        world.settle(world.take_one(), Completed(b"r") if end == "completed" else Retried(BOOM))
    assert alerts(world) == []


def test_each_bad_end_of_a_job_is_one(world: World) -> None:
    world.put("a%20b", shape=when_failed(world, lane="L"))
    assert world.settle(world.take_one(), Failed(BOOM))
    assert world.retry("a%20b")
    assert world.settle(world.take_one(), Failed(BOOM))
    assert alerts(world) == [ALERT, ALERT]
