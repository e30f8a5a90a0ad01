"""Moving a queue to the native protocol: nothing is lost or doubled, wherever it is interrupted."""

from __future__ import annotations

from leasehold.core.job import NewJob
from leasehold.core.outcome import Completed
from leasehold.engines.native import NativeEngine
from leasehold.engines.redis_work_queue.migrate import migrate_page
from tests.support.stepping import Crashed, Session, send_with, step
from tests.wire.redis_work_queue.bench import Bench

NATIVE = NativeEngine("shop")


def migrate(bench: Bench) -> int:
    moved = 0
    while page := bench.run(migrate_page(bench.engine, "default", NATIVE, "images")).count:
        moved += page
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


def test_an_id_that_another_job_has_there_is_not_lost(bench: Bench) -> None:
    bench.run(NATIVE.enqueue([NewJob("images", "a", b"other", own_id=True)]))
    bench.put("a", "b")
    page = bench.run(migrate_page(bench.engine, "default", NATIVE, "images"))
    assert (page.count, page.refused) == (1, ("a",))
    assert bench.state("a") is not None
    assert drained(bench) == ["a", "b"]
    assert migrate(bench) == 1
    assert drained(bench) == ["a"]


def test_it_may_be_interrupted_anywhere(bench: Bench) -> None:
    for cut in range(1, 12):
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
            migrate(bench)
            assert drained(bench) == ["a", "b", "c"]
            assert (bench.lengths(), bench.items()) == ((0, 0), 0)
