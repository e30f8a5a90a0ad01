"""A program that runs a worker: Ctrl-C and SIGTERM."""

import os
import signal
import subprocess
import sys

import pytest

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


@pytest.mark.parametrize(
    ("how", "number", "last"),
    [
        ("plain", signal.SIGINT, "interrupted"),
        ("signals", signal.SIGTERM, "ended"),
        ("signals", signal.SIGINT, "ended"),
    ],
)
def test_a_signal_lets_running_jobs_end(tmp_path, redis_url, how, number, last):
    (tmp_path / "program.py").write_text(PROGRAM)
    words = [sys.executable, "-W", "error", "program.py", how]
    environment = os.environ | {"TENURE_URL": redis_url}
    pipe = subprocess.PIPE
    run = Run(subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=pipe, stderr=pipe, text=True))
    try:
        run.wait_for("begun", "out").signal(number).end()
        assert run.out.split() == ["begun", "ended", *["interrupted"] * (last == "interrupted")]
    finally:
        run.close()
