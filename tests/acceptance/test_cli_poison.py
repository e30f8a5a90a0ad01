"""One job that ends its worker's process each time, beside persistent jobs and others: only it ends in broken."""

import signal
from functools import partial

import pytest

from tenure import State
from tests.acceptance.workers import ready, view
from tests.support.waiting import until

JOBS = """
import asyncio, os, signal
from tenure import Tenure, current_job
from tenure.core.engine import Timing
from tenure.engines.native.config import NativeConfig
from tenure.protocols.native import Native

app = Tenure(protocol=Native("tenure", NativeConfig(Timing(steady_ms=3_000))))

@app.task(queue="work", persistent=True)
async def bot(name: str) -> None:
    await asyncio.Event().wait()

@app.task(queue="work")
async def poison() -> None:
    match current_job().attempt % 3:
        case 0: os._exit(1)
        case 1: os.kill(os.getpid(), signal.SIGKILL)
        case 2: os.closerange(3, 1_000)  # which takes Redis, the parent and the event loop from the worker

@app.task(queue="work")
async def work() -> None:
    await asyncio.sleep(1)
"""

pytestmark = pytest.mark.usefixtures("jobs")


def test_poison_ends_in_broken_and_persistent_jobs_run_again(tenure, app, redis_url):
    @app.task(name="jobs.bot", queue="work", persistent=True)
    async def bot(name: str) -> None: ...

    @app.task(name="jobs.poison", queue="work")
    async def poison() -> None: ...

    @app.task(name="jobs.work", queue="work")
    async def work() -> None: ...

    run = ready(tenure("worker", "jobs:app", "--processes", "2", url=redis_url), 2)
    bots = [bot.enqueue(str(n)) for n in range(5)]
    until(lambda: all(view(app, job).state is State.ACTIVE for job in bots))
    bad = poison.enqueue()
    others = [work.enqueue() for _ in range(20)]
    until(lambda: view(app, bad).state is State.BROKEN)
    for job in others:
        until(partial(lambda job: view(app, job).state is State.COMPLETED, job))
        assert view(app, job).failures == 0
    until(lambda: all(view(app, job).state is State.ACTIVE for job in bots))
    assert view(app, bad).crashes <= 8
    assert run.err.count("process_died") <= 8
    more = work.enqueue()
    until(lambda: view(app, more).state is State.COMPLETED)
    assert run.process.poll() is None
    assert run.signal(signal.SIGTERM).process.wait(30) == 0
