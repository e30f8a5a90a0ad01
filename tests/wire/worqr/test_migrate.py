"""Moving a queue to the native protocol: nothing is lost or doubled, wherever it is interrupted."""

from __future__ import annotations

import contextlib

import pytest

from tenure.core.errors import QueueFull
from tenure.core.job import NewJob
from tenure.core.outcome import Completed
from tenure.core.shape import Shape
from tenure.engines.kit.moving import EXPORT_MOST
from tenure.engines.native.partitions.engine import PartitionedEngine
from tenure.protocols.registry import entry_of
from tests.support.moves import move
from tests.support.stepping import Crashed, Session, send_with, step
from tests.wire.worqr.bench import STRAY_MS, UNIQUE, Bench

NATIVE = PartitionedEngine("shop")


def page(bench: Bench) -> int:
    return bench.run(move(bench.engine, "q", NATIVE, "images")).count


def migrate(bench: Bench) -> int:
    moved = 0
    while found := page(bench):
        moved += found
    return moved


def drained(bench: Bench) -> list[str]:
    done = []
    while leases := bench.run(NATIVE.lease("n", ["images"], 500)).leases:
        assert all(bench.run(NATIVE.settle([(lease, Completed(b"", 0)) for lease in leases])))
        done += [lease.record.payload.decode() for lease in leases]
    return done


def test_what_waits_moves_in_its_order_and_what_is_held_stays(bench: Bench) -> None:
    tasks = [f"t{n % 400}" for n in range(2 * EXPORT_MOST + 50)]
    original = bench.original("original", "q")
    bench.put("ours", "theirs", *tasks)
    [lease] = bench.take(1)
    held = original.dequeue("q")
    assert held is not None
    assert migrate(bench) == len(tasks)
    assert drained(bench) == tasks
    assert bench.settle(lease)
    original.finish(held[0])
    bench.leave()
    for key in bench.db.keys("{shop*"):
        bench.db.delete(key)
    bench.audit()


def test_a_job_moves_as_it_is_and_its_marker_goes(bench: Bench) -> None:
    job = NewJob("q", "", b'[["cat.png"],{}]', task="shop.watch", timeout_ms=0, retries=7, shape=Shape(persistent=True))
    bench.run(bench.engine.enqueue([job]))
    bench.put("raw", shape=UNIQUE)
    assert migrate(bench) == 2
    watch, raw = bench.run(NATIVE.lease("n", ["images"], 5)).leases
    record = watch.record
    assert (record.task, record.payload, record.timeout_ms, record.retries) == ("shop.watch", job.payload, 0, 7)
    assert record.shape.persistent
    assert raw.record.payload == b"raw"
    assert not bench.is_marked("raw")


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("k", range(1, 9))
def test_it_may_be_interrupted_anywhere(bench: Bench, k: int, after: bool) -> None:
    tasks = [str(n) for n in range(20)]
    bench.put(*tasks)
    calls = 0

    def cut(number: int, call: object, send: object) -> object:
        nonlocal calls
        calls += 1
        if calls < k:
            return send(call)  # type: ignore[operator]
        if after:
            send(call)  # type: ignore[operator]
        raise Crashed

    steps = move(bench.engine, "q", NATIVE, "images")
    with contextlib.suppress(Crashed):
        step(steps, Session("s"), send_with(bench.driver), cut)
    migrate(bench)
    assert drained(bench) == tasks
    assert bench.waiting() == []


def test_a_full_destination_leaves_the_queue_as_it_was(bench: Bench) -> None:
    bench.put("a", "b", "c")
    bench.run(NATIVE.configure("images", max_length=2))
    with pytest.raises(QueueFull):
        page(bench)
    assert bench.waiting() == ["a", "b", "c"]


def test_a_search_leaves_the_marker_of_a_task_that_a_cut_migration_holds(bench: Bench) -> None:
    bench.put("t", shape=UNIQUE)
    migration = entry_of(bench.engine).migration
    assert migration is not None
    assert len(bench.run(migration(bench.engine).export("q", "elsewhere", 10)).jobs) == 1
    for _ in range(3):
        bench.pass_time(STRAY_MS + 50)
        bench.maintain()
    assert bench.is_marked("t")
    assert bench.put("t", shape=UNIQUE) == [False]
