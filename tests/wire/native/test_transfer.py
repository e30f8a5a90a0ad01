"""Moving a queue to another server: nothing is lost, doubled or out of order, wherever it is interrupted."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from tenure.core.errors import InvalidArgument, NotDurable, QueueFull, UnsupportedFeature
from tenure.core.flows import NewFlow, membership
from tenure.core.job import NewJob, State
from tenure.core.outcome import Broken, Completed, Failed, Outcome, Retried, Unroutable
from tenure.core.rates import LimitRule
from tenure.core.schedules.schedule import ScheduleSpec, StoredSchedule
from tenure.core.shape import Conflict, LaneFailure, LaneState, Shape, UniqueRule
from tenure.core.steps import Invoke, Steps
from tenure.core.values import replace
from tenure.engines.kit.moving import EXPORT_LANED, Page, Row, move_page
from tenure.engines.native.cluster import NativeClusterEngine
from tenure.engines.native.partitions.engine import PartitionedEngine
from tenure.engines.native.transfer import NativeTransfer
from tenure.manage.transfer import Side, Transfer, Transferred
from tests.support.stepping import Crashed, Session, send_with, step, stop_after
from tests.support.world import BOOM, NAMESPACE, World

THERE = "there"
Run = Callable[[Steps[Any]], Any]


def sides(world: World, run: Run | None = None) -> Transfer:
    """From `q` to `there`. Two queues are as far apart as two servers: no call is about both."""
    transfer = NativeTransfer(world.engine.native)
    call: Any = run or world.run
    return Transfer(Side(call, world.engine, transfer, "q"), Side(call, world.engine, transfer, THERE))


def move(world: World, *, first: bool = True) -> Transferred:
    return sides(world).run(first=first)


def drained(world: World) -> list[str]:
    return world.drain(THERE)


def pause_there(world: World) -> None:
    world.run(world.engine.settings.configure(THERE, paused=True))


def test_all_that_waits_moves_in_its_order_in_front_of_newer_jobs(world: World) -> None:
    old = [f"a{n}" for n in range(2 * EXPORT_LANED + 20)]
    world.put(*old)
    world.put_in("x", *(f"x{n}" for n in range(EXPORT_LANED + 5)))
    world.put_at(7, "high1", "high2")
    pause_there(world)
    world.put("new", queue=THERE)
    world.put_in("x", "xnew", queue=THERE)
    world.put_at(7, "highnew", queue=THERE)
    done = move(world)
    assert (done.jobs, done.there, done.is_over) == (len(old) + EXPORT_LANED + 5 + 2, [], True)
    assert world.counts() == {}
    ids = drained(world)
    assert [id for id in ids if id.startswith("high")] == ["high1", "high2", "highnew"]
    assert [id for id in ids if id.startswith("x")] == [*(f"x{n}" for n in range(EXPORT_LANED + 5)), "xnew"]
    assert [id for id in ids if id.startswith("a") or id == "new"] == [*old, "new"]


def test_a_job_keeps_its_attempts_errors_headers_times_and_records(world: World) -> None:
    world.put("retry", task="t", headers={"tenant": "7"}, timeout_ms=5_000, retries=9)
    world.put("failed", "broken", task="t")
    world.put("cancelled", "stray", task="t")
    world.cancel("cancelled", "no need")
    leases = {lease.record.id: lease for lease in world.take(10)}
    outcomes: dict[str, Outcome] = {
        "retry": Retried(BOOM, 60_000),
        "failed": Failed(BOOM),
        "broken": Broken(BOOM),
        "stray": Unroutable(),
    }
    world.settle_each([leases[id] for id in outcomes], *outcomes.values())
    world.put("late", delay_ms=90_000)
    before = {id: world.view(id) for id in ("retry", "failed", "broken", "cancelled", "late")}
    assert move(world).jobs == 6
    assert world.counts() == {}
    for id, was in before.items():
        now = world.view(id, THERE)
        assert now == replace(was, queue=THERE, token=now.token), id
        assert now.earlier_errors == was.earlier_errors
    assert world.state("stray", THERE) is State.READY
    assert all(world.run(world.engine.retry(THERE, id)) for id in ("failed", "broken", "cancelled", "retry"))
    assert sorted(drained(world)) == ["broken", "cancelled", "failed", "retry", "stray"]


def busy_queue(world: World) -> list[str]:
    """A queue with something of all that moves. Answers the ids of the jobs that have not ended."""
    world.put("p1", "p2", "p3")
    world.put_in("x", "x1", "x2", "x3")
    world.put_in("y", "y1", "y2")
    world.put_at(5, "h1")
    world.put_only("u1", "k")
    world.put("later", delay_ms=60_000)
    leases = {lease.record.id: lease for lease in world.take(10)}
    for id, lease in leases.items():
        world.settle(lease, Failed(BOOM) if id == "p1" else Retried(BOOM, 60_000 if id == "y1" else 0))
    return ["p2", "p3", "x1", "x2", "x3", "y1", "y2", "h1", "u1", "later"]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("k", range(1, 25))
def test_it_may_be_killed_between_any_two_calls(world: World, k: int, after: bool) -> None:
    ids = busy_queue(world)
    pause_there(world)
    world.put_in("x", "x4", queue=THERE)
    world.put_in("y", "y3", queue=THERE)
    calls = 0

    def cut(number: int, call: object, send: Any) -> object:
        nonlocal calls
        calls += 1
        if calls < k:
            return send(call)
        if after:
            send(call)
        raise Crashed

    session = Session("s")
    with contextlib.suppress(Crashed):
        sides(world, lambda steps: step(steps, session, send_with(world.driver), cut)).run(first=True)
    # Workers of both sides go on meanwhile.
    ran = world.drain("q") if k % 2 else []
    ran += drained(world)
    world.put("z")  # by a producer that has not switched
    move(world)
    ran += drained(world)
    assert world.run(world.engine.retry(THERE, "y1"))
    assert world.run(world.engine.retry(THERE, "later"))
    ran += drained(world)
    assert sorted(ran) == sorted([*ids, "x4", "y3", "z"])
    for lane in "xy":
        assert [id for id in ran if id[0] == lane] == sorted(id for id in ran if id[0] == lane)
    assert world.state("p1", THERE) is State.FAILED
    assert world.counts() == {}
    assert world.lanes(LaneState.PARKED) == []


def test_a_lane_waits_until_its_job_at_the_source_has_ended(world: World) -> None:
    world.put_in("x", "x1", "x2")
    held = world.take_one()
    pause_there(world)
    world.put_in("x", "x3", queue=THERE)
    world.put_in("z", "z1", queue=THERE)
    done = move(world)
    assert (done.jobs, done.is_over, done.left[State.ACTIVE]) == (1, False, 1)
    assert drained(world) == ["z1"]
    world.settle(held, Retried(BOOM))
    assert move(world, first=False).is_over
    assert drained(world) == ["x1", "x2", "x3"]


def test_a_lane_with_only_a_held_job_waits_as_well(world: World) -> None:
    world.put_in("x", "x1")
    held = world.take_one()
    pause_there(world)
    world.put_in("x", "x2", queue=THERE)
    move(world)
    assert drained(world) == []
    world.finish(held)
    assert move(world, first=False).is_over
    assert drained(world) == ["x2"]


def test_a_lane_waits_between_two_pages_of_its_jobs(world: World) -> None:
    ids = [f"x{n:03}" for n in range(EXPORT_LANED + 5)]
    world.put_in("x", *ids)
    page = NativeTransfer(world.engine.native)
    world.run(move_page(page, "q", page, THERE))
    assert drained(world) == []
    move(world, first=False)
    assert drained(world) == ids


def test_a_lane_waits_for_a_job_that_returns_before_the_lane_is_closed(world: World) -> None:
    world.put_in("x", "x1")
    held = [world.take_one()]
    pause_there(world)
    world.put_in("x", "x2", queue=THERE)

    def cut(number: int, call: object, send: Any) -> object:
        if held and isinstance(call, Invoke) and call.script == world.engine.native.scripts["lanes"]:
            world.settle(held.pop(), Retried(BOOM))
        return send(call)

    session = Session("s")
    sides(world, lambda steps: step(steps, session, send_with(world.driver), cut)).run(first=True)
    assert not held
    assert drained(world) == []
    assert move(world, first=False).is_over
    assert drained(world) == ["x1", "x2"]


def test_a_lane_on_hold_moves_with_its_jobs(world: World) -> None:
    """Who cancelled its jobs was killed after the first call."""
    ids = [f"x{n:04}" for n in range(400)]
    world.put_in("x", *ids)
    stop_after(1, world.engine.cancel_all("q", "x"), world.driver)
    waiting = world.counts()["ready"]
    assert waiting
    assert move(world).is_over
    assert world.counts() == {}
    assert drained(world) == ids[-waiting:]


def test_a_turn_of_a_lane_without_jobs_ends_no_migration(world: World) -> None:
    world.put_in("x", "x1")
    world.command("LPUSH", world.key("turns"), "gone")
    assert move(world).jobs == 1
    assert drained(world) == ["x1"]


def test_blocked_and_parked_lanes_stay_so(world: World) -> None:
    world.configure(lane_failure=LaneFailure.BLOCK, max_length=50)
    world.put_in("x", "x1", "x2")
    world.put_in("y", "y1")
    world.put_in("z", "z1")
    leases = {lease.record.id: lease for lease in world.take(2)}
    world.settle(leases["x1"], Failed(BOOM))
    world.finish(leases["y1"])
    for lane in ("y", "z"):
        world.run(world.engine.lanes.park_lane("q", lane))
    move(world)
    assert drained(world) == []
    settings = world.run(world.engine.settings_of(THERE))
    assert (settings.lane_failure, settings.max_length, settings.paused) == (LaneFailure.BLOCK, 50, False)
    assert world.run(world.engine.lanes.lane(THERE, "x")).blocked_by == "x1"
    assert {world.run(world.engine.lanes.lane(THERE, lane)).state for lane in ("y", "z")} == {LaneState.PARKED}
    assert world.run(world.engine.retry(THERE, "x1"))
    assert drained(world) == ["x1", "x2"]
    assert world.run(world.engine.lanes.resume_lane(THERE, "z"))
    assert drained(world) == ["z1"]
    assert world.lanes(LaneState.PARKED) == []
    world.run(world.engine.lanes.resume_lane(THERE, "y"))


def test_what_has_no_room_stays_in_front_of_what_moved(world: World) -> None:
    world.put_in("x", "x1", "x2", "x3", "x4")
    world.run(world.engine.settings.configure(THERE, max_length=3))
    transfer = sides(world)
    with pytest.raises(QueueFull):
        transfer.run(first=True)
    assert (transfer.done.jobs, transfer.left()) == (3, {State.READY: 1})
    assert drained(world) == []
    assert world.drain("q") == ["x1"]
    assert move(world).is_over
    assert drained(world) == ["x2", "x3", "x4"]


def test_without_room_all_stays_as_it_was(world: World) -> None:
    world.put("a", "b", "c")
    world.put_in("x", "x1", "x2", "x3")
    world.put("there", queue=THERE)
    world.run(world.engine.settings.configure(THERE, max_length=1))
    with pytest.raises(QueueFull):
        move(world)
    ids = world.drain("q")
    assert ([id for id in ids if id[0] == "x"], [id for id in ids if id[0] != "x"]) == (
        ["x1", "x2", "x3"],
        ["a", "b", "c"],
    )


@pytest.mark.parametrize("state", [State.READY, State.COMPLETED])
def test_a_job_that_is_enqueued_again_during_a_move_is_not_returned_as_well(world: World, state: State) -> None:
    world.put_in("x", "x1", "x2", limit=2, own_id=True)
    world.put("a", own_id=True)
    transfer = NativeTransfer(world.engine.native)
    page = world.run(transfer.export("q", "there"))
    world.put_in("x", "x1", limit=2, own_id=True)
    if state is State.COMPLETED:
        world.settle(world.take_one(), Completed(b"", 60_000))
    world.run(transfer.end_export("q", page, None))
    leases = [lease for worker in ("w1", "w2", "w3", "w4") for lease in world.take(1, worker)]
    held = sorted(lease.record.id for lease in leases)
    assert held == (["a", "x1", "x2"] if state is State.READY else ["a", "x2"])
    world.finish(*leases)
    assert world.lanes(LaneState.BUSY) == []


def test_a_job_that_waits_for_one_that_is_not_returned_has_their_key(world: World) -> None:
    world.put_only("first", "k", own_id=True)
    held = world.take_one()
    world.put_only("second", "k", conflict=Conflict.RERUN)
    world.settle(held, Retried(BOOM, 60_000))
    transfer = NativeTransfer(world.engine.native)
    page = world.run(transfer.export("q", "there"))
    world.put("first", own_id=True)
    world.run(transfer.end_export("q", page, None))
    third = world.put_only("third", "k")
    assert (third.created, third.id) == (False, "second")
    assert sorted(world.drain()) == ["first", "second"]
    assert world.is_free("k")


def test_tombstones_do_not_move_and_hide_nothing(world: World) -> None:
    world.put("a", "b", "c", "x2", own_id=True)
    world.put_in("x", "x1", own_id=True)
    for id in ("b", "x2", "x1"):
        assert world.discard(id)
    world.put("b", own_id=True)
    world.put_in("x", "x1", "x2", "x3", own_id=True)
    assert move(world).jobs == 6
    world.put("b", own_id=True)
    assert world.drain("q") == ["b"]
    ids = drained(world)
    assert [id for id in ids if id[0] == "x"] == ["x1", "x2", "x3"]
    assert [id for id in ids if id[0] != "x"] == ["a", "c", "b"]


def test_a_unique_key_stays_with_its_job_unless_a_new_job_has_it(world: World) -> None:
    world.put_only("u1", "k")
    world.put_only("w1", "taken")
    taken = NewJob(THERE, "w2", b"p", shape=Shape(unique=UniqueRule("taken")))
    assert world.enqueue([taken])[0].created
    assert move(world).jobs == 2
    again = world.enqueue([NewJob(THERE, "u2", b"p", shape=Shape(unique=UniqueRule("k")))])[0]
    assert (again.created, again.id) == (False, "u1")
    assert sorted(drained(world)) == ["u1", "w1", "w2"]
    assert world.enqueue([NewJob(THERE, "u3", b"p", shape=Shape(unique=UniqueRule("k")))])[0].created
    drained(world)


def test_a_job_that_waits_for_another_one_with_its_key_moves_behind_it(world: World) -> None:
    world.put_only("u1", "k")
    held = world.take_one()
    world.put_only("u2", "k", conflict=Conflict.RERUN)
    assert move(world).jobs == 0
    world.settle(held, Retried(BOOM, 60_000))
    assert move(world).jobs == 2
    assert world.run(world.engine.retry(THERE, "u1"))
    leases = world.take(5, queues=(THERE,))
    assert [lease.record.id for lease in leases] == ["u1"]
    world.finish(*leases)
    assert drained(world) == ["u2"]


def test_an_id_that_is_there_is_the_same_job(world: World) -> None:
    world.put("a", "b", own_id=True)
    world.put("a", queue=THERE, own_id=True)
    done = move(world)
    assert (done.jobs, done.there) == (1, ["a"])
    assert sorted(drained(world)) == ["a", "b"]


@pytest.mark.parametrize("lane", [None, "x"])
def test_a_page_looks_at_a_limited_number_of_tombstones(world: World, lane: str | None) -> None:
    ids = [f"c{n}" for n in range(25)]
    world.put("a", *ids, "b", shape=Shape(lane=lane))
    for id in ids:
        world.cancel(id)
    pages: list[int] = []

    class Counted(NativeTransfer):
        def export(self, queue: str, to: str, limit: int = EXPORT_LANED) -> Steps[Page[Row]]:
            page = yield from super().export(queue, to, limit)
            pages.append(len(page.jobs))
            return page

    transfer = Counted(world.engine.native, looks=10)
    side, there = (Side(world.run, world.engine, transfer, queue) for queue in ("q", THERE))
    Transfer(side, there).run(first=True)
    assert pages == [1, 0, 1 + len(ids), 0]
    assert drained(world) == ["a", "b"]
    assert world.view("c1", THERE).state is State.CANCELLED


def test_suspects_move_with_their_crashes(world: World) -> None:
    world.put("a")
    for _ in range(2):
        world.take_one("dead")
        world.silence()
    crashes = world.view("a").crashes
    assert crashes
    move(world)
    assert world.view("a", THERE).crashes == crashes
    assert drained(world) == ["a"]


def test_a_paused_source_leaves_the_destination_paused(world: World) -> None:
    world.put("a")
    world.configure(paused=True)
    move(world)
    assert drained(world) == []
    world.run(world.engine.settings.configure(THERE, paused=False))
    assert drained(world) == ["a"]
    world.configure(paused=False)


def to_cluster(world: World) -> tuple[Transfer, PartitionedEngine]:
    """From `q` to `there` with the engine for clusters, which has limits at other keys."""
    engine = PartitionedEngine(NAMESPACE, world.engine.config, NativeClusterEngine)
    here = Side(world.run, world.engine, NativeTransfer(world.engine.native), "q")
    return Transfer(here, Side(world.run, engine, NativeTransfer(engine.native), THERE)), engine


@pytest.mark.parametrize("state", [State.READY, State.FAILED])
def test_jobs_and_records_with_limits_move_to_a_queue_of_a_cluster(world: World, state: State) -> None:
    narrow = LimitRule("tenant:7", concurrency=1, template="tenant:{tenant}")
    world.put("a", "b", shape=Shape(limits=(narrow,), share="x"))
    if state is State.FAILED:
        for _ in "ab":
            world.settle(world.take_one(), Failed(BOOM))
    transfer, there = to_cluster(world)
    world.run(there.limits.set_share("x", 3))
    assert transfer.run(first=True).jobs == 2
    if state is State.FAILED:
        assert all(world.run(there.retry(THERE, id)) for id in "ab")
    assert len(world.run(there.lease("w", [THERE], 2)).leases) == 1
    assert world.run(there.limits.limit("tenant:7")).active == 1
    with pytest.raises(UnsupportedFeature, match="belongs to one queue"):
        world.run(there.enqueue([NewJob("other", "c", b"", shape=Shape(limits=(narrow,)))]))


def test_jobs_with_a_limit_of_another_queue_of_the_cluster_stay(world: World) -> None:
    narrow = Shape(limits=(LimitRule("narrow", concurrency=1),))
    world.put("a", "b", shape=narrow)
    transfer, there = to_cluster(world)
    world.run(there.enqueue([NewJob("other", "c", b"", shape=narrow)]))
    with pytest.raises(UnsupportedFeature, match=r"used by queue 'there', and 'narrow' by queue 'other'.* workers of"):
        transfer.run(first=False)
    assert world.drain("q") == ["a", "b"]
    assert world.run(there.lease("w", [THERE], 2)).leases == ()


def test_the_source_keeps_a_page_until_the_replicas_of_the_destination_have_it(world: World) -> None:
    world.put("a", "b")
    transfer = NativeTransfer(world.engine.native)
    side, there = (Side(world.run, world.engine, transfer, queue, replicas=1) for queue in ("q", THERE))
    durable = Transfer(side, there)
    with pytest.raises(NotDurable):
        durable.run(first=False)
    assert durable.left() == {State.READY: 2}
    assert world.drain("q") == []
    assert move(world).jobs == 2
    assert drained(world) == ["a", "b"]


def test_a_queue_does_not_move_to_itself(world: World) -> None:
    world.put("a", "b")
    side = Side(world.run, world.engine, NativeTransfer(world.engine.native), "q")
    with pytest.raises(InvalidArgument, match="on their way"):
        Transfer(side, side).run(first=False)
    assert world.drain("q") == ["a", "b"]


def schedule(world: World, queue: str, name: str) -> StoredSchedule | None:
    found: StoredSchedule | None = world.run(world.engine.schedules.schedule(queue, name))[1]
    return found


def test_schedules_move_with_their_next_tick_and_tick_on_one_side_only(world: World) -> None:
    now_ms = world.run(world.engine.schedules.schedule("q", "none"))[0]
    tick_ms = now_ms + 60_000
    for name, source in (("own", ""), ("paused", ""), ("code", "shop:app")):
        spec = ScheduleSpec(name=name, queue="q", every_ms=60_000, source=source)
        assert world.run(world.engine.schedules.put_schedule(spec, f"d-{name}", "", tick_ms, tick_ms))
    world.run(world.engine.schedules.pause_schedule("q", "paused", "too loud"))
    assert (move(world).schedules, move(world).schedules) == (3, 0)
    assert schedule(world, "q", "own") is schedule(world, "q", "paused") is None
    kept, own, code, paused = (
        schedule(world, queue, name)
        for queue, name in (("q", "code"), (THERE, "own"), (THERE, "code"), (THERE, "paused"))
    )
    assert kept
    assert own
    assert code
    assert paused
    assert kept.state.paused_ms
    assert {(one.state.planned_ms, one.state.paused_ms) for one in (own, code)} == {(tick_ms, 0)}
    assert (paused.state.reason, bool(paused.state.paused_ms)) == ("too loud", True)
    other = ScheduleSpec(name="own", queue="q", every_ms=30_000)
    assert world.run(world.engine.schedules.put_schedule(other, "d-other", "", tick_ms, tick_ms))
    assert move(world).kept_schedules == ["own"]
    for queue, name in (("q", "own"), ("q", "code"), (THERE, "own"), (THERE, "code"), (THERE, "paused")):
        world.run(world.engine.schedules.remove_schedule(queue, name))


def test_what_follows_a_job_moves_with_it(world: World) -> None:
    flows = world.engine.flows
    assert flows is not None
    world.put("waits")
    world.put("failed")
    world.settle(next(lease for lease in world.take() if lease.record.id == "failed"), Failed(BOOM))
    world.leave()
    for id in ("waits", "failed"):
        follower = NewJob("after", f"after-{id}", b"p")
        assert world.run(flows.follow("q", id, follower)) is (State.READY if id == "waits" else State.FAILED)
    assert move(world).is_over
    assert drained(world) == ["waits"]
    world.maintain(queue=THERE)
    assert world.take_ids(queues=("after",)) == ["after-waits"]


def test_groups_and_their_members_do_not_move(world: World) -> None:
    flows = world.engine.flows
    assert flows is not None
    world.run(flows.open_flow(NewFlow("q", "F", 60_000)))
    with pytest.raises(UnsupportedFeature, match="has 1 open flows, which do not move"):
        move(world)
    world.run(flows.forget_flow("q", "F"))
    world.put("F.0", shape=Shape(flow=membership("home", results=False)))
    with pytest.raises(UnsupportedFeature, match="is a member of the flow 'home/F'"):
        move(world)
    assert world.drain() == ["F.0"]
