"""What a worker may be told: its options."""

from __future__ import annotations

from typing import Any

import pytest

from leasehold import Leasehold
from leasehold.app import run
from leasehold.app.run import WorkerOptions, timeouts_of
from leasehold.core.errors import InvalidArgument
from leasehold.core.task import TaskSpec
from leasehold.processes.overdue import Timeouts


def test_queues_with_weights():
    options = WorkerOptions(("critical", "default"), weights={"critical": 5})
    assert options.weights == {"critical": 5}


@pytest.mark.parametrize("weights", [{"q": 0}, {"q": 101}, {"q": 1.5}, {"q": True}, {"": 1}, {"q": None}])
def test_weights_that_cannot_be_right(weights: dict[str, Any]):
    with pytest.raises(InvalidArgument):
        WorkerOptions(("q",), weights=weights)


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
    assert run._machine_of(Leasehold("redis://nowhere.invalid")) is None
