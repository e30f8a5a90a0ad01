"""Sentinels: the master is found, checked and found again, by every kind of connection."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from urllib.parse import quote

import pytest

from tenure.core.errors import AccessDenied, Unreachable
from tenure.core.steps import WaitLost
from tenure.redis.aio import AsyncDriver
from tenure.redis.drivers import blocking_driver
from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer
from tests.redis.conftest import Drive
from tests.redis.operations import command, record
from tests.redis.waits import until_blocked
from tests.redis.watched import SERVICE, Watched, until
from tests.support.waiting import LIMIT_S

pytestmark = pytest.mark.timeout(180)
MakeDrive = Callable[..., Drive]
PASSWORD = "p@:/%w"
SENTINEL_PASSWORD = "s@:/%w"


@pytest.fixture(scope="module")
def shared(redis_binary: str) -> Iterator[Watched]:
    with Watched(redis_binary, password=PASSWORD, sentinel_password=SENTINEL_PASSWORD) as watched:
        yield watched


@pytest.fixture
def watched(shared: Watched) -> Watched:
    shared.settle()
    shared.master.flush()
    return shared


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "tenure.redis"]


def test_the_master_is_found_by_both_drivers(watched: Watched, drive: MakeDrive) -> None:
    one = drive(watched.url())
    assert one.run(command("ROLE"))[0] == b"master"
    assert one.run(command("CONFIG", "GET", "port"))[1] == str(watched.master.port).encode()
    assert one.run(record())[1] == 1


def test_dead_sentinels_are_passed_over(watched: Watched, drive: MakeDrive) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.setblocking(False)
        one = drive(watched.url(1, silent.getsockname()[1], *watched.ports))
        assert one.run(command("ROLE"))[0] == b"master"
        silent.accept()[0].close()
        # The one that answered is asked first from now on.
        assert watched.master.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        assert one.run(command("ROLE"))[0] == b"master"
        with pytest.raises(BlockingIOError):
            silent.accept()


def test_no_sentinel_at_all_is_unreachable(drive: MakeDrive) -> None:
    one = drive(f"redis+sentinel://:s3cret@127.0.0.1:1,127.0.0.1:2/{SERVICE}?sentinel_password=t0p", patience_ms=0)
    with pytest.raises(Unreachable, match=r"sentinel 127\.0\.0\.1:2") as caught:
        one.run(command("PING"))
    assert f"redis+sentinel://***@127.0.0.1:1,127.0.0.1:2/{SERVICE}/0" in str(caught.value)
    for secret in ("s3cret", "t0p"):
        assert secret not in f"{caught.value} {caught.value.__cause__!r} {one.driver!r}"


def test_an_unknown_service_is_named(watched: Watched, drive: MakeDrive) -> None:
    with pytest.raises(Unreachable, match="knows no service 'ship'"):
        drive(watched.url().replace(f"/{SERVICE}/", "/ship/"), patience_ms=0).run(command("PING"))


@pytest.mark.parametrize(
    ("wrong", "says"), [("p%40", "password in the URL"), ("s%40", "`sentinel_password` in the URL")]
)
def test_a_wrong_password_says_whose(watched: Watched, drive: MakeDrive, wrong: str, says: str) -> None:
    with pytest.raises(AccessDenied) as caught:
        drive(watched.url().replace(wrong, "wr0ng")).run(command("PING"))
    assert says in str(caught.value)
    for secret in ("wr0ng", PASSWORD, SENTINEL_PASSWORD):
        assert secret not in f"{caught.value} {caught.value.__cause__!r}"


@contextmanager
def liar(port: int) -> Iterator[int]:
    """A sentinel that names this port, whatever it is asked."""

    def serve(listener: socket.socket) -> None:
        while True:
            try:
                client = listener.accept()[0]
            except OSError:
                return
            with client:
                while request := client.recv(4096):
                    where = b"*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%d\r\n" % (len(str(port)), port)
                    client.sendall(where if b"SENTINEL" in request else b"+OK\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def test_a_replica_is_never_talked_to(watched: Watched, drive: MakeDrive) -> None:
    calls = watched.replica.command("INFO", "commandstats")
    with liar(watched.replica.port) as port:
        one = drive(
            watched.url(port).replace("sentinel_password", "sentinel_username=u&sentinel_password"), patience_ms=0
        )
        with pytest.raises(Unreachable, match="named as the master, but it is no master"):
            one.run(command("GET", "a key"))
        assert (b"cmdstat_get" in calls) == (b"cmdstat_get" in watched.replica.command("INFO", "commandstats"))
        # One that is behind the times does no harm beside others.
        assert drive(watched.url(port, *watched.ports)).run(command("ROLE"))[0] == b"master"


@pytest.mark.parametrize("how", ["killed", "frozen", "told to"])
def test_every_kind_of_connection_follows_the_master(
    watched: Watched, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    """A driver with an idle connection, one that is blocked, and subscriptions of both drivers."""
    old, new = watched.master, watched.replica
    try:
        asyncio.run(_follow(watched, how, old, new, caplog))
    finally:
        if how == "frozen":
            old.resume()


async def _pop(driver: AsyncDriver) -> object:
    """As workers do: a wait whose connection is lost is over, and another begins."""
    while True:
        try:
            return await driver.run(command("BLPOP", "list", 90, block_ms=2_000))
        except WaitLost:
            await asyncio.sleep(0.05)


async def _follow(
    watched: Watched, how: str, old: RedisServer, new: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    driver, blocking = AsyncDriver(watched.url(), patience_ms=60_000), SyncDriver(watched.url(), patience_ms=60_000)
    waits = AsyncDriver(watched.url(), patience_ms=60_000)
    await driver.run(record())
    blocking.run(record())
    loop = asyncio.get_running_loop()
    with caplog.at_level(logging.INFO, "tenure.redis"), ThreadPoolExecutor(2) as pool:
        async with driver.subscribe("news") as messages:
            with blocking.subscribe("news") as others:
                waiting = asyncio.create_task(_pop(waits))
                heard = loop.run_in_executor(pool, others.get, LIMIT_S)
                await asyncio.to_thread(until_blocked, old)
                if how == "told to":
                    await asyncio.to_thread(watched.fail_over)
                else:
                    old.kill() if how == "killed" else old.pause()
                # Both find the new master by themselves, and write there.
                await driver.run(record("after"))
                await loop.run_in_executor(pool, blocking.run, record("after"))
                assert new.command("ROLE")[0] == b"master"
                assert new.command("LLEN", "after") >= 1
                await asyncio.to_thread(until, lambda: new.command("PUBSUB", "NUMSUB", "news")[1] == 2)
                await asyncio.to_thread(until_blocked, new)
                await driver.run(command("PUBLISH", "news", "hello"))
                while not waiting.done():
                    # More than one: the first may go to a connection that was just given up.
                    await driver.run(command("RPUSH", "list", "x"))
                    await asyncio.wait([waiting], timeout=0.5)
                assert await messages.get(LIMIT_S) == b"hello"
                assert await heard == b"hello"
                assert await waiting == [b"list", b"x"]
    for one in (driver, waits):
        await one.close()
    blocking.close()
    told = lines(caplog)
    # One line for each change, for each driver.
    assert sum("master_changed" in line for line in told) == 3, told
    assert sum("redis_lost" in line for line in told) == sum("redis_restored" in line for line in told) <= 3, told
    assert not any(secret in " ".join(told) for secret in (PASSWORD, SENTINEL_PASSWORD, "p%40", "s%40"))


def test_an_idle_connection_to_an_old_master_is_not_used(watched: Watched) -> None:
    """Another thread has found the new one: what is in the pool leads to one that does not know it is none."""
    driver = SyncDriver(watched.url())
    driver.run(command("PING"))
    [link] = driver._idle
    sentinels = driver._connector._sentinels
    assert sentinels is not None
    sentinels.master = ("127.0.0.1", 1)
    assert driver.run(command("PING")) == b"PONG"
    assert link not in driver._idle
    driver.close()


def test_the_master_gets_the_credentials_of_a_function_and_the_sentinels_their_own(watched: Watched) -> None:
    url = watched.url().replace(f"{quote(PASSWORD, safe='')}@", "wrong@")
    assert url != watched.url()
    driver = blocking_driver(url, lambda: (PASSWORD,))
    assert driver.run(command("ROLE"))[0] == b"master"
    driver.close()
