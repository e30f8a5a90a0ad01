"""`tenure dev` and `tenure worker --reload`: a worker that follows the code."""

import os
import signal
import subprocess
import sys
from itertools import count

import pytest

from tenure import Tenure
from tests.acceptance.conftest import SOURCE
from tests.acceptance.workers import gone, pids, ready
from tests.support.waiting import until

pytest.importorskip("watchfiles")

JOBS = """
from tenure import Tenure

app = Tenure()

@app.task
def version() -> int:
    return {version}
"""


SIZES = count()


def write(tmp_path, version: object) -> None:
    """Every time of another size: Python takes a `.pyc` for fresh by the second of the change and the size alone."""
    (tmp_path / "jobs.py").write_text(JOBS.format(version=version) + "#" * next(SIZES))


@pytest.fixture(autouse=True)
def jobs(tmp_path):
    write(tmp_path, 1)


@pytest.fixture
def version(redis_url):
    """Enqueues the task and answers the version that ran it."""
    with Tenure(redis_url) as app:

        @app.task(name="jobs.version")
        def version() -> int: ...

        yield lambda: version.enqueue().result(timeout=120)


def test_reload_follows_the_code_and_waits_where_it_is_broken(tenure, version, redis_url, tmp_path):
    run = ready(tenure("worker", "jobs:app", "--reload", "--processes", "2", url=redis_url), 2)
    assert version() == 1
    write(tmp_path, 2)
    run.wait_for("restart_started files=")
    ready(run, 4)
    assert version() == 2
    write(tmp_path, "(")
    run.wait_for("until=file_change")
    assert "SyntaxError" in run.err
    write(tmp_path, 3)
    ready(run, 6)
    assert version() == 3
    run.signal(signal.SIGTERM).end()
    assert all(gone(pid) for pid in pids(run))


def test_what_cannot_be_loaded_at_the_start_is_waited_for(tenure, version, redis_url, tmp_path):
    write(tmp_path, "(")
    run = tenure("dev", "jobs:app", url=redis_url).wait_for("until=file_change")
    assert "SyntaxError" in run.err
    write(tmp_path, 2)
    ready(run, 1)
    assert version() == 2
    run.signal(signal.SIGTERM).end()


def test_without_watchfiles_it_says_what_to_install(tenure, redis_url, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['watchfiles'] = None")
    path = os.pathsep.join([str(tmp_path), str(SOURCE)])
    for command in (["worker", "jobs:app", "--reload"], ["dev", "jobs:app"]):
        message = tenure(*command, url=redis_url, PYTHONPATH=path).end(expect=2).err
        assert "pip install 'tenure[reload]'" in message


def test_dev_brings_a_redis_of_its_own_that_survives_reloads(tenure, tmp_path):
    run = tenure("dev", "jobs:app").wait_for("TENURE_URL=embedded:.tenure/redis")
    ready(run, 1)
    assert (tmp_path / ".tenure" / ".gitignore").read_text().endswith("*\n")
    program = "from jobs import version; print(version.enqueue().result(timeout=120))"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "TENURE_URL": "embedded:.tenure/redis"}

    def enqueue() -> str:
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert enqueue() == "1\n"
    assert "completed queue=default task=jobs.version" in run.err
    write(tmp_path, 2)
    ready(run, 2)
    assert enqueue() == "2\n"
    run.signal(signal.SIGINT).end()
    until(lambda: all(gone(pid) for pid in pids(run)))


def test_dev_uses_the_redis_that_is_set(tenure, version, redis_url, tmp_path):
    run = ready(tenure("dev", "jobs:app", url=redis_url), 1)
    assert version() == 1
    assert not (tmp_path / ".tenure").exists()
    run.signal(signal.SIGINT).end()


def test_a_module_that_is_not_there_is_waited_for(tenure):
    run = tenure("dev", "none:app").wait_for("until=file_change")
    assert "There is no module 'none'" in run.err
    run.signal(signal.SIGTERM).end()
