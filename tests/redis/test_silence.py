"""The other end vanishes without a word (no FIN, no RST): every kind of connection notices in time and is made anew."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable

import pytest

from tenure.core import limits
from tenure.core.errors import Unreachable
from tenure.core.steps import Command, Invoke, WaitLost
from tenure.redis import wire
from tenure.redis.aio import AsyncDriver
from tenure.redis.subscription import PING_MS
from tenure.redis.sync import SyncDriver
from tenure.redis.wire import BLOCK_LATE_MS, SLOW_BYTES_PER_S
from tenure.testing.server import RedisServer
from tests.redis.conftest import Drive
from tests.redis.operations import RECORD, command, record
from tests.redis.proxy import Proxy
from tests.redis.waits import until_blocked

MakeDrive = Callable[..., Drive]
# Noticed within the time that the call may block and 2 s; the rest is for a busy machine.
SLACK_S = 2.9


def test_a_call_notices_within_two_seconds(server: RedisServer, drive: MakeDrive) -> None:
    assert limits.REPLY_TIMEOUT_MS <= 2 * limits.SECOND
    with Proxy(server.socket_path) as proxy:
        one = drive(proxy.url)
        one.run(record())
        proxy.hole()
        before = time.monotonic()
        assert one.run(record())[1] == 2
        assert time.monotonic() - before < 2 + SLACK_S
        assert proxy.connections == 2


def test_a_wait_for_work_notices_within_its_time_and_two_seconds(server: RedisServer, drive: MakeDrive) -> None:
    """What wakes it goes to the dead connection, so it does not wait again: who asked looks, on a new one."""
    with Proxy(server.socket_path) as proxy:
        one = drive(proxy.url)
        one.run(record())
        server.command("DEL", "wake")

        def vanish_then_push() -> None:
            until_blocked(server)
            proxy.hole()
            server.command("RPUSH", "wake", "a")

        other = threading.Thread(target=vanish_then_push)
        other.start()
        before = time.monotonic()
        with pytest.raises(WaitLost):
            one.run(command("BLPOP", "wake", "2", block_ms=2_000))
        assert one.run(record())[1] == 2
        assert time.monotonic() - before < 2 + 2 + SLACK_S
        other.join()
        assert server.command("EXISTS", "wake") == 0
        # For asyncio, a wait has a connection of its own, beside that of the other calls.
        assert proxy.connections == (2 if isinstance(one.driver, SyncDriver) else 3)


def test_a_subscription_notices(server: RedisServer) -> None:
    with Proxy(server.socket_path) as proxy:
        driver = SyncDriver(proxy.url)
        with driver.subscribe("news") as messages:
            proxy.hole()
            before = time.monotonic()
            threading.Thread(target=_publish_when_heard, args=(server, 2)).start()
            assert messages.get(30) == b"hello"
        assert time.monotonic() - before < PING_MS / 1000 + 2 + SLACK_S
        driver.close()


async def test_shared_subscriptions_notice(server: RedisServer) -> None:
    with Proxy(server.socket_path) as proxy:
        driver = AsyncDriver(proxy.url)
        async with driver.subscribe("news") as messages, driver.subscribe("other"):
            proxy.hole()
            before = time.monotonic()
            threading.Thread(target=_publish_when_heard, args=(server, 2)).start()
            assert await messages.get(30) == b"hello"
        assert time.monotonic() - before < PING_MS / 1000 + 2 + SLACK_S
        await driver.close()


def _publish_when_heard(server: RedisServer, subscribers: int) -> None:
    # The server still counts the subscriber that has vanished.
    until = time.monotonic() + 30
    while server.command("PUBSUB", "NUMSUB", "news")[1] < subscribers and time.monotonic() < until:
        time.sleep(0.01)
    server.command("PUBLISH", "news", "hello")


def test_while_nothing_passes_it_is_unreachable_and_after_that_all_is_well(
    server: RedisServer, drive: MakeDrive, caplog: pytest.LogCaptureFixture
) -> None:
    with Proxy(server.socket_path) as proxy, caplog.at_level(logging.INFO, "tenure.redis"):
        options = {"patience_ms": 600, "reply_timeout_ms": 200, "connect_timeout_ms": 200}
        one = drive(proxy.url.replace("unix://", "unix://default:s3cr%40t@"), **options)
        server.command("ACL", "SETUSER", "default", ">s3cr@t")
        try:
            one.run(record())
            caplog.clear()  # a busy machine may have been late before
            proxy.hole(new=True)
            for _ in range(3):
                with pytest.raises(Unreachable):
                    one.run(record())
            proxy.hole_new = False
            assert one.run(record())[1] == 2
            told = [entry.getMessage() for entry in caplog.records if entry.name == "tenure.redis"]
            one.run(record())
        finally:
            server.command("ACL", "SETUSER", "default", "nopass")
    assert [line.split()[0] for line in told] == ["redis_lost", "redis_restored"], told
    assert "error='no reply in time'" in told[0]
    assert float(told[1].rpartition("after_s=")[2].split()[0]) >= 1
    assert not any(secret in "".join(told) for secret in ("s3cr@t", "s3cr%40t"))


def test_a_large_reply_may_take_longer_than_silence_may(server: RedisServer) -> None:
    """It drips in: in all it takes three times the timeout, and is never silent for as long."""
    payload = b"x" * 1_000_000
    server.command("SET", "large", payload)

    async def fetch() -> bytes:
        driver = AsyncDriver(f"unix://{path}", patience_ms=0, reply_timeout_ms=1_000)
        try:
            reply: bytes = await driver.run(command("GET", "large"))
            return reply
        finally:
            await driver.close()

    with Proxy(server.socket_path) as proxy:
        path = proxy.url.removeprefix("unix://")
        proxy.pause_s = 0.2
        before = time.monotonic()
        assert asyncio.run(fetch()) == payload
        assert time.monotonic() - before > 1.1


def test_a_large_call_gets_time_to_be_sent() -> None:
    small, large = Invoke(RECORD, ("k",), ("x",)), Invoke(RECORD, ("k",), ("x" * 4 * SLOW_BYTES_PER_S,))
    assert wire.time_for(small, wire.packed(small), 2.0) == 2.0
    assert wire.time_for(large, wire.packed(large), 2.0) > 6.0


def test_a_wait_is_given_up_before_two_seconds_are_over() -> None:
    wait = Command(("BLPOP", "k", "2"), block_ms=2_000)
    assert wire.time_for(wait, wire.packed(wait), 2.0) == 2 + BLOCK_LATE_MS / 1000 < 4
    assert wire.time_for(wait, wire.packed(wait), 0.5) == 2.5
