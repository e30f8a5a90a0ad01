"""The drop-in adds: pipelines, ids that a Tenure worker keeps, and adds that arrive twice."""

from __future__ import annotations

import os

import pytest
import redis
import redis.asyncio

from tenure.compat.redis_work_queue import AsyncWorkQueue, Item, ItemEnded, KeyPrefix, WorkQueue
from tenure.core.errors import DuplicateJob, TenureError
from tenure.core.job import State
from tenure.core.outcome import Broken, Failed, Outcome, Retried, Unroutable
from tenure.engines.redis_work_queue.scripts import SCRIPTS
from tests.wire.redis_work_queue.bench import BOOM, STRAY_MS, Bench

ENDS: dict[str, Outcome] = {"failed": Failed(BOOM), "broken": Broken(BOOM), "unroutable": Unroutable()}
STATES = [*ENDS, "cancelled"]
RETRY_MS = 600_000


@pytest.fixture
def queue() -> WorkQueue:
    return WorkQueue(KeyPrefix("jobs"))


def ended(bench: Bench, state: str, id: str = "x") -> None:
    """A Tenure worker, or a call of cancel, ends `id` in this state."""
    bench.put(id, data=b"bad", task="t")
    if state == "cancelled":
        bench.run(bench.engine.cancel("default", id))
    else:
        outcome = ENDS[state]
        assert bench.settle(bench.take_one(), outcome)
    assert bench.state(id) is State(state)


def add_all(queue: WorkQueue, pipeline: redis.client.Pipeline, ids: str, data: bytes = b"new", **options: bool) -> None:
    for id in ids:
        queue.add_unique_item_to_pipeline(pipeline, Item(data, id), **options)


# An id that a Tenure worker keeps.


@pytest.mark.parametrize("state", STATES)
def test_an_id_that_a_worker_keeps_is_an_error_of_its_own(
    bench: Bench, db: redis.Redis, queue: WorkQueue, state: str
) -> None:
    ended(bench, state)
    with pytest.raises(ItemEnded, match=rf"'x'.*{state}.*replace=True.*tenure discard") as found:
        queue.add_item(db, Item(b"new", "x"))
    error = found.value
    assert isinstance(error, DuplicateJob)
    assert (error.id, error.state, error.expires_ms is None) == ("x", state, state == "unroutable")
    with db.pipeline() as pipeline:
        add_all(queue, pipeline, "xyx")
        assert pipeline.execute() == [-1, 1, -1]
    assert bench.state("x") is State(state)
    assert bench.queue() == [b"y"]
    bench.audit()


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("way", ["alone", "in a pipeline"])
def test_replace_adds_the_item_in_place_of_the_record(
    bench: Bench, db: redis.Redis, queue: WorkQueue, state: str, way: str
) -> None:
    ended(bench, state)
    if way == "alone":
        assert queue.add_unique_item(db, Item(b"new", "x"), replace=True) is True
        assert queue.add_item(db, Item(b"other", "x"), replace=True) is False, "an item that waits is not replaced"
    else:
        with db.pipeline() as pipeline:
            add_all(queue, pipeline, "xx", replace=True)
            assert pipeline.execute() == [1, 0]
    counts = bench.run(bench.engine.queue("default")).counts
    assert {state: count for state, count in counts.items() if count} == {State.READY: 1}
    assert bench.take_one().record.payload == b"new"
    bench.audit()


def test_of_two_parked_items_the_other_one_stays(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    for id in "xy":
        ended(bench, "unroutable", id)
    assert queue.add_item(db, Item(b"new", "x"), replace=True)
    assert bench.state("y") is State.UNROUTABLE
    assert bench.command("SMEMBERS", "jobs:unroutable") == [b"t"]
    assert queue.add_item(db, Item(b"new", "y"), replace=True)
    assert bench.command("EXISTS", "jobs:unroutable") == 0
    bench.audit()


def test_an_item_beside_the_record_is_there_already(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    """Another client added it since: it cannot see the record."""
    ended(bench, "failed")
    bench.foreign_add("x", b"theirs")
    assert queue.add_item(db, Item(b"new", "x")) is False
    assert queue.add_item(db, Item(b"new", "x"), replace=True) is False
    assert bench.command("HEXISTS", "jobs:kept", "x") == 1
    assert bench.command("GET", "jobs:item:x") == b"theirs"


async def test_the_async_twin_says_so_too(bench: Bench) -> None:
    ended(bench, "failed")
    before = bench.command("KEYS", "jobs:done:*")
    twin = AsyncWorkQueue(KeyPrefix("jobs"))
    async with redis.asyncio.Redis.from_url(bench.server.url) as db:
        with pytest.raises(ItemEnded):
            await twin.add_item(db, Item(b"new", "x"))
        with pytest.raises(ItemEnded):
            await twin.add_unique_item(db, Item(b"new", "x"))
        async with db.pipeline() as pipeline:
            twin.add_unique_item_to_pipeline(pipeline, Item(b"new", "x"))
            twin.add_unique_item_to_pipeline(pipeline, Item(b"new", "x"), replace=True)
            assert await pipeline.execute() == [-1, 1]
        assert await twin.add_item(db, Item(b"new", "x"), replace=True) is False
        await twin.close(db)
    assert bench.command("KEYS", "jobs:done:*") == before


# What is left of an earlier item of the id, and items in no list.


@pytest.mark.parametrize("way", ["alone", "in a pipeline"])
def test_a_later_item_does_not_wait_for_the_retry_of_an_earlier_one(
    bench: Bench, db: redis.Redis, queue: WorkQueue, way: str
) -> None:
    bench.put("x", data=b"first")
    assert bench.settle(bench.take_one(), Retried(BOOM, RETRY_MS))
    bench.command("DEL", "jobs:item:x")  # by another client, which has not removed it from `processing`
    if way == "alone":
        assert queue.add_item(db, Item(b"second", "x")) is True
    else:
        with db.pipeline() as pipeline:
            add_all(queue, pipeline, "x", b"second")
            assert pipeline.execute() == [1]
    assert (bench.state("x"), bench.lengths()) == (State.READY, (1, 0))
    lease = bench.take_one()
    assert (lease.record.payload, lease.failures) == (b"second", 0)
    assert bench.settle(lease)
    bench.audit()


def test_a_lease_of_another_client_stays(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    """It is completing an earlier item of the id, of which a retry of ours is noted."""
    bench.put("x", data=b"first")
    assert bench.settle(bench.take_one(), Retried(BOOM, RETRY_MS))
    bench.command("DEL", "jobs:item:x")
    bench.foreign_hold("x")
    assert queue.add_item(db, Item(b"second", "x")) is True
    assert bench.command("EXISTS", "jobs:leased_by_session:x") == 1


def test_r1_adding_again_lists_an_item_that_is_in_no_list(bench: Bench, db: redis.Redis) -> None:
    queue = WorkQueue(KeyPrefix("jobs"), grace=STRAY_MS / 1000)
    bench.foreign_item("a")
    for wanted in ([], [], [b"a"], [b"a"]):
        assert queue.add_item(db, Item(b"x", "a")) is False
        assert bench.queue() == wanted
        bench.pass_time(STRAY_MS // 2 + 1)
    bench.foreign_lease(3_600)
    for _ in range(3):
        assert queue.add_item(db, Item(b"x", "a")) is False
        bench.pass_time(STRAY_MS + 1)
    assert bench.queue() == []


@pytest.mark.parametrize("suffix", ["queue", "kept", "later", "failed", "unroutable:t"])
def test_data_of_another_program_is_refused_before_anything_changes(
    bench: Bench, db: redis.Redis, queue: WorkQueue, suffix: str
) -> None:
    ended(bench, "unroutable" if suffix == "unroutable:t" else "failed")
    bench.command("SET", f"jobs:{suffix}", "theirs")
    with pytest.raises(redis.exceptions.ResponseError, match="WRONGTYPE"):
        queue.add_item(db, Item(b"new", "x"), replace=True)
    assert bench.command("EXISTS", "jobs:item:x") == 0


def test_a_copy_of_an_add_that_was_delayed_is_refused(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    """A client library sent the call again; the first copy arrives after later calls of the session."""
    sent: list[tuple[object, ...]] = []

    class Watched:
        def execute_command(self, *args: object, **options: object) -> object:
            sent.append(args)
            return db.execute_command(*args, **options)

    queue.add_item(db, Item(b"x", "known"))
    queue.add_item(Watched(), Item(b"x", "a"))
    queue.add_item(db, Item(b"x", "b"))
    assert bench.drain() == ["known", "a", "b"]
    with pytest.raises(redis.exceptions.ResponseError, match="TNSTALE"):
        db.execute_command(*sent[0])
    assert bench.lengths() == (0, 0)


# Pipelines.


@pytest.mark.parametrize("transaction", [True, False])
def test_a_pipeline_sends_the_script_once(bench: Bench, db: redis.Redis, queue: WorkQueue, transaction: bool) -> None:
    with db.pipeline(transaction=transaction) as pipeline:
        for ids in ("abc", "cde"):
            bench.command("SCRIPT", "FLUSH")
            pipeline.ping()
            add_all(queue, pipeline, ids)
            sent = [args[0] for args, _ in pipeline.command_stack]
            assert sent == ["PING", "EVAL", "EVALSHA", "EVALSHA"]
            assert sum(len(str(arg)) for args, _ in pipeline.command_stack[2:] for arg in args) < 300
            assert pipeline.execute() == [True, 1 if ids == "abc" else 0, 1, 1]
        add_all(queue, pipeline, "f")
        pipeline.reset()
        bench.command("SCRIPT", "FLUSH")
        add_all(queue, pipeline, "g")
        assert pipeline.execute() == [1]
    assert bench.queue() == [b"a", b"b", b"c", b"d", b"e", b"g"]


def test_pipelines_and_queues_do_not_disturb_each_other(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    other = WorkQueue(KeyPrefix("others"))
    one, two = db.pipeline(), db.pipeline()
    for id in "abc":
        for pipeline in (one, two):
            queue.add_item_to_pipeline(pipeline, Item(b"x", f"{id}{pipeline is one}"))
            other.add_item_to_pipeline(pipeline, Item(b"x", f"{id}{pipeline is one}"))
    bench.command("SCRIPT", "FLUSH")
    assert one.execute() == [1] * 6
    bench.command("SCRIPT", "FLUSH")
    assert queue.queue_len(db) == 3
    assert two.execute() == [1] * 6
    assert (queue.queue_len(db), other.queue_len(db)) == (6, 6)
    assert bench.command("KEYS", "*:done:*") == []


def test_a_pipeline_that_watches_adds_at_once(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    with db.pipeline() as pipeline:
        pipeline.watch("k")
        add_all(queue, pipeline, "ab")
        bench.command("SCRIPT", "FLUSH")
        pipeline.multi()
        add_all(queue, pipeline, "bcd")
        assert pipeline.execute() == [0, 1, 1]
    assert bench.queue() == [b"a", b"b", b"c", b"d"]
    queue.close(db)
    assert bench.command("KEYS", "jobs:done:*") == []


@pytest.mark.parametrize("transaction", [True, False])
def test_a_pipeline_that_arrives_twice_adds_nothing_the_second_time(
    bench: Bench, db: redis.Redis, queue: WorkQueue, transaction: bool
) -> None:
    """redis-py repeats a whole pipeline when its reply was lost. Meanwhile the items were consumed."""
    ended(bench, "failed")
    with db.pipeline(transaction=transaction) as pipeline:
        add_all(queue, pipeline, "axba")
        stack = pipeline.command_stack
        assert pipeline.execute() == [1, -1, 1, 0]
        assert bench.drain() == ["a", "b"]
        assert bench.run(bench.engine.discard("default", "x"))
        pipeline.command_stack = stack
        assert pipeline.execute() == [1, -1, 1, 0]
    assert (bench.lengths(), bench.items()) == ((0, 0), 0)


def test_the_rest_of_a_pipeline_that_was_cut_is_added_by_the_repeat(
    bench: Bench, db: redis.Redis, queue: WorkQueue
) -> None:
    """Without a transaction a part may have run. An add that failed is tried again, wherever it stands."""
    with db.pipeline(transaction=False) as pipeline:
        add_all(queue, pipeline, "abc")
        stack = pipeline.command_stack
        pipeline.command_stack = stack[:2]
        pipeline.execute()
        assert bench.drain() == ["a", "b"]
        pipeline.command_stack = stack
        assert pipeline.execute() == [1, 1, 1]
        assert bench.drain() == ["c"]

        add_all(queue, pipeline, "def")
        stack = pipeline.command_stack
        stack.insert(1, (("SET", "jobs:queue", "theirs"), {}))
        stack.insert(3, (("DEL", "jobs:queue"), {}))
        replies = pipeline.execute(raise_on_error=False)
        assert [type(reply) for reply in replies].count(redis.exceptions.ResponseError) == 1
        assert bench.queue() == [b"f"]
        pipeline.command_stack = [entry for entry in stack if entry[0][0].startswith("EVAL")]
        pipeline.execute()
    assert bench.queue() == [b"f", b"e"]


def test_the_answers_of_a_pipeline_whose_first_add_failed_expire(
    bench: Bench, db: redis.Redis, queue: WorkQueue
) -> None:
    with db.pipeline(transaction=False) as pipeline:
        add_all(queue, pipeline, "ab")
        stack = pipeline.command_stack
        pipeline.command_stack = [
            (("SET", "jobs:queue", "theirs"), {}), stack[0], (("DEL", "jobs:queue"), {}), stack[1]
        ]  # fmt: skip
        pipeline.execute(raise_on_error=False)
    (group,) = bench.command("KEYS", "jobs:done:*")
    assert 0 < bench.command("PTTL", group) <= 60_000


def test_a_forked_process_adds_to_a_pipeline_on_its_own(bench: Bench, queue: WorkQueue) -> None:
    """Both go on with the same pipeline object: a place of the one must not be a place of the other."""
    db = redis.Redis.from_url(bench.server.url)
    pipeline = db.pipeline()
    add_all(queue, pipeline, "a")
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            add_all(queue, pipeline, "bc")
            pipeline.execute()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    add_all(queue, pipeline, "de")
    assert pipeline.execute() == [1, 1, 1]
    assert bench.queue() == [b"a", b"b", b"c", b"d", b"e"]
    db.close()


def test_an_add_that_arrives_again_after_its_item_ended_adds_nothing(bench: Bench) -> None:
    def add(number: int) -> int:
        text = SCRIPTS["add"].text
        reply: int = bench.command("EVAL", text, 1, "jobs", "x", b"data", "session", 10**9 + number, STRAY_MS)
        return reply

    assert add(1) == 1
    assert bench.drain() == ["x"]
    assert add(1) == 1, "the answer of the first time"
    assert add(2) == 1
    assert bench.drain() == ["x"]
    with pytest.raises(TenureError, match="TNSTALE"):
        add(1)
    assert add(2) == 1
    assert (bench.lengths(), bench.items()) == ((0, 0), 0)
