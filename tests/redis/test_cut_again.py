"""Connections that are cut again and again, soon after they were made: nobody spins, and all comes about."""

from __future__ import annotations

import threading
import time

import pytest

from tenure import Tenure
from tenure.redis.aio import AsyncDriver
from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer
from tests.redis.proxy import Answer, Cut, Proxy
from tests.redis.waits import until_blocked
from tests.support.waiting import until

TIMES = 8
PAUSES_S = 0.7
"""At least, of so many pauses one after the other that grow."""
WHOLE = 10_000
"""Of a reply: it arrives, and then the connection is cut."""


def publish_afterwards(server: RedisServer, proxy: Proxy, heard: threading.Event) -> None:
    """Until it is heard: the first may go to the connection that is being cut last."""
    until(lambda: not proxy.cuts)
    until(lambda: server.command("PUBLISH", "news", "hello") and heard.wait(0.1), 60)


@pytest.mark.parametrize("keep", [0, WHOLE])
async def test_shared_subscriptions_pause(server: RedisServer, keep: int) -> None:
    with Proxy(server.socket_path) as proxy:
        driver, heard = AsyncDriver(proxy.url), threading.Event()
        async with driver.subscribe("other"):
            began = time.monotonic()
            proxy.cuts.extend([Cut(b"SUBSCRIBE", keep)] * TIMES)
            async with driver.subscribe("news") as messages:
                other = threading.Thread(target=publish_afterwards, args=(server, proxy, heard))
                other.start()
                assert await messages.get(30) == b"hello"
                heard.set()
                assert time.monotonic() - began > PAUSES_S
        other.join()
        await driver.close()


def test_a_subscription_pauses(server: RedisServer) -> None:
    with Proxy(server.socket_path) as proxy:
        driver, heard = SyncDriver(proxy.url), threading.Event()
        proxy.cuts.extend([Cut(b"SUBSCRIBE", WHOLE)] * TIMES)
        began = time.monotonic()
        with driver.subscribe("news") as messages:
            other = threading.Thread(target=publish_afterwards, args=(server, proxy, heard))
            other.start()
            assert messages.get(30) == b"hello"
            heard.set()
            assert time.monotonic() - began > PAUSES_S
        other.join()
        driver.close()


@pytest.mark.parametrize("mode", ["blocking", "async"])
@pytest.mark.parametrize("patience", [0, 10])
async def test_a_lease_that_is_waited_for_survives(server: RedisServer, patience: int, mode: str) -> None:
    with (
        Proxy(server.socket_path) as proxy,
        Tenure(proxy.url, namespace="cut", patience=patience) as app,
        Tenure(server.url, namespace="cut") as others,
    ):

        def enqueue() -> None:
            until(lambda: not proxy.answers)
            until_blocked(server)
            others.queue("q").enqueue(b"x")

        queue, other = app.queue("q"), threading.Thread(target=enqueue)
        proxy.answers.extend([Answer(b"BLPOP", b"-UNBLOCKED by a failover\r\n")] * TIMES)
        other.start()
        began = time.monotonic()
        if mode == "blocking":
            job = queue.lease(block=True, timeout=60)
        else:
            async with app:
                job = await queue.alease(block=True, timeout=60)
        other.join()
        assert job
        assert job.payload == b"x"
        assert time.monotonic() - began > PAUSES_S
