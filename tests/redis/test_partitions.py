"""Queues in several partitions, on one server: to its users, such a queue is one queue."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import pytest

from tenure import Tenure
from tenure.core.errors import InvalidArgument, Unreachable, UnsupportedFeature
from tenure.core.flows import Callback, NewFlow, membership
from tenure.core.job import Lease, LeaseRef, NewJob, Refused, State
from tenure.core.outcome import Completed, Failed, Retried
from tenure.core.partitions import home_of, place_of
from tenure.core.shape import CancelAnswer, LaneState, Progress, Shape, UniqueRule
from tenure.core.worker_view import WorkerView
from tenure.engines.native import NativeEngine
from tenure.engines.native.partitions.turns import Turns
from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer
from tests.support.engines import NATIVE
from tests.support.stepping import without
from tests.support.world import BOOM, World

PARTITIONS = 4
LANES = [f"lane-{n}" for n in range(12)]


@pytest.fixture
def world(server: RedisServer) -> Iterator[World]:
    driver = SyncDriver(server.url)
    world = World(NATIVE, server, driver)
    world.engine.partitions.want_partitions("q", PARTITIONS)
    yield world
    driver.close()


def other(world: World, wanted: int = PARTITIONS) -> World:
    """Another process."""
    there = World(world.entry, world.server, world.driver)
    there.engine.partitions.want_partitions("q", wanted)
    return there


def ids(count: int) -> list[str]:
    return [f"id-{n}" for n in range(count)]


def take_all(world: World, worker: str = "w") -> list[str]:
    """Claim and complete until nothing is left."""
    taken: list[str] = []
    while leases := world.take(7, worker):
        world.finish(*leases)
        taken += [lease.record.id for lease in leases]
    return taken


def test_jobs_spread_and_each_is_claimed_once(world: World) -> None:
    world.put(*ids(200))
    lengths = [world.command("LLEN", world.key("ready", place_of("q", n))) for n in range(PARTITIONS)]
    assert sum(lengths) == 200
    assert min(lengths) > 20
    assert world.counts() == {"ready": 200}
    assert Counter(take_all(world)) == Counter(ids(200))
    assert world.run(world.engine.queues()) == ["q"]


def test_lanes_keep_their_order_with_two_workers(world: World) -> None:
    for number in range(10):
        for lane in LANES:
            world.put_in(lane, f"{lane} {number:02}")
    assert {home_of(f"lane {lane}", PARTITIONS) for lane in LANES} == set(range(PARTITIONS))
    second, ran = other(world), []
    for _ in range(500):
        for one, worker in ((world, "a"), (second, "b")):
            leases = one.take(3, worker)
            lanes = [lease.record.shape.lane for lease in leases]
            assert len(lanes) == len(set(lanes)), "one job of a lane runs at a time"
            ran += [lease.record.id for lease in leases]
            one.finish(*leases)
        if len(ran) == 120:
            break
    for lane in LANES:
        assert [id for id in ran if id.startswith(f"{lane} ")] == [f"{lane} {number:02}" for number in range(10)]


def test_the_number_in_redis_counts(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.put("a")
    there = other(world, wanted=8)
    for _ in range(2):
        there.put("b")
    assert there.run(there.engine.partitions.partition_count("q")) == PARTITIONS
    assert caplog.text.count("partitions_differ queue=q code=8 redis=4") == 1
    assert World(world.entry, world.server, world.driver).counts() == {"ready": 2}


def test_a_queue_that_was_used_without_partitions_gets_none(world: World) -> None:
    there = World(world.entry, world.server, world.driver)
    there.put("a")
    world.put("b")
    assert world.run(world.engine.partitions.partition_count("q")) == 1
    assert world.drain() == ["a", "b"]


def test_a_number_that_redis_has_lost_is_that_of_the_processes(world: World) -> None:
    world.put("a")
    world.command("FLUSHALL")
    World(world.entry, world.server, world.driver).put("b")  # a process that does not declare it is the first
    world.engine.maps._known = {
        queue: known._replace(until=0.0) for queue, known in world.engine.maps._known.items()
    }  # time passes
    world.put("c")
    assert sorted(take_all(other(world))) == ["b", "c"]


def test_a_job_is_found_by_its_id_wherever_it_is(world: World) -> None:
    names = dict(zip(ids(12), LANES, strict=True))
    for id, lane in names.items():
        world.put_in(lane, id)
    there = other(world)
    for id in names:
        view = there.view(id)
        assert (view.queue, view.state) == ("q", State.READY)
        result = there.run(there.engine.results.result("q", id))
        assert result is not None
        assert result.queue == "q"
    assert there.run(there.engine.delays.reschedule("q", "id-1", delay_ms=60_000))
    assert there.state("id-1") is State.SCHEDULED
    assert there.cancel("id-0") is CancelAnswer.CANCELLED
    assert there.state("id-0") is State.CANCELLED
    assert there.retry("id-0")
    assert there.state("id-0") is State.READY
    assert there.discard("id-0")
    assert there.job("id-0") is None
    assert not there.retry("id-0")


def test_an_id_of_the_callers_own_exists_once(world: World) -> None:
    assert world.put("mine", own_id=True) == [True]
    assert other(world).put("mine", own_id=True) == [False]


def test_an_edit_that_would_change_a_unique_key_is_refused(world: World) -> None:
    world.put_only("a", delay_ms=60_000)
    before = world.dump()
    with pytest.raises(UnsupportedFeature, match="Discard the job and enqueue it again"):
        world.run(other(world).engine.retry("q", "a", b"new", Shape(unique=UniqueRule("new"))))
    assert world.dump() == before
    assert world.run(world.engine.retry("q", "a", b"new", Shape()))


def test_a_unique_key_is_unique_in_the_whole_queue(world: World) -> None:
    job = [NewJob("q", f"u{n}", b"p", shape=Shape(unique=UniqueRule("key"))) for n in range(8)]
    assert [answer.created for one in job for answer in other(world).enqueue([one])] == [True] + [False] * 7


@pytest.mark.parametrize(
    "shape", [Shape(lane="a", unique=UniqueRule("k")), Shape(share="a")], ids=["lane and key", "share"]
)
def test_what_needs_two_partitions_is_refused(world: World, shape: Shape) -> None:
    with pytest.raises(UnsupportedFeature, match="partitions"):
        world.enqueue([NewJob("q", "x", b"p", shape=shape)])
    assert world.counts() == {}


def test_pages_show_each_job_once(world: World) -> None:
    world.put(*ids(25))
    seen, after = [], None
    for _ in range(40):
        page = world.run(world.engine.page("q", State.READY, limit=4, after=after))
        seen += [job.id for job in page.jobs]
        assert {job.queue for job in page.jobs} <= {"q"}
        assert page.total == 25
        after = page.next
        if after is None:
            break
    assert sorted(seen) == sorted(ids(25))
    assert len(world.run(world.engine.page("q", State.READY, offset=10, limit=3)).jobs) == 3
    with pytest.raises(InvalidArgument, match="cursor"):
        world.run(world.engine.page("q", State.READY, after="9:x"))


def test_lanes_are_listed_parked_and_resumed(world: World) -> None:
    for lane in LANES:
        world.put_in(lane, f"job of {lane}")
    assert sorted(world.lanes(LaneState.READY)) == sorted(LANES)
    assert world.run(world.engine.lanes.park_lane("q", LANES[3]))
    assert world.lane(LANES[3]).state is LaneState.PARKED
    assert world.lanes(LaneState.PARKED) == [LANES[3]]
    assert f"job of {LANES[3]}" not in take_all(world)
    assert world.resume_lane(LANES[3])
    assert take_all(world) == [f"job of {LANES[3]}"]


def test_purge_and_cancel_reach_all_partitions(world: World) -> None:
    world.put(*ids(20))
    assert world.cancel_all().cancelled == 20
    assert world.counts() == {"cancelled": 20}
    assert world.purge(State.CANCELLED) == 20
    assert world.counts() == {}


def test_the_maximum_length_is_shared_out(world: World) -> None:
    assert world.configure(max_length=10).max_length == 10
    assert world.run(world.engine.settings_of("q")).max_length == 10
    with pytest.raises(InvalidArgument, match="at least 4"):
        world.configure(max_length=3)
    assert world.configure(max_length=0).max_length == 0


def test_a_paused_queue_starts_nothing(world: World) -> None:
    world.put(*ids(8))
    assert world.configure(paused=True).paused
    assert world.take() == []
    assert not world.configure(paused=False).paused
    assert sorted(take_all(world)) == ids(8)


def test_one_job_wakes_one_of_the_workers_that_wait(world: World) -> None:
    workers = [other(world) for _ in range(2)]
    for number, worker in enumerate(workers):
        assert worker.take(1, f"w{number}") == []  # looks everywhere once
    woken: list[int] = []

    def wait(number: int) -> None:
        driver = SyncDriver(world.server.url)
        with_own = World(world.entry, world.server, driver)
        with_own.engine = workers[number].engine
        if with_own.wait(["q"], 3_000) == "q":
            woken.append(number)
        driver.close()

    threads = [threading.Thread(target=wait, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    world.until(lambda: "blocked_clients:2" in world.command("INFO", "clients").decode())
    world.put("only")
    for thread in threads:
        thread.join()
    assert len(woken) == 1
    assert workers[woken[0]].take_ids(1, f"w{woken[0]}") == ["only"]


def test_a_job_whose_producer_died_before_it_woke_a_worker_is_found(world: World) -> None:
    assert world.take() == []
    lone = NativeEngine("test")
    place = place_of("q", home_of("lost", PARTITIONS))
    world.run(lone.add_to(place, [NewJob("q", "lost", b"p")], [0], {}, lone.add))  # all that it did
    assert world.until(world.take_ids) == ["lost"]


def test_a_job_that_a_lane_makes_ready_wakes_a_worker_that_waits(world: World) -> None:
    world.put_in("a", "first")
    world.put_in("a", "second")
    (first,) = world.take()
    there = other(world)
    assert there.take() == []
    world.engine._claims.clear()  # settled by hand: the process claims nothing
    world.finish(first)
    assert there.wait(["q"], 3_000) == "q"
    assert there.take_ids() == ["second"]


def test_a_retry_waits_for_its_delay(world: World) -> None:
    world.put("a")
    world.settle(world.take_one(), Retried(BOOM, 60_000))
    assert world.counts() == {"scheduled": 1}
    assert world.lease().next_ms is not None
    assert world.retry("a")
    assert world.wait(["q"], 3_000) == "q"
    assert world.until(world.take_ids) == ["a"]


def test_an_earlier_time_is_told_to_a_worker(world: World) -> None:
    world.put("a", delay_ms=60_000)
    assert world.lease().next_ms is not None
    assert other(world).run(other(world).engine.delays.reschedule("q", "a", delay_ms=0, priority=3))
    assert world.wait(["q"], 3_000) == "q"
    (lease,) = world.until(world.take)
    assert lease.record.shape.priority == 3


def test_failed_jobs_are_counted_together(world: World) -> None:
    world.put(*ids(6))
    for lease in world.take():
        world.settle(lease, Failed(BOOM))
    assert world.counts() == {"failed": 6}
    assert world.totals()["failed"] == 6


def test_heartbeats_keep_and_find_leases_of_all_partitions(world: World) -> None:
    world.put(*ids(12))
    leases = world.take(6)
    assert len({lease.partition for lease in leases}) > 1
    lost = leases[0]
    assert world.settle(lost)
    reply = world.beat("w", leases)
    assert reply.lost == {lost.ref}
    others = {lease.ref for lease in leases[1:]}
    assert world.until(lambda: {lease.ref for lease in world.beat("w").orphaned} == others)
    assert world.leave("w") == 5
    assert world.counts()["ready"] == 11


def of_nine(world: World) -> tuple[World, list[Lease]]:
    """A process, and the jobs of a worker that holds some in most of the nine partitions of a queue."""
    there = World(world.entry, world.server, world.driver)
    there.engine.partitions.want_partitions("nine", 9)
    there.put(*ids(60), queue="nine")
    leases = [lease for _ in range(20) for lease in there.take(2, "w", ("nine",))]
    assert len({lease.partition for lease in leases}) > 3
    return there, leases


def test_each_heartbeat_reaches_all_partitions_that_hold_jobs(world: World) -> None:
    there, leases = of_nine(world)
    while leases:
        lost, *leases = leases
        assert there.settle(lost)
        assert there.beat("w", [lost, *leases], ("nine",)).lost == {lost.ref}


def test_three_heartbeats_find_what_a_worker_does_not_know_to_hold(world: World) -> None:
    there, leases = of_nine(world)

    def found_by_three(*kept: Lease) -> set[LeaseRef]:
        beats = [there.beat("w", kept, ("nine",)) for _ in range(3)]
        return {lease.ref for beat in beats for lease in beat.orphaned}

    all_refs = {lease.ref for lease in leases}
    there.until(
        lambda: {lease.ref for lease in there.beat("w", (), ("nine",)).orphaned} == all_refs
    )  # all are old enough
    for kept in leases[:3]:
        assert found_by_three(kept) == all_refs - {kept.ref}


def test_a_heartbeat_of_few_partitions_names_the_queue(world: World) -> None:
    there = World(world.entry, world.server, world.driver)
    there.engine.partitions.want_partitions("two", 2)
    there.put(*ids(8), queue="two")
    held = [lease for lease in there.take(8, queues=("two",)) if lease.partition == 1]
    there.run(there.engine.settings.configure("two", paused=True))
    assert {name for _ in range(4) for name in there.beat("w", held, ("two",)).paused} == {"two"}


def test_jobs_of_a_dead_worker_come_back_from_all_partitions(world: World) -> None:
    world.put(*ids(12))
    assert len(world.take(12, "dead")) == 12
    world.silence()
    for place in range(1, PARTITIONS):
        world.silence(place_of("q", place))
    there, back = other(world), []
    for _ in range(20):
        there.maintain()
        back += there.take_ids(12, "alive")
        if len(back) == 12:
            break
        world.pass_time(3_000)
    assert sorted(back) == sorted(ids(12))


def test_few_claims_find_nothing_while_there_is_work(world: World) -> None:
    workers = [(other(world), f"w{n}") for n in range(3)]
    world.put(*ids(400))
    claims = empty = 0
    while world.counts().get("ready", 0) > 10:
        for one, name in workers:
            leases = one.take(2, name)
            claims, empty = claims + 1, empty + (not leases)
            one.finish(*leases)
    assert claims > 150
    assert empty / claims < 0.05


def test_an_app_declares_its_partitions(redis_url: str) -> None:
    with Tenure(redis_url, namespace="parted") as app:
        app.queue_options("orders", partitions=3)

        @app.task(name="pack", queue="orders")
        def pack(number: int) -> int:
            return number

        handles = pack.enqueue_many(pack.call(n) for n in range(30))
        assert app.inspect.queue("orders").partitions == 3
        assert app.testing().drain().completed == 30
        assert [handle.result(timeout=5) for handle in handles] == list(range(30))
        with pytest.raises(InvalidArgument, match="256"):
            app.queue_options("orders", partitions=257)


def test_other_formats_have_no_partitions() -> None:
    with Tenure("redis://127.0.0.1:1", protocol="hworker:jobs") as app, pytest.raises(UnsupportedFeature):
        app.queue_options("default", partitions=2)


def test_growing_moves_keys_only_to_new_partitions() -> None:
    keys = [f"customer:{n}" for n in range(500)]
    for fewer, more in pairwise((1, 2, 3, 8, 16)):
        for key in keys:
            before, after = home_of(key, fewer), home_of(key, more)
            assert after == before or after >= fewer


def test_a_partition_that_redis_refuses_leaves_the_others(world: World) -> None:
    world.put(*ids(40))
    kept = {id for id in ids(40) if home_of(id, PARTITIONS) != 2}
    world.command("RENAME", world.key("jobs", "q/2"), "aside")
    world.spoil("q/2")
    refused: list[Refused] = []
    taken: list[str] = []
    for _ in range(40):
        leased = world.lease(5)
        refused += leased.refused
        taken += [lease.record.id for lease in leased.leases]
        world.finish(*leased.leases)
    assert set(taken) == kept
    assert [(one.queue, one.partition) for one in refused] == [("q", 2)]


def test_what_is_done_in_a_partition_is_answered_though_the_node_of_the_first_one_is_lost(world: World) -> None:
    world.put("first")
    world.finish(*world.take())
    first = [world.engine.prefix("q")]
    id = next(id for id in ids(40) if home_of(id, PARTITIONS) == 2)
    [answer] = world.run(without(first, world.engine.enqueue([NewJob("q", id, b"p")])))
    assert answer.created
    leased = world.run(without(first, world.engine.lease("w", ["q"], 1)))
    assert [lease.record.id for lease in leased.leases] == [id]
    assert world.run(without(first, world.engine.settle([(leased.leases[0], Retried(BOOM, 0))]))) == [True]


def test_a_queue_is_paused_and_cancelled_where_its_nodes_can_be_reached(world: World) -> None:
    world.put(*ids(40))
    lost = [world.engine.prefix("q/1")]
    for steps in (world.engine.settings.configure("q", paused=True), world.engine.cancel_all("q")):
        with pytest.raises(Unreachable, match="The partitions on other nodes are done"):
            world.run(without(lost, steps))
    for partition in range(PARTITIONS):
        settings = world.command("HGET", world.key("settings", place_of("q", partition)), "paused")
        jobs = world.command("HLEN", world.key("jobs", place_of("q", partition)))
        assert (settings, jobs > 0) == ((None, True) if partition == 1 else (b"1", False))


def test_a_queue_is_shown_without_the_partitions_on_a_lost_node(world: World) -> None:
    world.put(*ids(40))
    world.run(world.engine.announce(WorkerView("w", ("q",), "host", 1, 1, 1, 1)))
    held = Counter(lease.partition for lease in world.take(8))
    prefixes = [world.engine.prefix(place_of("q", n)) for n in range(PARTITIONS)]
    view = world.run(without([prefixes[0], prefixes[2]], world.engine.queue("q")))
    assert (view.partitions, view.unreachable) == (PARTITIONS, (0, 2))
    left = sum(home_of(id, PARTITIONS) in (1, 3) for id in ids(40))
    assert view.counts[State.READY] + view.counts[State.ACTIVE] == left
    assert view.oldest_ms is not None
    [worker] = world.run(without([prefixes[2]], world.engine.workers()))
    assert worker.active == 8 - held[2]
    with pytest.raises(Unreachable):
        world.run(without(prefixes, world.engine.queue("q")))
    with pytest.raises(Unreachable):  # else a change of the number would store a smaller maximum length
        world.run(without([prefixes[2]], world.engine.settings_of("q")))


def test_progress_and_end_of_a_job_are_published_on_the_channel_of_its_queue(world: World) -> None:
    world.put(*ids(12))
    leases = world.take(12)
    assert len({lease.partition for lease in leases}) > 1
    for lease in leases:
        id = lease.record.id
        world.run(world.engine.results.result("q", id))  # from now on its end is published
        with world.driver.subscribe(world.engine.results.result_channel("q", id)) as messages:
            assert world.run(world.engine.results.progress(lease, Progress(1)))
            assert messages.get(5.0) is not None
            world.finish(lease)
            assert messages.get(5.0) is not None


def test_threads_that_lease_by_hand_share_what_is_known() -> None:
    turns, failures = Turns(64), list[Exception]()

    def work() -> None:
        try:
            for number in range(300):
                for partition in turns.order(None):
                    turns.learn(partition, partition % 2, partition % 3 or None)
                turns.note(number % 64)
                turns.to_post()
                turns.next_ms()
        except Exception as error:
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert failures == []


def test_follow_ups_come_to_their_partitions_from_wherever(world: World) -> None:
    """Of a queue with partitions, of another queue, and of this one: a lookup finds each where it belongs."""
    plain, laned = ids(60), [f"l{n}" for n in range(12)]
    jobs = [NewJob("q", id, b"p") for id in plain]
    jobs += [NewJob("q", id, b"p", shape=Shape(lane=lane)) for id, lane in zip(laned, LANES, strict=True)]
    for source in ("q", "elsewhere"):
        world.put(f"first-{source}", queue=source)
        (lease,) = world.take(queues=(source,))
        part = tuple(jobs[::2] if source == "q" else jobs[1::2])
        assert world.settle(lease, Completed(b"", 0, part))
    assert world.counts() == {"ready": 72}
    for id in plain + laned:
        assert world.view(id).state is State.READY
    assert sorted(take_all(world)) == sorted(plain + laned)


def test_a_follow_up_that_no_partition_can_have_is_broken_and_kept(world: World) -> None:
    shape = Shape(lane="L", unique=UniqueRule("k"))
    world.put("first", queue="elsewhere")
    (lease,) = world.take(queues=("elsewhere",))
    assert world.settle(lease, Completed(b"", 0, (NewJob("q", "misfit", b"p", shape=shape), NewJob("q", "fits", b"p"))))
    view = world.view("misfit")
    assert (view.state, view.error and view.error.type) == (State.BROKEN, "UnsupportedFeature")
    assert take_all(world) == ["fits"]


def test_a_group_of_a_queue_with_partitions(world: World) -> None:
    flows = world.engine.flows
    world.run(flows.open_flow(NewFlow("q", "F", 60_000, on_end=Callback(NewJob("end", "end", b"[]")))))
    assert world.run(flows.grow_flow("q", "F", 40, ("q",))) == 0
    world.put(*(f"F.{n}" for n in range(40)), shape=Shape(flow=membership("q", results=False)))
    assert world.run(flows.seal_flow("q", "F"))
    assert len(take_all(world)) == 40
    assert world.take_ids(queues=("end",)) == ["end-1"]
