"""Jobs that do harm, in real workers: they fail or end in `broken`, and no other job is lost or run in vain."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from tenure import JobHandle, State, Tenure
from tenure.engines.kit.config import MAX_CRASHES
from tests.support.waiting import until

JOBS = """
import asyncio, os, re, signal, subprocess, sys, time
from pathlib import Path
from tenure import Backoff, Tenure, current_job

app = Tenure()
NOW = Backoff.fixed(0)

def say(*words):
    with Path("said").open("a") as file:
        file.write(" ".join(map(str, words)) + "\\n")

class Odd(BaseException):
    pass

class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text")

class Unbound(Exception):
    @property
    def __class__(self):
        raise RuntimeError("working outside of the request context")

def deep():
    deep()

def raise_it(kind):
    match kind:
        case "exit": sys.exit(1)
        case "interrupt": raise KeyboardInterrupt
        case "odd": raise Odd
        case "recursion": deep()
        case "memory": raise MemoryError
        case "unprintable": raise Unprintable
        case "unbound": raise Unbound
        case "huge": raise ValueError("x" * 100_000_000)
        case "group": raise BaseExceptionGroup("some", [SystemExit(1), KeyboardInterrupt()])

@app.task(retries=0)
def raises(kind: str) -> None:
    raise_it(kind)

@app.task(retries=0)
async def araises(kind: str) -> None:
    await asyncio.sleep(0)
    raise_it(kind)

@app.task(retries=0, run_in="process")
def praises(kind: str) -> None:
    raise_it(kind)

@app.task(retries=0)
async def in_a_task(kind: str) -> None:
    async def inner() -> None:
        await asyncio.sleep(0)
        raise_it(kind)
    await asyncio.gather(inner())

@app.task(retries=0, run_in="process")
async def in_a_tasks_process(kind: str) -> None:
    async def inner() -> None:
        await asyncio.sleep(0)
        raise_it(kind)
    await asyncio.gather(inner())

@app.task
def good(number: int) -> int:
    time.sleep(0.01)
    say("good", number)
    return number

@app.task(run_in="process", backoff=NOW)
def dies() -> None:
    say("dies", os.getpid())
    os.kill(os.getpid(), signal.SIGKILL)

@app.task(run_in="process", timeout=0.5, retries=1, backoff=NOW)
def hangs() -> None:
    say("hangs", os.getpid())
    re.fullmatch("(a+)+b", "a" * 64)

@app.task(run_in="process", queue="long")
def long() -> None:
    child = subprocess.Popen(["/bin/sleep", "600"])
    say("long", os.getpid(), child.pid)
    time.sleep(600)

@app.task(run_in="process", max_memory=100, retries=0)
def eats() -> int:
    return len(bytearray(1_000_000_000))

@app.task(queue="fork")
def forks() -> int:
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
    say("forks", os.getpid())
    return os.getpid()

@app.task(run_in="process")
def counts() -> int:
    return current_job().attempt
"""

TASKS = ["raises", "araises", "praises", "in_a_task", "in_a_tasks_process"]
KINDS = ["exit", "interrupt", "odd", "recursion", "memory", "unprintable", "unbound", "huge", "group"]


@pytest.fixture(autouse=True)
def jobs(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(JOBS)


@pytest.fixture
def app(redis_url):
    with Tenure(redis_url) as app:

        def producer(name: str, queue: str, *kinds: type) -> None:
            def one(value: str) -> None: ...
            def many(number: int) -> None: ...
            def none() -> None: ...

            function = {(): none, (str,): one, (int,): many}[kinds]
            app.task(name=f"jobs.{name}", queue=queue)(cast(Callable[..., None], function))

        for name in ("raises", "araises", "praises", "in_a_task", "in_a_tasks_process"):
            producer(name, "default", str)
        producer("good", "default", int)
        for name, queue in (
            ("dies", "default"),
            ("hangs", "default"),
            ("long", "long"),
            ("eats", "default"),
            ("forks", "fork"),
        ):
            producer(name, queue)
        yield app


def said(tmp_path: Path, word: str) -> list[list[str]]:
    file = tmp_path / "said"
    lines = file.read_text().splitlines() if file.exists() else []
    return [line.split()[1:] for line in lines if line.split()[0] == word]


def alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def state(job: JobHandle) -> State | None:
    view = job.refresh()
    return None if view is None else view.state


def test_whatever_is_raised_fails_the_attempt_and_the_worker_goes_on(tenure, app, redis_url, tmp_path):
    bad = {(task, kind): app.tasks[f"jobs.{task}"].enqueue(kind) for task in TASKS for kind in KINDS}
    good = [app.tasks["jobs.good"].enqueue(number) for number in range(20)]
    tenure("worker", "jobs:app", "--burst", "-c", "4", url=redis_url).end()
    for name, job in bad.items():
        view = job.refresh()
        assert view.state is State.FAILED, name
        assert (view.failures, view.crashes) == (1, 0)
        assert len(view.error.message) < 10_000
    assert all(state(job) is State.COMPLETED for job in good)
    assert len(said(tmp_path, "good")) == len(good)


def test_who_kills_its_process_ends_in_broken_and_no_other_is_harmed(tenure, app, redis_url, tmp_path):
    bad = app.tasks["jobs.dies"].enqueue()
    good = [app.tasks["jobs.good"].enqueue(number) for number in range(100)]
    worker = tenure("worker", "jobs:app", "-c", "4", url=redis_url)
    until(lambda: state(bad) is State.BROKEN)
    until(lambda: all(state(job) is State.COMPLETED for job in good))
    view = bad.refresh()
    assert (view.failures, view.crashes) == (0, MAX_CRASHES)
    assert len(said(tmp_path, "dies")) == MAX_CRASHES
    assert len(said(tmp_path, "good")) == len(good)
    worker.signal(signal.SIGTERM).end()


def test_a_timeout_kills_what_holds_the_interpreter(tenure, app, redis_url, tmp_path):
    bad = app.tasks["jobs.hangs"].enqueue()
    good = [app.tasks["jobs.good"].enqueue(number) for number in range(20)]
    tenure("worker", "jobs:app", "--burst", "-c", "2", url=redis_url).end()
    view = bad.refresh()
    assert (view.state, view.failures, view.crashes, view.error.type) == (State.FAILED, 2, 0, "Timeout")
    assert not any(alive(int(pid)) for (pid,) in said(tmp_path, "hangs"))
    assert all(state(job) is State.COMPLETED for job in good)


def test_a_killed_worker_takes_its_processes_along_and_its_job_runs_again(tenure, app, redis_url, tmp_path):
    job = app.tasks["jobs.long"].enqueue()
    run = tenure("worker", "jobs:app", "--grace", "0.2", url=redis_url)
    until(lambda: len(said(tmp_path, "long")) == 1)
    os.kill(run.worker, signal.SIGKILL)
    pids = [int(pid) for pid in said(tmp_path, "long")[0]]
    until(lambda: not any(alive(pid) for pid in pids), 60)
    until(lambda: len(said(tmp_path, "long")) == 2)
    assert job.refresh().crashes == 1
    run.signal(signal.SIGTERM).end()
    pids = [int(pid) for pid in said(tmp_path, "long")[1]]
    until(lambda: not any(alive(pid) for pid in pids), 60)


def test_cancel_ends_a_process_that_does_not_heed_it(tenure, app, redis_url, tmp_path):
    job = app.tasks["jobs.long"].enqueue()
    worker = tenure("worker", "jobs:app", url=redis_url)
    until(lambda: len(said(tmp_path, "long")) == 1)
    assert job.cancel("not needed")
    until(lambda: state(job) is State.CANCELLED)
    assert not alive(int(said(tmp_path, "long")[0][0]))
    worker.signal(signal.SIGTERM).end()


def test_a_job_has_no_more_memory_than_it_may_have(tenure, app, redis_url):
    job = app.tasks["jobs.eats"].enqueue()
    tenure("worker", "jobs:app", "--burst", url=redis_url).end()
    view = job.refresh()
    assert (view.state, view.error.type) == (State.FAILED, "MemoryError")


def test_a_copy_of_the_worker_that_a_handler_forks_does_nothing(tenure, app, redis_url, tmp_path):
    jobs = [app.tasks["jobs.forks"].enqueue() for _ in range(3)]
    tenure("worker", "jobs:app", "--burst", url=redis_url).end()
    assert all(state(job) is State.COMPLETED for job in jobs)
    pids = [int(pid) for (pid,) in said(tmp_path, "forks")]
    assert len(pids) == 6  # each handler returned twice
    assert max(pids.count(pid) for pid in pids) == 3
    assert not any(alive(pid) for pid in pids)


def test_a_stop_of_the_whole_group_does_not_end_a_process_before_its_time(tenure, app, redis_url, tmp_path):
    """As systemd does it: the signal goes to every process of the service."""
    job = app.tasks["jobs.long"].enqueue()
    worker = tenure("worker", "jobs:app", "--grace", "0.5", url=redis_url)
    until(lambda: len(said(tmp_path, "long")) == 1)
    pid = int(said(tmp_path, "long")[0][0])
    os.kill(pid, signal.SIGTERM)
    worker.signal(signal.SIGTERM).end()
    assert not alive(pid)
    view = job.refresh()
    assert (view.state, view.failures, view.crashes) == (State.READY, 0, 0)
