"""The whole worker on fakes: every test waits for what happens, none for time."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
import threading
import time
from typing import Any

import pytest

from tenure.core import limits
from tenure.core.engine import Timing
from tenure.core.errors import AccessDenied, InvalidArgument, PayloadInvalid, ReplyError, Unreachable
from tenure.core.job import Dropped, ErrorInfo, JobRecord, Lease, Leased
from tenure.core.outcome import Broken, Completed, Failed, Released, Retried, Unroutable
from tenure.runtime.jobs.job import Job, current_job
from tenure.runtime.log import Drops
from tenure.runtime.shutdown import ExitStatus
from tests.runtime.fakes import FakeKeeper, Gate, Rig, gated, task, warmed_up
from tests.support.fakes import FakeEngine, one_call

# ------------------------------------------------------------------------------------------------------------- running


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_jobs_run_and_are_completed_once(kind):
    async def on_loop() -> int:
        return 7

    def in_thread() -> int:
        return 7

    ids = [str(number) for number in range(1_000)]
    async with Rig(on_loop if kind == "async" else in_thread, concurrency=16, burst=True) as rig:
        rig.engine.add(*ids)
        assert await rig.ended() is ExitStatus.OK
    completed = [one for one in rig.engine.settled if one.outcome == Completed(b"7")]
    assert sorted(one.lease.record.id for one in completed) == sorted(ids)
    assert all(isinstance(one.outcome, Released) for one in rig.engine.settled if one not in completed)
    assert not rig.engine.refused
    assert max(rig.engine.batches) > 1


async def test_bytes_that_are_no_record_are_broken_and_never_given_to_a_handler():
    ran: list[str] = []
    async with Rig(task(lambda job: ran.append(job.id), name=None, decode=None), burst=True) as rig:
        rig.engine.add("garbage", task=None, malformed="no record")
        rig.engine.add("raw", task=None)
        assert await rig.ended() is ExitStatus.OK
    assert ran == ["raw"]
    ended = {one.lease.record.id: one.outcome for one in rig.engine.settled}
    assert ended["garbage"] == Broken(ErrorInfo("Malformed", "no record"))


async def test_a_payload_above_the_limit_is_broken_and_neither_decoded_nor_given_to_a_handler():
    met: list[int] = []

    def handler(job: Job) -> None:
        met.append(len(job.payload))

    def decode(payload: bytes) -> Any:
        met.append(len(payload))
        return (), {}

    more = [task(handler, name=None, decode=None)]
    async with Rig(task(lambda: None, decode=decode), burst=True, more=more, max_payload=1_000) as rig:
        for kind in ("t", None, "nobody's"):
            rig.engine.add(f"{kind} 1,000", task=kind, payload=b"x" * 1_000)
            rig.engine.add(f"{kind} 1,001", task=kind, payload=b"x" * 1_001)
        assert await rig.ended() is ExitStatus.OK
    assert met == [1_000, 1_000]
    for kind in ("t", None):
        (outcome,) = rig.engine.outcomes(f"{kind} 1,001")
        assert isinstance(outcome, Broken)
        assert (outcome.error.type, "1,001" in outcome.error.message) == ("PayloadTooLarge", True)
    assert rig.engine.outcomes("nobody's 1,001") == [Unroutable()]


async def test_parked_raw_payloads_are_asked_back_where_there_is_a_handler():
    async with Rig(task(lambda job: None, name=None, decode=None)) as rig:
        await rig.engine.until(lambda: rig.engine.raw_queues == {"q"})


async def test_burst_with_nothing_to_do_ends():
    async with Rig(lambda: None, burst=True) as rig:
        assert await rig.ended() is ExitStatus.OK
    assert rig.engine.left == 0
    assert rig.keeper.stopped


async def test_burst_waits_for_retries_of_its_own_jobs():
    def fail() -> None:
        raise ValueError("no")

    async with Rig(task(fail, retries=2), burst=True) as rig:
        rig.engine.add("a")
        await rig.ended()
    assert [type(outcome) for outcome in rig.engine.outcomes("a")] == [Retried, Retried, Failed]


async def test_a_new_job_wakes_an_idle_worker():
    async with Rig(lambda: None) as rig:
        await rig.engine.until(lambda: "wait" in rig.engine.calls)
        rig.engine.add("a")
        await rig.ends("a")


async def test_raw_payloads_get_the_job():
    seen: list[tuple[str, bytes, int]] = []

    async def handler(job: Job) -> None:
        assert current_job() is job
        seen.append((job.queue, job.payload, job.attempt))

    async with Rig(task(handler, name=None, decode=None), burst=True) as rig:
        rig.engine.add("a", task=None, payload=b"raw", failures=1, crashes=1)
        await rig.ended()
    assert seen == [("q", b"raw", 3)]


async def test_what_cannot_be_routed_is_parked_without_a_slot():
    gate = Gate()
    async with Rig(gated(gate), concurrency=1) as rig:
        rig.engine.add("unknown", task="nobody's")
        rig.engine.add("raw", task=None)
        rig.engine.add("known")
        await gate.begun.get()
        gate.open.set()
        assert await rig.ends("unknown", "raw", "known") == [Unroutable(), Unroutable(), Completed(b"None")]


@pytest.mark.parametrize("kind", [True, False])
async def test_a_payload_that_cannot_be_decoded_is_broken(kind):
    def decode(payload: bytes) -> Any:
        raise PayloadInvalid("expected an object")

    async def handler() -> None: ...

    spec = task(handler if kind else lambda: None, decode=decode)
    async with Rig(spec, burst=True) as rig:
        rig.engine.add("a")
        await rig.ended()
    (outcome,) = rig.engine.outcomes("a")
    assert isinstance(outcome, Broken)
    assert "expected an object" in outcome.error.message


@pytest.mark.parametrize("kind", ["async", "sync"])
@pytest.mark.parametrize(
    "error",
    [SystemExit(1), KeyboardInterrupt(), GeneratorExit(), MemoryError(), asyncio.CancelledError(), StopIteration()],
)
async def test_whatever_a_handler_raises_is_a_failed_attempt(kind, error):
    async def on_loop() -> None:
        raise error

    def in_thread() -> None:
        raise error

    async with Rig(task(on_loop if kind == "async" else in_thread, retries=0), burst=True) as rig:
        rig.engine.add("a", "b")
        assert await rig.ended() is ExitStatus.OK
    assert [type(one.outcome) for one in rig.engine.settled] == [Failed, Failed]


async def test_endless_recursion_is_a_failed_attempt():
    async def dig() -> None:
        await dig()

    async with Rig(task(dig, retries=0), burst=True) as rig:
        rig.engine.add("a")
        await rig.ended()
    (outcome,) = rig.engine.outcomes("a")
    assert isinstance(outcome, Failed)
    assert outcome.error.type == "RecursionError"


async def test_a_handler_that_cancels_itself_harms_nobody_else():
    async def cancel() -> None:
        me = asyncio.current_task()
        assert me is not None
        me.cancel()

    async with Rig(task(cancel, retries=0), concurrency=1, burst=True) as rig:
        rig.engine.add("a", "b")
        assert await rig.ended() is ExitStatus.OK
    assert len(rig.engine.settled) == 2


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_context_variables_do_not_leak_from_job_to_job(kind):
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="clean")
    seen: list[str] = []

    def look() -> None:
        seen.append(variable.get())
        variable.set("dirty")

    async def alook() -> None:
        look()

    async with Rig(alook if kind == "async" else look, concurrency=1, burst=True) as rig:
        rig.engine.add("a", "b", "c")
        await rig.ended()
    assert seen == ["clean"] * 3
    assert current_job() is None


async def test_the_current_job_reaches_tasks_that_a_handler_makes():
    seen: list[str] = []

    async def child() -> None:
        job = current_job()
        assert job is not None
        seen.append(job.id)

    async def handler() -> None:
        await asyncio.gather(child(), asyncio.create_task(child()))

    async with Rig(handler, burst=True) as rig:
        rig.engine.add("a")
        await rig.ended()
    assert seen == ["a", "a"]


async def test_never_more_than_concurrency_run_at_once():
    running, most = 0, 0

    async def handler() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    async with Rig(handler, concurrency=3, burst=True) as rig:
        rig.engine.add(*map(str, range(50)))
        await rig.ended()
    assert most == 3


async def test_queues_take_turns_in_being_looked_at_first():
    async with Rig(lambda: None, queues=["a", "b", "c"], concurrency=1) as rig:
        ids = [f"{queue}{number}" for number in range(6) for queue in "abc"]
        for id in ids:
            rig.engine.add(id, queue=id[0])
        await rig.ends(*ids)
    assert {order[0] for order in rig.engine.orders} == {"a", "b", "c"}


async def test_weights_say_how_often_a_queue_is_looked_at_first():
    gate = Gate()
    async with Rig(gated(gate), queues=["a", "b"], weights={"a": 3}, concurrency=1) as rig:
        for number in range(20):
            rig.engine.add(f"a{number}", queue="a")
            rig.engine.add(f"b{number}", queue="b")
        # Long enough to look like jobs that are not worth claiming ahead: one claim for each.
        for _ in range(8):
            await gate.begun.get()
            await asyncio.sleep(0.05)
            gate.open.set()
            await asyncio.sleep(0)
            gate.open.clear()
        orders = rig.engine.orders[:8]
    assert [order[0] for order in orders] == ["a", "a", "b", "a"] * 2
    assert all(sorted(order) == ["a", "b"] for order in orders)


async def test_a_claim_that_asks_for_another_gets_it_at_once_and_does_not_end_a_burst():
    engine = FakeEngine()
    engine.ghosts = 50
    async with Rig(lambda: None, engine=engine, burst=True) as rig:
        engine.add("a")
        assert await rig.ended() is ExitStatus.OK
    assert engine.outcomes("a") == [Completed(b"None")]
    assert "wait" not in engine.calls


# --------------------------------------------------------------------------------------------------- claiming ahead


async def test_nothing_is_claimed_before_the_keeper_keeps():
    keeper = FakeKeeper(ready=False)
    async with Rig(lambda: None, keeper=keeper) as rig:
        rig.engine.add("a")
        await rig.engine.until(lambda: rig.engine.calls.count("maintain") > 1)
        assert "lease" not in rig.engine.calls
        keeper.beat()
        await rig.ends("a")


async def test_what_waits_behind_long_jobs_is_handed_back_in_order():
    gate = Gate()
    async with Rig(gated(gate), concurrency=1) as rig:
        await warmed_up(rig, gate)
        rig.engine.add("long", *(f"next{number}" for number in range(5)))
        await rig.engine.until(
            lambda: [lease.record.id for lease in rig.engine.ready["q"]] == [f"next{number}" for number in range(5)]
        )
        assert [ref.id for ref in rig.engine.held] == ["long"]
        assert {type(one.outcome) for one in rig.engine.settled} <= {Completed, Released}
        gate.open.set()
        await rig.engine.until(lambda: not rig.engine.ready["q"] and not rig.engine.held)
    assert not rig.engine.refused


# --------------------------------------------------------------------------------------------------------- timeouts


async def test_an_async_handler_over_time_is_cancelled():
    gate = Gate()
    async with Rig(gated(gate, retries=0)) as rig:
        rig.engine.add("a", timeout_ms=1)
        (outcome,) = await rig.ends("a")
    assert isinstance(outcome, Failed)
    assert outcome.error.type == "Timeout"
    assert gate.cancelled == ["a"]


async def test_a_sync_handler_over_time_is_settled_and_keeps_its_slot():
    release = threading.Event()
    seen: list[bool] = []

    def handler() -> None:
        job = current_job()
        assert job is not None
        if job.id == "slow":
            release.wait()
            seen.append(job.lost)

    async with Rig(task(handler, retries=0), concurrency=1) as rig:
        rig.engine.add("slow", timeout_ms=1)
        rig.engine.add("next")
        await rig.engine.until(lambda: bool(rig.engine.outcomes("slow")))
        assert not any(isinstance(outcome, Completed) for outcome in rig.engine.outcomes("next"))
        release.set()
        await rig.engine.until(lambda: Completed(b"None") in rig.engine.outcomes("next"))
    assert seen == [True]
    assert len(rig.engine.outcomes("slow")) == 1
    assert not rig.engine.refused


async def test_a_handler_that_refuses_to_end_is_given_up():
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    async with Rig(task(stubborn, retries=0), limits={"cancel_ms": 1}) as rig:
        rig.engine.add("a", timeout_ms=1)
        (outcome,) = await rig.ends("a")
        assert isinstance(outcome, Failed)
        release.set()
    assert rig.engine.outcomes("a") == [outcome]


# ------------------------------------------------------------------------------------------------- losing and extending


async def test_a_lost_lease_ends_its_handler_and_is_not_settled():
    gate = Gate()
    async with Rig(gated(gate)) as rig:
        rig.engine.add("a")
        await gate.begun.get()
        rig.keeper.beat(lost=[rig.engine.lose("a")])
        gate.begun = asyncio.Queue()
        rig.engine.add("b")
        await gate.begun.get()
        gate.open.set()
        await rig.ends("b")
    assert gate.cancelled == ["a"]
    assert rig.engine.outcomes("a") == []
    assert not rig.engine.refused


async def test_a_late_outcome_is_refused_and_told(caplog):
    gate = Gate()
    with caplog.at_level(logging.WARNING, "tenure.worker"):
        async with Rig(gated(gate)) as rig:
            rig.engine.add("a")
            await gate.begun.get()
            rig.engine.lose("a")
            gate.open.set()
            await rig.engine.until(lambda: bool(rig.engine.refused))
    assert "lease_lost queue=q task=t id=a" in caplog.text


@pytest.mark.parametrize("is_lost", [False, True])
async def test_an_outcome_is_logged_after_redis_has_answered(caplog, is_lost):
    engine, asked, answer = FakeEngine(), asyncio.Event(), asyncio.Event()

    def settle(settlements):
        async def call() -> list[bool]:
            asked.set()
            await answer.wait()
            return [engine._settle_one(*one) for one in settlements]

        return one_call(call)

    def handler() -> None:
        raise KeyError

    def told() -> list[str]:
        return [line.partition(" token")[0] for line in caplog.messages if line.startswith(("failed", "lease_lost"))]

    engine.settle = settle  # type: ignore[method-assign]
    with caplog.at_level(logging.DEBUG, "tenure.worker"):
        async with Rig(task(handler, retries=0), engine=engine) as rig:
            engine.add("a")
            await asked.wait()
            assert told() == []
            if is_lost:
                engine.lose("a")
            answer.set()
        assert rig.done is not None
    [line] = told()
    assert line.startswith("lease_lost queue=q task=t id=a" if is_lost else "failed queue=q task=t id=a")
    assert [one for one in caplog.messages if "error=KeyError at=" in one and "test_worker.py" in one]


async def test_a_flood_of_dropped_entries_is_counted_in_a_few_lines(caplog):
    engine, claims = FakeEngine(), 100

    def lease(*_: Any, **__: Any):
        def call() -> Leased:
            nonlocal claims
            engine._note("lease")
            if claims == 0:
                return Leased()
            claims -= 1
            return Leased(dropped=tuple(Dropped("q", f"g{claims}-{n}", "no job") for n in range(100)), next_ms=0)

        return one_call(call)

    engine.lease = lease  # type: ignore[method-assign]
    with caplog.at_level(logging.WARNING, "tenure.worker"):
        async with Rig(lambda: None, engine=engine):
            await engine.until(lambda: claims == 0)
    lines = [line for line in caplog.messages if line.startswith("entry_dropped")]
    assert lines[0].startswith("entry_dropped queue=q count=100 ids=g99-0,g99-1,g99-2,g99-3,g99-4 reason='no job'")
    assert sum(int(line.partition("count=")[2].partition(" ")[0]) for line in lines) == 10_000
    assert len(lines) < 20


def test_dropped_entries_are_logged_at_most_every_ten_seconds(caplog):
    times: list[float] = []
    drops = Drops(lambda: times[-1])
    counts: list[int] = []
    with caplog.at_level(logging.WARNING, "tenure.worker"):
        for now in (100.0, 101.0, 109.9, 110.0, 111.0):
            times.append(now)
            drops.add([Dropped("q", "a", "no job"), Dropped("q", "b", "no job")])
            drops.log()
            counts.append(len(caplog.messages))
    assert counts == [1, 1, 1, 2, 2]
    assert "count=6 " in caplog.messages[1]


async def test_extend_from_a_thread_and_on_the_loop():
    answers: list[bool] = []

    def in_thread() -> None:
        job = current_job()
        assert job is not None
        answers.append(job.extend(60))
        assert job.remaining is not None
        assert 0 < job.remaining <= 60
        with pytest.raises(InvalidArgument):
            job.extend(0)

    async def on_loop() -> None:
        job = current_job()
        assert job is not None
        with pytest.raises(InvalidArgument, match="aextend"):
            job.extend(60)
        answers.append(await job.aextend(60))

    for function in (in_thread, on_loop):
        async with Rig(task(function, retries=0), burst=True) as rig:
            rig.engine.add("a")
            await rig.ended()
        assert rig.engine.outcomes("a") == [Completed(b"None")]
    assert answers == [True, True]


async def test_extend_of_a_lost_lease_answers_false_and_ends_the_attempt():
    answers: list[bool] = []

    async def handler() -> None:
        job = current_job()
        assert job is not None
        rig.engine.lose("a")
        answers.append(await job.aextend(60))
        assert job.lost

    async with Rig(handler) as rig:
        rig.engine.add("a")
        await rig.engine.until(lambda: bool(answers) and rig.engine.calls.count("lease") > 1)
    assert answers == [False]
    assert not rig.engine.settled
    assert not rig.engine.refused


async def test_an_orphaned_lease_seen_twice_is_handed_back():
    async with Rig(lambda: None) as rig:
        await rig.engine.until(lambda: "wait" in rig.engine.calls)
        orphan = Lease(rig.worker.id, 99, JobRecord("s", "q", b"", 0), 0, 0)
        rig.engine.held[orphan.ref] = orphan
        rig.keeper.beat(orphaned=[orphan])
        rig.keeper.beat(orphaned=[])
        rig.engine.add("a")
        await rig.ends("a")
        assert rig.engine.outcomes("s") == []
        rig.keeper.beat(orphaned=[orphan])
        await rig.engine.until(lambda: rig.engine.outcomes("s") == [Released()])


async def test_an_orphaned_lease_that_may_belong_to_a_claim_under_way_is_left_alone():
    """The claim has happened in Redis, its reply is late, and the beat that follows finds a job that we do not know."""
    late = asyncio.Event()
    gate = Gate()
    gate.open.set()
    async with Rig(gated(gate), concurrency=1) as rig:
        await rig.engine.until(lambda: "wait" in rig.engine.calls)
        rig.driver.after = lambda call: late.wait() if call == "lease" else None
        rig.engine.add("a")
        await rig.engine.until(lambda: bool(rig.engine.held))
        (lease,) = rig.engine.held.values()
        for _ in range(5):
            rig.keeper.beat(orphaned=[lease])
        await rig.keeper.heard(5)
        late.set()
        assert await rig.ends("a") == [Completed(b"None")]


async def test_old_leases_are_shown_to_the_keeper():
    gate = Gate()
    engine = FakeEngine()
    async with Rig(gated(gate), engine=engine) as rig:
        engine.add("a")
        await gate.begun.get()
        for _ in range(1_000):
            rig.keeper.beat()
            await rig.keeper.heard(1)
            if any(rig.keeper.shown):
                break
            await asyncio.sleep(0.001)
        assert [ref.id for ref in rig.keeper.shown[-1]] == ["a"]
        gate.open.set()


async def test_the_keeper_is_told_of_more_time_before_the_handler_goes_on():
    """The handler may block the event loop from then on."""
    told: list[float] = []

    async def handler() -> None:
        job = current_job()
        assert job is not None
        await job.aextend(1_000)
        told.append(max(rig.keeper.shown[-1].values()) - time.monotonic())

    async with Rig(task(handler, timeout_ms=5_000)) as rig:
        rig.engine.add("a")
        await rig.ends("a")
    assert told[0] > 1_000


async def test_what_has_an_outcome_is_not_given_up_however_long_redis_is_away():
    away = True

    def fault(name: str) -> None:
        if name == "settle" and away:
            raise Unreachable("no Redis")

    async with Rig(task(lambda: None, timeout_ms=5_000)) as rig:
        rig.driver.fault = fault
        rig.engine.add("a")
        while [*(rig.keeper.shown or [{}])[-1].values()] != [math.inf]:  # before the handler has ended: its timeout
            rig.keeper.beat()
            await rig.keeper.heard(1)
            await asyncio.sleep(0.001)
        away = False
        await rig.ends("a")


async def test_only_queues_of_which_something_is_held_are_kept():
    gate = Gate()
    async with Rig(gated(gate), queues=["q", "r", "s"], concurrency=2) as rig:
        await rig.engine.until(lambda: "wait" in rig.engine.calls)
        assert rig.keeper.kept == [frozenset()]
        rig.engine.add("a", queue="r")
        await gate.begun.get()
        await rig.engine.until(lambda: rig.engine.calls.count("wait") > 1)
        assert rig.keeper.kept == [frozenset(), frozenset("qrs"), frozenset("r")]
        gate.open.set()
        await rig.ends("a")
        rig.engine.add("b", queue="s")
        await rig.ends("b")
        await rig.engine.until(lambda: rig.keeper.kept[-1] == frozenset())


# --------------------------------------------------------------------------------------------------------------- faults


async def test_a_dead_keeper_is_replaced():
    async with Rig(lambda: None) as rig:
        await rig.engine.until(lambda: "wait" in rig.engine.calls)
        rig.keeper.die()
        rig.engine.add("a")
        await rig.ends("a")
    assert rig.keeper.starts == 2


async def test_a_settle_call_without_an_answer_is_made_again():
    failures = 3

    def fault(call: str) -> None:
        nonlocal failures
        if call == "settle" and failures:
            failures -= 1
            raise Unreachable("gone")

    async with Rig(lambda: None, concurrency=4, burst=True) as rig:
        rig.driver.fault = fault
        rig.engine.add("a", "b", "c")
        assert await rig.ended() is ExitStatus.OK
    assert {one.lease.record.id for one in rig.engine.settled} == {"a", "b", "c"}


async def test_a_settle_call_whose_reply_was_lost_is_not_called_a_loss(caplog):
    cut = True

    def after(call: str) -> None:
        nonlocal cut
        if call == "settle" and cut:
            cut = False
            raise Unreachable("gone")

    with caplog.at_level(logging.WARNING, "tenure.worker"):
        async with Rig(lambda: None, burst=True) as rig:
            rig.driver.after = after
            rig.engine.add("a")
            assert await rig.ended() is ExitStatus.OK
    assert "certain=False" in caplog.text
    assert len(rig.engine.settled) == 1


async def test_one_line_when_redis_refuses_the_worker_which_continues(caplog):
    away, failed = True, asyncio.Event()

    def fault(call: str) -> None:
        if away:
            failed.set()
            raise AccessDenied("wrong password")

    with caplog.at_level(logging.DEBUG, "tenure.worker"):
        async with Rig(lambda: None) as rig:
            rig.driver.fault = fault
            await failed.wait()
            away = False
            rig.engine.add("a")
            await rig.ends("a")
    assert caplog.text.count("redis_refused what=access") == 1


async def test_a_refusal_of_one_queue_does_not_hold_up_the_others():
    engine = FakeEngine()
    settle = engine.settle

    def picky(settlements: Any) -> Any:
        if any(lease.record.queue == "bad" for lease, _ in settlements):
            raise ReplyError("WRONGTYPE", "a foreign key")
        return settle(settlements)

    engine.settle = picky  # type: ignore[method-assign]
    async with Rig(lambda: None, engine=engine, queues=["bad", "good"], concurrency=4) as rig:
        engine.add("b", queue="bad")
        engine.add("g", queue="good")
        await rig.ends("g")
        engine.settle = settle  # type: ignore[method-assign]
        await rig.ends("b")


async def test_answers_count_although_the_call_for_another_queue_failed(caplog):
    engine = FakeEngine()
    gate = Gate()
    failures = 1
    settle = engine.settle

    def far(settlements: Any) -> Any:
        """Like the engine: a call for each queue, and one of them without an answer."""
        nonlocal failures
        queues = list(dict.fromkeys(lease.record.queue for lease, _ in settlements))
        if failures and queues[-1] == "far":
            failures -= 1
            for one in settlements:
                if one[0].record.queue != "far":
                    engine._settle_one(*one)
            raise Unreachable("gone")
        return settle(settlements)

    engine.settle = far  # type: ignore[method-assign]
    with caplog.at_level(logging.WARNING, "tenure.worker"):
        async with Rig(gated(gate), engine=engine, queues=["near", "far"]) as rig:
            engine.add("n", queue="near")
            engine.add("f", queue="far")
            await gate.begun.get()
            await gate.begun.get()
            gate.open.set()
            await rig.ends("n", "f")
    assert not engine.refused
    assert "lease_lost" not in caplog.text


async def test_a_loop_that_keeps_failing_stops_the_worker(caplog):
    engine = FakeEngine()
    engine.maintain = None  # type: ignore[assignment, method-assign]
    async with Rig(lambda: None, engine=engine, limits={"redis_pause_ms": 1}) as rig:
        assert await rig.ended() is ExitStatus.FAILED
    assert "loop_failed loop=maintain" in caplog.text


# --------------------------------------------------------------------------------------------------------- stopping


async def test_a_stop_hands_back_what_has_not_started_and_lets_the_rest_finish():
    gate = Gate()
    async with Rig(gated(gate), concurrency=1) as rig:
        await warmed_up(rig, gate)
        rig.engine.add("running", "waiting")
        await gate.begun.get()
        rig.worker.stop()
        await rig.engine.until(lambda: [lease.record.id for lease in rig.engine.ready["q"]] == ["waiting"])
        gate.open.set()
        assert await rig.ended() is ExitStatus.OK
    assert Completed(b"None") in rig.engine.outcomes("running")
    assert rig.engine.left == 0
    assert gate.cancelled == []


async def test_jobs_that_arrive_with_a_claim_under_way_at_a_stop_go_back():
    late = asyncio.Event()
    async with Rig(lambda: None) as rig:
        await rig.engine.until(lambda: "wait" in rig.engine.calls)
        rig.driver.after = lambda call: late.wait() if call == "lease" else None
        rig.engine.add("a")
        await rig.engine.until(lambda: bool(rig.engine.held))
        rig.worker.stop()
        late.set()
        assert await rig.ended() is ExitStatus.OK
    assert rig.engine.outcomes("a") == [Released()]
    assert [lease.record.id for lease in rig.engine.ready["q"]] == ["a"]


async def test_what_a_late_claim_brings_goes_back_in_order_with_what_had_not_started():
    gate = Gate()
    late = asyncio.Event()
    async with Rig(
        gated(gate), concurrency=1, limits={"claim_most": 2, "settle_most": 2, "stuck_ms": limits.MINUTE}
    ) as rig:
        await warmed_up(rig, gate)

        def after(call: str) -> Any:
            # The claim of the first two is answered; the one after it is under way at the stop.
            return late.wait() if call == "lease" and "d" in {ref.id for ref in rig.engine.held} else None

        rig.driver.after = after
        rig.engine.add("a", "b", "c", "d")
        await gate.begun.get()
        await rig.engine.until(lambda: "d" in {ref.id for ref in rig.engine.held})
        rig.worker.stop()
        await asyncio.sleep(0.02)
        late.set()
        await rig.engine.until(lambda: len(rig.engine.ready["q"]) == 3)
        assert [lease.record.id for lease in rig.engine.ready["q"]] == ["b", "c", "d"]
        gate.open.set()
        assert await rig.ended() is ExitStatus.OK


async def test_a_worker_maintains_again_before_its_interval_ends_when_the_engine_wishes_it():
    engine = FakeEngine(timing=Timing(beat_ms=20, idle_wait_ms=200, maintain_ms=3_600_000, presence_ms=50), next_ms=1)
    async with Rig(lambda: None, engine=engine):
        await engine.until(lambda: engine.calls.count("maintain") >= 2)


async def test_a_worker_without_a_free_slot_is_not_woken_in_the_place_of_another():
    """It claims ahead while its jobs are short; to wait for more would take the wake-up from one that is idle."""
    gate = Gate()
    async with Rig(gated(gate), concurrency=1) as rig:
        await warmed_up(rig, gate)
        rig.engine.add("a")
        await gate.begun.get()
        rig.engine.calls.clear()
        await rig.engine.until(lambda: rig.engine.calls.count("maintain") >= 3)
        assert "wait" not in rig.engine.calls
        gate.open.set()
        await rig.engine.until(lambda: "wait" in rig.engine.calls)


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_handler_that_will_not_end_is_told_of(caplog, kind):
    release = threading.Event()
    begun = threading.Event()

    async def stubborn() -> None:
        begun.set()
        while not release.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    def stuck() -> None:
        begun.set()
        release.wait()

    with caplog.at_level(logging.INFO, "tenure.worker"):
        async with Rig(stubborn if kind == "async" else stuck, grace_ms=0, limits={"cancel_ms": 10}) as rig:
            rig.engine.add("a")
            await asyncio.to_thread(begun.wait)
            rig.worker.stop()
            assert await rig.ended() is ExitStatus.ABANDONED
            release.set()
    assert rig.engine.left == 1
    assert "handlers_running=1" in caplog.text


async def test_after_grace_handlers_are_cancelled_and_their_jobs_given_back():
    gate = Gate()
    async with Rig(gated(gate), grace_ms=0) as rig:
        rig.engine.add("a")
        await gate.begun.get()
        rig.worker.stop()
        assert await rig.ended() is ExitStatus.OK
    assert gate.cancelled == ["a"]
    assert rig.engine.left == 1
    assert not rig.engine.settled


async def test_a_second_stop_is_hard():
    release = threading.Event()
    begun = threading.Event()

    def stuck() -> None:
        begun.set()
        release.wait()

    async with Rig(stuck, grace_ms=60_000) as rig:
        rig.engine.add("a")
        await asyncio.to_thread(begun.wait)
        rig.worker.stop()
        rig.worker.stop()
        assert await rig.ended() is ExitStatus.HARD
    release.set()
    assert rig.engine.left == 1


async def test_a_stop_ends_although_redis_is_away():

    def fault(call: str) -> None:
        raise Unreachable("gone")

    gate = Gate()
    async with Rig(gated(gate), limits={"flush_ms": 10, "cancel_ms": 10, "leave_ms": 10}) as rig:
        rig.engine.add("a")
        await gate.begun.get()
        rig.driver.fault = fault
        gate.open.set()
        rig.worker.stop()
        assert await rig.ended() is ExitStatus.ABANDONED
    # Its outcome has not arrived. The keeper can give the job back, and nobody is to blame.
    assert rig.keeper.left is False
