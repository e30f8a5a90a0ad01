"""From an app to its worker: the timeouts of its tasks."""

from __future__ import annotations

from tenure.app.run import timeouts_of
from tenure.core.task import TaskSpec
from tenure.processes.overdue import Timeouts


def spec(name: str | None, timeout_ms: int | None, persistent: bool = False) -> TaskSpec:
    return TaskSpec(name, "q", print, False, str.encode, timeout_ms=timeout_ms, persistent=persistent)


def test_how_long_jobs_may_run_that_say_nothing():
    specs = [spec("a", 1_000), spec("b", None), spec("c", None, persistent=True), spec(None, 5)]
    assert timeouts_of(specs) == Timeouts({"a": 1_000, "b": 0, "c": 0}, {"q": 5})
