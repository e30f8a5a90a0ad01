"""One worker process as its supervisor sees it: its last words, its end, and how one is hurried that only waits."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest

from leasehold.processes.child import WorkerProcess
from leasehold.processes.report import WorkerState, WorkerStatus
from leasehold.processes.system import OVER

FORKS = """
import os, socket, sys

tether = socket.socket(fileno=int(sys.argv[1]))
if os.fork() == 0:
    tether.recv(1)  # until the supervisor closes its end
    os._exit(0)
tether.send(sys.argv[2].encode())
os._exit(7)
"""
WAITS = """
import os, signal, sys

signal.signal(signal.SIGTERM, lambda *_: os._exit(7))
os.write(1, b"!")
signal.pause()
"""


class Seen:
    """What a supervisor is told of a process."""

    def __init__(self) -> None:
        self.heard: list[str | None] = []
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def start(self, program: str, *words: str) -> WorkerProcess:
        return await WorkerProcess.start(
            0,
            lambda descriptor: [sys.executable, "-S", "-c", program, str(descriptor), *words],
            lambda child: self.heard.append(child.condition.worker),
            lambda child, status: self.ended.set_result(status),
        )


async def test_what_it_said_last_is_heard_and_a_child_of_its_own_does_not_put_off_its_end(monkeypatch):
    seen = Seen()
    await seen.start(FORKS, WorkerStatus(7, WorkerState.RUNNING, 1.0, 0, "w").to_line().decode())
    async with asyncio.timeout(30):
        assert await seen.ended == 7
    assert seen.heard == ["w"]


@pytest.mark.skipif(not os.path.exists("/proc/self/cmdline"), reason="it needs /proc")
@pytest.mark.parametrize("words", [(), (OVER,)], ids=["works", "waits"])
async def test_only_one_that_waits_for_its_keeper_is_hurried(words, capfd):
    seen = Seen()
    child = await seen.start(WAITS, *words)
    async with asyncio.timeout(30):
        while not capfd.readouterr().out:  # noqa: ASYNC110 - it says so when it can be told
            await asyncio.sleep(0.01)
        assert child.over == bool(words)
        child.hurry()
        if not words:
            child.kill()
        assert await seen.ended == (7 if words else -9)
