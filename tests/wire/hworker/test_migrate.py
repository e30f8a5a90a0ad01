"""Moving a pool to the native protocol: nothing is lost or doubled, wherever it is interrupted."""

from __future__ import annotations

import contextlib
import json

import pytest

from tenure.core.errors import QueueFull
from tenure.core.job import NewJob
from tenure.core.outcome import Completed, Retried
from tenure.engines.kit.moving import EXPORT_MOST
from tenure.engines.native.partitions.engine import PartitionedEngine
from tests.support.moves import move
from tests.support.stepping import Crashed, Session, send_with, step
from tests.support.world import BOOM
from tests.wire.hworker.bench import Bench

NATIVE = PartitionedEngine("shop")


def page(bench: Bench) -> int:
    return bench.run(move(bench.engine, "q", NATIVE, "printer")).count


def migrate(bench: Bench) -> int:
    moved = 0
    while found := page(bench):
        moved += found
    return moved


def drained(bench: Bench) -> list[object]:
    done: list[object] = []
    while leases := bench.run(NATIVE.lease("n", ["printer"], 500)).leases:
        assert all(bench.run(NATIVE.settle([(lease, Completed(b"", 0)) for lease in leases])))
        done += [json.loads(lease.record.payload) for lease in leases]
    return done


def test_what_waits_moves_in_its_order_and_what_is_held_stays(bench: Bench) -> None:
    bench.put("held")
    [lease] = bench.take(1)
    theirs = bench.original.queue("theirs")
    assert bench.original.pop() == theirs
    values = list(range(2 * EXPORT_MOST + 50))
    for value in values:
        bench.original.queue(value)
    assert migrate(bench) == len(values)
    assert drained(bench) == values
    assert bench.settle(lease)
    bench.original.succeed(theirs)
    assert bench.counts() == {}


def test_of_identical_jobs_both_move(bench: Bench) -> None:
    job = bench.original.queue("x")
    bench.original.push(job)
    assert migrate(bench) == 2
    assert drained(bench) == ["x", "x"]


def test_a_job_moves_as_it_is(bench: Bench) -> None:
    job = NewJob("q", "a", b'[["cat.png"],{}]', task="shop.print", timeout_ms=1_000, retries=7)
    bench.run(bench.engine.enqueue([job]))
    bench.original.push(b"garbage")
    assert migrate(bench) == 2
    first, second = bench.run(NATIVE.lease("n", ["printer"], 5)).leases
    moved = first.record
    assert (moved.id, moved.task, moved.payload) == ("a", job.task, job.payload)
    assert (moved.timeout_ms, moved.retries) == (1_000, 7)
    assert second.record.payload == b"garbage"


def test_the_attempts_of_a_job_are_forgotten_with_it(bench: Bench) -> None:
    bench.put("a")
    [lease] = bench.take(1)
    assert bench.settle(lease, Retried(BOOM, 0))
    bench.maintain()
    before = set(bench.db.keys("*attempts"))
    assert migrate(bench) == 1
    assert (len(before), bench.db.keys("*attempts")) == (1, [])


def test_jobs_that_are_refused_wait_where_they_were(bench: Bench) -> None:
    bench.run(NATIVE.enqueue([NewJob("printer", id, b"0", own_id=True) for id in "bc"]))
    bench.put("a", "b", "c")
    moved = bench.run(move(bench.engine, "q", NATIVE, "printer"))
    assert (moved.count, moved.refused) == (1, ("b", "c"))
    assert [json.loads(job)[0] for job in bench.waiting()] == ["b", "c"]
    bench.run(NATIVE.configure("small", max_length=1))
    bench.put("d")
    with pytest.raises(QueueFull):
        bench.run(move(bench.engine, "q", NATIVE, "small"))
    assert [json.loads(job)[0] for job in bench.waiting()] == ["b", "c", "d"]


@pytest.mark.parametrize("executed", [False, True], ids=["before it", "after it"])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_a_migration_that_dies_at_any_call_goes_on(bench: Bench, k: int, executed: bool) -> None:
    bench.put(*(f"job-{n}" for n in range(5)))

    def crash(number, call, send):
        if number < k:
            return send(call)
        if executed:
            send(call)
        raise Crashed

    with contextlib.suppress(Crashed):
        step(move(bench.engine, "q", NATIVE, "printer"), Session("s"), send_with(bench.driver), crash)
    migrate(bench)
    assert len(drained(bench)) == 5
    assert bench.counts() == {}


def test_phantoms_of_originals_stay_behind(bench: Bench) -> None:
    for value in (b"false", b'["a",1]', b"false", b'["b",2]', b"false"):
        bench.original.push(value)
    migrate(bench)
    assert drained(bench) == [1, 2]
    assert bench.waiting() == []
