"""Moving a queue to the native protocol: nothing is lost or doubled, wherever it is interrupted."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import msgspec
import pytest

from tenure.core.errors import InvalidArgument, QueueFull, WrongState
from tenure.core.job import NewJob, State
from tenure.core.outcome import Completed
from tenure.core.steps import Invoke
from tenure.engines.kit.chunks import JOB_BYTES
from tenure.engines.kit.moving import EXPORT_MOST, RESUME_MS, Moved
from tenure.engines.native.partitions.engine import PartitionedEngine
from tests.support.moves import move
from tests.support.stepping import Crashed, Session, send_with, step
from tests.wire.redis_work_queue.bench import Bench

NATIVE = PartitionedEngine("shop")


def page(bench: Bench, engine: PartitionedEngine = NATIVE) -> Moved:
    return bench.run(move(bench.engine, "default", engine, "images"))


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
    bench.put(
        "a", data=b'[["cat.png"],{}]', task="shop.thumbnail", timeout_ms=5_000, retries=7, headers={"tenant": "7"}
    )
    bench.foreign_add("b", b"\x00\xff")
    migrate(bench)
    a, b = bench.run(NATIVE.lease("n", ["images"], 5)).leases
    assert (a.record.task, a.record.payload, a.record.timeout_ms, a.record.retries) == (
        "shop.thumbnail",
        b'[["cat.png"],{}]',
        5_000,
        7,
    )
    assert a.record.headers == {"tenant": "7"}
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
    ids = [f"i{n}" for n in range(EXPORT_MOST + 10)]
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


def test_a_refused_move_leaves_the_jobs_in_their_queue(bench: Bench) -> None:
    bench.put("a", "b")
    key = f"{NATIVE.prefix('images')}:ready"
    bench.command("SET", key, "of another program")
    with pytest.raises(WrongState):
        page(bench)
    assert bench.queue() == [b"a", b"b"]
    bench.command("DEL", key)
    assert migrate(bench) == 2


def move_while_full(bench: Bench, script: str, room: int, meanwhile: Callable[[], object]) -> Moved:
    """Move two jobs into a full queue. It has room again, and `meanwhile` runs, before the call of this script."""
    bench.run(NATIVE.configure("images", max_length=1))
    bench.run(NATIVE.enqueue([NewJob("images", "there", b"x")]))
    bench.put("a", "b")
    calls: list[int] = []

    def meddle(number, call, send):
        is_it = isinstance(call, Invoke) and call.script.name == script
        if is_it and (script != "enqueue" or call.args[2] == room):
            calls.append(number)
            bench.run(NATIVE.configure("images", max_length=10))
            meanwhile()
        return send(call)

    steps = move(bench.engine, "default", NATIVE, "images")
    try:
        return step(steps, Session("s"), send_with(bench.driver), meddle)
    finally:
        assert len(calls) == 1


def test_another_run_adds_the_jobs_before_a_full_move_is_given_up(bench: Bench) -> None:
    others: list[int] = []
    assert move_while_full(bench, "enqueue", 0, lambda: others.append(migrate(bench))).count == 2
    assert others == [2]
    assert bench.queue() == []
    assert drained(bench) == ["there", "a", "b"]


def test_another_run_adds_nothing_after_a_full_move_was_given_up(bench: Bench) -> None:
    def other() -> None:
        with pytest.raises(QueueFull):
            page(bench)

    with pytest.raises(QueueFull):
        move_while_full(bench, "end_export", 0, other)
    assert bench.queue() == [b"a", b"b"]
    assert migrate(bench) == 2
    assert drained(bench) == ["there", "a", "b"]


def test_an_item_that_is_added_again_replaces_the_one_that_is_returned(bench: Bench) -> None:
    with pytest.raises(QueueFull):
        move_while_full(bench, "end_export", 0, lambda: bench.foreign_add("a", b"another"))
    assert (bench.queue(), bench.command("GET", "jobs:item:a")) == ([b"a", b"b", b"a"], b"another")


@pytest.mark.parametrize("size", [100, 2 * JOB_BYTES])
def test_a_page_of_large_items_has_fewer(bench: Bench, size: int) -> None:
    bench.put("a", "b", "c", data=b"x" * size)
    assert bench.run(move(bench.engine, "default", NATIVE, "images", limit=2)).count == (2 if size == 100 else 1)


def test_what_a_client_took_before_does_not_move(bench: Bench) -> None:
    bench.put("held", "pushed", "a")
    assert bench.foreign_lease() == b"held"
    bench.foreign_push("held")
    assert page(bench) == Moved(3, 2)
    assert drained(bench) == ["pushed", "a"]
    assert bench.processing() == [b"held"]


@pytest.mark.parametrize("data", [b"p", b"another"])
def test_an_item_that_is_added_again_on_the_way_is_another_one(bench: Bench, data: bytes) -> None:
    bench.put("a", data=b"p")

    def meddle(number, call, send):
        if isinstance(call, Invoke) and call.script.name == "end_export":
            bench.foreign_add("a", data)
        return send(call)

    steps = move(bench.engine, "default", NATIVE, "images")
    assert step(steps, Session("s"), send_with(bench.driver), meddle) == Moved(1, 1)
    assert drained(bench) == ["a"]
    assert bench.drain() == ["a"]


def test_what_is_sent_again_moves_once(bench: Bench) -> None:
    """The reply was lost; meanwhile the job has run, nothing of it is kept, and its id was used again."""
    bench.put("a")
    bench.foreign_push("a")

    def twice(number, call, send):
        reply = send(call)
        if isinstance(call, Invoke) and call.script.name == "enqueue":
            assert drained(bench) == ["a"]
            assert send(call) == reply
        elif isinstance(call, Invoke) and call.script.name == "end_export":
            bench.put("a", data=b"another")
            assert send(call) == 0
        elif isinstance(call, Invoke) and call.script.name == "export":
            assert send(call)[:2] == reply[:2]
        return reply

    steps = move(bench.engine, "default", NATIVE, "images")
    assert step(steps, Session("s"), send_with(bench.driver), twice) == Moved(2, 1)
    assert bench.drain() == ["a"]
    assert bench.run(NATIVE.queue("images")).counts[State.READY] == 0


def cut_after(bench: Bench, calls: int, send_last: bool, to: str = "images") -> None:
    """Move a page, and die before or after the call of this number."""

    def crash(number, call, send):
        if number == calls and not send_last:
            raise Crashed
        reply = send(call)
        if number == calls:
            raise Crashed
        return reply

    steps = move(bench.engine, "default", PartitionedEngine("shop"), to)
    with contextlib.suppress(Crashed):
        step(steps, Session("s"), send_with(bench.driver), crash)


@pytest.mark.parametrize("send_last", [False, True])
@pytest.mark.parametrize("calls", [1, 2, 3, 4, 5])
def test_it_may_be_interrupted_anywhere(bench: Bench, calls: int, send_last: bool) -> None:
    bench.put("a", "b", "c")
    cut_after(bench, calls, send_last)
    bench.deep()
    bench.put("d")
    ran = drained(bench)  # whatever arrived runs, and leaves no record
    migrate(bench)
    assert ran + drained(bench) == ["a", "b", "c", "d"]
    assert (bench.lengths(), bench.items()) == ((0, 0), 0)
    assert bench.command("EXISTS", "jobs:meta:moving") == 0


def test_an_interrupted_move_goes_where_it_began_to_go(bench: Bench) -> None:
    bench.put("a")
    cut_after(bench, 3, send_last=True)
    with pytest.raises(InvalidArgument, match=f"its NAMESPACE:QUEUE was '{NATIVE.namespace}:\\w+'. Run it again"):
        bench.run(move(bench.engine, "default", NATIVE, "elsewhere"))
    assert migrate(bench) == 1
    assert drained(bench) == ["a"]


def test_a_move_that_began_too_long_ago_is_not_continued(bench: Bench) -> None:
    bench.put("a")
    cut_after(bench, 1, send_last=True)
    name, to, began = msgspec.msgpack.decode(bench.command("LINDEX", "jobs:meta:moving", 0))
    old = msgspec.msgpack.encode((name, to, began - RESUME_MS - 1_000))
    bench.command("LSET", "jobs:meta:moving", 0, old)
    with pytest.raises(InvalidArgument, match="29 days ago"):
        page(bench)
    assert bench.command("LLEN", "jobs:meta:moving") == 2
    assert bench.run(bench.engine.queue("default")).counts[State.READY] == 1


def test_ids_that_no_native_job_can_have_stay(bench: Bench) -> None:
    unfit = ["", "@lane", "x" * 256]
    for id in ["a", *unfit, "b"]:
        bench.foreign_add(id)
    assert page(bench) == Moved(5, 2, (), tuple(unfit))
    assert bench.queue() == [id.encode() for id in unfit]
    assert page(bench) == Moved(3, 0, (), tuple(unfit))
    assert drained(bench) == ["a", "b"]
