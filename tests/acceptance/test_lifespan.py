"""The lifespan of an app in the processes of `tenure worker`."""

import pytest

from tenure import Tenure

JOBS = """
import os
from contextlib import asynccontextmanager
from tenure import Tenure

@asynccontextmanager
async def lifespan(app):
    if os.environ.get("BOOM"):
        raise RuntimeError("no database")
    app.state.opened_in = os.getpid()
    print("opened", flush=True)
    yield
    print("closed", flush=True)

app = Tenure(lifespan=lifespan)

@app.task
async def beside() -> None:
    print("beside", app.state.opened_in == os.getpid(), flush=True)

@app.task(run_in="process")
def apart() -> None:
    print("apart", app.state.opened_in == os.getpid(), flush=True)
"""


def test_each_process_opens_before_its_first_job_and_closes_after_its_last(tenure, redis_url, tmp_path):
    (tmp_path / "jobs.py").write_text(JOBS)
    with Tenure(redis_url) as app:
        for name in ("beside", "apart"):
            app.task(name=f"jobs.{name}")(lambda: None).enqueue()
    lines = tenure("worker", "jobs:app", "--burst", url=redis_url).end().out.splitlines()
    assert sorted(lines) == ["apart True", "beside True", "closed", "closed", "opened", "opened"]
    assert lines[0] == "opened"
    assert lines[-1] == "closed"


@pytest.mark.parametrize("error", ["RuntimeError", "SystemExit"])
def test_a_start_that_fails_ends_the_worker_with_the_reason(tenure, redis_url, tmp_path, error):
    (tmp_path / "jobs.py").write_text(JOBS.replace("RuntimeError", error))
    run = tenure("worker", "jobs:app", url=redis_url, BOOM="1").end(2)
    assert "The lifespan of the app failed at its start. It raised:" in run.err
    assert f"{error}: no database" in run.err
    assert "worker_started" not in run.err
