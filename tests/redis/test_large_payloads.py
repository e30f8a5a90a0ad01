"""Payloads above `max_payload` in a store: before the enqueue, in handlers, after the end, and missing ones."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tenure import (
    Debounce,
    FileStore,
    Hworker,
    InvalidArgument,
    Job,
    JobFailed,
    PayloadTooLarge,
    QueueFull,
    State,
    Tenure,
    UnsupportedFeature,
    current_job,
)
from tenure.app.drain import Drained
from tenure.core.job import NewJob

LARGE = "x" * 5_000


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "payloads")


def keys(store: FileStore) -> list[str]:
    return list(store.old(datetime.now(UTC) + timedelta(days=1)))


def app_of(url: str, store: object, **options: object) -> Tenure:
    return Tenure(url, namespace="large", max_payload=1_000, large=store, **options)  # type: ignore[arg-type]


def test_a_large_payload_travels_through_the_store_and_is_deleted_at_the_end(redis_url, store):
    with app_of(redis_url, store) as app:
        got: list[object] = []

        @app.task(name="sync")
        def sync(text: str) -> int:
            job = current_job()
            assert job is not None
            got.append(dict(job.headers))
            return len(text)

        @app.task(name="on_loop")
        async def on_loop(text: str) -> int:
            return len(text)

        @app.handler("raw", batch=2)
        def raw(jobs: list[Job]) -> None:
            got.append([len(job.payload) for job in jobs])

        jobs = [sync.using(headers={"tenant": "7"}).enqueue(LARGE), on_loop.enqueue(text=LARGE), sync.enqueue("small")]
        app.queue("raw").enqueue_many([LARGE, "small"])
        assert len(keys(store)) == 3
        view = jobs[0].refresh()
        assert view is not None
        assert view.payload is not None
        assert len(view.payload) < 100
        assert app.testing().drain() == Drained(completed=5)
        assert [job.result(timeout=0) for job in jobs] == [5_000, 5_000, 5]
        assert got == [{"tenant": "7"}, {}, [5_000, 5]]
        assert keys(store) == []


async def test_an_async_program_does_not_call_the_store_on_its_loop(redis_url, store):
    threads: set[threading.Thread] = set()

    class Noting:
        def put(self, key: str, data: bytes) -> None:
            threads.add(threading.current_thread())
            store.put(key, data)

        def get(self, key: str) -> bytes:
            threads.add(threading.current_thread())
            return store.get(key)

        delete, old = store.delete, store.old

    async with app_of(redis_url, Noting()) as app:

        @app.task(name="length")
        async def length(text: str) -> int:
            return len(text)

        job = await length.aenqueue(LARGE)
        await app.testing().adrain()
        assert await job.aresult(timeout=0) == 5_000
    assert threads
    assert threading.main_thread() not in threads


def test_a_missing_payload_ends_in_broken_and_the_others_of_its_batch_run(redis_url, store):
    with app_of(redis_url, store) as app:
        got: list[int] = []
        task = app.task(name="task")(lambda text: got.append(len(text)))

        @app.handler("raw", batch=3)
        async def raw(jobs: list[Job]) -> None:
            got.extend(len(job.payload) for job in jobs)

        lost = [task.enqueue(LARGE), app.queue("raw").enqueue(LARGE)]
        for key in keys(store):
            store.delete(key)
        app.queue("raw").enqueue(LARGE + LARGE)
        assert app.testing().drain(raises=False) == Drained(completed=1, broken=2)
        assert got == [10_000]
        for job in lost:
            assert job.state() is State.BROKEN
        with pytest.raises(JobFailed, match="PayloadMissing"):
            lost[0].result(timeout=0)


def test_a_store_that_fails_for_a_moment_costs_an_attempt(redis_url, store):
    class Down:
        put, delete, old = store.put, store.delete, store.old

        def get(self, key: str) -> bytes:
            raise ConnectionError("the store is away")

    with app_of(redis_url, Down()) as app:
        job = app.task(name="task")(lambda text: None).enqueue(LARGE)
        assert app.testing().drain(raises=False) == Drained(retried=1)
        assert job.state() is State.SCHEDULED


@pytest.mark.parametrize("data", [None, "text"])
def test_a_store_that_returns_no_bytes_is_named(redis_url, store, data):
    store.get = lambda key: data
    with app_of(redis_url, store) as app:
        job = app.task(name="size", retries=0)(_size).enqueue(LARGE)
        with pytest.raises(JobFailed, match=f"get of the store must return bytes.*got {type(data).__name__}"):
            app.testing().drain()
        assert job.state() is State.FAILED


def _size(text: str) -> int:
    return len(text)


def test_what_a_test_leaves_in_the_store_is_deleted_at_its_end(redis_url, store):
    with app_of(redis_url, store) as app:
        task = app.task(name="size")(_size)
        own = task.enqueue(LARGE)
        [key] = keys(store)
        with app.testing().on_redis(redis_url, namespace="tests", temporary=True) as jobs:
            task.enqueue(LARGE)
            jobs.assert_enqueued(task, text=LARGE)
            task.enqueue(LARGE)
            assert len(keys(store)) == 3
        assert keys(store) == [key]
        assert app.testing().drain() == Drained(completed=1)
        assert (own.state(), keys(store)) == (State.COMPLETED, [])


def test_a_job_of_a_failed_task_keeps_its_payload_for_a_retry(redis_url, store):
    with app_of(redis_url, store) as app:

        @app.task(name="fails", retries=0)
        def fails(text: str) -> None:
            raise ValueError

        job = fails.enqueue(LARGE)
        app.testing().drain(raises=False)
        assert len(keys(store)) == 1
        with pytest.raises(InvalidArgument, match="in a store"):
            app.control.retry("default", job.id, payload=fails.call("other"))
        assert app.control.retry("default", job.id)
        assert app.testing().drain(raises=False) == Drained(failed=1)


def test_a_job_leased_by_hand_has_its_payload(redis_url, store):
    with app_of(redis_url, store) as app:
        queue = app.queue("raw")
        queue.enqueue(LARGE)
        queue.enqueue(LARGE + "second")
        store.delete(next(key for key in keys(store) if len(store.get(key)) == len(LARGE)))
        with queue.lease() as job:
            assert job is not None
            assert job.payload == (LARGE + "second").encode()
        assert keys(store) == []


def test_a_record_that_names_the_payload_of_another_job_neither_reads_nor_deletes_it(redis_url, store):
    """Another program has written it."""
    with app_of(redis_url, store) as app:
        got: list[str] = []
        task, raw = app.task(name="task")(lambda text: got.append(text)), app.queue("raw")
        task.using(id="owner", delay=60).enqueue(LARGE)
        headers = {"tenure-payload": keys(store)[0]}
        thief = NewJob("default", "thief", b"[[],{}]", task="task", headers=headers)
        app._client.run(app.engine.enqueue([thief, NewJob("raw", "thief", b"", headers=headers)]))
        assert app.testing().drain(raises=False) == Drained(broken=1, unroutable=1)
        broken = app.inspect.job("default", "thief")
        assert broken is not None
        assert broken.error is not None
        assert "of another job" in broken.error.message
        assert not raw.lease()
        assert (got, len(keys(store))) == ([], 1)


def test_what_the_store_cannot_do_is_refused_before_anything_is_sent(redis_url, store):
    with app_of(redis_url, store) as app, Tenure(redis_url, namespace="large", max_payload=1_000) as without:
        task = app.task(name="task")(lambda text: None)
        with pytest.raises(InvalidArgument, match="cannot replace"):
            task.using(unique=Debounce(5)).enqueue(LARGE)
        with pytest.raises(InvalidArgument, match="tenure-payload"):
            task.using(headers={"tenure-payload": "x"})
        with pytest.raises(PayloadTooLarge):
            without.task(name="task")(lambda text: None).enqueue(LARGE)
        task.using(id="own").enqueue(LARGE)
        assert not task.enqueue_many([task.using(id="own").call(LARGE)])[0].created
        assert len(keys(store)) == 1
    with pytest.raises(InvalidArgument, match="put, get, delete and old"):
        app_of(redis_url, object())

    class Asynchronous:
        async def put(self, key: str, data: bytes) -> None: ...

        get, delete, old = store.get, store.delete, store.old

    with pytest.raises(InvalidArgument, match="plain function"):
        app_of(redis_url, Asynchronous())


def test_a_full_queue_leaves_no_payload_in_the_store(redis_url, store):
    with app_of(redis_url, store) as app:
        task = app.task(name="size")(_size)
        app.control.configure("default", max_length=1)
        first = task.enqueue(LARGE)
        [key] = keys(store)
        for _ in range(3):
            with pytest.raises(QueueFull):
                task.enqueue(LARGE)
        with pytest.raises(QueueFull):
            task.enqueue_many([task.call(LARGE), task.call(LARGE)])
        assert keys(store) == [key]
        assert app.testing().drain() == Drained(completed=1)
        assert first.result(timeout=0) == 5_000


def test_clean_deletes_what_no_job_names(redis_url, store, tmp_path):
    with app_of(redis_url, store) as app:
        task = app.task(name="task")(lambda text: None)
        gone, kept = task.enqueue(LARGE), task.using(delay=3600).enqueue(LARGE)
        app.control.discard("default", gone.id)
        store.put("%7Blarge%3Aelsewhere%7D/elsewhere/id/0", b"of another Redis")
        store.put("%7Bother%3Adefault%7D/default/id/0", b"of another namespace")
        with app_of(redis_url, store, protocol=Hworker(name="printer")) as pool:
            pool.task(name="task")(lambda text: None).enqueue(LARGE)
        assert app.clean_payloads() == {"deleted": 0, "used": 0, "unknown": 0}
        assert app.clean_payloads(older_than=0) == {"deleted": 1, "used": 1, "unknown": 3}
        app.testing().advance(hours=2)
        assert app.testing().drain() == Drained(completed=1)
        assert kept.state() is State.COMPLETED
    for leftover in (tmp_path / "payloads").rglob("*"):
        assert not leftover.name.startswith(".")


def test_a_name_may_be_longer_than_that_of_a_file(tmp_path):
    store, key = FileStore(tmp_path), "namespace/" + "%2F" * 400 + "/id/0"
    store.put(key, b"data")
    store.put(key, b"newer")
    assert (keys(store), store.get(key)) == ([key], b"newer")
    (tmp_path / "ab").mkdir(exist_ok=True)
    (tmp_path / "ab" / ".tenure-left-by-a-killed-writer").write_bytes(b"half")
    (tmp_path / ".env").write_bytes(b"of another program")
    assert keys(store) == [key]
    assert not (tmp_path / "ab" / ".tenure-left-by-a-killed-writer").exists()
    assert (tmp_path / ".env").exists()
    store.delete(key)
    store.delete(key)
    with pytest.raises(KeyError):
        store.get(key)


def test_formats_with_headers_carry_large_payloads_too(redis_url, store):
    with app_of(redis_url, store, protocol=Hworker(name="printer")) as app:
        lengths: list[int] = []
        task = app.task(name="task")(lambda text: lengths.append(len(text)))
        task.enqueue(LARGE)
        assert app.testing().enqueued(task, text=LARGE)
        assert app.testing().drain() == Drained(completed=1)
        assert lengths == [5_000]
        with pytest.raises(UnsupportedFeature, match="raw payload"):
            app.queue("default").enqueue(f'"{LARGE}"')
        assert keys(store) == []
