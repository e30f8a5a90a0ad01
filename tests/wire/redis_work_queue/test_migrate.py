"""Moving a queue to the native protocol: nothing is lost or doubled, wherever it is interrupted."""

from __future__ import annotations

import pytest

from leasehold.core import limits
from leasehold.core.errors import QueueFull
from leasehold.core.job import NewJob, State
from leasehold.core.outcome import Completed
from leasehold.core.steps import Invoke
from leasehold.engines.kit.extras import Moved
from leasehold.engines.native import NativeEngine
from leasehold.engines.redis_work_queue.migrate import migrate_page
from tests.support.stepping import Crashed, Session, send_with, step
from tests.wire.redis_work_queue.bench import Bench

NATIVE = NativeEngine("shop")


def page(bench: Bench, engine: NativeEngine = NATIVE) -> Moved:
    return bench.run(migrate_page(bench.engine, "default", engine, "images"))


def migrate(bench: Bench) -> int:
    moved = 0
    while found := page(bench).count:
        moved += found
    return moved


def drained(bench: Bench) -> list[str]:
    done = []
    while leases := bench.run(NATIVE.lease("n", ["images"], 500)).leases:
        assert all(bench.run(NATIVE.settle([(lease, Completed(b"", 0)) for lease in leases])))
        done += [lease.record.id for lease in leases]
    return done


def test_what_waits_moves_in_its_order_and_what_is_held_stays(bench: Bench) -> None:
    ids = [f"i{n:04}" for n in range(1_200)]
    bench.put("ours", "theirs")
    ours = bench.take_one()
    bench.foreign_lease()
    bench.put(*ids)
    assert migrate(bench) == 1_200
    assert drained(bench) == ids
    assert sorted(bench.processing()) == [b"ours", b"theirs"]
    assert bench.settle(ours)
    assert bench.foreign_complete("theirs")
    assert bench.command("KEYS", "jobs:item:*") == bench.command("KEYS", "jobs:kept") == []
    for name in bench.command("KEYS", "{shop*"):
        bench.command("DEL", name)
    bench.audit()


def test_a_job_moves_as_it_is(bench: Bench) -> None:
    bench.put("a", data=b'[["cat.png"],{}]', task="shop.thumbnail", timeout_ms=5_000, retries=7)
    bench.foreign_add("b", b"\x00\xff")
    migrate(bench)
    a, b = bench.run(NATIVE.lease("n", ["images"], 5)).leases
    assert (a.record.task, a.record.payload, a.record.timeout_ms, a.record.retries) == (
        "shop.thumbnail",
        b'[["cat.png"],{}]',
        5_000,
        7,
    )
    assert (b.record.task, b.record.payload) == (None, b"\x00\xff")


def test_an_item_whose_id_another_job_has_there_waits_where_it_was(bench: Bench) -> None:
    bench.run(NATIVE.enqueue([NewJob("images", "a", b"other", own_id=True)]))
    bench.put("a", "b")
    assert page(bench) == Moved(2, 1, ("a",))
    assert bench.queue() == [b"a"]
    assert drained(bench) == ["a", "b"]
    assert migrate(bench) == 1
    assert drained(bench) == ["a"]


@pytest.mark.parametrize("task", [None, "shop.mail"])
def test_a_job_that_has_ended_there_is_no_proof_that_the_item_arrived(bench: Bench, task: str | None) -> None:
    """Neither when nothing is kept of its payload, nor when the payload is the same and the task another."""
    bench.run(NATIVE.enqueue([NewJob("images", "a", b"[[],{}]", task="shop.charge", own_id=True)]))
    (lease,) = bench.run(NATIVE.lease("n", ["images"], 1)).leases
    if task is None:
        bench.run(NATIVE.settle([(lease, Completed(b"", 60_000))]))
    bench.put("a", data=b"[[],{}]", task=task)
    assert page(bench) == Moved(1, 0, ("a",))
    assert bench.drain() == ["a"]


def test_many_that_are_refused_are_not_in_the_way_of_the_others(bench: Bench) -> None:
    ids = [f"i{n}" for n in range(510)]
    bench.run(NATIVE.enqueue([NewJob("images", id, b"other", own_id=True) for id in ids]))
    bench.put(*ids, "last")
    assert [page(bench).count, page(bench).count] == [0, 1]
    assert sorted(bench.queue()) == sorted(id.encode() for id in ids)


def test_nothing_is_taken_out_for_a_queue_that_takes_nothing(bench: Bench) -> None:
    bench.run(NATIVE.configure("images", max_length=1))
    bench.run(NATIVE.enqueue([NewJob("images", "there", b"x")]))
    bench.put("a", "b")
    with pytest.raises(QueueFull):
        page(bench)
    assert bench.queue() == [b"a", b"b"]


def test_what_somebody_takes_meanwhile_does_not_move(bench: Bench) -> None:
    bench.put("held", "changed", "pushed", "a")

    def meddle(number, call, send):
        if isinstance(call, Invoke) and call.script.name == "move":
            assert bench.foreign_lease() == b"held"
            bench.command("SET", "jobs:item:changed", b"another")
            assert [lease.record.id for lease in bench.take(2)] == ["changed", "pushed"]
            bench.settle(bench.run(bench.engine.lease("w2", ["default"], 1)).leases[0])
        return send(call)

    bench.put("b")
    steps = migrate_page(bench.engine, "default", NATIVE, "images")
    assert step(steps, Session("s"), send_with(bench.driver), meddle) == Moved(5, 1)
    assert drained(bench) == ["b"]
    assert sorted(bench.processing()) == [b"changed", b"held", b"pushed"]


def test_what_is_sent_again_moves_once(bench: Bench) -> None:
    """The reply was lost; meanwhile the job has run, nothing of it is kept, and its id was used again."""
    bench.put("a")
    bench.foreign_push("a")

    def twice(number, call, send):
        reply = send(call)
        if isinstance(call, Invoke) and call.script.name == "move":
            assert drained(bench) == ["a"]
            bench.put("a", data=b"another")
            assert send(call) == reply
        return reply

    steps = migrate_page(bench.engine, "default", NATIVE, "images")
    assert step(steps, Session("s"), send_with(bench.driver), twice) == Moved(2, 1)
    assert bench.drain() == ["a"]
    assert bench.run(NATIVE.queue("images")).counts[State.READY] == 0


def test_it_may_be_interrupted_anywhere(bench: Bench) -> None:
    for cut in range(1, 6):
        for after in (False, True):
            bench.command("FLUSHALL")
            engine = NativeEngine("shop")
            bench.put("a", "b", "c")

            def crash(number, call, send, cut=cut, after=after):
                if number == cut and not after:
                    raise Crashed
                reply = send(call)
                if number == cut:
                    raise Crashed
                return reply

            try:
                step(
                    migrate_page(bench.engine, "default", engine, "images"),
                    Session("s"),
                    send_with(bench.driver),
                    crash,
                )
            except Crashed:
                bench.deep()
            ran = drained(bench)  # whatever arrived runs, and leaves no record
            migrate(bench)
            assert ran + drained(bench) == ["a", "b", "c"]
            assert (bench.lengths(), bench.items()) == ((0, 0), 0)


def test_ids_that_no_native_job_can_have_stay(bench: Bench) -> None:
    unfit = ["", "@lane", "x" * 256]
    for id in ["a", *unfit, "b"]:
        bench.foreign_add(id)
    assert page(bench) == Moved(5, 2, (), tuple(unfit))
    assert bench.queue() == [id.encode() for id in unfit]
    assert page(bench) == Moved(3, 0, (), tuple(unfit))
    assert drained(bench) == ["a", "b"]


def test_what_was_moved_before_redis_was_full_counts(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.put("a", "b")
    monkeypatch.setattr(limits, "MAX_BATCH", 1)  # so a page takes two calls
    seen = []

    def fill(number, call, send):
        if isinstance(call, Invoke) and call.script.name == "move":
            seen.append(call)
            if len(seen) == 2:
                raise QueueFull("Redis is full.")
        return send(call)

    steps = migrate_page(bench.engine, "default", NATIVE, "images")
    assert step(steps, Session("s"), send_with(bench.driver), fill) == Moved(2, 1)
    assert bench.queue() == [b"b"]
