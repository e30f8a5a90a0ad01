"""Workers while Redis refuses all writes (MISCONF), because a snapshot could not be written."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable

import pytest

from tenure import Tenure as App
from tenure.app.run import inspect_redis
from tenure.manage import checks
from tenure.testing.server import RedisServer
from tests.acceptance.conftest import Tenure
from tests.support.waiting import until

JOBS = """
import os
import time
from pathlib import Path

from tenure import Tenure

app = Tenure()

@app.task
def wait_for(name: str) -> str:
    Path("begun").touch()
    while not os.path.exists(name):
        time.sleep(0.01)
    return name
"""
REFUSED_BEATS = 100
"""More than a keeper and its successors would live through: one refusal ended each of them, and six the worker."""

pytestmark = pytest.mark.usefixtures("jobs")


class Snapshots:
    """Of a server whose snapshots fail while there is a folder in the place of the file."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._file = server.directory / "dump.rdb"
        server.command("CONFIG", "SET", "save", "3600 1000000")

    def fail(self) -> None:
        self._file.unlink(missing_ok=True)
        self._file.mkdir()
        self._save("err")

    def succeed(self) -> None:
        self._file.rmdir()
        self._save("ok")

    def refused(self) -> int:
        """Return how many commands the server has refused. Redis 6.2 counts MISCONF in a script as ERR."""
        return sum(map(int, re.findall(rb"errorstat_\w+:count=(\d+)", self._server.command("INFO", "errorstats"))))

    def _save(self, status: str) -> None:
        self._server.command("BGSAVE")
        expected = f"rdb_last_bgsave_status:{status}\r\n".encode()
        until(lambda: expected in self._server.command("INFO", "persistence"))


@pytest.mark.slow
def test_workers_wait_and_resume_and_one_that_starts_meanwhile_says_why_it_waits(
    tenure: Tenure, make_server: Callable[..., RedisServer], tmp_path
):
    server = make_server(aof=False)
    snapshots = Snapshots(server)
    with App(server.url) as app:

        @app.task(name="jobs.wait_for")
        def wait_for(name: str) -> str: ...

        running = tenure("worker", "jobs:app", url=server.url)
        first = wait_for.enqueue("first")
        until((tmp_path / "begun").exists)
        snapshots.fail()
        (tmp_path / "first").touch()
        started = tenure("worker", "jobs:app", url=server.url)
        started.wait_for("check_failed about=writes").wait_for("redis_lost what=heartbeat").wait_for("MISCONF")
        running.wait_for("redis_lost what=heartbeat").wait_for("redis_refused what=settle")
        before = snapshots.refused()
        until(lambda: snapshots.refused() >= before + REFUSED_BEATS or ended(running) or ended(started))
        assert not ended(running), running.err
        assert not ended(started), started.err

        snapshots.succeed()
        assert first.result(timeout=120) == "first"
        (tmp_path / "second").touch()
        running.signal(signal.SIGTERM).end()
        assert wait_for.enqueue("second").result(timeout=120) == "second", "by the other one"
        started.wait_for("redis_restored what=heartbeat").signal(signal.SIGTERM).end()


async def test_a_check_with_a_slow_wait_reports_it_too(
    make_server: Callable[..., RedisServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine the check calls Redis once more while it waits: a worker ended with that error."""
    server = make_server(aof=False)
    Snapshots(server).fail()
    monkeypatch.setattr(checks, "WAKE_MS", 0)
    with App(server.url) as app:
        inspection = await inspect_redis(app, 1.0)
    assert any("refused to write" in error for error in inspection.errors)
    assert inspection.refusals() == ()


@pytest.mark.slow
def test_a_burst_ends_with_an_error(tenure: Tenure, make_server: Callable[..., RedisServer]):
    server = make_server(aof=False)
    Snapshots(server).fail()
    run = tenure("worker", "jobs:app", "--burst", "--wait-for-redis", "0.5", url=server.url).end(1)
    assert "Redis has refused this worker for 0.5 s" in run.err


def ended(worker) -> bool:
    return worker.process.poll() is not None
