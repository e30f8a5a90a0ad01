"""`run_in="process"` together with the rest: middleware, hooks, logs, jobs that enqueue jobs, and an app that fails."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from pathlib import Path

import pytest

from tenure import State, Tenure
from tests.redis.proxy import Proxy
from tests.support import processes
from tests.support.waiting import until

JOBS = """
import logging, os, sys, time
from pathlib import Path
from tenure import Tenure, current_job, must_stop, progress

app = Tenure()

def say(*words):
    with Path("said").open("a") as file:
        file.write(" ".join(map(str, words)) + "\\n")

@app.middleware
async def outside(jobs, call_next):
    return await call_next() + 100

@app.middleware
def around(jobs, call_next):
    say("before", jobs[0].id, os.getpid())
    return call_next() + 1 if jobs[0].extend(100) else 0

@app.task
def other(number: int) -> int:
    return number

def tell(job, error):
    say("hook", job.id, os.getpid(), error.type)

@app.task(run_in="process", on_failure=tell, retries=0)
def work(number: int) -> int:
    logging.getLogger("mine").warning("a line of mine from %s", os.getpid())
    progress(number, 10)
    if number == 0:
        raise ValueError
    other.enqueue(number)
    say("work", current_job().id, os.getpid())
    return number * 10

@app.task(run_in="process", persistent=True, queue="bots")
def bot() -> int:
    say("bot", os.getpid())
    while True:
        time.sleep(1)
    return 0
"""

HOLDS = """

@app.task(run_in="process")
def hold() -> int:
    if not Path("held").exists():
        Path("held").write_text(str(os.getpid()))
        sum(range(10**14))
    try:
        before = Path(f"/proc/{Path('held').read_text()}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        before = "Z"
    say("again", "alone" if before == "Z" else "beside " + before)
    return 0

@app.task
async def block() -> int:
    if not Path("blocked").exists():
        Path("blocked").touch()
        time.sleep(600)
    return 0

@app.task
async def end(hard: bool) -> int:
    if hard and not Path("ended").exists():
        Path("ended").touch()
        os._exit(9)
    return 0
"""

SULKY = """
import sys
if sys.argv[0].endswith("launch.py"):
    raise RuntimeError("not here")
"""


@pytest.fixture(autouse=True)
def jobs(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(JOBS + HOLDS)
    (tmp_path / "sulky.py").write_text(SULKY + JOBS)


@pytest.fixture
def app(redis_url):
    with Tenure(redis_url) as app:
        for module in ("jobs", "sulky"):

            @app.task(name=f"{module}.work")
            def work(number: int) -> int: ...

            @app.task(name=f"{module}.other")
            def other(number: int) -> int: ...

            @app.task(name=f"{module}.bot", queue="bots", persistent=True)
            def bot() -> int: ...

        yield app


def said(tmp_path: Path) -> dict[str, list[str]]:
    file = tmp_path / "said"
    lines = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
    return {line[0]: line[1:] for line in lines}


def test_it_goes_with_middleware_hooks_logs_and_jobs_that_enqueue_jobs(tenure, app, redis_url, tmp_path):
    good = app.tasks["jobs.work"].enqueue(4)
    bad = app.tasks["jobs.work"].enqueue(0)
    run = tenure("worker", "jobs:app", "--burst", "-c", "1", url=redis_url).end()
    assert good.result(timeout=0) == 141
    seen = said(tmp_path)
    id, pid = seen["work"]
    assert id == good.id
    worker = re.search(r"started worker=\S+-(\d+)-", run.err)
    assert worker is not None
    assert pid != worker[1]
    assert seen["hook"] == [bad.id, worker[1], "ValueError"]
    assert f"a line of mine from {pid}" in run.err
    assert app.inspect.queue("default").counts[State.COMPLETED] == 2


def test_when_the_app_cannot_be_loaded_there_its_jobs_are_parked_and_the_others_go_on(tenure, app, redis_url):
    job = app.tasks["sulky.work"].enqueue(4)
    run = tenure("worker", "sulky:app", url=redis_url)
    run.wait_for("parked=1")
    assert app.tasks["sulky.other"].enqueue(7).result(timeout=120) == 108
    run.signal(signal.SIGTERM).end()
    assert "RuntimeError: not here" in run.err
    view = job.refresh()
    assert (view.state, view.failures, view.crashes) == (State.UNROUTABLE, 0, 0)


def test_a_persistent_job_is_killed_and_handed_back_at_a_stop(tenure, app, redis_url, tmp_path):
    job = app.tasks["jobs.bot"].enqueue()
    run = tenure("worker", "jobs:app", url=redis_url)
    while "bot" not in said(tmp_path):
        assert run.process.poll() is None
    run.signal(signal.SIGTERM).end()
    view = job.refresh()
    assert (view.state, view.failures, view.crashes) == (State.READY, 0, 0)
    assert not Path(f"/proc/{said(tmp_path)['bot'][0]}").exists()


def keepers(pid: int) -> set[int]:
    return {
        child
        for child in processes.children(pid)
        if b"tenure.processes.keeper" in Path(f"/proc/{child}/cmdline").read_bytes()
    }


@pytest.mark.parametrize("how", ["killed", "killed, with a keeper of its own", "by a handler"])
def test_one_that_holds_the_gil_is_dead_before_its_job_runs_again(tenure, app, redis_url, tmp_path, how):
    """By itself it would not see the end of its worker, and hold the GIL for days."""

    @app.task(name="jobs.hold")
    def hold() -> int: ...

    @app.task(name="jobs.end")
    def end(hard: bool) -> int: ...

    job = hold.using(lane="L").enqueue()
    run = tenure("worker", "jobs:app", "-c", "2", url=redis_url)
    until(lambda: (tmp_path / "held").exists() and (tmp_path / "held").read_text() != "")
    pid = int((tmp_path / "held").read_text())
    worker = run.worker
    time.sleep(0.2)  # it holds the GIL by now
    if how == "killed, with a keeper of its own":
        run.signal(signal.SIGKILL).wait_for("parent_lost")
        until(lambda: keepers(worker))
    try:
        if how == "by a handler":
            end.enqueue(hard=True)
        else:
            os.kill(worker, signal.SIGKILL)
        run.wait_for("worker_died")
        tenure("worker", "jobs:app", "-c", "2", "--queue", "default", url=redis_url)
        job.result(timeout=120)
        assert said(tmp_path)["again"] == ["alone"]
        view = job.refresh()
        assert view.crashes == 1
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_one_whose_worker_is_cut_off_and_blocked_is_dead_before_its_job_runs_again(tenure, app, server, tmp_path):
    @app.task(name="jobs.hold")
    def hold() -> int: ...

    @app.task(name="jobs.block")
    def block() -> int: ...

    with Proxy(server.socket_path) as proxy:
        job = hold.using(lane="L").enqueue()
        tenure("worker", "jobs:app", "-c", "2", url=proxy.url)
        until(lambda: (tmp_path / "held").exists() and (tmp_path / "held").read_text() != "")
        block.enqueue()
        until((tmp_path / "blocked").exists)
        tenure("worker", "jobs:app", "-c", "2", "--queue", "default", url=server.url).wait_for("worker_started")
        proxy.hole(new=True)
        assert job.result(timeout=120) is not None
        assert said(tmp_path)["again"] == ["alone"]
