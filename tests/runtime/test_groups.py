"""The job processes of a worker that dies: its keeper knows them, and ends them before it gives their jobs back."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from leasehold.core.engine import Timing
from leasehold.engines.native import NativeEngine
from leasehold.engines.native.engine import NativeConfig
from leasehold.processes.keeper import handle
from leasehold.processes.keeper.handle import ProcessKeeper
from leasehold.processes.keeper.main import KeeperProcess, Pipe
from leasehold.processes.keeper.messages import BEQUESTS, GOODBYE, Orders, Snapshot
from leasehold.processes.system import group_of
from leasehold.protocols.registry import engine_spec_of
from tests.runtime.fakes import Rig
from tests.runtime.test_last_words import Dying, Engine, Redis
from tests.runtime.test_last_words import ends as ends
from tests.runtime.test_processes import Said, alive, first, gone, launch_of, rig

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="it needs /proc")


@pytest.fixture
def said(tmp_path: Path) -> Said:
    return Said(tmp_path / "said")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        yield process
        process.kill()


@pytest.mark.parametrize(
    ("said", "left"), [([], [False]), ([BEQUESTS[False]], [False]), ([GOODBYE], []), ([b"[null,null,[]]"], [True])]
)
def test_it_is_dead_when_its_job_is_given_back_unless_it_had_ended_or_its_worker_did_so_in_order(
    ends, sleeper, said, left
):
    """`left`: whether it ran when the jobs were given back."""
    stdin, to_keeper, from_keeper, stdout = ends
    parent, group, seen = Dying(), group_of(sleeper.pid), []
    assert group is not None

    class Seeing(Redis):
        def run(self, asked: Any) -> Any:
            if isinstance(asked, bool):
                seen.append(alive(sleeper.pid))
            return super().run(asked)

    def die() -> None:
        for line in (Snapshot(groups=(group,)).to_line(), *(line + b"\n" for line in said)):
            os.write(to_keeper, line)
        for one in (to_keeper, from_keeper):
            os.close(one)
        parent.ended = True

    engine, redis = Engine("lh", NativeConfig(timing=Timing(lease_ms=10_000))), Seeing(die)
    orders = Orders("redis://unused", engine_spec_of(NativeEngine("lh")), "w", ("q",), parent.pid)
    KeeperProcess(orders, parent, Pipe(parent, stdin, stdout), engine, cast("Any", redis)).run()
    assert seen == left
    assert alive(sleeper.pid) is (said != [] and said != [BEQUESTS[False]])


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
        await first(here, "b")
        assert here.keeper.guarded[1][0] != here.keeper.guarded[1][1]
        assert here.keeper.guarded[2] == [pid]
    await gone(pid)
    assert here.keeper.guarded[-1] == []


async def test_each_keeper_that_is_started_is_told_anew(sleeper, monkeypatch):
    """`cat` in the place of the keeper: what it is told it says."""
    monkeypatch.setattr(handle, "command_of", lambda module: ["cat"])
    keeper = ProcessKeeper("redis://unused", engine_spec_of(NativeEngine("lh")))

    async def hears() -> list[Snapshot]:
        assert keeper._stdin is not None
        assert keeper._reports is not None
        keeper._stdin.write_eof()
        _, *lines = (await keeper._reports.read()).splitlines()
        return [Snapshot.from_line(line) for line in lines]

    group = group_of(sleeper.pid)
    assert group is not None
    keeper.guard([sleeper.pid])
    for _ in range(2):
        await keeper.start("w", ["q"])
        assert await hears() == [Snapshot(groups=(group,))]
    await keeper.start("w", ["q"])
    keeper.guard([])
    keeper.guard([2**22 + 1])  # no such process
    assert await hears() == [Snapshot(groups=(group,)), Snapshot(groups=()), Snapshot(groups=())]
    await keeper.stop()
