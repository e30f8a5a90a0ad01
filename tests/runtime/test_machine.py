"""Worker processes of one machine: while one of them runs a job alone, the others begin none."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tenure import Tenure
from tenure.app.run import WorkerOptions, run_worker
from tenure.core.engine import Alone
from tenure.runtime.machine import Machine
from tenure.runtime.ports import Env
from tests.runtime.fakes import Gate, Rig, gated

HOLDS = """
import os, sys, time
from pathlib import Path
from tenure.runtime.machine import Machine
machine = Machine(Path(sys.argv[1]))
assert machine.want(600)
if os.fork() == 0:
    print(os.getpid(), flush=True)
time.sleep(600)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "machine"


def test_who_wants_to_run_a_job_alone_keeps_the_others_from_beginning_any(path: Path) -> None:
    one, other = Machine(path), Machine(path)
    assert one.begin()
    assert other.begin()
    assert one.want(60)
    assert not other.begin()
    assert not other.want(60)
    assert one.begin(), "not itself"
    one.release()
    assert other.begin()


def test_it_waits_until_what_began_lately_is_over(path: Path) -> None:
    one, other = Machine(path), Machine(path)
    assert other.begin()
    assert one.want(60)
    assert not one.is_quiet()
    other.settle()
    assert one.is_quiet()
    assert not other.begin()


def test_after_one_job_alone_it_is_the_turn_of_others_on_all_of_the_machine(path: Path) -> None:
    now = 1_000_000.0
    one, other = Machine(path, lambda: now), Machine(path, lambda: now)
    assert one.want(60)
    one.release(turn_s=15)
    assert other.begin()
    assert not other.want(60)
    now += 16
    assert other.want(60)
    other.release(turn_s=15)
    one.end_turn()
    assert one.want(60), "there were none"


def test_one_that_is_stopped_keeps_the_others_for_its_time_only(path: Path) -> None:
    now = 1_000_000.0
    one, other = Machine(path, lambda: now), Machine(path, lambda: now)
    assert one.want(20)
    assert not other.begin()
    now += 21
    assert other.begin()
    assert one.want(20), "it goes on"
    assert not other.begin()


def test_a_clock_that_was_set_back_keeps_nobody(path: Path) -> None:
    now = 1_000_000.0
    one, other = Machine(path, lambda: now), Machine(path, lambda: now)
    assert one.want(20)
    now -= 86_400
    assert other.begin()


def test_a_process_that_dies_keeps_nobody_nor_does_a_child_that_it_has_forked(path: Path) -> None:
    command = [sys.executable, "-c", HOLDS, str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    child = 0
    try:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        machine = Machine(path)
        assert not machine.begin()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert machine.begin()
        assert machine.want(60)
    finally:
        process.kill()
        if child:
            os.kill(child, signal.SIGKILL)
        process.communicate()


def test_where_there_can_be_no_such_file_nobody_is_kept(tmp_path: Path) -> None:
    one, other = Machine(tmp_path / "no" / "a"), Machine(tmp_path / "no" / "a")
    assert one.want(60)
    assert other.begin()
    assert other.is_quiet()


async def test_a_worker_begins_nothing_while_another_runs_a_job_alone(path: Path) -> None:
    first, second = Gate(), Gate()

    def rig(gate: Gate) -> Any:
        return Rig(gated(gate), concurrency=4, env=Env(machine=Machine(path)))

    async with rig(first) as one, rig(second) as other:
        other.engine.add("before")
        await second.begun.get()
        one.engine.alone |= {"a"}
        one.engine.add("a", crashes=4)
        await one.engine.until(lambda: one.engine.reserved > 3)
        assert Alone.NOW not in one.engine.companies, "a job of the other has begun lately"
        other.engine.add("after")
        claims = other.engine.calls.count("lease")
        second.open.set()
        assert await first.begun.get() == "a"
        assert other.engine.calls.count("lease") == claims
        assert second.begun.empty()
        first.open.set()
        await other.settled(2)
        await one.settled(1)


def test_a_worker_that_ended_in_a_program_leaves_the_machine_to_others(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Tenure(redis_url) as app:

        @app.task(name="ping")
        async def ping() -> None: ...

        ping.enqueue()
        asyncio.run(run_worker(app, WorkerOptions(burst=True, signals=False)))
    (busy,) = tmp_path.glob("*/*.busy")
    assert busy.parent.stat().st_mode & 0o777 == 0o700
    assert not any(file.samefile(busy) for file in Path("/proc/self/fd").iterdir() if file.exists())
