"""What only the asyncio driver promises: cancellation, many tasks at once, and subscriptions on one connection."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import socket
import ssl
import struct
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tenure.core import limits
from tenure.core.errors import AccessDenied, InvalidArgument, Unreachable
from tenure.core.steps import Draw, Nonce, Steps
from tenure.redis.aio import AsyncDriver
from tenure.testing.server import RedisServer
from tests.redis.certificates import OPENSSL, Authority
from tests.redis.operations import command, draw, record

pytestmark = pytest.mark.every_server


async def _until(condition: object, seconds: float = 10.0) -> None:
    until = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < until, "it did not happen in time"
        await asyncio.sleep(0.002)


async def _echo(driver: AsyncDriver, text: str) -> bytes:
    reply: bytes = await driver.run(command("ECHO", text))
    return reply


async def test_a_call_cancelled_at_any_await_never_mixes_replies(server: RedisServer) -> None:
    driver = AsyncDriver(server.url)
    for steps in range(40):
        for warm in (False, True):
            if warm:
                await _echo(driver, "warm")
            task = asyncio.create_task(_echo(driver, f"cancelled {steps}"))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled() or task.result() == f"cancelled {steps}".encode()
            texts = [f"{steps} {number}" for number in range(3)]
            assert await asyncio.gather(*(_echo(driver, text) for text in texts)) == [text.encode() for text in texts]
    await driver.close()


async def test_calls_cancelled_at_random_never_mix_replies(server: RedisServer) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # shown when the test fails
    draws = random.Random(seed)
    driver = AsyncDriver(server.tcp_url, max_idle=8)
    tasks = [asyncio.create_task(_echo(driver, f"text {number}")) for number in range(300)]
    for task in draws.sample(tasks, 150):
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.wait(tasks)
    done = {number: task.result() for number, task in enumerate(tasks) if not task.cancelled()}
    assert all(reply == f"text {number}".encode() for number, reply in done.items())
    assert len(done) >= 150
    await driver.close()


async def test_a_cancellation_is_not_swallowed_and_takes_the_session_along(private_server: RedisServer) -> None:
    driver = AsyncDriver(private_server.url)
    first, _ = await driver.run(record())
    private_server.pause()
    task = asyncio.create_task(driver.run(record()))
    await asyncio.sleep(0.05)
    before = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - before < limits.REPLY_TIMEOUT_MS / limits.SECOND
    private_server.resume()
    [after] = await driver.run(draw())
    assert after.session != first.session
    await driver.close()


async def test_tasks_at_once_never_share_a_session(server: RedisServer) -> None:
    driver = AsyncDriver(server.url)

    def twice() -> Steps[list[Nonce]]:
        first, _ = yield from record()
        second: Nonce = yield Draw()
        return [first, second]

    drawn = await asyncio.gather(*(driver.run(twice()) for _ in range(50)))
    assert all(second == Nonce(first.session, first.number + 1) for first, second in drawn)
    assert len({first.session for first, _ in drawn}) == 50
    await driver.close()


async def test_a_thousand_subscriptions_share_one_connection(server: RedisServer) -> None:
    driver = AsyncDriver(server.url)
    ready = 0

    async def wait_for(number: int) -> bytes | None:
        nonlocal ready
        async with driver.subscribe(f"channel {number % 250}") as messages:
            ready += 1
            return await messages.get(60)

    tasks = [asyncio.create_task(wait_for(number)) for number in range(1_000)]
    await _until(lambda: ready == 1_000)
    assert (await driver.run(command("CLIENT", "LIST", "TYPE", "pubsub"))).count(b"\n") == 1
    for number in range(250):
        assert await driver.run(command("PUBLISH", f"channel {number}", f"message {number}")) == 1
    assert await asyncio.gather(*tasks) == [f"message {number % 250}".encode() for number in range(1_000)]
    await _until(lambda: server.command("PUBSUB", "CHANNELS") == [])
    await driver.close()


async def test_a_channel_stays_as_long_as_anybody_listens(server: RedisServer) -> None:
    driver = AsyncDriver(server.url)
    async with driver.subscribe("channel") as outer:
        async with driver.subscribe("channel") as inner:
            await driver.run(command("PUBLISH", "channel", "one"))
            assert await inner.get(5) == b"one"
        async with driver.subscribe("other"):  # its confirmation proves that what was sent before has arrived
            await driver.run(command("PUBLISH", "channel", "two"))
        assert [await outer.get(5), await outer.get(5), await outer.get(0.01)] == [b"one", b"two", None]
    await driver.close()


async def test_a_channel_left_and_joined_again_misses_nothing(server: RedisServer) -> None:
    driver = AsyncDriver(server.url)
    for number in range(100):
        async with driver.subscribe("channel") as messages:
            await driver.run(command("PUBLISH", "channel", number))
            assert await messages.get(5) == str(number).encode()
    await driver.close()


async def test_lost_subscriptions_are_made_anew(private_server: RedisServer) -> None:
    driver = AsyncDriver(private_server.url)
    async with driver.subscribe("a") as a, driver.subscribe("b") as b:
        await asyncio.to_thread(private_server.restart)
        await _until(lambda: private_server.command("PUBSUB", "NUMSUB", "a", "b") == [b"a", 1, b"b", 1])
        for channel in ("a", "b"):
            await driver.run(command("PUBLISH", channel, channel))
        assert [await a.get(5), await b.get(5)] == [b"a", b"b"]
    await driver.close()


async def test_a_subscription_outlives_a_refusal_that_passes(private_server: RedisServer) -> None:
    """As while somebody changes the password. Who subscribes meanwhile is told."""
    private_server.command("ACL", "SETUSER", "w", "on", ">pw", "allchannels", "+@all")
    driver = AsyncDriver(private_server.url.replace("unix://", "unix://w:pw@"))
    async with driver.subscribe("old") as old:
        private_server.command("ACL", "SETUSER", "w", "off")
        private_server.command("CLIENT", "KILL", "TYPE", "pubsub")
        for _ in range(2):
            with pytest.raises(AccessDenied):
                await driver.subscribe("new").__aenter__()
        private_server.command("ACL", "SETUSER", "w", "on")
        await _until(lambda: private_server.command("PUBSUB", "NUMSUB", "old", "new") == [b"old", 1, b"new", 0])
        private_server.command("PUBLISH", "old", "hello")
        assert await old.get(5) == b"hello"
    await driver.close()


async def test_a_cancelled_listener_does_not_harm_the_others(server: RedisServer) -> None:
    driver = AsyncDriver(server.url)
    async with driver.subscribe("stays") as messages:
        connection = await driver.run(command("CLIENT", "LIST", "TYPE", "pubsub"))
        for steps in range(20):

            async def listen(number: int = steps) -> None:
                async with driver.subscribe(f"leaves {number}") as other:
                    await other.get(10)

            task = asyncio.create_task(listen())
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        await driver.run(command("PUBLISH", "stays", "hello"))
        assert await messages.get(5) == b"hello"
        after = await driver.run(command("CLIENT", "LIST", "TYPE", "pubsub"))
        assert after.split()[0] == connection.split()[0]
    await driver.close()


async def test_a_subscription_without_redis_is_unreachable() -> None:
    driver = AsyncDriver("redis://127.0.0.1:1", patience_ms=100)
    with pytest.raises(Unreachable):
        async with driver.subscribe("channel"):
            pass
    await driver.close()


async def test_a_subscription_with_a_wrong_password_is_denied(private_server: RedisServer) -> None:
    driver = AsyncDriver(private_server.url.replace("unix://", "unix://nobody:wr0ng@"))
    with pytest.raises(AccessDenied) as caught:
        async with driver.subscribe("channel"):
            pass
    assert "wr0ng" not in str(caught.value)
    await driver.close()


def test_a_driver_belongs_to_one_loop(server: RedisServer) -> None:
    driver = AsyncDriver(server.url)
    with asyncio.Runner() as first, asyncio.Runner() as second:
        first.run(driver.run(command("PING")))
        with pytest.raises(InvalidArgument, match="another event loop"):
            second.run(driver.run(command("PING")))
        first.run(driver.close())


def test_a_child_makes_connections_and_sessions_of_its_own(server: RedisServer) -> None:
    driver = AsyncDriver(server.url)
    with asyncio.Runner() as runner:
        nonce, _ = runner.run(driver.run(record()))
        connection = runner.run(driver.run(command("CLIENT", "ID")))
        child = os.fork()
        if child == 0:
            status = 1
            try:
                with asyncio.Runner() as own:
                    drawn, _ = own.run(driver.run(record()))
                    apart = own.run(driver.run(command("CLIENT", "ID"))) != connection
                    own.run(driver.close())
                status = 0 if apart and drawn.session != nonce.session else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert runner.run(driver.run(command("CLIENT", "ID"))) == connection
        runner.run(driver.close())


async def test_a_call_that_is_cancelled_after_the_driver_was_closed_leaves_no_connection(server: RedisServer) -> None:
    driver = AsyncDriver(server.url)
    await _echo(driver, "a")
    link = driver._shared
    assert link is not None
    call = asyncio.create_task(_echo(driver, "b"))
    await asyncio.sleep(0)  # it sends
    assert link.is_busy
    await driver.close()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert link._transport.is_closing()


@pytest.mark.skipif(OPENSSL is None, reason="there is no openssl program to make certificates with")
def test_a_tls_server_that_answers_nothing_leaves_no_connection(tmp_path: Path) -> None:
    """TLS would close it with the server, which does not answer. The loop ends before that."""
    authority = Authority(tmp_path, "ours")
    node = authority.sign("node", "IP:127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(node.cert, node.key)

    def serve(listener: socket.socket) -> ssl.SSLSocket:
        connection = context.wrap_socket(listener.accept()[0], server_side=True)
        assert connection.recv(1), "the password"
        return connection

    async def give_up(url: str, serving: Future[ssl.SSLSocket]) -> ssl.SSLSocket:
        driver = AsyncDriver(url)
        call = asyncio.create_task(driver.run(command("PING")))
        connection = await asyncio.wrap_future(serving)
        await driver.close()
        await asyncio.wait([call])
        return connection

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        url = f"rediss://:secret@127.0.0.1:{listener.getsockname()[1]}/0?ssl_ca_certs={authority.own.cert}"
        connection = asyncio.run(give_up(url, pool.submit(serve, listener)))
    gc.collect()  # an open transport is an error of the test
    connection.close()


@pytest.mark.parametrize("is_reset", [True, False])
async def test_a_server_that_ends_the_tls_handshake_is_unreachable_at_once(is_reset: bool) -> None:
    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        assert connection.recv(1 << 16), "the hello"
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", is_reset, 0))
        connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        serving = pool.submit(serve, listener)
        url = f"rediss://127.0.0.1:{listener.getsockname()[1]}"
        driver = AsyncDriver(url, patience_ms=0, connect_timeout_ms=5_000)
        with pytest.raises(Unreachable) as caught:
            await driver.run(command("PING"))
        assert "no reply in time" not in str(caught.value)
        await driver.close()
        serving.result()
