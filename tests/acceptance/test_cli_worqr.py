"""`tenure worker` and the original of worqr on one queue; a persistent task that two workers could run."""

import os
import signal

import pytest
import redis

from tenure import State, Tenure, Worqr
from tests.support.waiting import until
from tests.wire.worqr.original import Original

JOBS = """
import asyncio
import os
from tenure import Tenure, Worqr, current_job

app = Tenure(protocol=Worqr())

@app.handler("q")
async def work(job):
    print("begun", job.payload.decode(), job.id, flush=True)
    while job.payload == b"until cancelled":
        await asyncio.sleep(0.01)

@app.task(name="hold", queue="held", persistent=True, unique=True, retries=3)
async def hold():
    print("holding", os.getpid(), flush=True)
    await asyncio.sleep(3600)
"""


@pytest.fixture
def db(redis_url):
    with redis.Redis.from_url(redis_url) as db:
        yield db


@pytest.fixture
def app(redis_url, tmp_path):
    (tmp_path / "jobs.py").write_text(JOBS)
    with Tenure(redis_url, protocol=Worqr()) as app:
        yield app


def test_a_worker_serves_a_queue_of_originals(app, db, tenure, redis_url):
    original = Original(db)
    run = tenure("worker", "jobs:app", "-q", "q", "-c", "2", url=redis_url).wait_for("worker_started")
    until(lambda: len(db.smembers("worqr:workers")) == 1)
    messages = db.pubsub()
    messages.subscribe("worqr_q_done")
    original.enqueue("q", "one", "until cancelled")
    run.wait_for("begun one", "out").wait_for("begun until cancelled", "out")
    original.cancel_tasks("q", "until cancelled")
    until(lambda: app.inspect.queue("q").counts[State.CANCELLED] == 1)
    until(
        lambda: any(
            m["type"] == "message" and b'"task":"one"' in m["data"] for m in [messages.get_message() or {"type": ""}]
        )
    )
    assert app.queue("q").enqueue("two").id
    run.wait_for("begun two", "out").signal(signal.SIGTERM).end()
    assert db.keys("worqr:work*") == [], "nothing of the worker stays"
    assert original.dequeue("q") is None


def test_a_persistent_task_has_one_holder_and_an_heir(app, db, tenure, redis_url):
    first = tenure("worker", "jobs:app", "-q", "held", url=redis_url).wait_for("worker_started")
    app.task(name="hold", queue="held", persistent=True, unique=True)(lambda: None).enqueue()
    first.wait_for("holding", "out")
    second = tenure("worker", "jobs:app", "-q", "held", url=redis_url).wait_for("worker_started")
    assert len(db.smembers("worqr:workingProcesses:held")) == 1
    worker = first.worker
    first.process.kill()  # its parent, which would release the job at once
    os.kill(worker, signal.SIGKILL)
    second.wait_for("holding", "out")
    assert first.out.count("holding") == second.out.count("holding") == 1
    [view] = app.inspect.page("held", State.ACTIVE).jobs
    assert (view.task, view.crashes) == ("hold", 1)
    second.signal(signal.SIGTERM).end()
    assert app.inspect.queue("held").counts[State.READY] == 1, "never completed"
