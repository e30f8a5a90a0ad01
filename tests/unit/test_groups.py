"""Job processes as the keeper of a dead worker ends them: with what they started, and never another in their place."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure.processes import system
from tenure.processes import system as parent
from tenure.processes.system import ProcessGroup, group_of
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="it needs /proc")

LEADER = """
import subprocess, time
other = subprocess.Popen(["sleep", "600"])
print(other.pid, flush=True)
sum(range(10**14))  # holds the GIL
"""


class Leader:
    """Leads a session, with one process that it has started."""

    def __init__(self) -> None:
        command = [sys.executable, "-S", "-c", LEADER]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert self.process.stdout is not None
        self.other = int(self.process.stdout.readline())
        found = group_of(self.process.pid)
        assert found is not None
        self.group = found

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def leader() -> Iterator[Leader]:
    leader = Leader()
    yield leader
    asyncio.run(system.end([leader.group], 10))
    leader.close()


def runs(pid: int) -> bool:
    about = parent.stat_of(pid)
    return about is not None and about.state not in (b"Z", b"X")


async def test_it_is_dead_with_all_that_it_started_and_waited_for(leader):
    assert leader.group.is_running
    await system.end([leader.group], 10)
    assert not leader.group.is_running
    until(lambda: not runs(leader.other))
    await system.end([leader.group], 10)  # it is not reaped yet, and nobody waits for it
    leader.process.wait()
    assert not leader.group.is_there


async def test_one_that_is_dead_and_not_reaped_takes_along_what_it_left(leader):
    leader.process.kill()
    until(lambda: not leader.group.is_running)
    assert runs(leader.other)
    await system.end([leader.group], 10)
    until(lambda: not runs(leader.other))


async def test_another_that_has_the_number_by_now_is_left_alone(leader):
    await system.end([ProcessGroup(leader.group.pid, leader.group.began - 1)], 0.1)
    assert leader.process.poll() is None
    assert runs(leader.other)


async def test_one_that_cannot_be_ended_is_waited_for_no_longer_than_that(leader, monkeypatch):
    monkeypatch.setattr(os, "killpg", lambda *_: None)
    began = time.monotonic()
    await system.end([leader.group], 0.2)
    assert 0.2 <= time.monotonic() - began < 5
    monkeypatch.undo()


def test_where_the_system_does_not_tell_nothing_is_known(monkeypatch, tmp_path: Path):
    monkeypatch.setattr(parent, "PROC", str(tmp_path))
    assert group_of(os.getpid()) is None
