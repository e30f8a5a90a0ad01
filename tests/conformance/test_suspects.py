"""How jobs run again that were running when workers died: in groups or alone; and which of them end in broken."""

from __future__ import annotations

import pytest

from tenure.core.engine import STEADY_MS, Alone, Feature, Trait
from tenure.core.job import Lease, State
from tenure.core.outcome import Completed, Crashed, Released, Retried
from tenure.core.shape import Shape
from tenure.core.steps import Command, Invoke, Reply
from tenure.engines.kit.config import ALONE_AFTER_CRASHES, MAX_CRASHES
from tests.support.engines import LEASE_MS
from tests.support.fleet import Fleet
from tests.support.stepping import Send, Session, send_with, step
from tests.support.world import BOOM, World

pytestmark = pytest.mark.needs(Feature.COUNTS, Feature.RECORDS, Trait.SUSPECTS)

DEATHS_MOST = 8
ALONE = ALONE_AFTER_CRASHES
SLOTS = 16
PERSISTENT = Shape(persistent=True)


@pytest.fixture
def world(world: World) -> World:
    """With the numbers that users have."""
    return world.with_options(max_crashes=MAX_CRASHES, alone_after_crashes=ALONE)


def die(world: World, times: int = 1) -> None:
    """Workers die that run all that waits, in company: so nobody can say what was to blame."""
    for n in range(times):
        for _ in range(3):
            world.take(500, f"dead{n}", alone=Alone.NO)
        world.leave(f"dead{n}", crashed=True)


def keep(world: World, worker: str, leases: list[Lease], ms: int) -> None:
    """A worker goes on with its jobs."""
    for _ in range(ms // (LEASE_MS // 2)):
        world.pass_time(LEASE_MS // 2)
        assert not world.beat(worker, leases).lost


def suspect(world: World, *ids: str, crashes: int) -> None:
    """Jobs that have seen some workers die. Nothing else must wait."""
    world.put(*ids)
    die(world, crashes)
    assert [world.view(id).crashes for id in ids] == [crashes] * len(ids)


def test_after_one_death_all_of_its_jobs_run_again_at_once(world: World) -> None:
    fleet = Fleet(world, ["q"], workers=7, slots=SLOTS, lasts=100)
    world.put(*(f"j{n}" for n in range(100)))
    fleet.round()
    assert fleet.running() == 100
    for n in range(7):
        fleet.kill(n)
    fleet.round()
    assert fleet.running() == 100


def test_after_two_deaths_half_of_the_slots_run_them(world: World) -> None:
    fleet = Fleet(world, ["q"], workers=7, slots=SLOTS, lasts=100)
    world.put(*(f"j{n}" for n in range(100)))
    for _ in range(2):
        fleet.round()
        for n in range(7):
            fleet.kill(n)
    world.put(*(f"new{n}" for n in range(100)))
    fleet.round()
    running = [list(worker.held) for worker in fleet.workers]
    assert [sum(id.startswith("j") for id in ids) for ids in running] == [SLOTS // 2] * 7
    assert [len(ids) for ids in running] == [SLOTS] * 7, "beside them other jobs run"


def test_a_suspect_that_has_run_for_long_leaves_its_place_to_another(world: World) -> None:
    suspect(world, *"abc", crashes=2)
    first = world.take(3, "w", slots=4)
    assert [lease.record.id for lease in first] == ["a", "b"]
    keep(world, "w", first, STEADY_MS - LEASE_MS)
    assert world.take(1, "w", slots=4) == []
    keep(world, "w", first, 2 * LEASE_MS)
    assert [lease.record.id for lease in world.take(1, "w", slots=4)] == ["c"]
    assert world.view("a").crashes == 2, "it may yet kill its worker: its count stays until it ends"


@pytest.mark.needs(Trait.SINGLE_WAKE)
def test_the_end_of_a_suspect_wakes_a_worker_for_the_next(world: World) -> None:
    suspect(world, *"abc", crashes=2)
    first, _ = world.take(3, "w", slots=4)
    while world.wait(["q"], 20):
        world.take(1, "w", slots=4)
    world.finish(first)
    assert world.wait(["q"], 1_000) == "q"
    assert world.take_ids(1, "w", slots=4) == ["c"]


def test_after_four_deaths_a_job_runs_alone(world: World) -> None:
    suspect(world, "a", crashes=ALONE)
    world.put("b")
    leased = world.lease(10, "w", slots=SLOTS)
    assert [(lease.record.id, lease.alone_ms > 0) for lease in leased.leases] == [("a", True)]
    assert world.take_ids(10, "v", slots=SLOTS) == ["b"], "other workers run the others"


def test_a_claim_of_several_queues_ends_with_a_job_that_runs_alone(world: World) -> None:
    suspect(world, "a", crashes=ALONE)
    world.put("b", queue="p")
    leased = world.lease(10, "w", ("q", "p"), slots=SLOTS)
    assert [lease.record.id for lease in leased.leases] == ["a"]
    world.settle(leased.leases[0], Released())
    leased = world.lease(10, "w", ("p", "q"), slots=SLOTS)
    assert [lease.record.id for lease in leased.leases] == ["b"]
    assert leased.suspect_queue == "q", "what came from the queue before would run beside it"


def test_a_busy_worker_is_asked_to_prepare_for_a_job_that_runs_alone(world: World) -> None:
    """One at a time: the others go on."""
    suspect(world, "a", crashes=ALONE)
    world.put("b", "c", "d")
    first = world.lease(1, "w", slots=SLOTS, alone=Alone.NO)
    assert ([lease.record.id for lease in first.leases], first.suspect_queue) == (["b"], "q")
    second = world.lease(1, "v", slots=SLOTS, alone=Alone.NO)
    assert ([lease.record.id for lease in second.leases], second.suspect_queue) == (["c"], None)
    (a,) = world.take(10, "w", slots=SLOTS)
    assert (a.record.id, a.alone_ms > 0) == ("a", True)


def test_an_idle_worker_takes_at_once_what_another_prepares_for(world: World) -> None:
    suspect(world, "a", crashes=ALONE)
    assert world.lease(1, "w", alone=Alone.NO).suspect_queue == "q"
    assert world.take_ids(1, "v") == ["a"]
    world.put("b")
    assert world.take_ids(1, "w", alone=Alone.NOW) == ["b"], "it goes on with others"


def test_what_a_worker_has_run_for_long_may_stay_beside_a_job_that_runs_alone(world: World) -> None:
    world.put("long")
    long = world.take(1, "w", slots=SLOTS)
    suspect(world, "a", crashes=ALONE)
    keep(world, "w", long, STEADY_MS + LEASE_MS)
    assert world.take_ids(10, "w", slots=SLOTS) == ["a"]
    assert world.leave("w", crashed=True) == 2
    assert (world.view("a").crashes, world.view("long").crashes) == (ALONE + 1, 0), "what ran alone is to blame"


def test_another_worker_is_asked_when_the_first_has_not_run_the_job(world: World) -> None:
    suspect(world, "a", crashes=ALONE)
    assert world.lease(1, "w", alone=Alone.NO).suspect_queue == "q"
    world.leave("w", crashed=True)
    assert world.lease(1, "v", alone=Alone.NO).suspect_queue is None
    world.pass_time(STEADY_MS)
    assert world.lease(1, "v", alone=Alone.NO).suspect_queue == "q"


def test_beside_a_suspect_that_has_run_for_long_a_death_is_not_the_own_of_one(world: World) -> None:
    """A job that is to run alone need not wait for the end of one that runs for hours."""
    suspect(world, "long", crashes=2)
    long = world.take(1, "w", slots=SLOTS)
    keep(world, "w", long, STEADY_MS + LEASE_MS)
    suspect(world, "a", crashes=ALONE)
    assert world.take_ids(10, "w", slots=SLOTS, alone=Alone.BESIDE) == ["a"]
    world.leave("w", crashed=True)
    assert (world.view("a").crashes, world.view("long").crashes) == (ALONE + 1, 3)


def test_deaths_beside_suspects_need_two_more(world: World) -> None:
    """With one in each worker, poison would go on for ever."""
    suspect(world, "a", crashes=ALONE)
    for crashes in range(ALONE, DEATHS_MOST):
        (a,) = world.take(10, "w", slots=SLOTS, alone=Alone.BESIDE)
        assert (a.crashes, a.alone_ms > 0) == (crashes, True)
        world.leave("w", crashed=True)
    assert world.state("a") is State.BROKEN


def test_a_lost_answer_says_again_that_the_job_runs_alone(world: World) -> None:
    suspect(world, "a", crashes=ALONE)

    def again(_: int, call: Command | Invoke, send: Send) -> Reply:
        send(call)
        return send(call)

    leased = step(world.engine.lease("w", ["q"], 5), Session("s"), send_with(world.driver), again)
    assert [(lease.record.id, lease.alone_ms > 0) for lease in leased.leases] == [("a", True)]


def test_who_dies_twice_alone_ends_in_broken(world: World) -> None:
    world.put("a")
    die(world, 9)
    view = world.view("a")
    assert (view.state, view.crashes) == (State.READY, ALONE), "beside others it is never found guilty"
    for crashes in range(ALONE, MAX_CRASHES):
        (a,) = world.take(1, f"w{crashes}")
        assert (a.alone_ms > 0, a.crashes) == (True, crashes)
        world.leave(f"w{crashes}", crashed=True)
    assert world.state("a") is State.BROKEN


def test_one_that_crashes_the_process_of_its_own_is_to_blame_itself(world: World) -> None:
    world.put("a")
    for crashes in range(MAX_CRASHES):
        (a,) = world.take(1, f"w{crashes}")
        assert a.crashes == crashes
        assert not a.alone_ms, "others are not suspected with it"
        world.settle(a, Crashed())
    assert world.state("a") is State.BROKEN


def test_deaths_in_company_end_nothing_whatever_came_before(world: World) -> None:
    world.put("a")
    for _ in range(MAX_CRASHES - 2):
        world.settle(world.take_one(), Crashed())
    die(world, ALONE)
    view = world.view("a")
    assert (view.state, view.crashes) == (State.READY, MAX_CRASHES - 2 + ALONE)
    world.take_one("alone")
    world.leave("alone", crashed=True)
    assert world.state("a") is State.BROKEN


def test_a_failure_leaves_the_count_and_an_end_clears_it(world: World) -> None:
    suspect(world, "a", crashes=ALONE)
    (a,) = world.take(1)
    assert world.settle(a, Retried(BOOM))
    (a,) = world.take(1)
    assert (a.alone_ms > 0, a.failures) == (True, 1)
    assert world.settle(a, Completed(b"", 0))
    assert world.left() == set()


@pytest.mark.needs(Feature.LANES)
def test_the_head_of_a_lane_keeps_it_while_it_waits_to_run_alone(world: World) -> None:
    world.put_in("L", "a", "b")
    die(world, ALONE)
    world.put("x")
    (x,) = world.take(10, "w", alone=Alone.NO)
    assert x.record.id == "x"
    assert world.take(10, "w", alone=Alone.NO) == []
    (a,) = world.take(10, "v")
    assert (a.record.id, a.alone_ms > 0) == ("a", True)
    assert world.take(10, "u") == []
    world.finish(a)
    assert world.take_ids(10, "w") == ["b"]


@pytest.mark.parametrize(
    ("workers", "slots", "queues", "poison"),
    [
        (2, 16, "q", ("poison",)),
        (1, 16, "q", ("poison",)),
        (3, 1, "q", ("poison",)),
        (2, 4, "qp", ("poison",)),
        (3, 8, "qp", ("poison", "poison2", "poison-3")),
        (2, 8, "q", ("poison-12",)),
    ],
)
def test_poison_ends_in_broken_and_nothing_else_does(
    world: World, workers: int, slots: int, queues: str, poison: tuple[str, ...]
) -> None:
    fleet = Fleet(world, queues, workers, slots, lasts=2)
    world.put(*(f"a{n}" for n in range(15)), *poison, *(f"b{n}" for n in range(25)), queue=queues[-1])
    world.put(*(f"c{n}" for n in range(20)), queue=queues[0])
    fleet.rounds_until(done=0)
    for id in poison:
        assert world.state(id, queues[-1]) is State.BROKEN
        assert fleet.deaths[id] <= DEATHS_MOST
    assert sum(world.counts(queue).get("broken", 0) for queue in queues) == len(poison)


@pytest.mark.needs(Feature.PERSISTENT)
@pytest.mark.parametrize("queues", ["q", "qp"])
@pytest.mark.parametrize("workers", [1, 2])
def test_persistent_jobs_neither_block_others_nor_end_by_deaths_of_others(
    world: World, workers: int, queues: str
) -> None:
    fleet = Fleet(world, queues, workers, SLOTS)
    lasting = [f"p{n}" for n in range(5)]
    world.put(*lasting, shape=PERSISTENT, queue=queues[0])
    fleet.round()
    world.put("poison", *(f"j{n}" for n in range(20)), queue=queues[-1])
    fleet.rounds_until(done=5)
    assert world.state("poison", queues[-1]) is State.BROKEN
    assert fleet.deaths["poison"] <= DEATHS_MOST
    for _ in range(5 * 10):
        fleet.round()
    assert sorted(id for worker in fleet.workers for id in worker.held) == lasting
    world.put("one more", queue=queues[0])
    fleet.round()
    assert world.job("one more", queues[0]) is None, "nobody waits for them any longer"


def test_of_those_that_are_to_run_alone_the_latest_claim_is_first(world: World) -> None:
    """What kills its worker has mostly just begun."""
    suspect(world, *"abc", crashes=ALONE)
    found = []
    for n in range(3):
        (lease,) = world.take(1, f"w{n}", slots=SLOTS)
        found.append(lease.record.id)
    assert found == ["c", "b", "a"]


def test_with_each_death_in_company_a_job_runs_alone_for_longer(world: World) -> None:
    """So one that kills late is found all the same: the last two of its deaths are its own."""
    world.put("a")
    die(world, ALONE)
    for crashes in range(ALONE, DEATHS_MOST - 2):
        worker, other = f"w{crashes}", f"b{crashes}"
        (a,) = world.take(1, worker, slots=SLOTS)
        assert a.alone_ms == STEADY_MS * 4 ** (crashes - ALONE)
        keep(world, worker, [a], a.alone_ms + LEASE_MS)
        world.put(other)
        assert world.take_ids(10, worker, slots=SLOTS) == [other]
        world.leave(worker, crashed=True)
        assert world.view(other).crashes == 1, "it may have been the one that joined"
        world.discard(other)
    for worker in ("v", "w"):
        (a,) = world.take(1, worker, slots=SLOTS)
        assert a.alone_ms == STEADY_MS * 16
        world.leave(worker, crashed=True)
    assert world.state("a") is State.BROKEN


@pytest.mark.needs(Feature.PERSISTENT)
def test_a_persistent_job_that_has_run_for_long_is_cleared(world: World) -> None:
    world.put("p", shape=PERSISTENT)
    die(world, ALONE)
    (p,) = world.take(1, "w", slots=SLOTS)
    assert p.alone_ms
    keep(world, "w", [p], STEADY_MS + LEASE_MS)
    world.put("a")
    assert world.take_ids(1, "w", slots=SLOTS) == ["a"]
    world.leave("w", crashed=True)
    assert (world.view("p").crashes, world.view("a").crashes) == (1, 1)


@pytest.mark.needs(Feature.PERSISTENT)
def test_a_persistent_job_is_cleared_also_beside_one_that_runs_alone(world: World) -> None:
    world.put("p", shape=PERSISTENT)
    die(world, 2)
    (p,) = world.take(1, "w", slots=SLOTS)
    keep(world, "w", [p], STEADY_MS + LEASE_MS)
    suspect(world, "a", crashes=ALONE)
    assert world.take_ids(1, "w", slots=SLOTS) == ["a"]
    world.leave("w", crashed=True)
    assert (world.view("p").crashes, world.view("a").crashes) == (0, ALONE + 1)


def test_why_a_job_waits_is_said(world: World) -> None:
    suspect(world, "a", crashes=1)
    assert world.view("a").waits is None
    world.finish(*world.take())
    suspect(world, "b", crashes=2)
    waits = "it was running when 2 workers died: such jobs run in at most 1 of 2 slots of a worker"
    assert world.view("b").waits == waits
    world.finish(*world.take())
    suspect(world, "c", crashes=ALONE)
    waits = f"it was running when {ALONE} workers died: it waits for a worker that can run it alone"
    (listed,) = world.run(world.engine.page("q", State.READY)).jobs
    assert listed.waits == world.view("c").waits == waits
    world.take(1, "v")
    assert world.view("c").waits is None


@pytest.mark.needs(Trait.SUSPECT_COUNT)
def test_suspects_that_wait_are_counted(world: World) -> None:
    suspect(world, *"ab", crashes=2)
    assert world.run(world.engine.queue("q")).suspects == 2
    world.finish(*world.take(1))
    assert world.run(world.engine.queue("q")).suspects == 1
