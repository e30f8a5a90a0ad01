"""What only the blocking driver promises: threads, forks, interrupted calls, and its subscriptions."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tenure.core.errors import Unreachable
from tenure.core.steps import Nonce
from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer
from tests.redis.operations import command, draw, record
from tests.redis.waits import until_blocked

pytestmark = pytest.mark.every_server

MakeDriver = Callable[..., SyncDriver]


@pytest.fixture
def make() -> Iterator[MakeDriver]:
    """Makes drivers that are closed after the test."""
    made: list[SyncDriver] = []

    def make_one(url: str, **options: int) -> SyncDriver:
        made.append(SyncDriver(url, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make_one
    for driver in made:
        driver.close()


def test_threads_share_a_driver_and_never_a_session(server: RedisServer, make: MakeDriver) -> None:
    driver = make(server.url, max_idle=4)
    barrier = threading.Barrier(8)

    def work(name: int) -> list[Nonce]:
        barrier.wait(10)
        nonces = []
        for number in range(100):
            assert driver.run(command("ECHO", f"{name}-{number}")) == f"{name}-{number}".encode()
            nonces.append(driver.run(record())[0])
        return nonces

    with ThreadPoolExecutor(8) as pool:
        drawn = [nonce for nonces in pool.map(work, range(8)) for nonce in nonces]
    assert len(set(drawn)) == len(drawn) == server.command("LLEN", "log")
    # Sent in the order drawn, within each session: Redis remembers only a session's last answer.
    last: dict[bytes, int] = {}
    for entry in server.command("LRANGE", "log", 0, -1):
        session, _, number = entry.rpartition(b":")
        assert int(number) > last.get(session, 0)
        last[session] = int(number)


class Interrupt(BaseException):
    """Stands for KeyboardInterrupt and the like."""


def test_an_interrupted_call_leaves_no_reply_behind(server: RedisServer, make: MakeDriver) -> None:
    driver = make(server.url)
    driver.run(command("PING"))
    [before] = driver.run(draw())

    def interrupt(number: int, frame: object) -> None:
        raise Interrupt

    def push_when_blocked() -> None:
        until_blocked(server)
        os.kill(os.getpid(), signal.SIGUSR1)

    previous = signal.signal(signal.SIGUSR1, interrupt)
    other = threading.Thread(target=push_when_blocked)
    try:
        other.start()
        with pytest.raises(Interrupt):
            driver.run(command("BLPOP", "list", 10, block_ms=10_000))
    finally:
        other.join()
        signal.signal(signal.SIGUSR1, previous)
    server.command("LPUSH", "list", "x")
    for number in range(10):
        assert driver.run(command("ECHO", number)) == str(number).encode()
    # That call drew no number, so no session was in doubt.
    assert driver.run(draw()) == [Nonce(before.session, before.number + 1)]


def test_parent_and_child_share_nothing_after_a_fork(server: RedisServer, make: MakeDriver) -> None:
    driver = make(server.url)
    nonce, _ = driver.run(record())
    connection = driver.run(command("CLIENT", "ID"))
    child = os.fork()
    if child == 0:
        status = 1
        try:
            own, _ = driver.run(record())
            apart = own.session != nonce.session and driver.run(command("CLIENT", "ID")) != connection
            driver.close()
            status = 0 if apart else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    # The parent's connection was neither closed nor used by the child.
    assert driver.run(command("CLIENT", "ID")) == connection
    again, length = driver.run(record())
    assert again == Nonce(nonce.session, nonce.number + 1)
    assert length == 3


def test_a_subscription_brings_messages_in_their_order(server: RedisServer, make: MakeDriver) -> None:
    driver = make(server.url)
    with driver.subscribe("channel") as messages:
        for text in ("one", "two"):
            assert driver.run(command("PUBLISH", "channel", text)) == 1
        assert [messages.get(5), messages.get(5), messages.get(0.01)] == [b"one", b"two", None]
        assert messages.get(0) is None
    assert _subscribers(server, "channel") == 0


def test_a_lost_subscription_is_made_anew(server: RedisServer, make: MakeDriver) -> None:
    driver = make(server.url)
    with driver.subscribe("channel") as messages, ThreadPoolExecutor(1) as pool:
        server.command("CLIENT", "KILL", "TYPE", "pubsub")
        message = pool.submit(messages.get, 10)
        while driver.run(command("PUBLISH", "channel", "hello")) == 0:
            time.sleep(0.005)
        assert message.result(10) == b"hello"


def test_a_subscription_without_redis_is_unreachable(make: MakeDriver) -> None:
    with pytest.raises(Unreachable), make("redis://127.0.0.1:1", patience_ms=20).subscribe("channel"):
        pass


def _subscribers(server: RedisServer, channel: str) -> int:
    until = time.monotonic() + 10
    while (count := server.command("PUBSUB", "NUMSUB", channel)[1]) and time.monotonic() < until:
        time.sleep(0.005)
    return int(count)
