"""How many connections a process has: they age, they have a maximum, and a server without room for one says so."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tenure.core.errors import Unreachable
from tenure.core.steps import Reply, Steps
from tenure.redis.aio import AsyncDriver
from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer
from tests.redis.conftest import Drive
from tests.redis.operations import command
from tests.support.waiting import until

SOON = {"idle_ms": 20, "idle_check_ms": 10}
CROWD = 12
BLOCK_MS = 50


def connections(server: RedisServer) -> int:
    """Connections to the server but that of this question."""
    listed: bytes = server.command("CLIENT", "LIST")
    return listed.count(b"\n") - 1


def wait_for_key() -> Steps[Reply]:
    return command("BLPOP", "nothing", BLOCK_MS / 1000, block_ms=BLOCK_MS)


def in_threads(driver: SyncDriver) -> set[int]:
    """Run that many waits at once. The ids of the connections that they had."""
    barrier = threading.Barrier(CROWD)

    def work(_: int) -> int:
        barrier.wait(10)
        driver.run(wait_for_key())
        number: int = driver.run(command("CLIENT", "ID"))
        return number

    with ThreadPoolExecutor(CROWD) as pool:
        return set(pool.map(work, range(CROWD)))


@pytest.fixture
def blocking(private_server: RedisServer) -> Iterator[Callable[..., SyncDriver]]:
    made: list[SyncDriver] = []

    def make(**options: int) -> SyncDriver:
        made.append(SyncDriver(private_server.url, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for driver in made:
        driver.close()


@pytest.fixture
async def own(private_server: RedisServer) -> AsyncIterator[Callable[..., AsyncDriver]]:
    made: list[AsyncDriver] = []

    def make(**options: int) -> AsyncDriver:
        made.append(AsyncDriver(private_server.url, **options))
        return made[-1]

    yield make
    for driver in made:
        await driver.close()


def test_after_a_burst_of_threads_one_connection_stays(
    private_server: RedisServer, blocking: Callable[..., SyncDriver]
) -> None:
    driver = blocking(**SOON)
    in_threads(driver)
    until(lambda: connections(private_server) == 1)
    assert driver.run(command("PING")) == b"PONG"


async def test_after_a_burst_of_tasks_one_connection_stays(
    private_server: RedisServer, own: Callable[..., AsyncDriver]
) -> None:
    driver = own(**SOON)
    async with driver.subscribe("news"):
        await asyncio.gather(*(driver.run(wait_for_key()) for _ in range(CROWD)))
        assert await driver.run(command("PING")) == b"PONG"
    while await asyncio.to_thread(connections, private_server) > 1:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    async with driver.subscribe("news") as messages:
        await driver.run(command("PUBLISH", "news", "again"))
        assert await messages.get(10) == b"again"


def test_threads_have_no_more_connections_than_the_maximum(
    private_server: RedisServer, blocking: Callable[..., SyncDriver]
) -> None:
    assert len(in_threads(blocking(max_connections=4))) <= 4
    assert connections(private_server) <= 4


async def test_tasks_have_no_more_connections_than_the_maximum(
    private_server: RedisServer, own: Callable[..., AsyncDriver]
) -> None:
    driver = own(max_connections=4)
    async with driver.subscribe("news"):
        await asyncio.gather(*(driver.run(wait_for_key()) for _ in range(CROWD)))
        assert await driver.run(command("PING")) == b"PONG"
        assert await asyncio.to_thread(connections, private_server) <= 4


def test_a_call_that_finds_all_connections_in_use_says_so(private_server: RedisServer) -> None:
    driver = SyncDriver(f"{private_server.url}?max_connections=3", patience_ms=50)
    with ThreadPoolExecutor(3) as pool:
        waits = [pool.submit(driver.run, command("BLPOP", f"key{number}", 60, block_ms=60_000)) for number in range(3)]
        until(lambda: private_server.command("INFO", "clients").count(b"blocked_clients:3") == 1)
        with pytest.raises(Unreachable, match=r"All 3 connections .* were in use\. Nothing was done.*MAX_CONNECTIONS"):
            driver.run(command("PING"))
        for number, wait in enumerate(waits):
            private_server.command("RPUSH", f"key{number}", "value")
            assert wait.result(10)[1] == b"value"
    driver.close()


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_a_server_without_room_says_so_each_time(
    make_server: Callable[..., RedisServer], drive: Callable[..., Drive], transport: str
) -> None:
    server = make_server(tcp=True)
    url = server.url if transport == "unix" else server.tcp_url
    one = drive(url)
    assert one.run(command("PING")) == b"PONG"
    server.command("CONFIG", "SET", "maxclients", "2")
    for _ in range(10):
        other = drive(url, patience_ms=0)
        with pytest.raises(Unreachable) as raised:
            other.run(command("PING"))
        assert "had no room for another connection" in str(raised.value)
        assert "Nothing was done" in str(raised.value)
        assert "may or may not" not in str(raised.value)
