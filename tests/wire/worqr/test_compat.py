"""The counterpart of the original's interface, beside the original."""

from __future__ import annotations

import asyncio
import json
import queue
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
import redis.asyncio

from tenure.compat.worqr import AsyncWorqr, Worqr
from tenure.core.errors import InvalidArgument
from tests.support.waiting import until
from tests.wire.worqr.bench import Bench
from tests.wire.worqr.original import R


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


def test_producing_and_looking(bench: Bench, start: Callable[..., Worqr]) -> None:
    worqr = start()
    assert worqr.enqueue("q", "a")
    assert worqr.enqueue("q", ["b", "c", "a"])
    assert worqr.enqueue("r", "only", unique=True)
    assert not worqr.enqueue("q", "only", unique=True)
    with pytest.raises(InvalidArgument, match="list of tasks"):
        worqr.enqueue("q", ["x"], unique=True)
    assert worqr.get_tasks("q") == ["a", "c", "b", "a"], "the newest first"
    assert (worqr.peek_queue("q"), worqr.count_queue("q"), worqr.peek_queue("none")) == ("a", 4, None)
    assert worqr.get_queues() == ["q", "r"]
    assert worqr.cancel_tasks("q", "a") == 2
    assert worqr.get_tasks("q") == ["c", "b"]
    assert worqr.delete_queue("r") == 1
    assert worqr.enqueue("r", "only", unique=True), "its marker is gone"
    assert bench.is_marked("only")


def test_tasks_are_text_or_numbers(bench: Bench, start: Callable[..., Worqr]) -> None:
    worqr = start()
    assert worqr.enqueue("q", [1, 2.5, 5.0, "t"])
    assert worqr.enqueue("q", 7, unique=True)
    assert not worqr.enqueue("q", "7", unique=True)
    assert bench.waiting() == ["1", "2.5", "5", "t", "7"]
    assert worqr.cancel_tasks("q", 1) == 1
    for wrong in (b"s3cret", ["a", b"s3cret"], None, True, float("nan"), {"s3cret": 1}):
        with pytest.raises(
            InvalidArgument, match="task must be text or a finite number, got a value of type"
        ) as raised:
            worqr.enqueue("q", wrong)  # type: ignore[arg-type]
        assert "s3cret" not in str(raised.value)
    with pytest.raises(InvalidArgument, match=r"task must be text that UTF-8 can encode .* got other text"):
        worqr.enqueue("q", ["a", "s3cret\ud800"])
    assert bench.waiting() == ["2.5", "5", "t", "7"]


def test_a_list_within_the_limit_is_one_transaction(bench: Bench, start: Callable[..., Worqr]) -> None:
    """A worker that is woken by it finds all of them."""
    worqr = start()
    with bench.driver.subscribe(f"{R}_q_work") as messages:
        worqr.enqueue("q", [f"{n}" for n in range(500)])
        assert messages.get(timeout_s=5) == b"500"


@pytest.mark.parametrize(("timeout", "interval"), [(-1, 3_600), (60, 20)])
def test_a_worker_keeps_its_tasks_between_its_heartbeats(
    bench: Bench, start: Callable[..., Worqr], timeout: float, interval: float
) -> None:
    """A permanent one, too."""
    worqr = start("q", worker_timeout=timeout, worker_heartbeat_interval=interval)
    bench.put("a")
    process = worqr.dequeue("q")
    assert process is not None
    assert bench.silence() == 0, "it has sent no heartbeat since"
    assert bench.original("live", "q").cleanup_workers() == []
    assert worqr.finish_process(process.id)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("worker_timeout", 0),
        ("worker_timeout", float("nan")),
        ("worker_heartbeat_interval", 2),
        ("worker_heartbeat_interval", 0),
    ],
)
def test_times_that_no_worker_can_keep_are_refused(bench: Bench, option: str, value: float) -> None:
    with pytest.raises(InvalidArgument, match=f"{option} must be"):
        Worqr(bench.server.url, **{option: value})


def test_no_history_is_kept(bench: Bench, start: Callable[..., Worqr]) -> None:
    """Neither of what was cancelled, nor for ever of queues that were served."""
    producer = start()
    producer.enqueue("q", ["a"] * 10 + ["b", "c"])
    assert producer.cancel_tasks("q", "a") == 10
    assert producer.cancel_tasks("unknown", "a") == 0
    producer.delete_queue("deleted")
    worqr = Worqr(bench.server.url)
    worqr.start_worker()
    for name in ("q", "served"):
        worqr.start_work(name)
    assert worqr.dequeue("q") is not None
    assert worqr.dequeue("served") is None
    assert producer.cancel_tasks("q", "b") == 0
    worqr.close()
    assert bench.waiting() == ["c"]
    assert producer.delete_queue("q") == 1
    lasting = {key.decode() for key in bench.db.keys("*") if bench.db.pttl(key) < 0}
    assert lasting == set()


def test_a_worker_and_its_processes(bench: Bench, start: Callable[..., Worqr]) -> None:
    original = bench.original("original", "q")
    worqr = start("q", worker_id="mine")
    assert worqr.get_workers() == ["mine", "original"]
    assert worqr.get_working_queues() == worqr.get_working_queues("original") == ["q"]
    original.enqueue("q", '{"tenure":1,"task":"t","args":[]}', "b", "c")
    with pytest.raises(InvalidArgument, match="queue must be one that this worker serves, got 'other'"):
        worqr.dequeue("other")
    first, second = worqr.dequeue("q"), worqr.dequeue("q")
    assert first is not None
    assert second is not None
    assert first.task == '{"tenure":1,"task":"t","args":[]}', "as it is"
    assert worqr.get_matching_processes("b") == [second.id]
    with bench.driver.subscribe(f"{R}_q_done") as messages:
        assert worqr.finish_process(first.id, [1])
        done = messages.get(timeout_s=5)
    assert done is not None
    assert json.loads(done) == {"workerId": "mine", "task": first.task, "result": [1]}
    assert not worqr.finish_process(first.id)
    assert worqr.stop_process(second.id)
    assert bench.waiting() == ["b", "c"]
    assert worqr.dequeue("q") is not None
    worqr.stop_work("q")
    assert bench.waiting() == ["b", "c"]
    with pytest.raises(InvalidArgument, match="Call start_work"):
        worqr.dequeue("q")
    assert worqr.get_working_queues() == []


def test_events(bench: Bench, start: Callable[..., Worqr]) -> None:
    original = bench.original("original", "q")
    original.enqueue("q", "early")
    seen: queue.Queue[tuple[str, str]] = queue.Queue()
    worqr = start()
    worqr.on("q", lambda event, message: 1 // 0)  # hurts no other
    worqr.on("q", lambda event, message: seen.put((event, message)))
    worqr.start_worker()
    worqr.start_work("q")
    assert seen.get(timeout=20) == ("work", "1")
    original.enqueue("q", "a", "b")
    assert seen.get(timeout=20) == ("work", "2")
    process = worqr.dequeue("q")
    assert process is not None
    original.cancel_tasks("q", "early")
    assert seen.get(timeout=20) == ("cancel", "early")
    worqr.finish_process(process.id)
    assert seen.get(timeout=20)[0] == "done"
    worqr.delete_queue("q")
    assert seen.get(timeout=20) == ("delete", "")


def test_what_an_original_takes_away_is_reported(bench: Bench, start: Callable[..., Worqr]) -> None:
    original = bench.original("original", "q")
    seen: queue.Queue[tuple[str, str]] = queue.Queue()
    worqr = start("q", worker_id="mine")
    original.enqueue("q", "a")
    process = worqr.dequeue("q")
    assert process is not None
    worqr.on("q", lambda event, message: None if event == "work" else seen.put((event, message)))
    original.fail_worker("mine")
    assert seen.get(timeout=20) == ("lost", process.id)
    assert not worqr.finish_process(process.id)
    until(lambda: worqr.get_workers() == ["mine", "original"])
    assert worqr.dequeue("q") is not None, "it is back"


def test_a_dead_worker_is_failed_by_the_others(bench: Bench, start: Callable[..., Worqr]) -> None:
    bench.put("left")
    bench.announce("dead")
    bench.take(1, "dead")
    bench.db.delete(f"{R}:workerTimers:dead")
    worqr = start("q", worker_id="mine", worker_timeout=60)
    assert worqr.cleanup_workers() == ["dead"]
    assert worqr.get_workers() == ["mine"]
    process = worqr.dequeue("q")
    assert process is not None
    assert worqr.finish_process(process.id)
    worqr.enqueue("q", "a")
    assert worqr.dequeue("q") is not None
    assert worqr.fail_worker() == 1
    assert worqr.get_tasks("q") == ["a"]


def test_a_dead_original_is_left_to_one_that_lives(bench: Bench, start: Callable[..., Worqr]) -> None:
    """Only an original returns the tasks of a dead one, and only while that is listed."""
    live, dead = bench.original("live", "q"), bench.original("dead", "q")
    live.enqueue("q", "t")
    assert dead.dequeue("q") is not None
    dead.die()
    worqr = start("q", worker_id="mine", worker_timeout=60)
    assert worqr.cleanup_workers() == []
    live.cleanup_workers()
    assert worqr.get_tasks("q") == ["t"]


def test_what_an_earlier_worker_of_the_id_left_returns(bench: Bench, start: Callable[..., Worqr]) -> None:
    """W14."""
    bench.put("a", "b")
    bench.take(1, "mine")
    start("q", worker_id="mine")
    assert bench.waiting() == ["a", "b"]


def test_a_task_whose_reply_was_lost_returns(bench: Bench, start: Callable[..., Worqr]) -> None:
    """W9: the worker holds it and does not know it."""
    worqr = start("q", worker_id="mine")
    bench.put("a", "b")
    known = worqr.dequeue("q")
    bench.take(1, "mine")
    until(lambda: worqr.get_tasks("q") == ["b"])
    assert known is not None
    assert worqr.finish_process(known.id)


async def test_asyncio(bench: Bench) -> None:
    async with AsyncWorqr(bench.server.url) as worqr:
        await worqr.start_worker()
        await worqr.start_work("q")
        works: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        worqr.on("q", lambda event, message: works.put_nowait((event, message)))
        assert await worqr.enqueue("q", "a")
        assert await asyncio.wait_for(works.get(), 20) == ("work", "1")
        process = await worqr.dequeue("q")
        assert process is not None
        assert process.task == "a"
        await asyncio.sleep(1.2)  # two heartbeats
        assert await worqr.finish_process(process.id, None)
    assert bench.db.keys(f"{R}:work*") == []


@pytest.mark.parametrize("kind", [redis.Redis, redis.asyncio.Redis])
def test_a_client_of_the_redis_package_names_the_server(bench: Bench, kind: Any) -> None:
    with Worqr(kind.from_url(bench.server.url, decode_responses=True)) as worqr:
        assert worqr.enqueue("q", "a")
    assert bench.waiting() == ["a"]


def test_what_is_held_returns_when_the_client_is_closed(bench: Bench) -> None:
    with Worqr(bench.server.url) as worqr:
        worqr.start_worker()
        worqr.start_work("q")
        worqr.enqueue("q", ["a", "b"])
        assert worqr.dequeue("q") is not None
    assert bench.waiting() == ["a", "b"]
    assert bench.working() == set()


def test_w17_no_task_is_in_a_log(bench: Bench, start: Callable[..., Worqr], caplog: pytest.LogCaptureFixture) -> None:
    def fails(event: str, message: str) -> None:
        raise ValueError(message)

    caplog.set_level("DEBUG")
    worqr = start("q")
    worqr.on("q", fails)
    worqr.enqueue("q", ["s3cret 1", "s3cret 2"])
    worqr.enqueue("q", "s3cret 3", unique=True)
    processes = [worqr.dequeue("q") for _ in range(2)]
    for process, end in zip(processes, (worqr.finish_process, worqr.stop_process), strict=True):
        assert process is not None
        assert end(process.id)
    assert worqr.cancel_tasks("q", "s3cret 2") == 1
    until(lambda: "listener_failed queue=q event=cancel" in caplog.text)  # its message is the task
    assert "s3cret" not in caplog.text
