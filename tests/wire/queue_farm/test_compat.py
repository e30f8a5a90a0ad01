"""The drop-in: the managers, workers, events and logger of the original, for Python."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from functools import partial
from typing import Any

import pytest
import redis
import redis.asyncio

from tenure.compat.queue_farm import AsyncManager, AsyncWorker, JobEnded, Logger, Manager, Worker
from tenure.compat.queue_farm.emitter import EVENTS
from tenure.core.errors import InvalidArgument, PayloadInvalid
from tenure.engines.queue_farm.config import INDEX_TTL_MS
from tenure.testing.server import RedisServer
from tests.support.waiting import until

Seen = list[tuple[Any, ...]]
WORK_S = 0.3
"""How long the handler of a slow job works."""


class FailOnce:
    """A handler whose first run fails."""

    runs = 0

    def __call__(self, queue: str, jobs: list[Any]) -> None:
        self.runs += 1
        if self.runs == 1:
            raise ValueError("boom")


def record(manager: Manager | AsyncManager) -> Seen:
    """Register a callback for each event, a coroutine function where the class takes one."""
    seen: Seen = []

    def callback(event: str) -> Any:
        def plain(*args: Any) -> None:
            seen.append((event, *args))

        async def asynchronous(*args: Any) -> None:
            await asyncio.sleep(0)
            seen.append((event, *args))

        return asynchronous if isinstance(manager, AsyncManager) else plain

    for event in EVENTS:
        manager.on(event, callback(event))
    return seen


def test_a_job_has_the_fields_of_the_original(server: RedisServer) -> None:
    manager = Manager(server.url, id="me", max_attempts=5)
    id = manager.push("user:42", {"n": "é"}, timeout=1.5)
    raw = server.command("HGETALL", f"queue-farm:job:{id}")
    fields = dict(zip(raw[::2], raw[1::2], strict=True))
    assert json.loads(fields[b"data"]) == {"n": "é"}
    assert (fields[b"maxAttempts"], fields[b"timeout"], fields[b"managerId"]) == (b"5", b"1500", b"me")
    assert fields[b"queuedAt"].isdigit()
    manager.close()


def test_a_manager_pushes_and_deletes(server: RedisServer) -> None:
    manager = Manager(server.url)
    seen = record(manager)
    id = manager.push("a", 1, max_attempts=2)
    assert manager.delete("a", id)
    assert not manager.delete("a", id)
    assert seen == [
        ("push", "a", id, 1, {"max_attempts": 2}),
        ("delete", "a", id, True),
        ("delete", "a", id, False),
    ]
    manager.close()


def test_a_manager_beside_node_workers_leaves_no_key_without_an_end(server: RedisServer) -> None:
    manager = Manager(server.url)
    for n in range(20):
        id, gone = manager.push(f"q{n}", n), manager.push(f"q{n}", n)
        assert manager.delete(f"q{n}", gone)
        for key in (f"queue-farm:queue:q{n}", f"queue-farm:job:{id}"):
            server.command("DEL", key)  # a Node worker ran the job, and left the queue
        server.command("SREM", "queue-farm:active", f"q{n}")
    manager.close()
    lives = {key: server.command("PTTL", key) for key in server.command("KEYS", "*")}
    assert [key for key, ms in lives.items() if ms < 0] == []
    known, ready = lives[b"queue-farm:tenure:known"], lives[b"queue-farm:tenure:ready"]
    assert known <= INDEX_TTL_MS, "it is not prolonged by each push, so that it does not grow for ever"
    assert server.command("SCARD", "queue-farm:tenure:known") == 20
    assert ready > 0


def test_jobs_are_found_when_the_index_has_expired(server: RedisServer) -> None:
    handled: list[Any] = []
    worker = Worker(lambda queue, jobs: handled.extend(jobs), server.url)
    for n in range(5):
        worker.push("a", n)
    server.command("DEL", "queue-farm:tenure:known", "queue-farm:tenure:ready")  # they expire at one moment
    worker.drain()
    assert handled == [0, 1, 2, 3, 4]
    worker.close()


@pytest.mark.parametrize("bad", [float("nan"), object(), {1, 2}], ids=["nan", "object", "set"])
def test_f8_data_that_json_does_not_have_is_refused(server: RedisServer, bad: object) -> None:
    manager = Manager(server.url)
    with pytest.raises(PayloadInvalid):
        manager.push("a", bad)
    assert not server.command("KEYS", "*")


def test_bad_arguments_are_named(server: RedisServer) -> None:
    manager = Manager(server.url)
    with pytest.raises(InvalidArgument, match="max_attempts"):
        manager.push("a", 1, max_attempts=0)
    with pytest.raises(InvalidArgument, match="attempts"):
        manager.push("a", 1, attempts=3)
    with pytest.raises(InvalidArgument, match=":fetchAt"):
        manager.push("x:fetchAt", 1)
    with pytest.raises(InvalidArgument, match="no-such"):
        manager.on("no-such", print)


def events_of(server: RedisServer, manager: Manager) -> Seen:
    """Push jobs that end in each way. Returns the events of a worker."""
    ids = [manager.push("a", {"n": 1}), manager.push("a", {"n": 2})]
    ids += [manager.push("fails", "f", max_attempts=2), manager.push("invalid", 0), manager.push("gone", 0)]
    server.command("HSET", f"queue-farm:job:{ids[3]}", "data", "NaN")
    server.command("DEL", f"queue-farm:job:{ids[4]}")
    manager.close()
    boom = ValueError("boom")
    return [  # f16: each event names its own jobs
        ("all-empty",),
        ("deleted-error", "gone", [ids[4]], "Job already removed"),
        ("finish", "a", ids[:2], [{"n": 1}, {"n": 2}]),
        ("handler-error", "fails", [ids[2]], str(boom), ["f"]),
        ("handler-error", "fails", [ids[2]], str(boom), ["f"]),
        ("invalid-data", "invalid", [ids[3]], ["NaN"], "Jobs data could not be decoded"),
        ("retry-limit", "fails", [ids[2]], ['"f"'], "Jobs reached retry limit"),
        ("start", "a", ids[:2], [{"n": 1}, {"n": 2}]),
        ("start", "fails", [ids[2]], ["f"]),
        ("start", "fails", [ids[2]], ["f"]),
    ]


def plain(seen: Seen) -> Seen:
    """Events in an order of their own, with errors as texts. Between two attempts all queues may be empty once more."""
    texts = [tuple(str(arg) if isinstance(arg, Exception) else arg for arg in event) for event in seen]
    once = [text for n, text in enumerate(texts) if text != ("all-empty",) or text not in texts[:n]]
    return sorted(once, key=str)


def test_a_worker_drains_all_queues_and_emits_the_events(server: RedisServer) -> None:
    def handle(queue: str, jobs: list[Any]) -> None:
        if queue == "fails":
            raise ValueError("boom")

    worker = Worker(handle, server.url, batch_size=2)
    seen = record(worker)
    expected = events_of(server, Manager(server.url))
    worker.drain()
    assert plain(seen) == expected
    assert isinstance(next(event[-1] for event in seen if event[0] == "retry-limit"), JobEnded)
    assert not [key for key in server.command("KEYS", "queue-farm:*") if not key.startswith(b"queue-farm:tenure")]


async def test_an_async_worker_drains_all_queues_and_emits_the_events(server: RedisServer) -> None:
    async def handle(queue: str, jobs: list[Any]) -> None:
        if queue == "fails":
            raise ValueError("boom")

    worker = AsyncWorker(handle, server.url, batch_size=2)
    seen = record(worker)
    expected = await asyncio.to_thread(events_of, server, Manager(server.url))
    await worker.drain()
    assert plain(seen) == expected


@pytest.mark.parametrize("in_thread", [False, True])
async def test_a_run_that_takes_longer_than_the_timeout_completes_its_job(server: RedisServer, in_thread: bool) -> None:
    runs: list[Any] = []

    def sync(queue: str, jobs: list[Any]) -> None:
        runs.extend(jobs)
        time.sleep(WORK_S)

    async def asynchronous(queue: str, jobs: list[Any]) -> None:
        runs.extend(jobs)
        await asyncio.sleep(WORK_S)

    worker = AsyncWorker(sync if in_thread else asynchronous, server.url)
    ended: Seen = []
    for event in ("finish", "handler-error", "retry-limit"):
        worker.on(event, lambda *args, event=event: ended.append((event, *args[:2])))
    id = await worker.push("a", "slow", timeout=WORK_S / 10)
    await worker.drain()
    assert runs == ["slow"]
    assert ended == [("finish", "a", [id])]
    assert server.command("HLEN", "queue-farm:tenure:kept") == 0
    await worker.close()


async def test_a_run_whose_claim_was_taken_over_does_not_finish(server: RedisServer) -> None:
    seen: Seen = []

    async def handle(queue: str, jobs: list[Any]) -> None:
        if not seen:  # an original takes the batch over, and writes its own time
            server.command("SET", f"queue-farm:active:{queue}:fetchAt", "1")
            server.command("HSET", f"queue-farm:job:{id}", "timeout", "1")
        seen.append(("run", *jobs))

    worker = AsyncWorker(handle, server.url)
    worker.on("finish", lambda *args: seen.append(("finish", *args[2])))
    id = await worker.push("a", 1)
    await worker.drain()
    assert seen == [("run", 1), ("run", 1), ("finish", 1)]
    await worker.close()


async def test_f14_a_worker_listens_until_it_is_stopped_and_again(server: RedisServer) -> None:
    handled: list[Any] = []

    async def handle(queue: str, jobs: list[Any]) -> None:
        handled.extend(jobs)
        await worker.stop()

    worker = AsyncWorker(handle, server.url)
    for n in range(2):
        await worker.push("a", n)
        await worker.listen()
    assert handled == [0, 1]
    await worker.close()


def test_another_thread_stops_a_worker_which_finishes_its_batch(server: RedisServer) -> None:
    started, may_end, done = threading.Event(), threading.Event(), []

    def handle(queue: str, jobs: list[Any]) -> None:
        started.set()
        may_end.wait(30)
        done.extend(jobs)

    worker = Worker(handle, server.url)
    worker.push("a", 1)
    worker.push("a", 2)
    thread = threading.Thread(target=worker.listen)
    thread.start()
    assert started.wait(30)
    worker.stop()
    may_end.set()
    thread.join(60)
    assert done == [1]
    assert server.command("LLEN", "queue-farm:queue:a") == 1
    worker.close()


def test_an_idle_worker_emits_that_no_queue_is_active(server: RedisServer) -> None:
    worker = Worker(lambda queue, jobs: None, server.url, no_active_queues_sleep=0.01)
    worker.on("no-active-queues", worker.stop)
    worker.listen()


async def test_a_worker_that_listens_emits_when_its_queues_have_become_empty(server: RedisServer) -> None:
    """As the original, which emits `no-active-queues` only later. At the start there is nothing that became empty."""
    seen: list[str] = []
    worker = AsyncWorker(lambda queue, jobs: None, server.url, all_empty_sleep=0.01, no_active_queues_sleep=600)

    @partial(worker.on, "no-active-queues")
    async def push() -> None:
        seen.append("no-active-queues")
        await worker.push("a", 1)

    @partial(worker.on, "all-empty")
    async def push_again_or_stop() -> None:
        seen.append("all-empty")
        await (worker.push("a", 2) if seen.count("all-empty") == 1 else worker.stop())

    await worker.listen()
    assert [event for n, event in enumerate(seen) if event not in seen[:n]] == ["no-active-queues", "all-empty"]
    await worker.close()


def test_callbacks_are_removed_and_called_once(server: RedisServer) -> None:
    manager = Manager(server.url)
    seen: list[str] = []

    def first(*args: Any) -> None:
        seen.append("first")

    def second(*args: Any) -> None:
        seen.append("second")

    assert manager.once("push", first) is first
    manager.on("push", second)
    manager.on("push", second)
    manager.push("a", 1)
    assert seen == ["first", "second", "second"]
    manager.off("push", second)
    manager.off("push", first)  # it has none
    manager.push("a", 2)
    assert seen[3:] == ["second"]
    manager.once("delete", first)
    manager.off("delete", first)
    manager.delete("a", "none")
    assert seen[4:] == []
    with pytest.raises(InvalidArgument, match="no-such"):
        manager.once("no-such", print)
    manager.close()


@pytest.mark.parametrize("kind", [redis.Redis, redis.asyncio.Redis])
async def test_a_manager_takes_a_client_of_redis(private_server: RedisServer, kind: Any) -> None:
    private_server.command("CONFIG", "SET", "requirepass", "s3 cr@t/")
    path = private_server.url.removeprefix("unix://").partition("?")[0]
    client = kind(unix_socket_path=path, password="s3 cr@t/", db=3)
    manager = AsyncManager(client)
    await manager.push("a", 1)
    await manager.close()
    own = redis.Redis(unix_socket_path=path, password="s3 cr@t/", db=3)
    assert own.llen("queue-farm:queue:a") == 1
    own.close()
    with pytest.raises(InvalidArgument, match="client of the redis package"):
        AsyncManager(object())  # type: ignore[arg-type]


def test_a_retry_has_no_delay_in_the_log(server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    """The format has no place for one: a retry runs at once."""
    caplog.set_level(logging.INFO, "tenure.worker")
    worker = Worker(fail_once := FailOnce(), server.url)
    worker.push("a", 1)
    worker.drain()
    lines = [one.getMessage() for one in caplog.records if one.getMessage().startswith("retried ")]
    assert len(lines) == fail_once.runs - 1 == 1
    assert "delay_ms" not in lines[0]
    worker.close()


def test_a_callback_that_raises_affects_no_job(server: RedisServer) -> None:
    worker = Worker(lambda queue, jobs: None, server.url)

    def fails(*args: Any) -> None:
        raise ValueError("no")

    worker.on("start", fails)
    finished: Seen = []
    worker.on("finish", lambda *args: finished.append(args))
    worker.push("a", 1)
    worker.drain()
    assert len(finished) == 1


def test_the_logger_writes_a_record_for_each_event(server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    manager = Manager(server.url, id="me")
    both = [
        Logger(manager, logging.getLogger("farm"), default_meta={"app": 1}),
        Logger(manager, logging.getLogger("more"), extended=True, except_events=["delete"]),
    ]
    for logger in both:
        logger.on()
    caplog.set_level(logging.DEBUG)
    id = manager.push("a", {"n": 1})
    manager.delete("a", id)
    both[0].on()  # it logs already
    both[0].off()
    both[1].off()
    manager.delete("a", id)
    both[1].off()
    records = [
        (one.name, one.levelname, one.getMessage(), one.__dict__["meta"])
        for one in caplog.records
        if one.name in ("farm", "more")
    ]
    about = {"namespace": "queue-farm", "id": "me"}
    assert records == [
        ("farm", "INFO", "Job pushed", {"queue": "a", "jobId": id, "options": {}, "app": 1, **about}),
        ("more", "INFO", "Job pushed", {"queue": "a", "jobId": id, "job": {"n": 1}, "options": {}, **about}),
        ("farm", "DEBUG", "Job deleted", {"queue": "a", "jobId": id, "success": True, "app": 1, **about}),
    ]
    manager.close()


async def test_f4_a_worker_goes_on_after_an_error_of_redis(server: RedisServer) -> None:
    handled: asyncio.Queue[Any] = asyncio.Queue()

    async def handle(queue: str, jobs: list[Any]) -> None:
        handled.put_nowait(jobs)

    worker = AsyncWorker(handle, server.url)
    await worker.push("a", 1)
    listening = asyncio.create_task(worker.listen())
    assert await asyncio.wait_for(handled.get(), 60) == [1]
    await asyncio.to_thread(until, lambda: not server.command("EXISTS", "queue-farm:active"))
    server.command("CONFIG", "RESETSTAT")
    server.command("SET", "queue-farm:active", "another program's")
    await asyncio.to_thread(until, lambda: b"errorstat_" in server.command("INFO", "errorstats"))
    server.command("DEL", "queue-farm:active")
    await worker.push("a", 2)
    assert await asyncio.wait_for(handled.get(), 60) == [2]
    await worker.stop()
    await asyncio.wait_for(listening, 60)
    await worker.close()
