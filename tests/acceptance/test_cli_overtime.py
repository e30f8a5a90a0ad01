"""Handlers that go on when their worker ends: nothing of their lane begins before their process has ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tenure import Tenure
from tenure.core.job import State
from tests.support import processes

APART = ["unshare", "--map-root-user", "--pid", "--fork", "--mount-proc"]
"""As in a container: the first process has the pid 1, and its end is the end of all."""

JOBS = """
import time, os
from pathlib import Path
from tenure import Backoff, Tenure

app = Tenure()

def hold() -> None:
    here = Path("holder")
    before = here.read_text() if here.exists() else ""
    time.sleep(0.1)
    beside = here.exists() and here.read_text() != before
    print("beside another" if beside else "alone", flush=True)
    for turn in range(6_000):
        here.write_text(f"{os.getpid()} {turn}")
        time.sleep(0.01)

@app.task(timeout=0.3, retries=5, backoff=Backoff.fixed(0))
def hang() -> None:
    hold()

@app.task(timeout=None)
def last() -> None:
    hold()
"""


@pytest.mark.parametrize("task", ["hang", "last"])
@pytest.mark.usefixtures("jobs")
def test_a_lane_goes_on_when_the_process_of_its_handler_has_ended(tenure, redis_url, task):
    with Tenure(redis_url) as app:

        @app.task(name=f"jobs.{task}")
        def held() -> None: ...

        job = held.using(lane="L").enqueue()
        first = tenure("worker", "jobs:app", "-c", "2", "--grace", "0.5", url=redis_url)
        if task == "hang":
            first.wait_for("handler_overran")
        first.wait_for("alone", "out")
        second = tenure("worker", "jobs:app", "-c", "2", "--grace", "0.5", url=redis_url).wait_for("worker_started")
        first.signal(signal.SIGTERM).wait_for("left=True").end()
        assert second.wait_for("\n", "out").out == "alone\n"
        view = job.refresh()
        assert view is not None
        assert (view.failures, view.crashes) == (1 if task == "hang" else 0, 0)


def _namespaces() -> bool:
    try:
        return subprocess.run([*APART, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.skipif(not _namespaces(), reason="this system does not let a user have PID namespaces")
@pytest.mark.usefixtures("jobs")
def test_the_first_process_of_a_container_gives_back_before_it_ends(tmp_path, redis_url):
    with Tenure(redis_url) as app:

        @app.task(name="jobs.last")
        def last() -> None: ...

        job = last.using(lane="L").enqueue()
        words = [sys.executable, "-P", "-m", "tenure", "worker", "jobs:app", "-c", "2", "--grace", "0.1"]
        source = str(Path(__file__).parents[2] / "src")
        environment = {**os.environ, "PYTHONPATH": source, "TENURE_URL": redis_url}
        with subprocess.Popen(
            [*APART, *words], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
        ) as outside:
            try:
                assert outside.stdout is not None
                assert outside.stdout.readline() == "alone\n"
                (first,) = processes.children(outside.pid)
                os.kill(first, signal.SIGTERM)
                assert outside.wait(30) == 0
            finally:
                processes.end(outside)
        # At once, and not when its lease has lapsed; nobody is to blame.
        view = job.refresh()
        assert view is not None
        assert (view.state, view.crashes) == (State.READY, 0)
