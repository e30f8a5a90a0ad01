"""Workers that start before their Redis answers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tenure import Tenure

JOBS = """
from tenure import Tenure

app = Tenure()

@app.task
def add(a: int, b: int) -> int:
    return a + b
"""

pytestmark = pytest.mark.usefixtures("jobs")


@pytest.fixture
def add(private_server):
    with Tenure(private_server.url) as app:

        @app.task(name="jobs.add")
        def add(a: int, b: int) -> int: ...

        yield add


@pytest.mark.parametrize("more", [(), ("--processes", "2")], ids=["alone", "supervised"])
def test_a_worker_waits_for_a_redis_that_starts_later_and_says_why(tenure, private_server, add, more):
    private_server.stop()
    run = tenure("worker", "jobs:app", *more, url=private_server.url)
    run.wait_for("redis_lost").wait_for("redis_lost what=start").wait_for("there was no connection")
    private_server.start()
    assert add.enqueue(1, 2).result(timeout=120) == 3
    run.signal(signal.SIGTERM).end()
    assert run.err.count("redis_lost what=start") <= (2 if more else 1), "once for each process"


def test_a_worker_waits_for_a_redis_that_is_silent(tenure, private_server, add):
    job = add.enqueue(1, 2)
    private_server.pause()
    try:
        run = tenure("worker", "jobs:app", url=private_server.url).wait_for("redis_lost what=start")
        assert "did not respond" in run.err
    finally:
        private_server.resume()
    assert job.result(timeout=120) == 3
    run.signal(signal.SIGTERM).end()


@pytest.mark.parametrize("closed", ["<&-", "2>&-", "<&- >&- 2>&-"])
def test_a_worker_needs_no_open_streams(private_server, add, tmp_path, closed):
    job = add.enqueue(1, 2)
    command = f"{sys.executable} -m tenure worker jobs:app --burst {closed}"
    environment = {**os.environ, "TENURE_URL": private_server.url}
    done = subprocess.run(command, shell=True, cwd=tmp_path, env=environment, capture_output=True, timeout=120)
    assert (done.returncode, job.result(timeout=0)) == (0, 3)


def test_a_worker_needs_no_locale_with_utf_8(private_server, add, tmp_path):
    job = add.enqueue(1, 2)
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    environment = {**os.environ, "TENURE_URL": private_server.url, **locale}
    command = [sys.executable, "-m", "tenure", "worker", "jobs:app", "--burst"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, timeout=120)
    assert (done.returncode, job.result(timeout=0)) == (0, 3)


@pytest.mark.parametrize("more", [(), ("--processes", "2")], ids=["alone", "supervised"])
def test_a_worker_that_waits_ends_when_it_is_told_to(tenure, tmp_path, more):
    run = tenure("worker", "jobs:app", *more, url=f"unix://{tmp_path}/none.sock").wait_for("redis_lost what=start")
    run.signal(signal.SIGTERM).end()


def test_a_burst_gives_up(tenure, tmp_path):
    waiting = ("--burst", "--wait-for-redis=1.5")
    run = tenure("worker", "jobs:app", *waiting, url=f"unix://{tmp_path}/none.sock").end(expect=1)
    assert "did not respond for 1.5 s" in run.err
    assert "redis_lost what=start" not in run.err


def test_a_signal_in_code_that_swallows_exceptions_ends_a_worker_that_starts():
    finalizer = "class A:\n    def __del__(self): os.kill(os.getpid(), signal.SIGTERM)\nA()\nprint('it continues')"
    code = f"import os, signal\nfrom tenure.cli import _handle_signals\n_handle_signals(['worker'])\n{finalizer}"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


@pytest.mark.parametrize("blocked", [(), (signal.SIGTERM, signal.SIGINT)], ids=["as usual", "blocked by its caller"])
def test_a_worker_that_is_told_to_stop_while_it_starts_ends_in_good_order(redis_url, tmp_path, blocked):
    command = [sys.executable, "-X", "importtime", "-m", "tenure", "worker", "jobs:app"]
    before = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    try:
        process = subprocess.Popen(
            command, cwd=tmp_path, env={**os.environ, "TENURE_URL": redis_url}, stderr=subprocess.PIPE, text=True
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    with process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.endswith(" tenure.cli.logs\n"):  # it is about to start its first process
                process.terminate()
        assert process.wait(60) == 0
