"""`check_cancelled`, `must_stop` and `progress` without a job: tasks can be called as the functions that they are."""

from __future__ import annotations

import subprocess
import sys

import tenure


def test_outside_of_a_job_they_mean_nothing() -> None:
    tenure.check_cancelled()
    tenure.progress(1, 0, "whatever")
    assert tenure.must_stop() is False


def test_a_task_that_uses_them_can_be_called_directly() -> None:
    app = tenure.Tenure("redis://nowhere.invalid")

    @app.task(name="load")
    def load(rows: int) -> int:
        for row in range(rows):
            tenure.check_cancelled()
            tenure.progress(row + 1, rows)
        return rows

    assert load(3) == 3


def test_they_cost_nothing_until_they_are_used() -> None:
    code = "import sys, tenure; assert 'tenure.runtime' not in sys.modules; tenure.progress(1)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=20)
