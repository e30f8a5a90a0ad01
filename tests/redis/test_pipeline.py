"""The calls of one event loop share a connection, and each has its own reply, error, nonce and end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tenure.core.errors import Unreachable, WrongState
from tenure.redis.aio import AsyncDriver
from tenure.redis.pipeline import MAX_PIPELINED
from tenure.testing.server import RedisServer
from tests.redis.operations import command, record
from tests.redis.proxy import Cut, Proxy


async def test_calls_of_one_moment_share_a_connection_and_waits_do_not(server: RedisServer) -> None:
    driver = AsyncDriver(server.url)
    wait = asyncio.create_task(driver.run(command("BLPOP", "list", 60, block_ms=60_000)))
    ids = await asyncio.gather(*(driver.run(command("CLIENT", "ID")) for _ in range(200)))
    assert len(set(ids)) == 1
    await driver.run(command("RPUSH", "list", "x"))
    assert await wait == [b"list", b"x"]
    large = await driver.run(command("SET", "large", bytes(1_000_000)))
    assert (large, await driver.run(command("CLIENT", "ID"))) == (b"OK", ids[0])
    await driver.close()


async def test_a_wait_leaves_no_timer_that_would_wake_the_loop(server: RedisServer) -> None:
    driver = AsyncDriver(server.url)
    await driver.run(command("BLPOP", "list", "1.1", block_ms=1_100))
    timers = [one for one in asyncio.get_running_loop()._scheduled if not one.cancelled()]  # type: ignore[attr-defined]
    assert not [one for one in timers if "AsyncLink._watch" in repr(one)]
    await driver.close()


async def test_an_error_belongs_to_its_own_call(server: RedisServer) -> None:
    driver = AsyncDriver(server.url)
    await driver.run(command("SET", "text", "x"))
    calls = [command("LPUSH", "text", "x") if number % 3 == 0 else command("ECHO", number) for number in range(60)]
    answers = await asyncio.gather(*map(driver.run, calls), return_exceptions=True)
    for number, answer in enumerate(answers):
        assert isinstance(answer, WrongState) if number % 3 == 0 else answer == str(number).encode()
    await driver.close()


async def test_a_cancelled_caller_leaves_the_connection_to_the_others(private_server: RedisServer) -> None:
    driver = AsyncDriver(private_server.url)
    before = await driver.run(command("CLIENT", "ID"))
    private_server.pause()
    calls = [asyncio.create_task(driver.run(command("ECHO", number))) for number in range(50)]
    await asyncio.sleep(0)
    for call in calls[::2]:
        call.cancel()
    await asyncio.sleep(0)
    private_server.resume()
    assert await asyncio.gather(*calls[1::2]) == [str(number).encode() for number in range(1, 50, 2)]
    assert all(call.cancelled() for call in calls[::2])
    assert await driver.run(command("CLIENT", "ID")) == before
    await driver.close()


async def test_after_a_lost_connection_each_call_is_sent_again_with_its_own_nonce(server: RedisServer) -> None:
    with Proxy(server.socket_path) as proxy:
        driver = AsyncDriver(proxy.url)
        await driver.run(record())
        server.command("DEL", "log")
        proxy.cuts.append(Cut(b"EVALSHA"))
        answers = await asyncio.gather(*(driver.run(record()) for _ in range(20)))
        await driver.close()
        assert not proxy.cuts
    drawn = {f"{nonce.session}:{nonce.number}".encode() for nonce, _ in answers}
    sent = server.command("LRANGE", "log", 0, -1)
    assert len(drawn) == 20
    assert set(sent) == drawn
    assert 20 < len(sent) <= 40


async def test_a_silent_connection_takes_no_further_call(server: RedisServer) -> None:
    with Proxy(server.socket_path) as proxy:
        driver = AsyncDriver(proxy.url, reply_timeout_ms=500)
        await driver.run(command("PING"))
        proxy.hole()
        calls = [asyncio.create_task(driver.run(command("ECHO", number))) for number in range(20)]
        assert await asyncio.gather(*calls) == [str(number).encode() for number in range(20)]
        assert proxy.connections == 2
        await driver.close()


async def test_callers_beyond_the_limit_wait_for_room(tmp_path: Path) -> None:
    came, first, may_answer = 0, asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal came
        while data := await reader.read(1 << 16):
            count = data.count(b"ECHO")
            came += count
            if count:
                first.set()
                await may_answer.wait()
            writer.write(b"+OK\r\n" * data.count(b"*"))
        writer.close()

    server = await asyncio.start_unix_server(serve, tmp_path / "s", limit=1 << 20)
    driver = AsyncDriver(f"unix://{tmp_path}/s")
    calls = [asyncio.create_task(driver.run(command("ECHO", "x"))) for _ in range(MAX_PIPELINED + 500)]
    await first.wait()
    for _ in range(100):
        await asyncio.sleep(0)
    assert came <= MAX_PIPELINED
    calls[-1].cancel()  # it waits for room
    may_answer.set()
    assert await asyncio.gather(*calls[:-1]) == [b"OK"] * (MAX_PIPELINED + 499)
    assert came == MAX_PIPELINED + 499
    await driver.close()
    server.close()


async def test_without_redis_every_caller_ends_unreachable() -> None:
    driver = AsyncDriver("redis://127.0.0.1:1", patience_ms=100)
    answers = await asyncio.gather(*(driver.run(command("PING")) for _ in range(20)), return_exceptions=True)
    assert all(isinstance(answer, Unreachable) for answer in answers)
    await driver.close()


@pytest.mark.parametrize("close_first", [True, False])
async def test_calls_under_way_end_although_the_driver_is_closed(server: RedisServer, close_first: bool) -> None:
    driver = AsyncDriver(server.url)
    await driver.run(command("PING"))
    calls = [asyncio.create_task(driver.run(command("ECHO", number))) for number in range(20)]
    await asyncio.sleep(0)
    if close_first:
        await driver.close()
    assert await asyncio.gather(*calls) == [str(number).encode() for number in range(20)]
    await driver.close()
