"""From an app to its worker: the timeouts of its tasks, and the locks of its machine."""

from __future__ import annotations

from tenure import Tenure
from tenure.app import run
from tenure.app.run import timeouts_of
from tenure.core.task import TaskSpec
from tenure.processes.overdue import Timeouts


def spec(name: str | None, timeout_ms: int | None, persistent: bool = False) -> TaskSpec:
    return TaskSpec(name, "q", print, False, str.encode, timeout_ms=timeout_ms, persistent=persistent)


def test_how_long_jobs_may_run_that_say_nothing():
    specs = [spec("a", 1_000), spec("b", None), spec("c", None, persistent=True), spec(None, 5)]
    assert timeouts_of(specs) == Timeouts({"a": 1_000, "b": 0, "c": 0}, {"q": 5})


def test_without_a_directory_for_temporary_files_a_worker_shares_no_lock(monkeypatch):
    """As in a container whose file system is read-only: each process is a machine of its own then."""

    def none() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", none)
    assert run._machine_of(Tenure("redis://nowhere.invalid")) is None
