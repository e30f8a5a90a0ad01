"""The answers that Redis remembers for the drop-in: the next call removes them, and so does close."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
import redis
import redis.asyncio

from tenure import InvalidArgument
from tenure.compat.redis_work_queue import AsyncWorkQueue, Item, KeyPrefix, WorkQueue
from tests.wire.redis_work_queue.bench import Bench
from tests.wire.redis_work_queue.test_compat import Lossy, lost

THREADS = 5

CALLS: dict[str, Callable[[WorkQueue, redis.Redis], object]] = {
    "lease": lambda queue, db: queue.lease(db, 5, block=False),
    "queue_len": lambda queue, db: queue.queue_len(db),
    "processing": lambda queue, db: queue.processing(db),
    "light_clean": lambda queue, db: queue.light_clean(db),
    "deep_clean": lambda queue, db: queue.deep_clean(db),
    "close": lambda queue, db: queue.close(db),
}


@pytest.fixture
def queue() -> WorkQueue:
    return WorkQueue(KeyPrefix("jobs"))


def answers(bench: Bench) -> list[bytes]:
    found: list[bytes] = bench.command("KEYS", "jobs:done:*")
    return found


def worked(queue: WorkQueue, db: redis.Redis, id: str | None = None) -> None:
    """Add an item, lease and complete it."""
    queue.add_item(db, Item(b"x", id))
    item = queue.lease(db, 5, block=False)
    assert item is not None
    assert queue.complete(db, item)


@pytest.mark.parametrize("name", CALLS)
def test_the_next_call_leaves_no_key(bench: Bench, db: redis.Redis, queue: WorkQueue, name: str) -> None:
    worked(queue, db)
    (answer,) = answers(bench)
    assert 0 < bench.command("PTTL", answer) <= 60_000
    CALLS[name](queue, db)
    assert bench.command("KEYS", "*") == []


@pytest.mark.parametrize("name", [name for name in CALLS if name != "lease"])
def test_the_next_call_removes_the_answers_of_all_threads(
    bench: Bench, db: redis.Redis, queue: WorkQueue, name: str
) -> None:
    together = threading.Barrier(THREADS)

    class Meeting:
        """A client that sends when all threads have come this far, so that each has a session of its own."""

        def execute_command(self, *args: object, **options: object) -> object:
            together.wait(20)
            return db.execute_command(*args, **options)

    queue.add_item(db, Item(b"x", "known"))  # Redis knows the script from now on
    threads = [threading.Thread(target=lambda: queue.add_item(Meeting(), Item(b"x"))) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers(bench)) == THREADS
    CALLS[name](queue, db)
    assert answers(bench) == []
    assert queue.add_item(db, Item(b"x")) is True


@pytest.mark.parametrize("name", [*CALLS, "complete", "another pipeline"])
def test_the_next_call_removes_the_answers_of_pipelines(
    bench: Bench, db: redis.Redis, queue: WorkQueue, name: str
) -> None:
    queue.add_item(db, Item(b"x", "first"))
    item = queue.lease(db, 5)
    assert item is not None
    (before,) = answers(bench)
    with db.pipeline() as pipeline:
        for id in "ab":
            queue.add_item_to_pipeline(pipeline, Item(b"x", id))
        assert pipeline.execute() == [1, 1]
        (group,) = set(answers(bench)) - {before}
        if name == "complete":
            assert queue.complete(db, item)
        elif name == "another pipeline":
            queue.add_item_to_pipeline(pipeline, Item(b"x", "c"))
            assert pipeline.execute() == [1]
        else:
            CALLS[name](queue, db)
    assert group not in answers(bench)
    queue.close(db)
    assert answers(bench) == []


def test_a_call_in_doubt_keeps_its_answer(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    worked(queue, db)
    lost(lambda: queue.add_item(Lossy(db, 1), Item(b"x", "a")))
    for call in CALLS.values():
        call(queue, db)
    assert bench.lengths() == (0, 1), "leased above"
    assert queue.add_item(db, Item(b"x", "a")) is True
    assert bench.lengths() == (0, 1)
    queue.close(db)
    assert answers(bench) == []


def test_the_usual_loop_sends_nothing_more(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    """One command for each call: to remove an answer costs no round trip of its own."""
    sent: list[object] = []

    class Watched:
        def execute_command(self, *args: object, **options: object) -> object:
            sent.append(args[0])
            return db.execute_command(*args, **options)

    worked(queue, db)
    for _ in range(3):
        worked(queue, Watched())  # type: ignore[arg-type]
    assert sent == ["EVALSHA"] * 9
    del sent[:]
    assert queue.lease(Watched(), 5, block=False) is None
    assert queue.queue_len(Watched()) == 0
    assert sent == ["EVALSHA", "LLEN"]


def test_a_refused_removal_does_not_fail_the_call(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    """As when the next call is one to a replica, which takes no writes."""

    class Replica:
        def execute_command(self, *args: object, **options: object) -> object:
            if args[0] == "DEL":
                raise redis.exceptions.ReadOnlyError("You can't write against a read only replica.")
            return db.execute_command(*args, **options)

    worked(queue, db)
    assert queue.queue_len(Replica()) == 0


def test_a_removal_in_doubt_can_meet_no_later_answer(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    """It may arrive late: the names that it has are used no more."""
    doubtful: list[object] = []

    class Cut:
        def execute_command(self, *args: object, **options: object) -> object:
            doubtful.extend(args[1:])
            raise redis.exceptions.ConnectionError("Connection reset by peer")

    worked(queue, db)
    before = answers(bench)
    lost(lambda: queue.queue_len(Cut()))
    assert [str(name).encode() for name in doubtful] == before
    worked(queue, db)
    assert len(set(answers(bench)) - set(before)) == 1


def test_the_async_twin_leaves_no_key(bench: Bench) -> None:
    async def main() -> None:
        queue = AsyncWorkQueue(KeyPrefix("jobs"))
        async with redis.asyncio.Redis.from_url(bench.server.url) as db:
            assert all(await asyncio.gather(*(queue.add_item(db, Item(b"x")) for _ in range(THREADS))))
            await asyncio.gather(*(complete(queue, db) for _ in range(THREADS)))
            async with db.pipeline() as pipeline:
                queue.add_item_to_pipeline(pipeline, Item(b"x"))
                assert await pipeline.execute() == [1]
            await complete(queue, db)
            assert answers(bench)
            await queue.close(db)
            await queue.close(db)

    async def complete(queue: AsyncWorkQueue, db: redis.asyncio.Redis) -> None:
        item = await queue.lease(db, 5, block=False)
        assert item is not None
        assert await queue.complete(db, item)

    asyncio.run(main())
    assert bench.command("KEYS", "*") == []


class Restarting(redis.Redis):
    """A client that executes a command, loses the reply, and meets a Redis that is loading when it is asked again."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self.ends: list[type[Exception]] = []

    def execute_command(self, *args: object, **options: object) -> object:
        if not self.ends:
            return super().execute_command(*args, **options)
        end = self.ends.pop(0)
        if end is redis.ConnectionError:
            super().execute_command(*args, **options)
        raise end("it is so")


def test_a_call_that_meets_a_redis_that_is_loading_stays_in_doubt(bench: Bench, queue: WorkQueue) -> None:
    db: Any = Restarting.from_url(bench.server.url)
    ends = [redis.ConnectionError, redis.BusyLoadingError, redis.BusyLoadingError]

    def insist(call: Callable[[], object]) -> object:
        for _ in range(len(ends)):
            with pytest.raises(redis.ConnectionError):
                call()
        return call()

    item = Item(b"x", "a")
    queue.queue_len(db)  # Redis knows no script yet, but the client is checked
    for script in ("add", "take", "complete"):
        bench.command("SCRIPT", "LOAD", queue._engine.scripts[script].text)
    db.ends = list(ends)
    assert insist(lambda: queue.add_item(db, item)) is True
    db.ends = list(ends)
    leased = insist(lambda: queue.lease(db, 60, block=False))
    assert isinstance(leased, Item)
    db.ends = list(ends)
    assert insist(lambda: queue.complete(db, leased)) is True
    db.close()


def test_a_client_of_the_other_kind_is_refused_before_anything_is_sent(bench: Bench, queue: WorkQueue) -> None:
    aio, sync = redis.asyncio.Redis.from_url(bench.server.url), redis.Redis.from_url(bench.server.url)
    with pytest.raises(InvalidArgument, match=r"nothing was sent\. See AsyncWorkQueue"):
        queue.add_item(aio, Item(b"x"))
    with pytest.raises(InvalidArgument, match=r"nothing was sent\. See WorkQueue"):
        asyncio.run(AsyncWorkQueue(KeyPrefix("jobs")).add_item(sync, Item(b"x")))
    assert bench.command("KEYS", "*") == []
    sync.close()
