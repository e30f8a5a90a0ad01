"""Leases that settle together: one call for all, once each has an outcome."""

from __future__ import annotations

from tenure.core.engine import HeartbeatReply
from tenure.core.outcome import Completed, Retried, Unroutable
from tenure.runtime.ports import ROUND_MOST
from tests.runtime.fakes import Gate, Rig, gated, task
from tests.support.fakes import FakeEngine


async def test_a_group_is_settled_in_one_call_when_all_have_ended():
    gates = {id: Gate() for id in "abc"}
    engine = FakeEngine(group="g")
    engine.add("a", task="a")
    engine.add("b", task="b")
    engine.add("c", task="c")
    specs = [gated(gates[name], name=name) for name in "abc"]
    async with Rig(specs[0], more=specs[1:], engine=engine, concurrency=3) as rig:
        for id, gate in gates.items():
            assert await gate.begun.get() == id
        engine.group = ""
        for id in "ab":
            gates[id].open.set()
        engine.add("alone", task="a")
        await rig.ends("alone")
        assert len(engine.settled) == 1, "the group waits for c"
        gates["c"].open.set()
        await rig.ends("a", "b", "c")
    assert engine.batches == [1, 3]


async def test_a_group_whose_first_job_has_no_handler_is_settled_in_one_call():
    engine = FakeEngine(group="g")
    engine.add("a", task="unknown")
    engine.add("b", "c", task="t")
    async with Rig(lambda: None, engine=engine) as rig:
        assert [type(end) for end in await rig.ends("a", "b", "c")] == [Unroutable, Completed, Completed]
    assert engine.batches == [3]


async def test_a_group_that_fails_in_part_is_settled_in_one_call():
    engine = FakeEngine(group="g")

    async def handle() -> None:
        engine.group = ""
        if len(started) == 1:
            started.append(2)
            raise RuntimeError("boom")
        started.append(1)

    started: list[int] = []
    engine.add("a", "b")
    async with Rig(task(handle, is_async=True, retries=3), engine=engine) as rig:
        assert {type(end) for end in await rig.ends("a", "b")} == {Completed, Retried}
    assert engine.batches[0] == 2


async def test_the_loss_of_a_member_lets_the_others_be_settled():
    gate, fast = Gate(), Gate()
    fast.open.set()
    engine = FakeEngine(group="g")
    engine.add("slow", task="slow")
    engine.add("fast", task="fast")
    async with Rig(gated(gate, name="slow"), more=[gated(fast, name="fast")], engine=engine) as rig:
        assert await fast.begun.get() == "fast"
        assert await gate.begun.get() == "slow"
        ref = engine.lose("slow")
        await rig.keeper.reports.put(HeartbeatReply(lost=frozenset({ref})))
        await rig.ends("fast")
    assert not engine.outcomes("slow")


async def test_a_group_larger_than_a_call_stays_together():
    ids = [f"j{n:03}" for n in range(ROUND_MOST + 50)]
    engine = FakeEngine(group="g")
    engine.add(*ids)
    gate = Gate()
    async with Rig(gated(gate), engine=engine, concurrency=len(ids)) as rig:
        for _ in ids:
            await gate.begun.get()
        gate.open.set()
        await rig.ends(*ids)
    assert engine.batches == [len(ids)]
