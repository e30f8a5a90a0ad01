"""Bad jobs in a real worker: each costs itself at the most, never a neighbour and never the worker."""

import signal
from functools import partial

import pytest

from tenure import State
from tests.acceptance.workers import SLEEP, view, with_tasks, written
from tests.support.waiting import until

JOBS = f"""
import os, sys, threading, time
from tenure import Tenure

app = Tenure()
{SLEEP}
class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("no words")

@app.task(retries=0)
def villain(how: str) -> object:
    if how == "unserialisable":
        return threading.Lock()
    if how == "exit":
        raise SystemExit(3)
    if how == "interrupt":
        raise KeyboardInterrupt
    if how == "recursion":
        return villain.function(how) if hasattr(villain, "function") else (lambda f: f(f))(lambda f: f(f))
    if how == "memory":
        return len(bytearray(1 << 46))
    if how == "unspeakable":
        raise Unspeakable
    if how == "endless":
        raise ValueError("x" * 50_000_000)
    if how == "recursion limit":
        sys.setrecursionlimit(50)
        return None
    if how == "fork":
        os.fork()
        return None
"""

pytestmark = pytest.mark.usefixtures("jobs")


@pytest.fixture
def app(app):
    return with_tasks(app)


def has_ended(app, job) -> bool:
    return view(app, job).state in (State.COMPLETED, State.FAILED, State.BROKEN)


ENDS = {
    "unserialisable": State.COMPLETED,
    "exit": State.FAILED,
    "interrupt": State.FAILED,
    "recursion": State.FAILED,
    "memory": State.FAILED,
    "unspeakable": State.FAILED,
    "endless": State.FAILED,
    "recursion limit": State.COMPLETED,
    "fork": State.COMPLETED,
}


def test_those_that_only_raise_or_meddle_leave_the_process_alone(tenure, app, redis_url, tmp_path):
    run = tenure("worker", "jobs:app", url=redis_url).wait_for("worker_started")
    worker, neighbour = run.worker, app.tasks["jobs.sleep"].enqueue(4.0)
    until(lambda: written(tmp_path / "sleeping"))
    villains = {how: app.tasks["jobs.villain"].enqueue(how) for how in ENDS}
    for how, job in villains.items():
        until(partial(has_ended, app, job))
        assert (how, view(app, job).state, view(app, job).crashes) == (how, ENDS[how], 0)
    assert neighbour.result(timeout=120) == worker
    assert view(app, neighbour).crashes == 0
    assert app.tasks["jobs.sleep"].enqueue(0.0).result(timeout=120) == worker
    # Its log may have warnings: at the lowered recursion limit, connections may fail while they are opened.
    assert run.signal(signal.SIGTERM).process.wait(30) == 0
