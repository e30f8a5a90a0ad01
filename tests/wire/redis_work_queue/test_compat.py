"""The drop-in: names, parameters, defaults and return values of the original, on any client."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
import time

import pytest
import redis
import redis.asyncio

from tenure.compat.redis_work_queue import AsyncWorkQueue, Item, KeyPrefix, WorkQueue
from tenure.compat.redis_work_queue.calls import Nonces
from tenure.core.errors import InvalidArgument
from tenure.engines.kit.config import MAX_LOOK
from tests.wire.redis_work_queue.bench import Bench


@pytest.fixture
def queue() -> WorkQueue:
    return WorkQueue(KeyPrefix("jobs"), grace=0)


def test_the_parameters_and_defaults_of_the_original() -> None:
    signatures = {
        "add_item": "(self, db, item, *, replace=False)",
        "add_unique_item": "(self, db, item, *, replace=False)",
        "add_unique_item_to_pipeline": "(self, pipeline, item, *, replace=False)",
        "lease": "(self, db, lease_secs, block=True, timeout=0)",
        "complete": "(self, db, item, token=None)",
        "light_clean": "(self, db)",
        "deep_clean": "(self, db)",
        "queue_len": "(self, db)",
        "processing": "(self, db)",
        "extend": "(self, db, item, lease_secs, token=None)",
    }
    for kind in (WorkQueue, AsyncWorkQueue):
        for name, wanted in signatures.items():
            found = inspect.signature(getattr(kind, name))
            bare = [p.replace(annotation=inspect.Parameter.empty) for p in found.parameters.values()]
            assert str(inspect.Signature(bare)) == wanted, name


def test_an_item_is_a_dict_with_methods() -> None:
    item = Item("é", id="1")
    assert item == {"data": "é".encode(), "id": "1"}
    assert (item.data(), item.id()) == ("é".encode(), "1")
    assert Item.from_json_data({"a": [1, None]}).data() == b'{"a":[1,null]}'
    assert Item.from_json_data(None, id="z").data_json() is None
    assert Item.parse('{"data": "x", "id": "q"}') == {"data": b"x", "id": "q"}
    assert Item.from_dict({"data": b"x", "id": "i", "more": 1}) == {"data": b"x", "id": "i"}
    assert Item(b"x", id=5).id() == "5"
    assert Item("d", b"ab").id() == "b'ab'", "as the original writes it"
    fresh = Item.parse('{"data": "x"}').id()
    assert len(fresh) == 32
    assert int(fresh, 16)
    assert Item(b"x").id() != Item(b"x").id()
    with pytest.raises(KeyError):
        Item.from_dict({"id": "i"})
    with pytest.raises(json.JSONDecodeError):
        Item(b"x").data_json()


@pytest.mark.parametrize("data", [5, True])
def test_a_number_as_data_is_refused(data: object) -> None:
    with pytest.raises(InvalidArgument, match="from_json_data"):
        Item(data)  # type: ignore[arg-type]


def test_a_prefix_goes_before_names() -> None:
    prefix = KeyPrefix("p")
    assert (prefix.of(":a"), KeyPrefix.concat(prefix, "b").of("c"), prefix.prefix) == ("p:a", "pbc", "p")


def test_the_life_of_an_item(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    data = b"\x00\xff\r\n"
    assert queue.add_item(db, Item(data, "1")) is True
    assert queue.add_item(db, Item(b"other", "1")) is False
    assert (queue.queue_len(db), queue.processing(db)) == (1, 0)
    item = queue.lease(db, 5)
    assert item is not None
    assert (item.id(), item.data(), item == {"data": data, "id": "1"}) == ("1", data, True)
    assert (queue.queue_len(db), queue.processing(db)) == (0, 1)
    assert 4 <= bench.command("TTL", "jobs:lease:1") <= 5
    assert queue.complete(db, item) is True
    assert queue.complete(db, item) is False
    assert (queue.queue_len(db), queue.processing(db)) == (0, 0)
    bench.audit()


def test_nothing_to_lease(db: redis.Redis, queue: WorkQueue) -> None:
    assert queue.lease(db, 5, False) is None
    begin = time.monotonic()
    assert queue.lease(db, 5, True, 1) is None
    assert time.monotonic() - begin >= 0.9
    with pytest.raises(InvalidArgument, match="timeout"):
        queue.lease(db, 5, True, -1)


def test_a_lease_blocks_until_there_is_something(server, db: redis.Redis, queue: WorkQueue) -> None:
    other = redis.Redis.from_url(server.url)
    timer = threading.Timer(0.3, lambda: queue.add_item(other, Item(b"x", "late")))
    timer.start()
    item = queue.lease(db, 5)
    assert item is not None
    assert item.id() == "late"
    timer.join()
    other.close()


def test_a_ghost_does_not_end_the_wait(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    bench.foreign_push("ghost")
    bench.put("a")
    item = queue.lease(db, 5, timeout=5)
    assert item is not None
    assert item.id() == "a"


def test_many_ghosts_do_not_hide_what_is_behind_them(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    for n in range(3 * MAX_LOOK):
        bench.foreign_push(f"ghost{n}")
    bench.put("a")
    item = queue.lease(db, 5, block=False)
    assert item is not None
    assert item.id() == "a"


def test_a_lease_that_ended_is_put_back_by_a_light_clean(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    queue.add_item(db, Item(b"x", "a"))
    first = queue.lease(db, 1)
    assert first is not None
    queue.light_clean(db)
    assert queue.lease(db, 1, block=False) is None
    bench.pass_time(1_001)
    queue.light_clean(db)
    second = queue.lease(db, 5, block=False)
    assert second is not None
    assert not queue.extend(db, first, 5)
    assert queue.extend(db, second, 60)
    bench.pass_time(30_000)
    queue.light_clean(db)
    assert queue.complete(db, second)
    bench.audit()


def test_ten_lapses_do_not_set_an_item_aside(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    """As with the original: who uses it has no place to look for such items."""
    queue.add_item(db, Item(b"x", "a"))
    for _ in range(10):
        assert queue.lease(db, 1, block=False) is not None
        bench.pass_time(10_000)
        bench.maintain()
        queue.light_clean(db)
    assert queue.lease(db, 1, block=False) is not None


def test_lapses_of_the_drop_in_are_no_crashes_of_a_worker(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    queue.add_item(db, Item(b"x", "a"))
    for put_back in (bench.maintain, lambda: queue.light_clean(db), lambda: bench.foreign_reset("a")):
        for _ in range(4):
            assert queue.lease(db, 1, block=False) is not None
            bench.pass_time(1_001 if put_back != bench.maintain else 10_000)
            put_back()
    assert bench.take_one().crashes == 0
    assert bench.run(bench.engine.leave("w", ["default"], crashed=True)) == 1
    assert bench.take_one("w2").crashes == 1
    bench.audit()


def test_completing_elsewhere_by_token_and_by_id(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    for id in ("a", "b"):
        queue.add_item(db, Item(b"x", id))
    a, b = queue.lease(db, 60), queue.lease(db, 60)
    assert a is not None
    assert b is not None
    other = WorkQueue(KeyPrefix("jobs"))
    assert not other.complete(db, Item(b"y", "a"), token="1 somebody")
    assert other.complete(db, Item(b"x", "a"), token=a.token)
    assert other.complete(db, Item(b"y", "b")), "the data does not matter"
    assert not other.complete(db, Item.from_dict(b))
    assert not queue.complete(db, a)
    assert not queue.complete(db, b)
    queue.add_item(db, Item(b"x", "c"))
    by_hand = Item(b"", "c")
    by_hand["data"] = "x"
    assert other.complete(db, by_hand), "text as data, of an item that waits"
    bench.audit()


@pytest.mark.parametrize("token", ["", " ", "x", "5", "9" * 10_000, "1 2", "-1 w", "5 \x00"])
def test_a_token_that_is_none_completes_nothing(bench: Bench, db: redis.Redis, queue: WorkQueue, token: str) -> None:
    queue.add_item(db, Item(b"x", "a"))
    queue.lease(db, 60)
    assert not queue.complete(db, Item(b"", "a"), token=token)
    assert not queue.extend(db, Item(b"", "a"), 60, token=token or "x")
    assert bench.lengths() == (0, 1)


def test_only_once_before_the_work(db: redis.Redis, queue: WorkQueue) -> None:
    """complete() first: at most one of many runs it."""
    queue.add_item(db, Item(b"x", "a"))
    item = queue.lease(db, 60)
    assert item is not None
    answers: list[bool] = []
    threads = [threading.Thread(target=lambda: answers.append(queue.complete(db, item))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [False] * 7 + [True]


class Lossy:
    """A client that does what it is told, and loses the reply of one command."""

    def __init__(self, db: redis.Redis, lose: int) -> None:
        self.db = db
        self.lose = lose

    def execute_command(self, *args, **options):
        reply = self.db.execute_command(*args, **options)
        if str(args[0]).startswith("EVAL"):
            self.lose -= 1
            if self.lose == 0:
                raise redis.exceptions.ConnectionError("Connection reset by peer")
        return reply


def test_a_call_whose_reply_was_lost_is_made_again(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    queue.add_item(db, Item(b"warm", "w"))  # the scripts are known from now on
    warm = queue.lease(db, 5)
    assert warm is not None
    queue.complete(db, warm)
    queue.add_item(db, Item(b"x", "b"))

    lossy, item = Lossy(db, 1), Item(b"x", "a")
    with pytest.raises(redis.exceptions.ConnectionError):
        queue.add_item(lossy, item)
    assert queue.add_item(lossy, item) is True
    assert queue.add_item(lossy, item) is False

    lossy = Lossy(db, 1)
    with pytest.raises(redis.exceptions.ConnectionError):
        queue.lease(lossy, 60)
    leased = queue.lease(lossy, 60)
    assert leased is not None
    assert (leased.id(), bench.lengths()) == ("b", (1, 1)), "the same item again, not a second one"

    lossy = Lossy(db, 1)
    with pytest.raises(redis.exceptions.ConnectionError):
        queue.complete(lossy, leased)
    assert queue.complete(lossy, leased) is True
    assert queue.complete(lossy, leased) is False
    assert bench.lengths() == (1, 0)


def lost(make) -> None:
    with pytest.raises(redis.exceptions.ConnectionError):
        make()


def warmed(db: redis.Redis, queue: WorkQueue) -> None:
    """The scripts are known from now on."""
    queue.add_item(db, Item(b"warm", "w"))
    item = queue.lease(db, 5)
    assert item is not None
    item.token = None
    queue.complete(db, item)


def test_another_item_of_the_same_id_is_another_call(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    warmed(db, queue)
    lost(lambda: queue.add_item(Lossy(db, 1), Item(b"A", "daily")))
    assert bench.drain() == ["daily"]
    assert queue.add_item(db, Item(b"B", "daily")) is True
    assert bench.queue() == [b"daily"]

    first = queue.lease(db, 60)
    assert first is not None
    lost(lambda: queue.complete(Lossy(db, 1), Item.from_dict(first)))
    assert queue.add_item(db, Item(b"C", "daily")) is True
    second = queue.lease(db, 60)
    assert second is not None
    assert queue.complete(db, Item.from_dict(second)) is True
    assert bench.items() == 0


def test_a_call_in_doubt_is_not_the_same_after_a_while(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    warmed(db, queue)
    now = 1_000.0
    queue._nonces = Nonces("jobs", lambda: now)
    lost(lambda: queue.add_item(Lossy(db, 1), Item(b"A", "daily")))
    assert bench.drain() == ["daily"]
    now += 31
    assert queue.add_item(db, Item(b"A", "daily")) is True
    assert bench.queue() == [b"daily"]


def test_a_lease_whose_reply_was_lost_lasts_as_long_as_asked_for(
    bench: Bench, db: redis.Redis, queue: WorkQueue
) -> None:
    warmed(db, queue)
    queue.add_item(db, Item(b"x", "a"))
    lost(lambda: queue.lease(Lossy(db, 1), 2))
    item = queue.lease(db, 60)
    assert item is not None
    assert 55 <= bench.command("TTL", "jobs:lease:a") <= 60
    bench.pass_time(30_000)
    assert bench.light().requeued == 0
    assert queue.complete(db, item)
    bench.audit()


def test_a_lease_that_ended_on_its_way_is_not_given_out(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    warmed(db, queue)
    queue.add_item(db, Item(b"x", "a"))
    queue.add_item(db, Item(b"x", "b"))
    lost(lambda: queue.lease(Lossy(db, 1), 2))
    bench.pass_time(2_001)
    item = queue.lease(db, 60)
    assert item is not None
    assert item.id() == "b"
    assert bench.command("EXISTS", "jobs:lease:b", "jobs:lease:a") == 1
    bench.light()
    assert queue.lease(db, 60) == {"data": b"x", "id": "a"}
    bench.audit()


def test_to_extend_again_looks_at_the_lease_again(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    """What the first of them was told, and nobody heard, is not true any more."""
    warmed(db, queue)
    queue.add_item(db, Item(b"x", "a"))
    item = queue.lease(db, 5)
    assert item is not None
    assert queue.extend(db, item, 2)
    lost(lambda: queue.extend(Lossy(db, 1), item, 2))
    assert queue.extend(db, item, 60)
    assert bench.command("PTTL", "jobs:lease:a") > 50_000
    lost(lambda: queue.extend(Lossy(db, 1), item, 2))
    bench.pass_time(2_001)
    bench.light()
    assert WorkQueue(KeyPrefix("jobs")).lease(db, 60, block=False) is not None
    assert not queue.extend(db, item, 2)


def test_errors_are_those_of_the_client(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    bench.command("SET", "jobs:queue", "x")
    with pytest.raises(redis.exceptions.ResponseError, match="WRONGTYPE"):
        queue.lease(db, 5, block=False)
    bench.command("DEL", "jobs:queue")
    bench.command("CONFIG", "SET", "maxmemory", 1)
    try:
        with pytest.raises(redis.exceptions.ResponseError, match="memory"):  # Redis 6.2 has another class for it
            queue.add_item(db, Item(b"x"))
        assert queue.lease(db, 5, timeout=1) is None
    finally:
        bench.command("CONFIG", "SET", "maxmemory", 0)


def test_what_waits_can_be_done_at_the_memory_limit(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    queue.add_item(db, Item(b"x"))
    bench.command("CONFIG", "SET", "maxmemory", 1)
    try:
        item = queue.lease(db, 5, block=False)
        assert item is not None
        assert queue.complete(db, item)
    finally:
        bench.command("CONFIG", "SET", "maxmemory", 0)
    assert (bench.lengths(), bench.items()) == ((0, 0), 0)


def test_scripts_that_redis_has_forgotten_are_sent_again(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    for n in range(3):
        bench.command("SCRIPT", "FLUSH")
        queue.add_item(db, Item(b"x", f"i{n}"))
        bench.command("SCRIPT", "FLUSH")
        item = queue.lease(db, 5)
        assert item is not None
        bench.command("SCRIPT", "FLUSH")
        assert queue.complete(db, item)


@pytest.mark.parametrize("decode", [False, True])
async def test_the_async_twin(bench: Bench, decode: bool) -> None:
    db = redis.asyncio.Redis.from_url(bench.server.url, decode_responses=decode)
    queue = AsyncWorkQueue(KeyPrefix("jobs"), grace=0)
    assert await queue.add_item(db, Item(b"\xff", "a")) is True
    assert await queue.add_unique_item(db, Item(b"x", "a")) is False
    async with db.pipeline() as pipeline:
        queue.add_unique_item_to_pipeline(pipeline, Item(b"x", "b"))
        assert await pipeline.execute() == [1]
    item = await queue.lease(db, 5)
    assert item is not None
    assert (item.id(), item.data(), await queue.processing(db), await queue.queue_len(db)) == ("a", b"\xff", 1, 1)
    assert await queue.extend(db, item, 60)
    assert await queue.complete(db, item)
    assert not await queue.complete(db, item)
    assert await queue.lease(db, 5) is not None
    assert await queue.lease(db, 5, block=False) is None
    assert await queue.lease(db, 5, timeout=1) is None
    waiting = asyncio.create_task(queue.lease(db, 5))
    await asyncio.sleep(0)
    await queue.add_item(db, Item(b"x", "c"))
    found = await waiting
    assert found is not None
    assert found.id() == "c"
    bench.pass_time(6_000)
    await queue.light_clean(db)
    await queue.deep_clean(db)
    assert await queue.queue_len(db) == 2
    await db.aclose()
