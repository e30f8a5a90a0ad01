"""A worker inside a program: `async with app.worker()` and `app.run_worker()`."""

from __future__ import annotations

import asyncio
import signal
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from tenure import InvalidArgument, Job, NotConfigured, State, SyncOnLoop, Tenure, Unreachable, events

FORMATS = {
    "native": None,
    "redis-work-queue:jobs": None,
    "hworker:printer": None,
    "queue-farm:farm": "user:42",
    "worqr:jobs": None,
}
"""The lane of the jobs: queue-farm has no jobs without one."""


@pytest.fixture
def app(redis_url: str) -> Tenure:
    return Tenure(redis_url)


@pytest.mark.parametrize("protocol", FORMATS)
def test_a_burst_runs_the_jobs_of_each_format_and_ends(protocol: str, redis_url: str) -> None:
    app, ran = Tenure(redis_url, protocol=protocol), []

    @app.handler("default")
    def work(job: Job) -> None:
        ran.append(job.payload)

    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    for payload in (b"1", b"2"):
        app.queue("default").enqueue(payload, lane=FORMATS[protocol])
        app.run_worker(burst=True, concurrency=2)
    assert ran == [b"1", b"2"]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before
    app.close()


async def test_it_runs_jobs_at_once_and_lets_running_ones_end(app: Tenure) -> None:
    begun, ends = asyncio.Event(), asyncio.Event()

    @app.task(name="add")
    def add(a: int, b: int) -> int:
        return a + b

    @app.task(name="last")
    async def last() -> int:
        begun.set()
        await ends.wait()
        return 7

    @app.on(events.WorkerStopping)
    def stopping(event: events.WorkerStopping) -> None:
        ends.set()

    async with app, app.worker(queues=["default"], concurrency=2) as worker:
        assert [view.id for view in await app.inspect.aworkers()] == [worker.id]
        assert await (await add.aenqueue(1, 2)).aresult(timeout=60) == 3
        job = await last.aenqueue()
        await begun.wait()
        assert worker.active == 1
    async with app:
        assert await job.aresult(timeout=0) == 7
        assert await app.inspect.aworkers() == []


async def test_a_second_worker_of_the_app_is_refused_until_the_first_has_ended(app: Tenure) -> None:
    @app.task(name="add")
    def add(a: int, b: int) -> int:
        return a + b

    async with app:
        async with app.worker() as worker:
            with pytest.raises(InvalidArgument, match=r"See docs/howto/embed\.md\."):
                await app.arun_worker(burst=True)
            with pytest.raises(InvalidArgument, match="has been used"):
                await worker.arun()
        job = await add.aenqueue(1, 2)
        await app.arun_worker(burst=True)
        assert await job.aresult(timeout=0) == 3


async def test_an_error_of_the_lifespan_is_raised_at_the_start(app: Tenure) -> None:
    app.task(name="nothing")(lambda: None)

    @app.on_startup
    def fail() -> None:
        raise OSError("no database")

    async with app:
        for _ in range(2):
            with pytest.raises(OSError, match="no database"):
                await app.arun_worker()


async def test_a_cancelled_program_ends_its_worker_and_a_second_cancel_ends_it_at_once(app: Tenure) -> None:
    begun, stopping = asyncio.Event(), asyncio.Event()

    @app.task(name="endless")
    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    app.on(events.WorkerStopping)(lambda _: stopping.set())
    async with app:
        job = await endless.aenqueue()
        program = asyncio.create_task(app.arun_worker())
        await begun.wait()
        program.cancel()
        await stopping.wait()
        assert not program.done()
        program.cancel()
        await asyncio.wait({program})
        assert program.cancelled()
        assert await job.astate() is State.READY


async def test_without_redis_the_start_fails_after_the_patience(tmp_path: Any) -> None:
    async with Tenure(f"unix://{tmp_path}/none", patience=0) as app:
        app.task(name="nothing")(lambda: None)
        with pytest.raises(Unreachable):
            await app.arun_worker()


async def test_a_redis_that_may_evict_jobs_is_refused_unless_allowed(private_server: Any) -> None:
    private_server.command("CONFIG", "SET", "maxmemory", "1gb")
    private_server.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    async with Tenure(private_server.url) as app:
        app.task(name="nothing")(lambda: None)
        with pytest.raises(NotConfigured, match="allkeys-lru"):
            await app.arun_worker(burst=True)
        await app.arun_worker(burst=True, allow_eviction=True)


async def test_the_blocking_form_is_refused_where_a_loop_runs(app: Tenure) -> None:
    app.task(name="nothing")(lambda: None)
    with pytest.raises(SyncOnLoop, match=r"async with app\.worker\(\)"):
        app.run_worker()


def test_a_plain_with_says_what_to_write(app: Tenure) -> None:
    app.task(name="nothing")(lambda: None)
    text = r"must be `async with app\.worker\(\)`, or app\.run_worker\(\)"
    with pytest.raises(InvalidArgument, match=text), app.worker():
        pass


def test_signals_outside_of_the_main_thread_are_refused_at_the_start(app: Tenure) -> None:
    app.task(name="nothing")(lambda: None)
    with ThreadPoolExecutor() as threads:
        refused = threads.submit(app.run_worker, burst=True, signals=True).exception()
        assert threads.submit(app.run_worker, burst=True).exception() is None
    assert isinstance(refused, InvalidArgument)
    assert "signals must be False outside of the main thread" in str(refused)


def test_times_may_be_timedeltas_and_a_queue_that_no_task_names_is_logged(app: Tenure, caplog: Any) -> None:
    app.task(name="nothing")(lambda: None)
    minute = timedelta(minutes=1)
    app.run_worker(queues=["mials"], burst=True, grace=minute, wait_for_redis=minute)
    assert "No task or handler of the app names the queue 'mials'; those that are named: 'default'." in caplog.text


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"queues": "default"}, "queues must be a list of names"),
        ({"queues": []}, "queues must be a list of names"),
        ({"concurrency": 0}, "concurrency must be"),
        ({"weights": {"defalt": 2}}, r"weights must be of a queue of this worker \('default'\), .* mean 'default'\?"),
        ({"weights": {"default": 0}}, "the weight of 'default' must be"),
        ({"weights": ["default"]}, "weights must be numbers by queue"),
        ({"burst": "no"}, "burst must be True or False, got 'no'"),
        ({"signals": "no"}, "signals must be True or False"),
        ({"allow_eviction": "no"}, "allow_eviction must be True or False"),
        ({"concurency": 4}, r"option must be one of .* Did you mean 'concurrency'\?"),
        ({"grace": -1}, "grace must be"),
        ({"wait_for_redis": -1}, "wait_for_redis must be"),
    ],
)
def test_wrong_options(app: Tenure, options: Any, text: str) -> None:
    app.task(name="nothing")(lambda: None)
    with pytest.raises(InvalidArgument, match=text):
        app.worker(**options)
