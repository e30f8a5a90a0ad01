"""Handlers that go on when their worker ends: nothing of their lane begins before their process has ended."""

from __future__ import annotations

import signal

import pytest

from leasehold import Leasehold

JOBS = """
import time, os
from pathlib import Path
from leasehold import Backoff, Leasehold

app = Leasehold()

def hold() -> None:
    here = Path("holder")
    command = Path("/proc", here.read_text(), "cmdline") if here.exists() else here
    beside = command.exists() and command.read_text() != ""
    here.write_text(str(os.getpid()))
    print("beside another" if beside else "alone", flush=True)
    time.sleep(60)

@app.task(timeout=0.3, retries=5, backoff=Backoff.fixed(0))
def hang() -> None:
    hold()

@app.task(timeout=None)
def last() -> None:
    hold()
"""


@pytest.mark.parametrize("task", ["hang", "last"])
@pytest.mark.usefixtures("jobs")
def test_a_lane_goes_on_when_the_process_of_its_handler_has_ended(leasehold, redis_url, task):
    with Leasehold(redis_url) as app:

        @app.task(name=f"jobs.{task}")
        def held() -> None: ...

        job = held.using(lane="L").enqueue()
        first = leasehold("worker", "jobs:app", "-c", "2", "--grace", "0.5", url=redis_url)
        if task == "hang":
            first.wait_for("handler_goes_on")
        first.wait_for("alone", "out")
        second = leasehold("worker", "jobs:app", "-c", "2", "--grace", "0.5", url=redis_url).wait_for("started")
        first.signal(signal.SIGTERM).wait_for("bequeathing").end()
        assert second.wait_for("\n", "out").out == "alone\n"
        view = job.refresh()
        assert view is not None
        assert view.crashes == (1 if task == "hang" else 0)
