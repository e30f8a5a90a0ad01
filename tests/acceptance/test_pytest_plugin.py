"""The pytest plugin in a project of a user: sync and async tests, warnings as errors, its own Redis."""

import subprocess
import sys
from pathlib import Path

JOBS = """
from tenure import FileStore, Tenure

store = FileStore("payloads")
app = Tenure("redis://127.0.0.1:1", namespace="production", large=store, max_payload=1_000)
sent = []

@app.task
def welcome(email: str) -> None:
    sent.append(email)

@app.task
async def greet(email: str) -> str:
    await welcome.aenqueue(email)
    return email.upper()
"""
TESTS = """
from datetime import UTC, datetime, timedelta
import anyio
import pytest
from jobs import app, greet, sent, store, welcome
from tenure import State

@pytest.fixture
def jobs(tenure_app):
    sent.clear()
    return tenure_app(app)

def test_a_job_runs(jobs):
    job = greet.enqueue("ada")
    jobs.assert_enqueued(greet, email="ada")
    assert jobs.drain().completed == 2
    assert (sent, job.result(timeout=0)) == (["ada"], "ADA")

def test_every_test_begins_without_jobs(jobs):
    assert app.inspect.queues() == []
    welcome.enqueue("left behind" * 1_000)
    assert len(stored()) == 1

def stored():
    return list(store.old(datetime.now(UTC) + timedelta(days=1)))

@pytest.mark.asyncio
async def test_a_job_runs_on_the_loop_of_pytest_asyncio(jobs):
    job = await greet.aenqueue("bob")
    await jobs.aassert_enqueued(greet, email="bob")
    assert (await jobs.adrain()).completed == 2
    assert await job.astate() is State.COMPLETED

@pytest.mark.anyio
async def test_a_job_runs_on_the_loop_of_anyio(jobs):
    await greet.aenqueue("eve")
    await jobs.adrain()
    assert sent == ["eve"]

@pytest.fixture
def anyio_backend():
    return "asyncio"

def test_the_app_has_its_own_settings_again():
    assert stored() == []
    assert app.settings.url == "redis://127.0.0.1:1"
    assert app.settings.namespace == "production"
"""


def test_the_tests_of_a_project_pass_with_warnings_as_errors(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(JOBS)
    (tmp_path / "test_jobs.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout


FORGETFUL = """
import pytest
from jobs import app, welcome
from tenure import NotConfigured, Tenure, Unreachable

def test_guarded():
    with pytest.raises(NotConfigured, match="test_guarded .*uses redis://127.0.0.1:1 outside of a fixture"):
        welcome.enqueue("ada")

async def call():
    await welcome.aenqueue("ada")

def test_guarded_async():
    import asyncio
    with pytest.raises(NotConfigured, match="which tenure_guard forbids"):
        asyncio.run(call())

def test_a_guarded_worker():
    with pytest.raises(NotConfigured, match="which tenure_guard forbids"):
        app.run_worker(burst=True)

def test_fixtures_are_allowed(tenure_app, tenure_server):
    tenure_app(app)
    welcome.enqueue("ada")
    with Tenure(tenure_server.url) as other:
        assert other.inspect.queues() == []

def test_another_redis_that_the_test_names_is_allowed(tenure_server):
    with app.testing().on_redis(tenure_server.url, namespace="own") as jobs:
        welcome.enqueue("ada")
        assert jobs.drain().completed == 1

def test_guarded_again():
    with pytest.raises(NotConfigured):
        welcome.enqueue("ada")
"""
UNGUARDED = """
import pytest
from tenure import Tenure, Unreachable

def test_the_error_names_the_fixture():
    app = Tenure("redis://127.0.0.1:1", patience=0)
    with pytest.raises(Unreachable, match=r"In a test, use the fixture: tenure_app\\(app\\)"):
        app.queue("q").enqueue(b"x")
"""


def test_a_guarded_project_uses_no_other_redis(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(JOBS)
    (tmp_path / "test_forgetful.py").write_text(FORGETFUL)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntenure_guard = true\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed" in done.stdout


def test_without_the_guard_the_error_of_the_connection_names_the_fixture(tmp_path: Path) -> None:
    (tmp_path / "test_unguarded.py").write_text(UNGUARDED)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_importing_the_plugin_loads_nothing_of_tenure_that_works(tmp_path: Path) -> None:
    program = "import sys, tenure.testing.plugin as p; print('redis' in sys.modules, 'tenure.app' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.stdout.split() == ["False", "False"], done.stderr
