"""`check_cancelled`, `must_stop` and `progress` without a job: tasks can be called as the functions that they are."""

from __future__ import annotations

import subprocess
import sys

import leasehold


def test_outside_of_a_job_they_mean_nothing() -> None:
    leasehold.check_cancelled()
    leasehold.progress(1, 0, "whatever")
    assert leasehold.must_stop() is False


def test_a_task_that_uses_them_can_be_called_directly() -> None:
    app = leasehold.Leasehold("redis://nowhere.invalid")

    @app.task(name="load")
    def load(rows: int) -> int:
        for row in range(rows):
            leasehold.check_cancelled()
            leasehold.progress(row + 1, rows)
        return rows

    assert load(3) == 3


def test_they_cost_nothing_until_they_are_used() -> None:
    code = "import sys, leasehold; assert 'leasehold.runtime' not in sys.modules; leasehold.progress(1)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=20)
