"""`wait_all`, `gather_results` and `as_completed` on a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tenure import (
    InvalidArgument,
    JobFailed,
    JobHandle,
    ResultTimeout,
    SyncOnLoop,
    Tenure,
    as_completed,
    gather_results,
    wait_all,
)
from tenure.testing.server import RedisServer
from tests.support.waiting import until


@pytest.fixture
def app(server: RedisServer) -> Iterator[Tenure]:
    with Tenure(server.url, namespace="results") as app:
        yield app


def jobs_of(app: Tenure, *texts: str) -> list[JobHandle[object]]:
    """Enqueue a job on the queue of each name, so that a test can end them in any order."""
    return [app.queue(text).enqueue(text) for text in texts]


def end(app: Tenure, text: str) -> None:
    """End the job of a queue as a worker does."""
    job = app.queue(text).lease()
    assert job
    if text == "bad":
        app.queue(text).fail(job, "no such customer")
    else:
        app.queue(text).complete(job, text.upper())


def listeners(server: RedisServer) -> int:
    return len(server.command("PUBSUB", "CHANNELS", "*:ended:*"))


def test_results_come_in_the_order_of_the_handles(app: Tenure) -> None:
    jobs = jobs_of(app, "a", "b")
    for text in ("b", "a"):
        end(app, text)
    assert wait_all([*jobs, jobs[0]], timeout=0) == ["A", "B", "A"]
    assert wait_all([]) == []

    async def gather() -> list[object]:
        async with app:
            return await gather_results(jobs, timeout=0)

    assert asyncio.run(gather()) == ["A", "B"]


def test_jobs_come_as_they_end_over_one_subscription(app: Tenure, server: RedisServer) -> None:
    jobs = jobs_of(app, "a", "b", "c")
    end(app, "b")
    ended = iter(as_completed(jobs, timeout=60))
    assert next(ended) == jobs[1]
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(next, ended)
        until(lambda: listeners(server) == 2)
        end(app, "c")
        assert found.result(60) == jobs[2]
        end(app, "a")
        assert pool.submit(list, ended).result(60) == [jobs[0]]
    until(lambda: listeners(server) == 0)


def test_async_jobs_come_as_they_end(app: Tenure) -> None:
    jobs = jobs_of(app, "a", "b", "c")
    end(app, "b")

    async def walk() -> list[JobHandle[object]]:
        found = []
        async with app:
            async for job in as_completed(jobs, timeout=60):
                found.append(job)
                if len(found) < 3:
                    await asyncio.to_thread(end, app, "ca"[len(found) - 1])
        return found

    assert asyncio.run(walk()) == [jobs[1], jobs[2], jobs[0]]


def test_the_first_failure_ends_the_wait(app: Tenure) -> None:
    jobs = jobs_of(app, "waits", "bad")
    end(app, "bad")
    with pytest.raises(JobFailed, match="no such customer"):
        wait_all(jobs)

    async def gather() -> None:
        async with app:
            await gather_results(jobs)

    with pytest.raises(JobFailed, match="no such customer"):
        asyncio.run(gather())


def test_a_wait_that_is_too_short_names_a_job(app: Tenure) -> None:
    jobs = jobs_of(app, "a", "b")
    end(app, "a")
    late = rf"1 of 2 jobs did not end within 0\.05 s, job '{jobs[1].id}' of queue 'b' among them\. It is ready"
    with pytest.raises(ResultTimeout, match=late):
        wait_all(jobs, timeout=0.05)

    async def gather() -> None:
        async with app:
            await gather_results(jobs, timeout=0.05)

    with pytest.raises(ResultTimeout, match="1 of 2 jobs"):
        asyncio.run(gather())


def test_what_cannot_be_waited_for(app: Tenure, server: RedisServer) -> None:
    (job,) = jobs_of(app, "a")
    with Tenure(server.url) as other, pytest.raises(InvalidArgument, match="one app"):
        wait_all([job, *jobs_of(other, "b")])
    with pytest.raises(InvalidArgument, match="handles of jobs, as `enqueue` returns them, got str"):
        as_completed([job.id])  # type: ignore[arg-type]

    async def block() -> None:
        with pytest.raises(SyncOnLoop, match=r"Use `await gather_results\(\.\.\.\)`"):
            wait_all([job])
        with pytest.raises(SyncOnLoop, match="Use `async for"):
            iter(as_completed([job]))

    asyncio.run(block())
