"""`tenure worker` on a real Redis: what it runs, how it stops, what it does when it is killed."""

import os
import signal
import time

import pytest

from tenure import State, Tenure

JOBS = """
import asyncio, os, time
from tenure import Job, Tenure

app = Tenure()

@app.task
def add(a: int, b: int) -> int:
    return a + b

@app.task(queue="async")
async def aadd(a: int, b: int) -> int:
    await asyncio.sleep(0)
    return a + b

@app.handler("raw")
def raw(job: Job) -> None:
    print("raw", job.payload, flush=True)

@app.task(queue="slow")
def sleep(seconds: float) -> int:
    print("sleeping", flush=True)
    time.sleep(seconds)
    print("slept", flush=True)
    return os.getpid()

@app.task(queue="slow")
async def asleep(seconds: float) -> int:
    print("sleeping", flush=True)
    await asyncio.sleep(seconds)
    print("slept", flush=True)
    return os.getpid()

@app.task(queue="slow")
async def stubborn(seconds: float) -> int:
    print("sleeping", flush=True)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            pass
    return os.getpid()

@app.task(queue="slow")
async def threaded(seconds: float) -> int:
    print("sleeping", flush=True)
    await asyncio.to_thread(time.sleep, seconds)
    return os.getpid()
"""


@pytest.fixture(autouse=True)
def jobs(tmp_path):
    (tmp_path / "jobs.py").write_text(JOBS)


@pytest.fixture
def app(redis_url, tmp_path, monkeypatch):
    """The producer's side: the names of the tasks are what the two sides share."""
    with Tenure(redis_url) as app:

        @app.task(name="jobs.add")
        def add(a: int, b: int) -> int: ...

        @app.task(name="jobs.aadd", queue="async")
        def aadd(a: int, b: int) -> int: ...

        @app.task(name="jobs.sleep", queue="slow")
        def sleep(seconds: float) -> int: ...

        @app.task(name="jobs.asleep", queue="slow")
        def asleep(seconds: float) -> int: ...

        @app.task(name="jobs.stubborn", queue="slow")
        def stubborn(seconds: float) -> int: ...

        @app.task(name="jobs.threaded", queue="slow")
        def threaded(seconds: float) -> int: ...

        yield app


def counts(app, queue):
    return {state: count for state, count in app.inspect.queue(queue).counts.items() if count}


def test_burst_runs_all_queues_of_the_app_and_ends(tenure, app, redis_url):
    added = [app.tasks["jobs.add"].enqueue(n, 1) for n in range(20)]
    later = app.tasks["jobs.aadd"].enqueue(20, 22)
    app.queue("raw").enqueue(b"bytes")
    run = tenure("worker", "jobs:app", "--burst", url=redis_url).end()
    assert [job.result(timeout=0) for job in added] == list(range(1, 21))
    assert later.result(timeout=0) == 42
    assert run.out == "raw b'bytes'\n"
    assert counts(app, "raw") == {State.COMPLETED: 1}


def test_only_the_queues_asked_for(tenure, app, redis_url):
    here, there = app.tasks["jobs.aadd"].enqueue(1, 1), app.tasks["jobs.add"].enqueue(1, 1)
    tenure("worker", "jobs:app", "-q", "async", "-q", "raw", "--burst", url=redis_url).end()
    assert here.result(timeout=0) == 2
    assert counts(app, there.queue) == {State.READY: 1}


def test_the_url_option(tenure, app, redis_url):
    job = app.tasks["jobs.add"].enqueue(1, 1)
    tenure("worker", "jobs:app", "--burst", "--url", redis_url).end()
    assert job.result(timeout=0) == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_worker_stops_at_once(tenure, app, redis_url, number):
    run = tenure("worker", "jobs:app", url=redis_url).wait_for("worker_started")
    began = time.monotonic()
    run.signal(number).end()
    assert time.monotonic() - began < 3.5, "there is nothing to wait for; the rest is for a busy machine"
    assert "stopped" in run.err


@pytest.mark.parametrize("task", ["jobs.sleep", "jobs.asleep"])
def test_a_first_signal_lets_running_jobs_finish_and_hands_the_rest_back(tenure, app, redis_url, task):
    running = app.tasks[task].enqueue(1.0)
    run = tenure("worker", "jobs:app", "-c", "1", url=redis_url).wait_for("sleeping", "out")
    worker, waiting = run.worker, app.tasks[task].enqueue(1.0)
    run.signal(signal.SIGTERM).end()
    assert running.result(timeout=0) == worker
    assert counts(app, "slow") == {State.COMPLETED: 1, State.READY: 1}
    view = app.inspect.job("slow", waiting.id)
    assert view is not None
    assert (view.failures, view.crashes) == (0, 0)


@pytest.mark.parametrize("task", ["jobs.sleep", "jobs.asleep", "jobs.stubborn", "jobs.threaded"])
def test_after_the_grace_time_running_jobs_are_handed_back(tenure, app, redis_url, task):
    job = app.tasks[task].enqueue(60.0)
    run = tenure("worker", "jobs:app", "--grace", "0.2", url=redis_url).wait_for("sleeping", "out")
    began = time.monotonic()
    run.signal(signal.SIGTERM).end()
    assert time.monotonic() - began < 15, "the jobs last longer"
    assert counts(app, "slow") == {State.READY: 1}
    view = app.inspect.job("slow", job.id)
    assert view is not None
    assert (view.failures, view.crashes) == (0, 0)


@pytest.mark.parametrize("task", ["jobs.sleep", "jobs.asleep"])
def test_a_second_signal_stops_hard(tenure, app, redis_url, task):
    app.tasks[task].enqueue(60.0)
    run = tenure("worker", "jobs:app", url=redis_url).wait_for("sleeping", "out")
    run.signal(signal.SIGTERM).wait_for("worker_stopping")
    began = time.monotonic()
    run.signal(signal.SIGTERM).end(expect=3)
    assert time.monotonic() - began < 10, "the jobs have half a minute else, and last longer"
    assert counts(app, "slow") == {State.READY: 1}


def test_the_jobs_of_a_killed_worker_run_again_within_seconds(tenure, app, redis_url):
    job = app.tasks["jobs.sleep"].enqueue(600.0)
    victim = tenure("worker", "jobs:app", url=redis_url).wait_for("sleeping", "out")
    other = tenure("worker", "jobs:app", url=redis_url).wait_for("worker_started")
    os.kill(victim.worker, signal.SIGKILL)
    began = time.monotonic()
    other.wait_for("sleeping", "out")
    assert time.monotonic() - began < 9.0, "on a machine that has nothing else to do it is well below one"
    view = app.inspect.job("slow", job.id)
    assert view is not None
    assert (view.failures, view.crashes) == (0, 1)
    os.kill(other.worker, signal.SIGKILL)


def test_a_replica_is_refused(tenure, make_server):
    server = make_server()
    server.command("REPLICAOF", "127.0.0.1", "1")
    message = tenure("worker", "jobs:app", url=server.url).end(expect=2).err
    assert "is a replica" in message


def test_a_redis_that_evicts_is_refused_unless_accepted(tenure, make_server):
    server = make_server(args=["--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru"])
    message = tenure("worker", "jobs:app", url=server.url).end(expect=2).err
    assert "must be noeviction, got allkeys-lru" in message
    accepted = tenure("worker", "jobs:app", "--burst", "--allow-eviction", url=server.url).end()
    assert "WARNING check_failed about=eviction found='Redis may delete jobs" in accepted.err


def test_a_wrong_password_is_said_and_not_shown(tenure, make_server):
    server = make_server(args=["--requirepass", "right-s3cret"], password="right-s3cret")
    wrong = server.url.replace("right", "wrong")
    for command in (["worker", "jobs:app"], ["info"]):
        message = tenure(*command, url=wrong).end(expect=1).err
        assert "refused access" in message
        assert "s3cret" not in message
    assert tenure("info", url=server.url).end().out


def test_an_embedded_redis_is_shared_by_path(tenure, tmp_path):
    url = f"embedded:{tmp_path}/data"
    with Tenure(url) as app:

        @app.task(name="jobs.add")
        def add(a: int, b: int) -> int: ...

        job = add.enqueue(1, 2)
        tenure("worker", "jobs:app", "--burst", url=url).end()
        assert job.result(timeout=0) == 3
