"""`--max-jobs` and `--max-memory`: processes that make room for the next, without an error and without a loss."""

import signal

import pytest

from tests.acceptance.workers import SLEEP, ended, pids, ready, view, with_tasks, written
from tests.support.waiting import until

JOBS = f"""
import os, time
from tenure import Tenure

app = Tenure()
kept = []
{SLEEP}
@app.task
def where() -> int:
    time.sleep(0.01)
    return os.getpid()

@app.task
def leak(mb: int) -> int:
    kept.append(b"x" * (mb * 1024 * 1024))
    return os.getpid()
"""

pytestmark = pytest.mark.usefixtures("jobs")


@pytest.fixture
def app(app):
    return with_tasks(app)


def test_after_so_many_jobs_the_next_process_goes_on(tenure, app, redis_url):
    added = [app.tasks["jobs.where"].enqueue() for _ in range(60)]
    run = tenure("worker", "jobs:app", "--log-level=debug", "-c", "1", "--max-jobs", "20", "--burst", url=redis_url)
    ended(run)
    by = [job.result(timeout=0) for job in added]
    assert 2 <= len(set(by)) <= 3
    assert all(by.count(pid) >= 20 for pid in set(by) - {by[-1]})
    assert {(view(app, job).failures, view(app, job).crashes) for job in added} == {(0, 0)}
    assert "WARNING child" not in run.err
    assert " reason=" in run.err


def test_a_process_that_has_grown_is_replaced(tenure, app, redis_url):
    run = ready(tenure("worker", "jobs:app", "--log-level=debug", "--max-memory", "300", url=redis_url), 1)
    job = app.tasks["jobs.leak"].enqueue(400)
    assert job.result(timeout=120) == pids(run)[0]
    # What it holds is looked at while something runs.
    app.tasks["jobs.sleep"].enqueue(1.5)
    ready(run, 2)
    assert app.tasks["jobs.where"].enqueue().result(timeout=120) == pids(run)[1]
    run.signal(signal.SIGTERM).end()


def test_the_next_process_works_while_the_last_job_of_the_old_goes_on(tenure, app, redis_url, tmp_path):
    """For longer than --grace: to be recycled is no reason to end a job."""
    run = tenure(
        "worker", "jobs:app", "--log-level=debug", "-c", "2", "--max-jobs", "2", "--grace", "0.5", url=redis_url
    )
    ready(run, 1)
    long = app.tasks["jobs.sleep"].enqueue(6.0)
    until(lambda: written(tmp_path / "sleeping"))
    app.tasks["jobs.where"].enqueue().result(timeout=120)
    ready(run, 2)
    assert app.tasks["jobs.where"].enqueue().result(timeout=120) == pids(run)[1]
    assert long.result(timeout=120) == pids(run)[0]
    assert (view(app, long).failures, view(app, long).crashes) == (0, 0)
    run.wait_for(f"worker_process_ended slot=0 child={pids(run)[0]} how='status 4'")
    run.signal(signal.SIGTERM).end()
