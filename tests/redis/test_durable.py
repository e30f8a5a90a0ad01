"""Waiting for replicas: a real master with a real replica, which is there, slow or gone."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

import pytest

from tenure.client.enqueue import enqueue_durably
from tenure.core.errors import NotDurable, QueueFull, ReplyError, WrongState
from tenure.core.job import NewJob, State
from tenure.core.steps import Command, Draw, Durable, Invoke, Reply, Script, Steps, durably
from tenure.engines.native.partitions.engine import PartitionedEngine
from tenure.testing.server import RedisServer
from tests.redis.conftest import Drive
from tests.redis.operations import RECORD, command, invoke, record
from tests.redis.proxy import Cut, Proxy
from tests.redis.watched import Pair, until

MakeDrive = Callable[..., Drive]


@pytest.fixture(scope="module")
def shared_pair(redis_binary: str) -> Iterator[Pair]:
    with Pair(redis_binary) as pair:
        yield pair


@pytest.fixture
def pair(shared_pair: Pair) -> Pair:
    shared_pair.settle()
    shared_pair.master.flush()
    return shared_pair


def append(key: str = "log") -> Steps[Reply]:
    """A write without a nonce's help: shows how often it was run."""
    yield Draw()
    return (yield Invoke(RECORD, (key,), ("x",)))


@pytest.mark.usefixtures("waits_long")
def test_a_durable_write_is_on_the_replica_when_the_call_returns(pair: Pair, drive: MakeDrive) -> None:
    one = drive(pair.master.tcp_url)
    for number in range(1, 30):
        assert one.run(durably(append(), 1)) == Durable(number, 1)
        assert pair.replica.command("LLEN", "log") == number


def test_too_few_replicas_are_counted_and_the_answer_is_kept(pair: Pair, drive: MakeDrive) -> None:
    one = drive(pair.master.tcp_url)
    assert one.run(durably(append(), 2)) == Durable(1, 1)
    pair.replica.pause()
    try:
        assert one.run(durably(append(), 1)) == Durable(2, 0)
    finally:
        pair.replica.resume()
    # Whoever calls again waits for what others have written before, too.
    until(lambda: one.run(durably(append(), 1)).replicas == 1)
    assert pair.replica.command("LLEN", "log") == pair.master.command("LLEN", "log")


def test_an_enqueue_that_is_not_durable_says_so_and_can_be_repeated(pair: Pair, drive: MakeDrive) -> None:
    one, engine = drive(pair.master.tcp_url), PartitionedEngine("shop")
    job = NewJob("orders", "order-1", b"payload s3cret", own_id=True)
    pair.replica.pause()
    try:
        with pytest.raises(NotDurable, match=r"Job 'order-1' is enqueued, but 0 of 1 replicas") as caught:
            one.run(enqueue_durably(engine, [job], 1))
    finally:
        pair.replica.resume()
    assert (caught.value.ids, caught.value.replicas, caught.value.wanted) == (("order-1",), 0, 1)
    assert "s3cret" not in str(caught.value)
    assert str(copy.copy(caught.value)) == str(caught.value)
    assert one.run(engine.queue("orders")).counts[State.READY] == 1
    [again] = one.run(enqueue_durably(engine, [job], 1))
    assert not again.created
    # The replica's keys are those of the master.
    assert sorted(pair.replica.command("KEYS", "*")) == sorted(pair.master.command("KEYS", "*"))
    assert one.run(engine.queue("orders")).counts[State.READY] == 1


@pytest.mark.usefixtures("waits_long")
def test_a_call_cut_off_while_it_waits_is_made_again(pair: Pair, drive: MakeDrive) -> None:
    with Proxy(pair.master.socket_path) as proxy:
        one = drive(proxy.url)
        one.run(record())
        proxy.cuts.append(Cut(b"WAIT"))
        done = one.run(durably(record(), 1))
    assert not proxy.cuts
    nonce, length = done.answer
    assert (length, done.replicas) == (3, 1)
    sent = f"{nonce.session}:{nonce.number}".encode()
    assert pair.replica.command("LRANGE", "log", 1, -1) == [sent, sent]  # the same nonce


@pytest.mark.usefixtures("waits_long")
def test_errors_and_plain_commands_are_as_without(pair: Pair, drive: MakeDrive) -> None:
    one = drive(pair.master.tcp_url)
    assert one.run(durably(command("PING"), 5)) == Durable(b"PONG", 5)
    with pytest.raises(ReplyError, match="TNNO"):
        one.run(durably(invoke(Script("no", "return redis.error_reply('TNNO way')")), 1))
    pair.master.command("SET", "string", "x")

    def steps() -> Steps[Reply]:
        try:
            yield Invoke(RECORD, ("string",), ("x",))
        except WrongState:
            return (yield from append())

    assert one.run(durably(steps(), 1)) == Durable(1, 1)
    assert one.run(command("ECHO", "in order")) == b"in order"


def test_a_user_who_may_not_wait_is_told_and_the_write_counts(pair: Pair, drive: MakeDrive) -> None:
    pair.master.command("ACL", "SETUSER", "hasty", "on", ">pw", "~*", "&*", "+@all", "-wait")
    one = drive(pair.master.tcp_url.replace("redis://", "redis://hasty:pw@"))
    done = one.run(durably(append(), 1))
    assert (done.answer, done.replicas) == (1, 0)
    assert "NOPERM" in done.trouble
    with pytest.raises(NotDurable, match="refused to wait for its replicas") as caught:
        one.run(enqueue_durably(PartitionedEngine("shop"), [NewJob("orders", "a", b"")], 1))
    assert caught.value.trouble == done.trouble
    assert one.run(command("ECHO", "in order")) == b"in order"


def test_a_refused_write_waits_for_nobody(make_server: Callable[..., RedisServer], drive: MakeDrive) -> None:
    server = make_server()
    server.command("CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(QueueFull):
        drive(server.url).run(durably(append(), 1))
    assert b"cmdstat_wait" not in server.command("INFO", "commandstats")


def test_what_does_not_know_how_to_wait_has_not_waited() -> None:
    """A driver that takes no notice of what is asked for must not look as if it had waited."""
    steps = durably(append(), 2)
    assert isinstance(next(steps), Draw)
    call = steps.send(None)
    assert isinstance(call, Invoke)
    assert call.replicas == 2
    with pytest.raises(StopIteration) as stop:
        steps.send(7)
    assert stop.value.value == Durable(7, 0, "the driver does not wait for replicas")


def test_an_operation_that_is_left_is_closed() -> None:
    closed: list[bool] = []

    def steps() -> Steps[None]:
        try:
            yield Command(("PING",))
        finally:
            closed.append(True)

    outer = durably(steps(), 1)
    next(outer)
    outer.close()
    assert closed == [True]
