"""From an app to its worker: the timeouts of its tasks, and the locks of its machine."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

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


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the locks, which is not there yet."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path / f"tenure-{os.getuid()}"


def test_workers_of_one_user_share_locks_in_a_directory_that_only_this_user_can_enter(folder: Path) -> None:
    one, other = (run._machine_of(Tenure("redis://nowhere.invalid")) for _ in range(2))
    assert one is not None
    assert other is not None
    assert one.want(60)
    assert not other.begin()
    one.close()
    other.close()
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("how", ["other owner", "open to all", "link", "file"])
def test_locks_that_another_user_could_hold_stop_no_worker(
    how: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if how == "link":
        (tmp_path / "private").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "private")
    elif how == "file":
        folder.touch(0o600)
    else:
        folder.mkdir(mode=0o700)
        folder.chmod(0o755 if how == "open to all" else 0o700)
    if how == "other owner":
        monkeypatch.setattr("os.getuid", lambda: os.geteuid() + 1)
        folder.rename(folder.with_name(f"tenure-{os.getuid()}"))
    with caplog.at_level(logging.WARNING, "tenure.worker"):
        assert run._machine_of(Tenure("redis://nowhere.invalid")) is None
    assert "check_failed about=locks" in caplog.text
    assert "Remove the directory" in caplog.text
