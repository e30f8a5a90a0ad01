"""The client's listeners, and how it is closed while it is at work."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from tenure.compat.worqr import AsyncWorqr, Worqr
from tenure.core.errors import InvalidArgument, WrongState
from tenure.core.job import State
from tenure.testing.server import RedisServer
from tests.support.waiting import until
from tests.wire.worqr.bench import Bench
from tests.wire.worqr.original import R

WAIT_S = 30


@pytest.fixture
def start(bench: Bench) -> Iterator[Callable[..., Worqr]]:
    """Starts clients; workers with `queues`."""
    started: list[Worqr] = []

    def make(*queues: str, **options: Any) -> Worqr:
        client = Worqr(bench.server.url, **options)
        started.append(client)
        if queues:
            client.start_worker()
        for name in queues:
            client.start_work(name)
        return client

    yield make
    for client in started:
        client.close()


@contextmanager
def stopped(server: RedisServer) -> Iterator[None]:
    """Redis takes connections, and answers nothing."""
    server.pause()
    try:
        yield
    finally:
        server.resume()


def wait_for_heartbeat(bench: Bench) -> None:
    def seen() -> bytes:
        found: bytes = bench.db.hget(f"{R}:tenure:q:q:meta", "seen")
        return found

    before = seen()
    until(lambda: seen() != before)


def test_a_listener_may_use_its_client(start: Callable[..., Worqr]) -> None:
    ended: queue.Queue[object] = queue.Queue()
    worqr = start()

    def work(event: str, message: str) -> None:
        if event == "work" and (process := worqr.dequeue("q")):
            worqr.finish_process(process.id)
            worqr.stop_work("q")
            ended.put(process.task)

    worqr.on("q", work)
    worqr.start_worker()
    worqr.start_work("q")
    worqr.enqueue("q", "a")
    assert ended.get(timeout=WAIT_S) == "a"
    assert worqr.get_working_queues() == []


def test_a_listener_may_close_its_client(bench: Bench) -> None:
    closed = threading.Event()
    worqr = Worqr(bench.server.url)

    def work(event: str, message: str) -> None:
        worqr.close()
        closed.set()

    worqr.on("q", work)
    worqr.start_worker()
    worqr.start_work("q")
    bench.put("a")
    assert closed.wait(WAIT_S)
    worqr.close()
    assert bench.db.smembers(f"{R}:workers") == set()


async def test_listeners_for_asyncio_may_use_and_close_their_client(bench: Bench) -> None:
    worqr = AsyncWorqr(bench.server.url)
    tasks: asyncio.Queue[str] = asyncio.Queue()

    async def work(event: str, message: str) -> None:
        if event == "work" and (process := await worqr.dequeue("q")):
            await worqr.finish_process(process.id)
            await worqr.close()
            tasks.put_nowait(process.task)

    worqr.on("q", work)
    await worqr.start_worker()
    await worqr.start_work("q")
    bench.put("a")
    assert await asyncio.wait_for(tasks.get(), WAIT_S) == "a"
    await worqr.close()
    assert bench.db.smembers(f"{R}:workers") == set()


@pytest.mark.parametrize("error", [ValueError("x"), asyncio.CancelledError(), SystemExit(1)], ids=repr)
def test_a_listener_that_raised_gets_the_next_event(start: Callable[..., Worqr], error: BaseException) -> None:
    seen: queue.Queue[str] = queue.Queue()
    worqr = start()

    def fail(event: str, message: str) -> None:
        seen.put(message)
        raise error

    worqr.on("q", fail)
    worqr.start_worker()
    worqr.start_work("q")
    for message in ("1", "2"):
        worqr.enqueue("q", ["t"] * int(message))
        assert seen.get(timeout=WAIT_S) == message


def test_events_arrive_after_redis_was_away(private_server: RedisServer) -> None:
    seen: queue.Queue[tuple[str, str]] = queue.Queue()
    with Worqr(private_server.url) as worqr:
        worqr.on("q", lambda event, message: seen.put((event, message)))
        worqr.start_worker()
        worqr.start_work("q")
        private_server.restart(kill=True)
        until(lambda: private_server.command("PUBSUB", "NUMSUB", f"{R}_q_work")[1])
        worqr.enqueue("q", "a")
        assert seen.get(timeout=WAIT_S)[0] == "work"


def test_a_cancel_request_is_one_event(bench: Bench, start: Callable[..., Worqr]) -> None:
    """Heartbeats repeat it until the process ends."""
    seen: queue.Queue[tuple[str, str]] = queue.Queue()
    worqr = start("q")
    worqr.enqueue("q", "a")
    process = worqr.dequeue("q")
    assert process is not None
    worqr.on("q", lambda event, message: seen.put((event, message)) if event == "cancel" else None)
    bench.run(bench.engine.cancel("q", process.id))
    assert seen.get(timeout=WAIT_S) == ("cancel", "a")
    with pytest.raises(queue.Empty):
        seen.get(timeout=1.5)  # three heartbeats


@pytest.mark.parametrize("first", ["the message", "a heartbeat"])
def test_a_cancel_of_the_client_is_one_event(bench: Bench, start: Callable[..., Worqr], first: str) -> None:
    """It is published, and noted in Redis, so that heartbeats find it."""
    seen: queue.Queue[tuple[str, str]] = queue.Queue()
    worqr = start("q")
    worqr.enqueue("q", ["a", "a"])
    assert worqr.dequeue("q") is not None
    assert worqr.dequeue("q") is not None
    worqr.on("q", lambda event, message: seen.put((event, message)) if event in ("cancel", "delete") else None)
    if first == "the message":
        assert worqr.cancel_tasks("q", "a") == 0
        assert seen.get(timeout=WAIT_S) == ("cancel", "a")
    else:
        for view in bench.run(bench.engine.page("q", State.ACTIVE)).jobs:
            bench.run(bench.engine.cancel("q", view.id))
        assert seen.get(timeout=WAIT_S) == ("cancel", "a")
        bench.original().cancel_tasks("q", "a")
    for _ in range(3):
        wait_for_heartbeat(bench)
    bench.original().delete_queue("q")
    assert seen.get(timeout=WAIT_S) == ("delete", "")


def test_listeners_for_one_event_and_their_removal(start: Callable[..., Worqr]) -> None:
    seen: queue.Queue[str] = queue.Queue()
    worqr = start("q")

    def removed(event: str, message: str) -> None:
        seen.put("removed")

    def once(event: str, message: str) -> None:
        seen.put(f"once {message}")
        worqr.off("q", removed)
        worqr.off("other", once)

    worqr.once("q", once)
    worqr.on("q", removed)
    worqr.on("q", lambda event, message: seen.put(f"on {message}"))
    for tasks in (["a"], ["b", "c"]):
        worqr.enqueue("q", tasks)
    worqr.request_work("q")
    worqr.request_work("empty")
    assert [seen.get(timeout=WAIT_S) for _ in range(4)] == ["once 1", "on 1", "on 2", "on 3"]


def test_closing_ends_calls_that_are_under_way(private_server: RedisServer) -> None:
    worqr = Worqr(private_server.url)
    worqr.start_worker()
    worqr.start_work("q")
    with ThreadPoolExecutor(3) as pool, stopped(private_server):
        calls = [pool.submit(worqr.count_queue, "q") for _ in range(2)]
        closing = pool.submit(worqr.close)
        for call in calls:
            with pytest.raises(InvalidArgument, match="closed"):
                call.result(WAIT_S)
        private_server.resume()
        closing.result(WAIT_S)
    with pytest.raises(InvalidArgument, match="closed"):
        worqr.count_queue("q")
    with pytest.raises(InvalidArgument, match="closed"):
        worqr.on("q", print)


async def test_closing_for_asyncio_ends_calls_that_are_under_way(private_server: RedisServer) -> None:
    worqr = AsyncWorqr(private_server.url)
    await worqr.start_worker()
    await worqr.start_work("q")
    with stopped(private_server):
        call = asyncio.create_task(worqr.count_queue("q"))
        await asyncio.sleep(0.1)
        await asyncio.wait_for(worqr.close(), WAIT_S)
        with pytest.raises(InvalidArgument, match="closed"):
            await asyncio.wait_for(call, WAIT_S)


def test_a_worker_whose_start_failed_can_be_started(bench: Bench, start: Callable[..., Worqr]) -> None:
    worqr = start(worker_id="mine")
    bench.db.set(f"{R}:workers", "spoiled")
    with pytest.raises(WrongState):
        worqr.start_worker()
    bench.db.delete(f"{R}:workers")
    worqr.start_worker()
    assert worqr.get_workers() == ["mine"]
