"""The job processes of a worker that dies: its keeper knows them, and ends them before it gives their jobs back."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tenure.core.shape import Shape
from tenure.engines.native.partitions.engine import PartitionedEngine
from tenure.processes.link import KeeperLink
from tenure.processes.messages import Holdings, Orders
from tenure.processes.system import group_of
from tenure.protocols.registry import engine_spec_of
from tenure.runtime.ports import Exclusive
from tests.runtime.fakes import Rig
from tests.runtime.test_processes import Said, gone, launch_of, rig

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="it needs /proc")


@pytest.fixture
def said(tmp_path: Path) -> Said:
    return Said(tmp_path / "said")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        yield process
        process.kill()


async def told(here: Rig, wanted: Callable[[list[int]], bool]) -> list[int]:
    keeper = here.keeper
    await here.engine.until(lambda: bool(keeper.guarded) and wanted(keeper.guarded[-1]))
    return keeper.guarded[-1]


async def test_it_is_told_before_it_has_a_job_and_when_it_has_ended(said):
    async with rig(launch_of(said), concurrency=2) as here:
        here.engine.add("a", task="hang")
        (pid,) = await said.wait("hang")
        assert here.keeper.guarded == [[pid]]
        here.engine.add("b", task="exit_hard")
        await here.ends("b")
        assert here.keeper.guarded[1][0] != here.keeper.guarded[1][1]
        assert here.keeper.guarded[2] == [pid]
    await gone(pid)
    assert here.keeper.guarded[-1] == []


async def test_it_is_told_which_job_must_not_run_beside_another_while_it_runs(said):
    async with rig(launch_of(said), concurrency=1) as here:
        here.engine.add("a", task="pid", shape=Shape(lane="a"))
        await here.ends("a")
        here.engine.add("b", task="hang")
        (pid,) = await said.wait("hang")
    (told,) = [one for one in here.keeper.exclusive if one]
    assert [(one.pid, one.queue) for one in told] == [(pid, "q")]
    assert here.keeper.exclusive[-1] == []
    assert all(pid in pids for pids in here.keeper.guarded[:-1])


PROGRAM = """
import socket
messages = socket.socket(fileno=0)
while chunk := messages.recv(65536):
    messages.sendall(chunk)
"""
"""In the place of the keeper: it sends back what it gets."""


async def test_each_keeper_that_is_started_is_told_anew(sleeper):
    keeper = KeeperLink(
        "redis://unused", engine_spec_of(PartitionedEngine("tenure")), command=[sys.executable, "-c", PROGRAM]
    )

    async def hears(count: int) -> list[Any]:
        assert keeper._messages is not None
        assert isinstance(await keeper._messages.receive(), Orders)
        return [await keeper._messages.receive() for _ in range(count)]

    group = group_of(sleeper.pid)
    assert group is not None
    exclusive = (Exclusive(sleeper.pid, "q", 1.5),)
    keeper.guard([sleeper.pid], exclusive)
    for _ in range(2):
        await keeper.start("w", ["q"])
        assert await hears(1) == [Holdings(groups=(group,), exclusive=exclusive)]
    keeper.keep(frozenset("q"))
    await keeper.start("w", ["q"])
    keeper.guard([])
    keeper.guard([2**22 + 1])  # no such process
    kept = Holdings(kept=frozenset("q"), groups=(group,), exclusive=exclusive)
    assert await hears(3) == [kept, Holdings(groups=()), Holdings(groups=())]
    await keeper.stop()
