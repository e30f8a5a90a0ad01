"""`tenure worker` and the original of hworker on one pool, and `tenure monitor` for a pool of originals."""

import signal

import pytest
import redis

from tenure import Hworker, State, Tenure
from tests.support.waiting import until
from tests.wire.hworker.original import Original

JOBS = """
from tenure import Fail, Hworker, Tenure

app = Tenure(protocol=Hworker(name="printer", timeout=1))

@app.handler("default")
def page(job):
    print(f"printing {job.payload.decode()}\\n", end="", flush=True)
    if job.payload == b'"jam"':
        raise Fail("the paper jammed")

@app.task(name="receipt")
def receipt(number):
    print("receipt", number, flush=True)
"""


@pytest.fixture
def db(redis_url):
    with redis.Redis.from_url(redis_url) as db:
        yield db


@pytest.fixture
def app(redis_url, tmp_path):
    (tmp_path / "jobs.py").write_text(JOBS)
    with Tenure(redis_url, protocol=Hworker(name="printer")) as app:
        yield app


def test_a_worker_serves_a_pool_of_originals(app, db, tenure, redis_url):
    original = Original(db, "printer", timeout_s=1)
    run = tenure("worker", "jobs:app", "-c", "2", url=redis_url).wait_for("worker_started")
    for value in ("one", "jam", {"tenure": 1, "task": "receipt", "args": [7]}):
        original.queue(value)
    run.wait_for('printing "one"', "out").wait_for("receipt 7", "out")
    until(lambda: db.llen(original.failed) == 1)
    db.hset(original.progress, b'["dead",1]', "no time")  # an original took it, and died
    run.wait_for("printing 1", "out")
    until(lambda: db.hlen(original.progress) == 0)
    [failed] = app.inspect.page("default", State.FAILED).jobs
    assert failed.error is not None
    assert failed.error.message == "the paper jammed"
    assert app.control.retry("default", failed.id)
    until(lambda: run.out.count('"jam"') == 2)
    run.signal(signal.SIGTERM).end()


def test_a_monitor_serves_a_pool_without_a_worker_of_ours(db, tenure, run, redis_url):
    original = Original(db, "printer")
    job = original.queue("x")
    assert original.pop() == job
    db.hset(original.progress, job, "no time")
    monitor = tenure("monitor", "default", "--protocol", "hworker:printer", url=redis_url)
    monitor.wait_for("Queue 'default': 1 job returned", "out")
    assert original.pop() == job
    db.hset(original.progress, job, "no time")
    monitor.signal(signal.SIGTERM).end()
    out, _ = run("monitor", "default", "--once", "--protocol", "hworker:printer", "--json")
    assert '"reclaimed": 1' in out
    assert original.pop() == job
    original.succeed(job)
    out, _ = run("monitor", "default", "--once", "--protocol", "hworker:printer")
    assert "0 jobs returned" in out
