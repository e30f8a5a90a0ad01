"""An app whose module installs uvloop for its own event loops. The worker has one of its own: see `--loop`."""

import signal

import pytest

from tenure import Tenure

pytest.importorskip("uvloop")

JOBS = """
import asyncio, warnings
import uvloop
from tenure import Tenure

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12 and newer
    uvloop.install()
app = Tenure()

async def loop() -> str:
    loop = asyncio.get_running_loop()
    return f"{type(loop).__module__} {isinstance(loop, uvloop.Loop)}"

@app.task
async def on_loop() -> str:
    return await loop()

@app.task
def in_thread() -> str:
    return asyncio.run(loop())

@app.task(run_in="process")
async def in_process() -> str:
    return await loop()
"""


@pytest.mark.parametrize("more", [("--processes", "2"), ("--loop", "uvloop")], ids=["supervised", "on uvloop"])
def test_jobs_run_and_loops_of_their_own_are_those_of_uvloop(tenure, redis_url, jobs, more):
    with Tenure(redis_url) as app:

        @app.task(name="jobs.on_loop")
        def on_loop() -> str: ...

        @app.task(name="jobs.in_thread")
        def in_thread() -> str: ...

        @app.task(name="jobs.in_process")
        def in_process() -> str: ...

        waiting = [task.enqueue() for task in (on_loop, in_thread, in_process)]
        run = tenure("worker", "jobs:app", *more, url=redis_url)
        assert [job.result(timeout=120) for job in waiting] == [
            f"tenure.runtime.handlers.loop {'uvloop' in more}",
            "uvloop True",
            "tenure.runtime.handlers.loop False",
        ]
        run.signal(signal.SIGTERM).end()
    assert "keeper_lost" not in run.err
