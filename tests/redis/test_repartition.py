"""The number of partitions of a queue changes while producers and workers use it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

import pytest

from leasehold import Leasehold
from leasehold.core.errors import InvalidArgument, ReplyError, UnsupportedFeature
from leasehold.core.job import NewJob, Repartition, State
from leasehold.core.outcome import Completed, Failed, Outcome
from leasehold.core.partitions import PartitionMap, home_of, place_of
from leasehold.core.shape import LaneFailure, LaneState, QueueSettings, Shape, Until
from leasehold.core.waiting import Lead, Wake
from leasehold.engines.kit.scripts import load
from leasehold.engines.native.keys import encoded
from leasehold.engines.native.scripts import WORDS
from leasehold.redis.sync import SyncDriver
from leasehold.testing.server import RedisServer
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


def other(world: World, partitions: int = 0) -> World:
    """Another process."""
    there = World(world.entry, world.server, world.driver)
    if partitions:
        there.engine.want_partitions("q", partitions)
    return there


def parted(world: World, partitions: int) -> World:
    """A process that knows the first map of the queue."""
    there = other(world, partitions)
    there.put("first")
    return there


def map_of(world: World) -> PartitionMap:
    return world.run(world.engine.maps.ask("q"))


def test_a_process_with_an_old_map_is_refused_and_follows(world: World) -> None:
    stale, changer = parted(world, 4), other(world)
    world.run(changer.engine.maps.complete("q", PartitionMap(4, version=2)))
    calls = {
        "a plain job": lambda: stale.put("plain"),
        "a job of a lane": lambda: stale.put_in("lane", "laned"),
        "an id of its own": lambda: stale.put("mine", own_id=True),
        "a retry": lambda: stale.retry("nothing"),
    }
    for name, call in calls.items():
        stale.engine.maps._known["q"] = (PartitionMap(4, 1), float("inf"))
        call()
        assert stale.engine.maps._known["q"][0] == PartitionMap(4, 2), name
    assert world.counts() == {"ready": 4}


def test_a_process_that_knows_of_no_partitions_is_refused_where_it_matters(world: World) -> None:
    stale = other(world)
    stale.put("first")
    world.run(other(world).engine.maps.complete("q", PartitionMap(1, version=2)))
    laned = [NewJob("q", "x", b"p", shape=Shape(lane="a"))]
    with pytest.raises(ReplyError, match="LHMAP"):
        world.run(stale.engine._add_to("q", laned, [0], {}, stale.engine._add))
    stale.put("plain")
    assert stale.engine.maps._known["q"][0].version == 0
    stale.put_in("lane", "laned")
    assert stale.engine.maps._known["q"][0].version == 2


def test_a_worker_learns_of_a_new_map_by_its_heartbeat(world: World) -> None:
    worker = parted(world, 2)
    world.run(other(world).engine.maps.complete("q", PartitionMap(2, version=2)))
    for _ in range(3):
        worker.beat("w")
    worker.take()
    assert worker.engine.maps._known["q"][0].version == 2


def test_an_idle_worker_learns_of_a_new_map_by_its_maintenance(world: World) -> None:
    worker = other(world)
    worker.put("first")
    worker.finish(*worker.take())
    one = other(world)
    one.run(one.engine.repartition("q", 4))
    assert isinstance(worker.engine.wait("w", ["q"], 100), Lead)
    worker.maintain()
    worker.take()
    assert isinstance(worker.engine.wait("w", ["q"], 100), Wake)
    assert worker.engine.maps._known["q"][0].places == 4


@pytest.mark.parametrize("calls", range(6))
def test_a_change_whose_process_has_died_is_completed_by_those_that_meet_it(world: World, calls: int) -> None:
    stale = parted(world, 4)
    stop_after(calls, other(world).engine.maps.complete("q", PartitionMap(4, version=2)), world.driver)
    for number in range(20):
        stale.put_in(f"lane {number}", f"job {number}")
    changed = calls > 0
    assert map_of(other(world)) == PartitionMap(4, 1 + changed)
    if changed:
        noted = [world.command("HGET", world.key("settings", place_of("q", n)), "map") for n in range(4)]
        assert noted == [f"2:4:0:{n}:0".encode() for n in range(4)]
    assert world.counts() == {"ready": 21}


def test_of_two_changes_at_one_time_one_wins(world: World) -> None:
    parted(world, 2)
    one, two = other(world).engine.maps, other(world).engine.maps
    stop_after(1, one.complete("q", PartitionMap(2, 2)), world.driver)
    assert world.run(two.complete("q", PartitionMap(1, 2))) == PartitionMap(2, 2)


def run_all(world: World, outcome: Outcome | None = None) -> list[str]:
    """Run all jobs that are ready, or become so."""
    ran: list[str] = []
    while world.counts().get("ready"):
        for lease in world.take(7):
            assert world.settle(lease, outcome or Completed(b"", 0))
            ran.append(lease.record.id)
    return ran


class Change:
    """A queue whose number of partitions changes."""

    def __init__(self, world: World, before: int) -> None:
        self.world = world
        self.stale = other(world, before)
        self.stale.put("first")
        self.stale.finish(*self.stale.take())
        self.one = other(world)

    def begin(self, number: int) -> None:
        self.one.run(self.one.engine.repartition("q", number))
        assert self.map.number == number
        assert self.map.before

    @property
    def map(self) -> PartitionMap:
        return map_of(self.one)

    def end(self, rounds: int = 300) -> None:
        """Workers maintain the queue until the change is over."""
        for _ in range(rounds):
            self.one.maintain()
            if not self.map.before:
                return
            for place in range(self.map.places):
                self.world.command("HDEL", self.world.key("mover", place_of("q", place)), "rest")
            self.world.command("DEL", self.world.key("mover_is"))
        raise AssertionError([self.rest(place) for place in range(self.map.places)])

    def rest(self, place: int) -> object:
        return self.world.command("HGETALL", self.world.key("mover", place_of("q", place)))


CHANGES = [(1, 4), (4, 8), (8, 2), (3, 1)]


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
        is_over = stop_after(calls, other(world).engine.repartition("q", number), world.driver)
        change.stale.put_in("lane", "3")
        change.one.put_in("lane", "4")
        change.stale.finish(first)
        assert run_all(change.one) == ["1", "2", "3", "4"]
        if change.map.number != number:
            change.one.run(change.one.engine.repartition("q", number))
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
            change.stale.run(change.stale.engine.park_lane("q", f"idle {name}"))
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


def test_new_partitions_have_the_settings_of_the_queue(world: World) -> None:
    change = Change(world, 2)
    change.stale.configure(max_length=10, lane_failure=LaneFailure.PARK, paused=True)
    change.begin(4)
    settings = world.run(change.one.engine.settings("q"))
    assert settings == QueueSettings(10, LaneFailure.PARK, paused=True)
    shares = [world.command("HGET", world.key("settings", place_of("q", n)), "max_length") for n in range(4)]
    assert shares == [b"3", b"3", b"2", b"2"]
    stale = other(world)
    stale.engine.maps._known["q"] = (PartitionMap(2, 1), float("inf"))
    assert not stale.configure(paused=False).paused
    assert not world.run(change.one.engine.settings("q")).paused
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
        change.one.run(change.one.engine.repartition("q", 4))
    run_all(change.one)
    change.end()
    view = world.run(change.one.engine.queue("q"))
    assert (view.partitions, view.repartition) == (8, None)


def test_a_queue_that_needs_one_partition_keeps_it(world: World) -> None:
    change = Change(world, 1)
    change.stale.put_only("both", "key", lane="lane")
    with pytest.raises(InvalidArgument, match="'both'"):
        change.one.run(change.one.engine.repartition("q", 4))
    assert change.map.number == 1
    assert change.stale.put_only("again", "other key", lane="lane").created, "it is as before"
    run_all(change.one)
    change.begin(4)
    with pytest.raises(UnsupportedFeature):
        change.stale.put_only("both", "key", lane="lane")


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
    world.run(one.engine.repartition("q", 4))
    assert map_of(one) == PartitionMap(4, 1)
    world.run(one.engine.repartition("q", 4))
    with Leasehold(world.server.url) as app, pytest.raises(InvalidArgument, match="256"):
        app.control.configure("q", partitions=257)


@pytest.mark.parametrize("key", ["plain", "lane ü", "100% a/b:c"])
def test_lua_and_python_agree_where_a_job_belongs(world: World, key: str) -> None:
    script = load("leasehold.engines.native", WORDS, ["move"])["move"].text
    head = script[: script.index("local move, only")]
    text = head + "local found = {}; for n = 1, #ARGV do found[n] = homes.of(ARGV[n], '') end; return found"
    for number in (1, 2, 7, 256):
        prefix = world.engine.prefix("q")
        world.command("HSET", f"{prefix}:settings", "map", f"1:{number}:0:0:0")
        keys = [f"{key} {n}" for n in range(100)]
        found = world.command("EVAL", text, 1, prefix, *keys)
        assert found == [home_of(one, number) for one in keys]
    decoded = head + "return {homes.of_lane(ARGV[1]), homes.of_key(ARGV[1])}"
    found = world.command("EVAL", decoded, 1, prefix, encoded(key))
    assert found == [home_of(f"lane {key}", 256), home_of(f"key {key}", 256)]
