"""`manage.py tenure`: a worker for the tasks of a project, and other commands on its app."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings
from sqlalchemy import create_engine

from tenure.integrations.django.management.commands.tenure import TARGET, arguments, environment
from tenure.outbox import Outbox
from tests.support.django_project import Site, site
from tests.support.django_site import tasks

__all__ = ["site"]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def manage(site: Site, tmp_path: Path) -> Callable[..., str]:
    """Calls a command of the project in a process of its own, and returns what it has printed."""
    variables = {
        "DJANGO_SETTINGS_MODULE": "tests.support.django_site.settings",
        "TEST_DATABASE": str(tmp_path / "db.sqlite3"),
        "TENURE_URL": site.url,
        "TENURE_NAMESPACE": site.app.settings.namespace,
    }

    def manage(*words: str) -> str:
        command = [sys.executable, "-m", "django", *words]
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, timeout=90, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    return manage


def test_a_worker_runs_the_tasks_of_the_installed_apps(site: Site, manage: Callable[..., str]) -> None:
    results = [task.enqueue() for task in (tasks.connections, tasks.connections_async) for _ in range(2)]
    log = manage("tenure", "worker", "--burst", "--concurrency", "1")
    for result in results:
        result.refresh()
    assert [result.return_value for result in results] == [[False, True]] * 4
    assert "own-format worker_started" in log
    assert '"completed": 4' in manage("tenure", "info", "default", "--json")


def test_a_worker_logs_as_the_settings_say_and_restarts_on_changes_in_debug() -> None:
    target = f"{TARGET}:app"
    assert arguments("worker", ["-c", "4"], target, reload=True) == ["worker", target, "--log-by-app", "-c", "4"]
    with override_settings(DEBUG=True):
        assert "--reload" in arguments("worker", [], target, reload=True)
        assert "--reload" not in arguments("worker", [], target, reload=False)
        assert "--reload" not in arguments("worker", ["--burst"], target, reload=True)
    assert arguments("jobs", ["mails"], target, reload=True) == ["jobs", "mails", "--app", target]


def test_a_relay_has_the_database_of_the_settings(site: Site, manage: Callable[..., str], tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/db.sqlite3")
    Outbox(site.app).create(engine)
    engine.dispose()
    assert "Outbox tenure_outbox: 0 rows wait" in manage("tenure", "relay", "--status")
    target = f"{TARGET}:outbox"
    assert arguments("sql-clean", ["--older-than", "30d"], "", reload=True) == [
        "sql-clean",
        target,
        "--older-than",
        "30d",
    ]


def test_its_processes_find_the_modules_of_a_project_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "lib")
    monkeypatch.setattr(sys, "argv", ["shop/manage.py", "tenure", "worker"])
    assert environment()["PYTHONPATH"] == f"{os.getcwd()}/shop:lib"
    monkeypatch.setattr(sys, "argv", ["manage.py", "tenure", "worker"])
    assert environment()["PYTHONPATH"] == "lib"


def test_an_unknown_backend_is_refused_with_the_nearest(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandError, match="DJANGO_SETTINGS_MODULE must be set"):
        call_command("tenure", "worker")
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "tests.support.django_site.settings")
    with pytest.raises(CommandError, match=r"TASKS has no 'defualt'\. Did you mean 'default'\?"):
        call_command("tenure", "--backend", "defualt", "worker")
