"""Steering a running worker from the command line: weights, pause, quiet, cancel."""

import json
import signal
import time

import pytest

from tenure import State, Tenure
from tests.support.waiting import until

JOBS = """
import asyncio, time
import tenure
from tenure import Tenure

app = Tenure()

@app.task(queue="critical")
def add(a: int, b: int) -> int:
    return a + b

@app.task(queue="a,b:7")
def odd() -> str:
    return "odd"

@app.task(queue="slow")
async def asleep(seconds: float) -> None:
    print("sleeping", flush=True)
    await asyncio.sleep(seconds)

@app.task(queue="slow")
def sleep(seconds: float) -> None:
    print("sleeping", flush=True)
    for _ in range(int(seconds * 20)):
        tenure.check_cancelled()
        time.sleep(0.05)
"""


BOTS = """
import time
import tenure
from tenure import Tenure

app = Tenure()

@app.task(queue="bots", persistent=True)
def listen() -> None:
    print("listening", flush=True)
    rounds = 0
    while not tenure.must_stop():
        rounds += 1
        tenure.progress(rounds)
        time.sleep(0.05)
    print("stopped", flush=True)

@app.task(queue="bots")
def add(a: int, b: int) -> int:
    return a + b
"""


@pytest.fixture(autouse=True)
def jobs(tmp_path):
    (tmp_path / "jobs.py").write_text(JOBS)


@pytest.fixture
def app(redis_url):
    with Tenure(redis_url) as app:

        @app.task(name="jobs.add", queue="critical")
        def add(a: int, b: int) -> int: ...

        @app.task(name="jobs.odd", queue="a,b:7")
        def odd() -> str: ...

        @app.task(name="jobs.asleep", queue="slow")
        async def asleep(seconds: float) -> None: ...

        @app.task(name="jobs.sleep", queue="slow")
        def sleep(seconds: float) -> None: ...

        yield app


@pytest.fixture
def worker(tenure, app, redis_url):
    """A running worker and its name."""
    run = tenure("worker", "jobs:app", url=redis_url).wait_for("worker_started")
    until = time.monotonic() + 20
    while not (found := app.inspect.workers()):
        assert time.monotonic() < until, "no worker was announced"
    return run, found[0].id


def test_queues_with_weights_are_served(tenure, app, redis_url):
    jobs = [app.tasks["jobs.add"].enqueue(n, 1) for n in range(40)]
    odd = app.tasks["jobs.odd"].enqueue()
    queues = ["-q", "critical", "-q", "a,b:7", "-q", "more", "--weight", "critical=5", "--weight", "more=2"]
    run = tenure("worker", "jobs:app", "--burst", *queues, url=redis_url).end()
    assert [job.result(timeout=0) for job in jobs] == list(range(1, 41))
    assert odd.result(timeout=0) == "odd"
    assert "No task or handler of the app names the queue 'more'" in run.err
    assert "names the queue 'critical" not in run.err


def test_a_paused_queue_waits_and_the_others_go_on(command, app, worker, redis_url):
    command("pause", "critical", url=redis_url).end()
    waits = app.tasks["jobs.add"].enqueue(1, 2)
    assert app.tasks["jobs.odd"].enqueue().result(timeout=120) == "odd"
    assert waits.state() is State.READY
    command("resume", "critical", url=redis_url).end()
    assert waits.result(timeout=120) == 3


def test_a_quiet_worker_starts_nothing_new(command, app, worker, redis_url):
    _, name = worker
    running = app.tasks["jobs.sleep"].enqueue(1.0)
    worker[0].wait_for("sleeping", "out")
    out = command("quiet", name, url=redis_url).end().out
    assert out == f"Worker '{name}' starts no more jobs. To undo: tenure quiet {name} --undo\n"
    until(lambda: app.inspect.workers()[0].quiet)
    waits = app.tasks["jobs.add"].enqueue(1, 2)
    running.result(timeout=120)
    assert waits.state() is State.READY

    def shown() -> list[str]:
        lines = [line.split() for line in command("info", url=redis_url).end().out.splitlines()]
        return [line[-1] for line in lines if line and line[0] in ("worker", name)]

    until(lambda: shown() == ["state", "quiet"])  # a worker that gets no time of the machine is missing
    out = command("quiet", name, "--undo", "--json", url=redis_url).end().out
    assert json.loads(out) == {"worker": name, "quiet": False}
    assert waits.result(timeout=120) == 3


def test_a_quiet_worker_keeps_its_persistent_jobs(tenure, app, redis_url, tmp_path):
    (tmp_path / "bots.py").write_text(BOTS)
    command = ("worker", "bots:app", "-c", "4")
    job = app.queue("bots").job("bot")
    listen = app.task(name="bots.listen", queue="bots", persistent=True)(lambda: None)
    add = app.task(name="bots.add", queue="bots")(lambda a, b: None)
    listen.using(id="bot").enqueue()
    first = tenure(*command, url=redis_url).wait_for("listening", "out")
    until(lambda: len(app.inspect.workers()) == 1)
    name = app.inspect.workers()[0].id
    tenure("quiet", name, url=redis_url).end()
    first.wait_for(" worker_paused ")
    second = tenure(*command, url=redis_url).wait_for("worker_started")
    # What is new goes to the other worker, and the first one goes on with its bot.
    before = job.refresh()
    assert add.enqueue(1, 2).result(timeout=120) == 3
    until(lambda: job.refresh().progress.current > before.progress.current)
    assert (job.refresh().worker, job.refresh().token, "stopped" in first.out) == (name, before.token, False)
    # Only its end moves the bot.
    first.signal(signal.SIGTERM).end()
    assert "stopped" in first.out
    second.wait_for("listening", "out")
    job.cancel()
    until(lambda: job.state() is State.CANCELLED)


def test_a_worker_that_is_not_there(command, worker, redis_url):
    _, name = worker
    run = command("quiet", name[:-1] + "?", url=redis_url).end(expect=1)
    assert run.out == ""
    assert run.err == f"Error: There is no worker '{name[:-1]}?'. Did you mean '{name}'?\n"
    assert "`tenure info` lists the workers" in command("quiet", "zzz", url=redis_url).end(expect=1).err


@pytest.mark.parametrize("task", ["jobs.asleep", "jobs.sleep"])
def test_a_running_job_is_cancelled(tenure, app, worker, redis_url, task):
    job = app.tasks[task].enqueue(60.0)
    worker[0].wait_for("sleeping", "out")
    watched = tenure("job", "slow", job.id, "--watch", url=redis_url).wait_for("active", "out")
    out = tenure("cancel", "slow", job.id, "--reason", "too slow", url=redis_url).end().out
    assert "its worker is asked to end it" in out
    watched.end(expect=1)
    assert watched.out.splitlines()[-1].endswith("cancelled Cancelled: too slow")
    assert job.state() is State.CANCELLED
