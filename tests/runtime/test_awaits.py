"""A job that waits for the result of another one: the log names both tasks, and the worker announces it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tenure import Tenure
from tenure.app.run import WorkerOptions, run_worker
from tenure.runtime.jobs.awaits import Awaits
from tenure.runtime.worker import Worker


@pytest.fixture
def app(redis_url: str) -> Tenure:
    return Tenure(redis_url)


@pytest.mark.parametrize("is_async", [True, False])
async def test_the_log_names_both_tasks_once_and_the_announcement_counts_the_jobs(
    is_async: bool, app: Tenure, caplog: pytest.LogCaptureFixture
) -> None:
    workers: list[Worker] = []

    @app.task(name="part", timeout=60)
    async def part() -> int:
        """Run until the worker announces that a job waits."""
        while not any(view.awaiting for view in await app.inspect.aworkers()):
            await workers[0]._parts.presence.announce()
        return 1

    if is_async:

        @app.task(name="whole")
        async def whole() -> int:
            return await (await part.aenqueue()).aresult(timeout=30)
    else:

        @app.task(name="whole")
        def whole() -> int:
            return part.enqueue().result(timeout=30)

    jobs = [await whole.aenqueue() for _ in range(3)]
    options = WorkerOptions(signals=False)
    running = asyncio.create_task(run_worker(app, options, created=workers.append))
    for job in jobs:
        assert await job.aresult(timeout=30) == 1
    workers[0].stop_gracefully()
    await running
    lines = [record.getMessage() for record in caplog.records if record.getMessage().startswith("result_awaited")]
    assert len(lines) == 1
    assert " task=whole " in lines[0]
    assert " awaited_task=part " in lines[0]


def test_a_job_that_waits_for_several_results_counts_once() -> None:
    awaits = Awaits()
    held: Any = SimpleNamespace(lease=SimpleNamespace(record=SimpleNamespace(queue="q", task="whole", id="1")))
    with awaits.wait(held, "part", "2"):
        with awaits.wait(held, "part", "3"):
            assert len(awaits) == 1
        assert len(awaits) == 1
    assert len(awaits) == 0
