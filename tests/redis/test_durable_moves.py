"""Jobs that move to another node of a cluster: with durable=1 their source keeps them until replicas have the copy."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from tenure.core.errors import NotDurable
from tenure.core.job import NewJob, State
from tenure.core.outcome import Completed
from tenure.core.partitions import place_of
from tenure.core.steps import Command, Durable, Invoke, Reply, Steps, durably
from tenure.engines.native.cluster import NativeClusterEngine
from tenure.engines.native.partitions.engine import PartitionedEngine
from tenure.redis.sync import SyncDriver
from tests.redis.operations import RECORD
from tests.redis.watched import Pair, until
from tests.support.stepping import Send, Session, send_with, step


@pytest.fixture
def pair(redis_binary: str) -> Iterator[Pair]:
    with Pair(redis_binary) as pair:
        pair.settle()
        yield pair


@pytest.fixture
def driver(pair: Pair) -> Iterator[SyncDriver]:
    driver = SyncDriver(pair.master.tcp_url)
    yield driver
    driver.close()


def test_a_change_of_partitions_forgets_no_job_before_replicas_have_it(pair: Pair, driver: SyncDriver) -> None:
    engine = PartitionedEngine("test", make=partial(NativeClusterEngine, durable=1))
    ids = {f"id-{n}" for n in range(20)}
    driver.run(engine.enqueue([NewJob("q", id, b"p", own_id=True, delay_ms=3_600_000) for id in ids]))
    driver.run(engine.repartition("q", 8))
    pair.replica.pause()
    try:
        driver.run(engine.maintain(["q"], []))
        kept = pair.master.command("LLEN", f"{engine.prefix('q')}:moving") - 1
        assert kept > 0
        # Each one that has left partition 0 is still in `moving` there, though its new partition may have it.
        assert pair.master.command("HLEN", f"{engine.prefix('q')}:jobs") + kept == len(ids)
        some = next(id for id in ids if not pair.master.command("HEXISTS", f"{engine.prefix('q')}:jobs", id))
        with pytest.raises(NotDurable):
            driver.run(engine.job("q", some))
        with pytest.raises(NotDurable):
            driver.run(engine.enqueue([NewJob("q", id, b"p", own_id=True) for id in sorted(ids)]))
    finally:
        pair.replica.resume()

    def is_over() -> bool:
        pair.master.command("DEL", f"{engine.prefix('q')}:mover_is")
        for partition in range(8):
            pair.master.command("HDEL", f"{engine.prefix(place_of('q', partition))}:mover", "rest")
        driver.run(engine.maintain(["q"], []))
        return driver.run(engine.queue("q")).repartition is None

    until(is_over)
    view = driver.run(engine.queue("q"))
    assert (view.partitions, view.counts[State.SCHEDULED]) == (8, len(ids))


def test_a_migration_from_another_format_waits_for_the_replicas_of_its_destination(
    pair: Pair, driver: SyncDriver
) -> None:
    engine = PartitionedEngine("test", make=partial(NativeClusterEngine, durable=1))
    pair.replica.pause()
    try:
        with pytest.raises(NotDurable):
            driver.run(engine.import_jobs("move", [NewJob("q", "a", b"p", own_id=True)]))
    finally:
        pair.replica.resume()
    assert driver.run(engine.import_jobs("move", [NewJob("q", "a", b"p", own_id=True)])) == [True]
    assert driver.run(engine.queue("q")).counts[State.READY] == 1


@pytest.mark.parametrize("lags_at", ["settle", "outgoing"])
def test_what_is_on_its_way_leaves_a_queue_and_is_forgotten_there_when_replicas_have_it(
    pair: Pair, driver: SyncDriver, lags_at: str
) -> None:
    """`lags_at`: from where on the replica gets nothing: a failover could undo the settlement, or the copy."""
    engine = PartitionedEngine("test", make=partial(NativeClusterEngine, durable=1))
    driver.run(engine.enqueue([NewJob("q", "a", b"p")]))
    [lease] = driver.run(engine.lease("w", ("q",), 1, slots=1)).leases
    out = f"{engine.prefix('q')}:out:next"

    def lagging(number: int, call: Command | Invoke, send: Send) -> Reply:
        script = call.script.name if isinstance(call, Invoke) else ""
        if script.startswith("settle") and lags_at == "settle":
            pair.replica.pause()
        reply = send(call)
        if script == "outgoing" == lags_at:
            pair.replica.pause()
        return reply

    settling = engine.settle([(lease, Completed(b"", 0, (NewJob("next", "b", b"p"),)))])
    try:
        assert step(settling, Session("settler"), send_with(driver), lagging) == [True]
        assert pair.master.command("LLEN", out) == 1
        assert driver.run(engine.queue("next")).counts[State.READY] == (lags_at == "outgoing")
        [refused] = driver.run(engine.maintain(["q"], [])).refused
        assert "0 of 1 replicas had it" in refused.reason
    finally:
        pair.replica.resume()
    until(lambda: driver.run(engine.maintain(["q"], [])) and pair.master.command("LLEN", out) == 0)
    assert driver.run(engine.queue("next")).counts[State.READY] == 1


@pytest.mark.usefixtures("pair")
def test_a_part_of_a_durable_operation_may_wait_for_replicas_of_its_own(driver: SyncDriver) -> None:
    def steps() -> Steps[tuple[Durable[Reply], Reply]]:
        def one() -> Steps[Reply]:
            yield Command(("PING",))
            return (yield Invoke(RECORD, ("log",), ("x",)))

        inner = yield from durably(one(), 2)
        return inner, (yield from one())

    until(lambda: driver.run(durably(steps(), 1)).replicas == 1)
    done = driver.run(durably(steps(), 1))
    inner, outer = done.answer
    assert (inner.replicas, done.replicas) == (1, 1)
    assert outer == inner.answer + 1
