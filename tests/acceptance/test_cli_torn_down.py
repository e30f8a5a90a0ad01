"""A handler that tears its worker process down ends that process; its job runs again elsewhere and counts a crash."""

from __future__ import annotations

import signal

import pytest

from tenure import Tenure

JOBS = """
import asyncio, os
from tenure import Tenure, current_job

app = Tenure()

@app.task(retries=0)
async def tear_down(how: str) -> int:
    job = current_job()
    if job.crashes:
        return job.crashes
    match how:
        case "close all files":
            os.closerange(3, 1_000)
        case "stop the loop":
            asyncio.get_running_loop().stop()
        case "cancel all tasks":
            for task in asyncio.all_tasks():
                task.cancel()
        case "os._exit":
            os._exit(0)
    await asyncio.sleep(600)
"""


@pytest.mark.parametrize("how", ["close all files", "stop the loop", "cancel all tasks", "os._exit"])
def test_its_job_counts_a_crash_and_runs_again(tenure, redis_url, jobs, how):
    with Tenure(redis_url) as app:

        @app.task(name="jobs.tear_down")
        def tear_down(how: str) -> int: ...

        run = tenure("worker", "jobs:app", url=redis_url)
        assert tear_down.enqueue(how).result(timeout=120) == 1
    run.signal(signal.SIGTERM)
    run.end()
