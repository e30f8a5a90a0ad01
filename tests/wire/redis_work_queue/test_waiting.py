"""Workers and the drop-in beside clients that block with BRPOPLPUSH: each waiting client is served in its turn."""

from __future__ import annotations

import asyncio
import contextlib
import queue as queues
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final

import pytest
import redis
import redis.asyncio

from tenure.compat.redis_work_queue import AsyncWorkQueue, KeyPrefix, WorkQueue
from tenure.core.job import State
from tenure.engines.redis_work_queue import RedisWorkQueueEngine
from tenure.processes.link import KeeperLink
from tenure.protocols.registry import engine_spec_of
from tenure.redis.aio import AsyncDriver
from tenure.runtime.assembly import UserCode, WorkerSettings
from tenure.runtime.jobs.job import current_job
from tenure.runtime.worker import Worker
from tenure.testing.server import RedisServer
from tests.runtime.fakes import task
from tests.wire.redis_work_queue.bench import Bench, P

ROUNDS: Final = 6
PLENTY_S: Final = 30.0
TASK: Final = b'{"tenure":1,"task":"t"}'


def blocked(bench: Bench) -> int:
    lines = bench.command("INFO", "clients").decode().splitlines()
    return int(next(line.split(":")[1] for line in lines if line.startswith("blocked_clients:")))


class Foreign:
    """A client of another program that waits for an item, each time for one."""

    def __init__(self, url: str, got: queues.Queue[tuple[str, str]], name: str = "theirs") -> None:
        self._db, self._got, self._name = redis.Redis.from_url(url), got, name
        self._turn = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            self._turn.acquire()
            with contextlib.suppress(redis.RedisError):
                id: Any = self._db.brpoplpush(f"{P}:queue", f"{P}:processing", timeout=0)
                self._got.put((self._name, id.decode()))

    def wait(self) -> None:
        self._turn.release()

    def close(self) -> None:
        self._db.close()


@pytest.fixture
def got() -> queues.Queue[tuple[str, str]]:
    """Which client got which item."""
    return queues.Queue()


@pytest.fixture
def foreign(server: RedisServer, got: queues.Queue[tuple[str, str]]) -> Iterator[Foreign]:
    client = Foreign(server.url, got)
    yield client
    client.close()


Next = Callable[[], Any]


@contextlib.contextmanager
def dropping_in(server: RedisServer, got: queues.Queue[tuple[str, str]], kind: str) -> Iterator[Next]:
    """A drop-in client in a thread, which leases one item each time."""
    turn = threading.Semaphore(0)

    def run() -> None:
        db, queue = redis.Redis.from_url(server.url), WorkQueue(KeyPrefix(P))
        while True:
            turn.acquire()
            item = queue.lease(db, 60, timeout=PLENTY_S)
            if item:
                assert queue.complete(db, item)
            got.put(("ours", item.id() if item else "-"))  # last: the test may be over from now on

    async def arun() -> None:
        db, queue = redis.asyncio.Redis.from_url(server.url), AsyncWorkQueue(KeyPrefix(P))
        while True:
            await asyncio.to_thread(turn.acquire)
            item = await queue.lease(db, 60, timeout=PLENTY_S)
            if item:
                assert await queue.complete(db, item)
            got.put(("ours", item.id() if item else "-"))

    target = run if kind == "sync" else lambda: asyncio.run(arun())
    threading.Thread(target=target, daemon=True).start()
    yield turn.release


@pytest.mark.parametrize("kind", ["sync", "asyncio"])
def test_the_drop_in_and_a_client_that_blocks_get_items_in_their_turn(
    bench: Bench, foreign: Foreign, got: queues.Queue[tuple[str, str]], kind: str
) -> None:
    """Redis serves blocked clients first come, first served."""
    with dropping_in(bench.server, got, kind) as ours:
        for number in range(ROUNDS):
            first, second = (ours, foreign.wait) if number % 2 else (foreign.wait, ours)
            first()
            bench.until(lambda: blocked(bench) == 1)
            second()
            bench.until(lambda: blocked(bench) == 2)
            # The drop-in waits in slices, so either may be the first by now.
            bench.foreign_add(f"a{number}")
            one = got.get(timeout=PLENTY_S)
            bench.foreign_add(f"b{number}")
            two = got.get(timeout=PLENTY_S)
            assert {one[0], two[0]} == {"ours", "theirs"}, "one client got both"
            assert {one[1], two[1]} == {f"a{number}", f"b{number}"}
            bench.foreign_complete(one[1] if one[0] == "theirs" else two[1])


class Twice(redis.Redis):
    """A client of which each pipeline is executed twice, as after a lost reply."""

    def pipeline(self, transaction: bool = True, shard_hint: Any = None) -> Any:
        pipeline = super().pipeline(transaction, shard_hint)
        execute = pipeline.execute

        def twice(raise_on_error: bool = True) -> list[Any]:
            commands = list(pipeline.command_stack)
            execute(raise_on_error)
            pipeline.command_stack = commands
            return execute(raise_on_error)

        pipeline.execute = twice  # type: ignore[method-assign]
        return pipeline


def test_a_wait_that_is_sent_again_leaves_no_item_behind(bench: Bench) -> None:
    """The claim behind it answers from memory, and the item that the second wait took returns to the queue."""
    leased: queues.Queue[Any] = queues.Queue()
    client = Twice.from_url(bench.server.url)
    queue = WorkQueue(KeyPrefix(P))
    threading.Thread(target=lambda: leased.put(queue.lease(client, 60, timeout=PLENTY_S)), daemon=True).start()
    bench.until(lambda: blocked(bench) == 1)
    bench.foreign_item("a")
    bench.foreign_item("b")
    bench.command("LPUSH", f"{P}:queue", "a", "b")
    item = leased.get(timeout=PLENTY_S)
    assert (item.id(), bench.queue()) == ("a", [b"b"])
    client.close()


@contextlib.asynccontextmanager
async def working(server: RedisServer, handle: Any, concurrency: int = 1) -> AsyncIterator[Worker]:
    """A real worker on this event loop, with a keeper process."""
    engine = RedisWorkQueueEngine(P)
    driver = AsyncDriver(server.url)
    keeper = KeeperLink(server.url, engine_spec_of(engine))
    settings = WorkerSettings(["default"], concurrency=concurrency, signals=False)
    worker = Worker(engine, driver, UserCode([task(handle, queue="default")]), settings, keeper=keeper)
    running = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.stop()
        async with asyncio.timeout(PLENTY_S):
            await running
        await driver.close()


async def test_a_worker_and_a_client_that_blocks_get_items_in_their_turn(
    bench: Bench, foreign: Foreign, got: queues.Queue[tuple[str, str]]
) -> None:
    """A worker that only was woken would find nothing: the other client is always faster."""

    async def handle() -> None:
        job = current_job()
        assert job is not None
        got.put_nowait(("ours", job.id))

    def one() -> tuple[str, str]:
        return got.get(timeout=PLENTY_S)

    async with working(bench.server, handle):
        for number in range(ROUNDS):
            foreign.wait()
            await asyncio.to_thread(bench.until, lambda: blocked(bench) == 2)
            who = []
            for name in ("a", "b"):
                bench.foreign_add(f"{name}{number}", TASK)
                client, id = await asyncio.to_thread(one)
                assert id == f"{name}{number}"
                who.append(client)
                if client == "theirs":
                    bench.foreign_complete(id)
            assert sorted(who) == ["ours", "theirs"], "one client got both"
        await asyncio.to_thread(bench.until, lambda: bench.items() == 0)
    bench.audit()


STOPS: Final = 12


def _until_longer(bench: Bench, runs: list[str], limit: int) -> None:
    bench.until(lambda: len(runs) >= limit)


@pytest.mark.timeout(180)
async def test_a_worker_that_stops_while_it_waits_loses_and_doubles_nothing(bench: Bench) -> None:
    """Items come while workers start and stop and another client waits. An item of a lost reply comes back."""
    runs: list[str] = []
    added: list[str] = []
    stop = threading.Event()

    async def handle() -> None:
        job = current_job()
        assert job is not None
        runs.append(job.id)

    def produce() -> None:
        while not stop.wait(0.003):
            added.append(f"i{len(added)}")
            bench.foreign_add(added[-1], TASK)

    def consume() -> None:
        db = redis.Redis.from_url(bench.server.url)
        while not stop.is_set():
            id: Any = db.brpoplpush(f"{P}:queue", f"{P}:processing", timeout=1)
            if id is not None:
                runs.append(id.decode())
                bench.foreign_complete(id)
        db.close()

    threads = [threading.Thread(target=target) for target in (produce, consume)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(STOPS):
            limit = len(runs) + 20
            async with working(bench.server, handle):
                await asyncio.to_thread(_until_longer, bench, runs, limit)
    finally:
        stop.set()
        for thread in threads:
            await asyncio.to_thread(thread.join)
    async with working(bench.server, handle):
        await asyncio.to_thread(bench.until, lambda: bench.items() == 0)
    assert sorted(set(runs)) == sorted(added), "an item is lost"
    assert len(runs) == len(added), "an item ran twice"
    bench.audit()


def test_what_no_claim_adopted_is_adopted_by_the_next(bench: Bench, db: redis.Redis) -> None:
    """As after a crash of Redis between the wait and its claim. The oldest comes first, one a claim."""
    bench.put("a", "b", "c")
    for _ in "ab":
        bench.command("LMOVE", f"{P}:queue", f"{P}:taken", "RIGHT", "LEFT")
    assert [lease.record.id for lease in bench.take(1)] == ["a"]
    item = WorkQueue(KeyPrefix(P)).lease(db, 5, block=False)
    assert item is not None
    assert item.id() == "b"
    assert bench.drain() == ["c"]
    assert WorkQueue(KeyPrefix(P)).complete(db, item)


@pytest.mark.parametrize("how", ["maintain", "light", "deep"])
def test_what_no_claim_adopted_returns_to_the_front_with_the_next_clean(bench: Bench, how: str) -> None:
    bench.put("a", "b", "c")
    for _ in "ab":
        bench.command("LMOVE", f"{P}:queue", f"{P}:taken", "RIGHT", "LEFT")
    assert bench.run(bench.engine.queue("default")).counts[State.READY] == 3
    getattr(bench, how)()
    assert bench.queue() == [b"a", b"b", b"c"]


@pytest.mark.parametrize("act", ["cancel", "discard", "purge"])
def test_an_id_that_no_claim_adopted_can_be_removed(bench: Bench, act: str) -> None:
    bench.put("a")
    bench.command("LMOVE", f"{P}:queue", f"{P}:taken", "RIGHT", "LEFT")
    what = State.READY if act == "purge" else "a"
    assert bench.run(getattr(bench.engine, act)("default", what))
    assert bench.drain() == []
    assert bench.state("a") is (State.CANCELLED if act == "cancel" else None)


def test_a_wait_and_its_claim_are_one_turn_for_other_clients(bench: Bench) -> None:
    """A client that looks at the lists after each item never sees one in neither, and none without a lease."""
    got: list[str] = []
    assert bench.take() == []  # Redis knows the script from now on

    def run() -> None:
        for _ in range(ROUNDS):
            leased = bench.driver.run(bench.wait_and_claim("w", 20_000))
            got.extend(lease.record.id for lease in leased.leases)

    thread = threading.Thread(target=run)
    thread.start()
    for number in range(ROUNDS):
        bench.until(lambda: blocked(bench) == 1)
        bench.foreign_add(str(number))
        assert bench.command("LLEN", f"{P}:taken") == 0
        assert (bench.lengths(), bench.command("EXISTS", f"{P}:lease:{number}")) == ((0, number + 1), 1)
    thread.join()
    assert got == [str(number) for number in range(ROUNDS)]
    bench.run(bench.engine.leave("w", ["default"]))
    bench.drain()
