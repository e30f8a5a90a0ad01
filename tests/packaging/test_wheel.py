"""The built wheel stands on its own: with its declared dependencies, workers, `dev` and the demo run.

They do so beside packages with modules that are called as those of the standard library."""

import signal
import subprocess
import zipfile

import pytest

from tests.packaging.conftest import ROOT, clean_environment, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

JOBS = """
import os
from tenure import Tenure, State

app = Tenure()

@app.task
def here(number: int) -> int:
    return number + 1

@app.task(run_in="process")
def apart(number: int) -> int:
    return number + (1 if "PYTHONPATH" in os.environ else 2)
"""
ENQUEUE = "from jobs import app, apart, here; here.enqueue(1); apart.enqueue(1); app.close()"
COMPLETED = "from jobs import State, app; print(len(app.inspect.page('default', State.COMPLETED).jobs)); app.close()"
RESULTS = "from jobs import apart, here; print(here.enqueue(1).result(timeout=60), apart.enqueue(1).result(timeout=60))"


def test_the_wheel_has_what_it_needs_and_no_more(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    lua = {path.relative_to(source).as_posix() for path in source.rglob("*.lua")}
    assert lua, "there are no Lua files?"
    prometheus = {f"tenure/integrations/prometheus/{name}" for name in ("alerts.yml", "dashboard.json")}
    assert lua | prometheus | {"tenure/py.typed", "tenure/_version.py"} <= names
    assert [name for name in names if not name.startswith(("tenure/", "tenure-"))] == []
    assert [name for name in names if name.endswith(".pyc")] == []


def test_the_version_is_said_once(wheel, installed, tmp_path):
    text = (ROOT / "src" / "tenure" / "_version.py").read_text()
    version = text.split('__version__ = "')[1].split('"')[0]
    assert wheel.name.startswith(f"tenure-{version}-")
    assert version in run(installed, "--version", cwd=tmp_path)


def test_the_dependencies_declared_are_enough(installed, tmp_path):
    script = (
        "import importlib.metadata, pkgutil, tenure\n"
        "for module in pkgutil.walk_packages(tenure.__path__, 'tenure.', lambda name: None):\n"
        "    extra = module.name.startswith(('tenure.web', 'tenure.outbox', 'tenure.integrations.'))\n"
        "    if extra or '__main__' in module.name: continue\n"
        "    if module.name != 'tenure.testing.plugin': __import__(module.name)\n"
    )
    (tmp_path / "import_all.py").write_text(script)
    run(installed.parent / "python", "-W", "error", tmp_path / "import_all.py", cwd=tmp_path)


def test_the_demo_runs_from_it(installed, tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    for number in range(300):
        (files / f"{number}.txt").write_text(f"line {number}\n" * 200)
    printed = run(installed, "demo", files, cwd=tmp_path)
    assert "300 of 300" in printed


@pytest.mark.parametrize("more", [(), ("--processes", "2")], ids=["alone", "supervised"])
def test_workers_their_keepers_and_job_processes_start_from_it(installed, redis_url, tmp_path, more):
    (tmp_path / "jobs.py").write_text(JOBS)
    run(installed.parent / "python", "-c", ENQUEUE, cwd=tmp_path, TENURE_URL=redis_url)
    run(installed, "worker", "jobs:app", "--burst", *more, cwd=tmp_path, TENURE_URL=redis_url)
    assert run(installed.parent / "python", "-c", COMPLETED, cwd=tmp_path, TENURE_URL=redis_url) == "2\n"


def test_dev_starts_from_it(installed, tmp_path):
    (tmp_path / "jobs.py").write_text(JOBS)
    with subprocess.Popen([installed, "dev", "jobs:app"], cwd=tmp_path, env=clean_environment()) as dev:
        try:
            url = "embedded:.tenure/redis"
            assert run(installed.parent / "python", "-c", RESULTS, cwd=tmp_path, TENURE_URL=url) == "2 3\n"
        finally:
            dev.send_signal(signal.SIGTERM)
            assert dev.wait(60) == 0
