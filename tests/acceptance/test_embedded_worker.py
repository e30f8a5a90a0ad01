"""A program that runs a worker: Ctrl-C and SIGTERM."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tenure import State, Tenure
from tests.acceptance.conftest import Run

PROGRAM = """
import asyncio, sys
from tenure import Tenure, events

app = Tenure()
ends = asyncio.Event()

@app.task
async def work() -> None:
    print("begun", flush=True)
    await ends.wait()
    print("ended", flush=True)

app.on(events.WorkerStopping)(lambda event: ends.set())
work.enqueue()
try:
    app.run_worker(signals=sys.argv[1] == "signals")
except KeyboardInterrupt:
    print("interrupted")
"""


ENDLESS = """
import asyncio, sys
from tenure import Tenure, events

app = Tenure()

@app.task(name="work")
async def work() -> None:
    print("begun", flush=True)
    await asyncio.Event().wait()

app.on(events.WorkerStopping)(lambda event: print("stopping", flush=True))
try:
    app.run_worker(signals=sys.argv[1] == "signals")
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize(
    ("how", "number", "last"),
    [
        ("plain", signal.SIGINT, "interrupted"),
        ("signals", signal.SIGTERM, "ended"),
        ("signals", signal.SIGINT, "ended"),
    ],
)
def test_a_signal_lets_running_jobs_end(tmp_path, redis_url, how, number, last):
    run = started(PROGRAM, tmp_path, redis_url, how)
    try:
        run.wait_for("begun", "out").signal(number).end()
        told = "worker_interrupted grace=20s message='Running jobs may finish within `grace`; another Ctrl-C"
        assert (told in run.err) is (how == "plain")
        assert run.out.split() == ["begun", "ended", *["interrupted"] * (last == "interrupted")]
    finally:
        run.close()


@pytest.mark.parametrize("how", ["plain", "signals"])
def test_a_second_ctrl_c_releases_running_jobs_at_once_without_a_crash(tmp_path, redis_url, how):
    with Tenure(redis_url) as app:
        job = app.task(name="work")(lambda: None).enqueue()
        run = started(ENDLESS, tmp_path, redis_url, how)
        try:
            run.wait_for("begun", "out").signal(signal.SIGINT)
            run.wait_for("stopping", "out").signal(signal.SIGINT).end()
            assert run.out.split() == ["begun", "stopping", *["interrupted"] * (how != "signals")]
        finally:
            run.close()
        view = job.refresh()
        assert view is not None
        assert (view.state, view.failures, view.crashes) == (State.READY, 0, 0)


def started(program: str, folder: Path, url: str, how: str) -> Run:
    (folder / "program.py").write_text(program)
    words = [sys.executable, "-W", "error", "program.py", how]
    pipe = subprocess.PIPE
    environment = os.environ | {"TENURE_URL": url}
    return Run(subprocess.Popen(words, cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True))
