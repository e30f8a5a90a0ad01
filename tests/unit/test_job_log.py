"""The lines of jobs in the log: one for each start and each good end, and above 50 jobs a second only their number."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest

from tenure.core.job import ErrorInfo, JobRecord, Lease
from tenure.core.outcome import Completed, Failed
from tenure.runtime.jobs.held import Held
from tenure.runtime.log import JOBS
from tenure.runtime.observe.job_log import JobLog
from tests.runtime.fakes import task

SPEC = task(lambda: None)
SINCE_1970_S = 1_800_000_000.0


class Scene:
    """The log of a worker whose time passes only when a test says so."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, logs_each: bool = False) -> None:
        self.now, self.jobs = 10.0, 0
        self._loop = loop
        loop.time = lambda: self.now  # type: ignore[method-assign]
        wall = lambda: SINCE_1970_S + self.now  # noqa: E731
        self.log = JobLog(lambda: self.jobs, logs_each=logs_each, clock=lambda: self.now, wall=wall)

    def run(self, jobs: int, *, failures: int = 0, took: float = 0.0) -> None:
        """Run jobs that were enqueued two seconds ago."""
        self._loop.run_until_complete(self._run(jobs, failures, took))

    async def _run(self, jobs: int, failures: int, took: float) -> None:
        for _ in range(jobs):
            self.jobs += 1
            record = JobRecord("id", "q", b"", round((SINCE_1970_S + self.now - 2) * 1_000), task="t")
            held = Held(Lease("w", 1, record, failures, 0), ("q", "id", 1), SPEC, self.now)
            held.begin_in_process(self.now)
            self.log.started(held)
            self.now += took
            held.end_at(self.now)
            self.log.settled([(held, Completed())])

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self._loop.run_until_complete(asyncio.sleep(0))


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, JOBS.name)
    return caplog


def test_the_lines_have_the_wait_and_the_duration(loop, lines):
    Scene(loop).run(1, took=0.5)
    started, completed = [one.getMessage() for one in lines.records]
    assert started == "started queue=q task=t id=id attempt=1 waited=2.000"
    assert completed.endswith("id=id seconds=0.500 waited=2.000")


def test_a_retry_has_waited_for_its_time_and_not_for_a_worker(loop, lines):
    Scene(loop).run(1, failures=1)
    assert "waited" not in lines.text


def test_many_jobs_are_counted_once_a_second_until_they_are_fewer(loop, lines):
    scene = Scene(loop)
    scene.run(50)
    assert len(lines.records) == 100
    lines.clear()
    scene.run(80)
    assert not lines.records
    scene.wait(1.0)
    scene.run(3)
    scene.wait(1.0)
    fast, slow = [one.getMessage() for one in lines.records]
    assert fast.startswith("jobs_counted started=80 completed=80 in_s=1.000 ")
    assert slow.startswith("jobs_counted started=3 completed=3 in_s=1.000 ")
    lines.clear()
    scene.run(1)
    assert [one.getMessage().split()[0] for one in lines.records] == ["started", "completed"]


def test_a_slow_queue_has_its_lines_for_ever(loop, lines):
    scene = Scene(loop)
    for _ in range(200):
        scene.run(1, took=0.03)
    assert len(lines.records) == 400


def test_a_worker_that_ends_logs_the_last_count(loop, lines):
    scene = Scene(loop)
    scene.run(60)
    scene.log.worker_stopped(0, False)
    assert lines.records[-1].getMessage().startswith("jobs_counted started=10 completed=10 ")


@pytest.mark.parametrize("ends", [False, True])
def test_a_second_without_a_job_has_no_count(loop, lines, ends):
    scene = Scene(loop)
    scene.run(50)
    lines.clear()
    scene.log.worker_stopped(0, False) if ends else scene.wait(1.0)
    assert not lines.records


def test_each_job_has_its_lines_on_request(loop, lines):
    Scene(loop, logs_each=True).run(300)
    assert len(lines.records) == 600


def fail(scene: Scene, loop: asyncio.AbstractEventLoop, jobs: int, kind: str = "ValueError") -> None:
    async def run() -> None:
        held = Held(Lease("w", 1, JobRecord("id", "q", b"", 0, task="t"), 0, 0), ("q", "id", 1), SPEC, scene.now)
        for _ in range(jobs):
            scene.log.settled([(held, Failed(ErrorInfo(kind, "no", "Traceback")))])

    loop.run_until_complete(run())


def events(lines: pytest.LogCaptureFixture) -> list[str]:
    found = [one.getMessage().split(" message=")[0].split("\n")[0] for one in lines.records]
    lines.clear()
    return [one if one.startswith("errors") else one.split()[0] for one in found]


def test_the_first_errors_of_a_kind_are_logged_in_full_and_the_others_are_counted(loop, lines):
    scene = Scene(loop)
    fail(scene, loop, 7_000)
    assert events(lines) == ["failed", "traceback"] * 5
    fail(scene, loop, 1, "KeyError")
    assert events(lines) == ["failed", "traceback"]
    scene.wait(1.0)
    assert events(lines) == ["errors_counted outcome=failed task=t error=ValueError count=6995"]
    fail(scene, loop, 2)
    scene.wait(1.0)
    assert events(lines) == ["errors_counted outcome=failed task=t error=ValueError count=2"]
    scene.wait(1.0)
    fail(scene, loop, 1)
    assert events(lines) == ["failed", "traceback"]


def test_kinds_of_errors_are_bounded(loop, lines):
    scene = Scene(loop)
    for number in range(1_000):
        fail(scene, loop, 1, f"Error{number}")
    assert len(events(lines)) == 2 * 105
    scene.log.worker_stopped(0, False)
    assert events(lines) == ["errors_counted outcome=failed error='other kinds' count=895"]


def test_each_error_has_its_lines_on_request(loop, lines):
    scene = Scene(loop, logs_each=True)
    fail(scene, loop, 20)
    assert events(lines) == ["failed", "traceback"] * 20
