"""The number of partitions of a queue changes while producers and workers use it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

import pytest

from tenure import Every, Tenure
from tenure.core.errors import InvalidArgument, UnsupportedFeature
from tenure.core.job import NewJob, Repartition, State
from tenure.core.minutes import Ends
from tenure.core.outcome import Completed, Failed
from tenure.core.partitions import PartitionMap, home_of, place_of
from tenure.core.shape import Conflict, LaneFailure, LaneState, QueueSettings, Until
from tenure.engines.native.partitions.maps import KnownMap
from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer
from tests.redis.repartition import CHANGES, Change, map_of, other, run_all
from tests.support.engines import NATIVE
from tests.support.native import audit
from tests.support.stepping import stop_after
from tests.support.world import BOOM, NAMESPACE, World


@pytest.fixture
def world(server: RedisServer) -> Iterator[World]:
    driver = SyncDriver(server.url)
    yield World(NATIVE, server, driver)
    driver.close()
    assert audit(server, NAMESPACE) == []


def noop() -> None:
    """Do nothing."""


@pytest.mark.parametrize(("before", "number"), CHANGES)
def test_an_empty_queue_changes_at_once(world: World, before: int, number: int) -> None:
    change = Change(world, before)
    change.stale.put(*(f"id-{n}" for n in range(9)))
    run_all(change.stale)
    change.begin(number)
    change.end()
    assert world.totals()["completed"] == 10
    assert change.map.number == number
    change.stale.put(*(f"id-{n}" for n in range(30)))
    assert sorted(run_all(change.one)) == sorted(f"id-{n}" for n in range(30))


@pytest.mark.parametrize(("before", "number"), CHANGES)
def test_lanes_keep_their_order_through_a_change(world: World, before: int, number: int) -> None:
    change = Change(world, before)
    lanes = [f"lane-{n}" for n in range(16)]

    def put(numbers: range, by: World) -> None:
        for n in numbers:
            for lane in lanes:
                by.put_in(lane, f"{lane} {n:02}")

    put(range(3), change.stale)
    running = change.stale.take(8, "a")
    change.begin(number)
    put(range(3, 5), change.stale)  # it has the old map
    ran = [lease.record.id for lease in running]
    change.stale.finish(*running)
    workers = [(change.stale, "a"), (change.one, "b"), (other(world), "c")]
    for turn in range(400):
        one, worker = workers[turn % 3]
        leases = one.take(3, worker)
        ran += [lease.record.id for lease in leases]
        if turn % 7 == 0:
            one.maintain()
        if turn == 20:
            put(range(5, 7), change.one)
        if turn == 40:
            put(range(7, 8), other(world))
        one.finish(*leases)
        if len(ran) == 8 * len(lanes):
            break
    for lane in lanes:
        assert [id for id in ran if id.startswith(f"{lane} ")] == [f"{lane} {n:02}" for n in range(8)]
    change.end()
    assert world.counts() == {}


@pytest.mark.parametrize(("before", "number"), CHANGES)
def test_keys_and_ids_stay_unique_through_a_change(world: World, before: int, number: int) -> None:
    change = Change(world, before)
    names = [f"n{n}" for n in range(24)]

    def put(by: World, expected: bool) -> None:
        for name in names:
            kinds = {
                "id": by.put(f"own {name}", own_id=True)[0],
                "delayed id": by.put(f"delayed {name}", own_id=True, delay_ms=3_600_000)[0],
                "key": by.put_only(f"key {name} {expected}", f"key {name}").created,
                "delayed key": by.put_only(f"dk {name} {expected}", f"dk {name}", delay_ms=3_600_000).created,
                "window": by.put_only(
                    f"w {name} {expected}", f"w {name}", until=Until.WINDOW, window_ms=3_600_000
                ).created,
            }
            assert kinds == dict.fromkeys(kinds, expected), name

    put(change.stale, True)
    change.begin(number)
    put(change.stale, False)
    change.one.maintain()
    put(change.one, False)
    taken = run_all(change.one, Completed(b"r", 3_600_000))
    assert len(taken) == 3 * len(names)
    change.end()
    for name in names:
        assert not change.stale.put(f"own {name}", own_id=True)[0], "its record is kept"
        assert not change.stale.put(f"delayed {name}", own_id=True)[0]
        assert not change.stale.put_only("again", f"dk {name}").created
        assert not change.stale.put_only("again", f"w {name}").created
        assert change.stale.put_only(f"new {name}", f"key {name}").created
    assert world.counts() == {"ready": 24, "scheduled": 48, "completed": 72}


@pytest.mark.parametrize(("before", "number"), CHANGES)
def test_failed_records_and_delayed_jobs_move(world: World, before: int, number: int) -> None:
    change = Change(world, before)
    lanes = [f"lane-{n}" for n in range(12)]
    for lane in lanes:
        change.stale.put_in(lane, f"bad {lane}")
    run_all(change.stale, Failed(BOOM))
    for lane in lanes:
        change.stale.put_in(lane, f"late {lane}", delay_ms=3_600_000)
    change.begin(number)
    for lane in lanes[:4]:
        assert change.stale.retry(f"bad {lane}")
    run_all(change.one)
    change.end()
    for lane in lanes[4:]:
        assert change.one.view(f"bad {lane}").state is State.FAILED
        assert change.one.retry(f"bad {lane}")
        assert change.one.retry(f"late {lane}")
        homes = change.map.homes(f"lane {lane}")
        waiting = world.command("LLEN", world.key(f"lane:{lane}", place_of("q", homes[0])))
        assert waiting == 2
    assert world.counts() == {"ready": 16, "scheduled": 4}


@pytest.mark.parametrize(("before", "number"), CHANGES)
def test_a_process_may_die_after_each_call_of_a_change(world: World, before: int, number: int) -> None:
    for calls in itertools.count(1):
        world.command("FLUSHALL")
        change = Change(world, before)
        change.stale.put_in("lane", *(f"{n}" for n in range(3)))
        (first,) = change.stale.take()
        is_over = stop_after(calls, other(world).engine.partitions.repartition("q", number), world.driver)
        change.stale.put_in("lane", "3")
        change.one.put_in("lane", "4")
        change.stale.finish(first)
        assert run_all(change.one) == ["1", "2", "3", "4"]
        if change.map.number != number:
            change.one.run(change.one.engine.partitions.repartition("q", number))
        change.end()
        assert change.map.number == number
        if is_over:
            break
    assert calls > 3


@pytest.mark.parametrize(("before", "number"), [(1, 3), (3, 1)])
def test_a_mover_may_die_after_each_call(world: World, before: int, number: int) -> None:
    names = [f"n{n}" for n in range(3)]
    for calls in itertools.count(1):
        world.command("FLUSHALL")
        change = Change(world, before)
        for name in names:
            change.stale.put_in(f"lane {name}", f"late {name}", delay_ms=3_600_000)
            change.stale.put(f"id {name}", own_id=True, delay_ms=3_600_000)
            change.stale.put_only(f"key {name}", name, delay_ms=3_600_000)
            change.stale.put_in(f"lane {name}", f"bad {name}")
            change.stale.run(change.stale.engine.lanes.park_lane("q", f"idle {name}"))
        run_all(change.stale, Failed(BOOM))
        change.begin(number)
        is_over = stop_after(calls, other(world).engine.maintain(["q"], ()), world.driver)
        for name in names:
            assert not change.one.put(f"id {name}", own_id=True)[0]
            assert not change.one.put_only("twice", name).created
            assert change.one.view(f"late {name}").state is State.SCHEDULED
            assert change.one.view(f"bad {name}").state is State.FAILED
            assert change.one.lane(f"idle {name}").state is LaneState.PARKED
        change.end()
        assert world.counts() == {"scheduled": 9, "failed": 3}
        for name in names:
            assert change.one.resume_lane(f"idle {name}")
            assert change.one.retry(f"late {name}")
            assert change.one.retry(f"bad {name}")
        assert Counter(run_all(change.one)) == Counter(f"{kind} {name}" for kind in ("late", "bad") for name in names)
        if is_over:
            break
    assert calls > 10


def test_a_delayed_job_of_a_lane_that_has_left_is_moved_before_it_runs(world: World) -> None:
    change = Change(world, 1)
    lane = next(lane for lane in map(str, itertools.count()) if home_of(f"lane {lane}", 4))
    change.stale.put_in(lane, "late", delay_ms=3_600_000)
    change.stale.put_in("here", "not of a lane that leaves", delay_ms=3_600_000)
    change.begin(4)
    change.one.put_in(lane, "new")
    (running,) = change.one.take()
    world.pass_time(3_600_001)
    assert "late" not in change.one.take_ids(), "a job of its lane runs elsewhere"
    assert change.one.view("late").state is State.SCHEDULED
    change.one.maintain()
    world.pass_time(2_000, place_of("q", home_of(f"lane {lane}", 4)))
    assert "late" not in change.one.take_ids()
    change.one.finish(running)
    assert change.one.until(change.one.take_ids) == ["late"]


def test_the_token_of_a_moved_job_grows_whatever_the_clock_of_its_node(world: World) -> None:
    change = Change(world, 1)
    lane = next(lane for lane in map(str, itertools.count()) if home_of(f"lane {lane}", 4))
    change.stale.put_in(lane, "a")
    (before,) = change.stale.take()
    assert change.stale.settle(before, Failed(BOOM))
    ahead = int(before.token) + 3_600_000_000
    world.command("HSET", world.key("meta"), "token", str(ahead))
    change.begin(4)
    change.end()
    assert change.one.retry("a")
    (after,) = change.one.take()
    assert int(after.token) > ahead


def test_a_producer_that_knows_of_no_partitions_has_the_room_of_the_whole_queue(world: World) -> None:
    change = Change(world, 1)
    change.stale.configure(max_length=16)
    change.begin(4)
    change.end()
    jobs = [NewJob("q", f"drawn-{n}", b"p") for n in range(8)]
    assert all(answer.created for answer in change.stale.enqueue(jobs)), "four fit into each partition"


def test_a_job_of_the_queue_moves_to_a_partition_that_has_its_share_of_the_jobs(world: World) -> None:
    change = Change(world, 1)
    change.one.configure(max_length=8)
    ids = list(itertools.islice((id for id in map(str, itertools.count()) if home_of(id, 4) == 3), 8))
    change.one.put(*ids, own_id=True, delay_ms=3_600_000)
    change.begin(4)
    change.end()
    assert change.one.counts() == {"scheduled": 8}


def test_new_partitions_have_the_settings_of_the_queue(world: World) -> None:
    change = Change(world, 2)
    change.stale.configure(max_length=10, lane_failure=LaneFailure.PARK, paused=True)
    change.begin(4)
    settings = world.run(change.one.engine.settings_of("q"))
    assert settings == QueueSettings(10, LaneFailure.PARK, paused=True)
    shares = [world.command("HGET", world.key("settings", place_of("q", n)), "max_length") for n in range(4)]
    assert shares == [b"3", b"3", b"2", b"2"]
    stale = other(world)
    stale.engine.maps._known["q"] = KnownMap(PartitionMap(2, 1), float("inf"))
    assert not stale.configure(paused=False).paused
    assert not world.run(change.one.engine.settings_of("q")).paused
    change.end()
    assert change.one.configure(max_length=0).max_length == 0


def test_a_change_under_way_is_shown_and_refuses_another(world: World) -> None:
    change = Change(world, 2)
    lane = next(lane for lane in map(str, itertools.count()) if home_of(f"lane {lane}", 8) > 1)
    change.stale.put_in(lane, "a", "b")
    change.begin(8)
    change.one.maintain()
    view = world.run(change.one.engine.queue("q"))
    assert (view.partitions, view.repartition) == (8, Repartition(2, 8, left=2))
    with pytest.raises(InvalidArgument, match="info q"):
        change.one.run(change.one.engine.partitions.repartition("q", 4))
    run_all(change.one)
    change.end()
    view = world.run(change.one.engine.queue("q"))
    assert (view.partitions, view.repartition) == (8, None)


def test_a_queue_that_needs_one_partition_keeps_it(world: World) -> None:
    change = Change(world, 1)
    change.stale.put_only("both", "key", lane="lane")
    with pytest.raises(InvalidArgument, match="'both'"):
        change.one.run(change.one.engine.partitions.repartition("q", 4))
    assert change.map.number == 1
    assert change.stale.put_only("again", "other key", lane="lane").created, "it is as before"
    run_all(change.one)
    change.begin(4)
    with pytest.raises(UnsupportedFeature):
        change.stale.put_only("both", "key", lane="lane")


def test_a_job_that_follows_another_one_with_its_key_is_found_too(world: World) -> None:
    change = Change(world, 1)
    change.stale.put_only("first", "key")
    change.stale.take_one()
    change.stale.put_only("then", "key", conflict=Conflict.RERUN, lane="lane")
    with pytest.raises(InvalidArgument, match="'then'"):
        change.one.run(change.one.engine.partitions.repartition("q", 4))


def test_a_schedule_with_a_lane_keeps_its_queue_in_one_partition(world: World) -> None:
    with Tenure(world.server.url, namespace=NAMESPACE) as app:
        app.task(name="t", queue="q")(noop)
        app.schedules.add("daily", app.tasks["t"].using(lane="lane").call(), Every(hours=1))
        with pytest.raises(InvalidArgument, match="'daily'"):
            app.control.configure("q", partitions=4)
        app.schedules.remove("q", "daily")
        app.control.configure("q", partitions=4)
        with pytest.raises(UnsupportedFeature):
            app.schedules.add("daily", app.tasks["t"].using(lane="lane").call(), Every(hours=1))


def test_jobs_that_need_one_partition_do_not_run_again(world: World) -> None:
    change = Change(world, 1)
    change.stale.put_only("both", "key", lane="lane")
    run_all(change.stale, Failed(BOOM))
    change.begin(4)
    for _ in range(2):
        with pytest.raises(UnsupportedFeature, match="'both'"):
            change.stale.retry("both")
        change.end()
    assert change.stale.discard("both")


def test_the_first_number_of_an_unused_queue_needs_no_change(world: World) -> None:
    one = other(world)
    world.run(one.engine.partitions.repartition("q", 4))
    assert map_of(one) == PartitionMap(4, 1)
    world.run(one.engine.partitions.repartition("q", 4))
    with Tenure(world.server.url) as app, pytest.raises(InvalidArgument, match="256"):
        app.control.configure("q", partitions=257)


def test_a_retry_waits_for_its_lane_where_that_is_now(world: World) -> None:
    change = Change(world, 1)
    lane = next(lane for lane in map(str, itertools.count()) if home_of(f"lane {lane}", 4))
    change.stale.put_in(lane, "bad")
    run_all(change.stale, Failed(BOOM))
    change.begin(4)
    change.one.put_in(lane, "new")
    (running,) = change.one.take()
    assert change.stale.retry("bad")
    assert change.stale.take() == change.one.take() == []
    change.one.finish(running)
    assert run_all(change.one) == ["bad"]
    change.end()


def test_a_job_that_joins_its_lane_while_workers_look_keeps_the_change_open(world: World) -> None:
    change = Change(world, 1)
    lane = next(lane for lane in map(str, itertools.count()) if home_of(f"lane {lane}", 4))
    change.stale.run(change.stale.engine.lanes.park_lane("q", lane))
    change.begin(4)
    move = change.one.engine.changes.move
    change.one.run(move("q", 0))  # all jobs have been looked at, but not yet the parked lanes
    change.one.put_in(lane, "joins")
    change.one.resume_lane(lane)
    for _ in range(3):
        assert change.one.run(move("q", 0)) >= 0
    assert run_all(change.one) == ["joins"]
    change.end()


def test_two_jobs_with_one_id_that_come_to_one_partition_both_run(world: World) -> None:
    change = Change(world, 2)
    lanes = [next(lane for lane in map(str, itertools.count()) if home_of(f"lane {lane}", 2) == n) for n in range(2)]
    for lane in lanes:
        assert change.stale.put_in(lane, "twin", own_id=True, delay_ms=3_600_000) == [True]
    change.begin(1)
    for _ in range(20):
        change.one.maintain()
    assert world.counts() == {"scheduled": 2}
    assert change.map.before
    for _ in lanes:
        assert change.one.retry("twin")
        assert run_all(change.one) == ["twin"]
    change.end()


def test_a_queue_keeps_its_history_through_a_change(world: World) -> None:
    change = Change(world, 4)
    world.run(change.stale.engine.history.note_ends("q", Ends(completed=3)))
    change.begin(2)
    world.run(change.one.engine.history.note_ends("q", Ends(completed=2)))
    change.end()
    world.run(other(world).engine.history.note_ends("q", Ends(completed=1)))
    for one in (change.stale, change.one, other(world)):
        assert sum(minute.completed for minute in world.run(one.engine.history.minutes("q")).counts) == 6
