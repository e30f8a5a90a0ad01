"""Workers on a real Redis run jobs under limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tenure.core.job import State
from tenure.core.rates import LimitRule
from tenure.core.signals import RateLimited
from tenure.core.task import BatchRule
from tenure.runtime.jobs.job import Job, current_job
from tests.runtime.fakes import Gate, gated, task
from tests.runtime.test_native import Place, place

GPU = LimitRule("gpu", concurrency=1)


def running_job() -> Job:
    job = current_job()
    assert job is not None
    return job


@asynccontextmanager
async def two_places(url: str, spec: Any) -> AsyncIterator[tuple[Place, Place]]:
    async with place(url, spec) as one, place(url, spec) as other:
        yield one, other


async def test_two_workers_share_a_limit_and_run_all_jobs(server):
    running, most, done = 0, 0, asyncio.Event()
    ran: list[str] = []

    async def handle() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        ran.append(running_job().id)
        if len(ran) == 30:
            done.set()

    async with two_places(server.url, task(handle)) as (one, _):
        await one.add(*(f"{n}" for n in range(30)), limits=(GPU,))
        await asyncio.wait_for(done.wait(), 60)
    assert most == 1
    assert sorted(ran, key=int) == [str(n) for n in range(30)]


async def test_jobs_of_a_full_limit_do_not_keep_others_from_running(server):
    gate = Gate()
    async with place(server.url, gated(gate)) as here:
        await here.add("a", "b", "c", limits=(GPU,))
        await here.add("x", "y")
        view = await here.until("x", lambda view: view.state is State.ACTIVE)
        assert view.worker == here.worker.id
        assert (await here.job("b")).state is State.READY
        gate.open.set()
        for id in "abcxy":
            await here.until(id, lambda view: view.state is State.COMPLETED)


async def test_a_worker_starts_the_next_job_when_its_moment_comes(server):
    ran = asyncio.Queue[str]()

    async def handle() -> None:
        ran.put_nowait(running_job().id)

    async with place(server.url, task(handle)) as here:
        await here.add(*"abcd", limits=(LimitRule("api", interval_us=50_000),))
        got = [await asyncio.wait_for(ran.get(), 60) for _ in range(4)]
    assert got == list("abcd")


async def test_a_rate_limited_job_runs_again_and_the_attempt_does_not_count(server):
    attempts: list[tuple[str, int]] = []

    async def handle() -> None:
        job = running_job()
        attempts.append((job.id, job.attempt))
        if len(attempts) <= 2:
            raise RateLimited(retry_after=0.05, limit="gpu" if len(attempts) == 1 else None)

    async with place(server.url, task(handle, retries=0)) as here:
        await here.add("a", "b", limits=(GPU,))
        for id in "ab":
            view = await here.until(id, lambda view: view.state.ended)
            assert (view.state, view.failures) == (State.COMPLETED, 0)
    assert attempts[:2] == [("a", 1), ("a", 1)], "the job that met the limit is the first to try again"
    assert {attempt for _, attempt in attempts} == {1}


async def test_a_batch_costs_the_sum_of_its_jobs(server):
    sizes = asyncio.Queue[int]()

    async def handle(jobs: list[Any]) -> None:
        sizes.put_nowait(len(jobs))

    spec = task(handle, name=None, queue="q", batch=BatchRule(10))
    async with place(server.url, spec) as here:
        await here.add(*(f"{n}" for n in range(9)), task=None, limits=(LimitRule("gpu", concurrency=3),))
        got: list[int] = []
        while sum(got) < 9:
            got.append(await asyncio.wait_for(sizes.get(), 60))
    assert max(got) <= 3
