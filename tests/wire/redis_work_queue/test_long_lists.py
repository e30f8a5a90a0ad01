"""Many ids in `processing`, which others hold or which wait for a retry: ours are found among them, in time."""

from __future__ import annotations

import pytest

from tenure.core.job import Lease, NewJob, State
from tenure.core.outcome import Completed, Failed, Outcome, Released, Retried
from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer
from tests.wire.redis_work_queue.bench import BOOM, Bench, P

OTHERS = 3_000
FAR = 100_000
LATER_MS = 600_000


@pytest.fixture
def bench(server: RedisServer, driver: SyncDriver) -> Bench:
    return Bench(server, driver)


def held_by_others(bench: Bench, first: int, count: int) -> list[bytes]:
    """The ids that other clients have leased, the oldest first."""
    ids = [b"theirs-%d" % number for number in range(first, first + count)]
    for start in range(0, count, 500):
        part = ids[start : start + 500]
        bench.command("MSET", *(word for id in part for word in (b"jobs:item:" + id, b"data")))
        bench.command("MSET", *(word for id in part for word in (b"jobs:leased_by_session:" + id, b"x")))
        bench.command("LPUSH", f"{P}:processing", *part)
    return ids


def ours(bench: Bench, count: int, worker: str = "w") -> list[Lease]:
    bench.run(bench.engine.enqueue([NewJob("default", f"ours-{number}", b"data") for number in range(count)]))
    leases: list[Lease] = []
    while len(leases) < count:
        leases += bench.take(count - len(leases), worker)
    return leases


@pytest.mark.parametrize(("before", "after"), [(OTHERS, 0), (0, OTHERS), (OTHERS, OTHERS), (30_000, 30_000)])
def test_each_outcome_takes_its_job_out_and_no_other(bench: Bench, before: int, after: int) -> None:
    older = held_by_others(bench, 0, before)
    leases = ours(bench, 60)
    newer = held_by_others(bench, before, after)
    outcomes: list[Outcome] = [Completed(b"", 0), Retried(BOOM, 0), Retried(BOOM, LATER_MS), Failed(BOOM), Released()]
    settled = [(lease, outcomes[number % 5]) for number, lease in enumerate(leases)]
    assert all(bench.run(bench.engine.settle(settled)))
    waiting = [id.encode() for id in (f"ours-{number}" for number in range(2, 60, 5))]
    assert bench.processing() == newer[::-1] + waiting[::-1] + older[::-1]
    again = {f"ours-{number}".encode() for number in range(60) if number % 5 in (1, 4)}
    assert set(bench.queue()) == again
    assert len(bench.queue()) == len(again)
    states = [bench.state(f"ours-{number}") for number in range(5)]
    assert states == [None, State.READY, State.SCHEDULED, State.FAILED, State.READY]


def test_second_copies_of_many_go_with_them(bench: Bench) -> None:
    others = held_by_others(bench, 0, OTHERS)
    leases = ours(bench, 60)
    for lease in leases[::2]:
        bench.command("RPUSH", f"{P}:processing", lease.record.id)
    assert all(bench.run(bench.engine.settle([(lease, Completed(b"", 0)) for lease in leases])))
    assert bench.processing() == others[::-1]


def test_what_a_dead_worker_held_comes_back_in_order_also_where_a_cleaner_has_moved_some(bench: Bench) -> None:
    held_by_others(bench, 0, OTHERS)
    leases = ours(bench, 60)
    bench.foreign_reset(leases[7].record.id)
    newer = held_by_others(bench, OTHERS, OTHERS)
    bench.run(bench.engine.leave("w", ["default"]))
    moved = leases[7].record.id.encode()
    back = [lease.record.id.encode() for lease in leases]
    assert bench.queue() == [id for id in back if id != moved] + [moved]
    assert bench.processing()[: len(newer)] == newer[::-1]


def cost(bench: Bench) -> float:
    """Microseconds of Redis for completing a hundred: the least of some times."""
    least = float("inf")
    for _ in range(4):
        leases = ours(bench, 100)
        bench.command("CONFIG", "RESETSTAT")
        assert all(bench.run(bench.engine.settle([(lease, Completed(b"", 0)) for lease in leases])))
        stats = [line for line in bench.command("INFO", "commandstats").decode().split() if "cmdstat_eval" in line]
        least = min(least, sum(float(line.split("usec=")[1].split(",")[0]) for line in stats))
    return least


def test_what_is_completed_costs_about_the_same_beside_many_that_others_hold(bench: Bench) -> None:
    """It was two hundred times as much when each was searched for from the right."""
    alone = cost(bench)
    held_by_others(bench, 0, FAR)
    assert cost(bench) < 20 * alone


def test_an_id_that_is_held_stays_once_however_often_it_is_queued(bench: Bench) -> None:
    bench.foreign_add("a")
    bench.foreign_lease()
    for _ in range(3):
        bench.foreign_push("a")
    assert bench.take() == []
    assert (bench.queue(), bench.processing()) == ([], [b"a"])


def test_many_leases_that_lapse_come_back_in_order_from_a_clean(bench: Bench) -> None:
    ids = [f"i{number:04}" for number in range(1_200)]
    bench.run(bench.engine.enqueue([NewJob("default", id, b"data") for id in ids]))
    for number in range(0, 1_200, 100):
        assert len(bench.take(100, f"hand{number}", lease_ms=30_000)) == 100
        bench.pass_time(1)
    bench.pass_time(60_000)
    assert bench.light().requeued == 1_200
    assert bench.queue() == [id.encode() for id in ids]


@pytest.mark.parametrize("delay", [0, -5])
def test_a_retry_without_a_delay_is_in_one_place(bench: Bench, delay: int) -> None:
    bench.put("a")
    assert bench.settle(bench.take_one(), Retried(BOOM, delay))
    assert (bench.queue(), bench.processing()) == ([b"a"], [])


def test_large_and_small_items_are_settled_together(bench: Bench) -> None:
    sizes = [1, 300_000, 4_096, 4_097, 65_536, 65_537, 0]
    leases = []
    for number, size in enumerate(sizes):
        bench.put(f"i{number}", data=b"x" * size)
        leases.append(bench.take_one())
    bench.command("SET", f"{P}:item:i5", b"y" * 65_537)
    settled = bench.run(bench.engine.settle([(lease, Completed(b"", 0)) for lease in leases]))
    assert settled == [True, True, True, True, True, False, True]
    assert bench.items() == 1
