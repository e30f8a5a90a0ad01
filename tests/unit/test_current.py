"""`check_cancelled`, `must_stop` and `progress` without a job: tasks can be called as the functions that they are."""

from __future__ import annotations

import subprocess
import sys

import tenure
from tenure.testing.server import RedisServer


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


def test_a_blocking_producer_loads_no_event_loop_no_worker_and_no_client_of_redis(server: RedisServer) -> None:
    script = f"""
import sys, tenure
app = tenure.Tenure({server.url!r})
@app.task
def send(name: str) -> None: ...
send.enqueue("x")
slow = {{"asyncio", "redis", "cronsim", "tenure.runtime", "tenure.manage", "tenure.core.events"}}
assert not slow & sys.modules.keys(), slow & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
