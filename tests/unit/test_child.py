"""One worker process as its parent sees it: its last messages, its leases and its end."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from tenure.core.job import NewJob, State
from tenure.engines.native.partitions.engine import PartitionedEngine
from tenure.processes.child import WorkerProcess
from tenure.processes.keeper import keeper_driver
from tenure.processes.messages import Orders, StatusReport, WorkerState, encode
from tenure.processes.spawn import spawn
from tenure.protocols.registry import engine_spec_of

FORKS = """
import os, socket, sys

messages = socket.socket(fileno=int(sys.argv[1]))
if os.fork() == 0:
    messages.recv(1)  # until the parent closes its end
    os._exit(0)
messages.send(sys.argv[2].encode())
os._exit(7)
"""
SAYS = """
import os, socket, sys

messages = socket.socket(fileno=int(sys.argv[1]))
messages.send(sys.argv[2].encode())
for line in messages.makefile():
    os._exit(9)
os.write(1, b"closed")
os._exit(8)
"""


class Seen:
    """What a parent is told of a process."""

    def __init__(self) -> None:
        self.heard: list[str | None] = []
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.driver: Any = None

    async def start(self, program: str, *words: str) -> WorkerProcess:
        def command(descriptor: int) -> list[str]:
            return [sys.executable, "-S", "-c", program, str(descriptor), *words]

        spawned = spawn(command, is_alone=False)
        child = await WorkerProcess.open(0, spawned, lambda url: self.driver)
        child.follow(lambda child: self.heard.append(child.status.worker), lambda _, how: self.ended.set_result(how))
        return child


async def test_what_it_said_last_is_heard_and_a_child_of_its_own_does_not_put_off_its_end():
    seen = Seen()
    await seen.start(FORKS, encode(StatusReport(7, WorkerState.RUNNING, 1.0, 0, "w")).decode())
    async with asyncio.timeout(30):
        assert await seen.ended == 7
    assert seen.heard == ["w"]


async def test_its_jobs_are_released_when_it_has_died(redis_url):
    engine, seen = PartitionedEngine("tenure"), Seen()
    seen.driver = keeper_driver(redis_url)
    await seen.driver.run(engine.enqueue([NewJob("q", "a", b"")]))
    await seen.driver.run(engine.lease("w", ["q"], 1))
    child = await seen.start(SAYS, encode(Orders(redis_url, engine_spec_of(engine), "w", ("q",), 1)).decode())
    async with asyncio.timeout(30):
        assert await seen.ended == 9  # it has had a report
        assert child.keeping is not None
        await child.keeping
    view = await seen.driver.run(engine.job("q", "a"))
    assert (view.state, view.crashes) == (State.READY, 1)
    await seen.driver.close()


async def test_a_keeper_that_fails_closes_the_socket_and_ends_nothing_else(capfd, caplog):
    seen = Seen()
    await seen.start(SAYS, encode(Orders("redis://unused", {"protocol": "no such"}, "w", ("q",), 1)).decode())
    async with asyncio.timeout(30):
        assert await seen.ended == 8
    assert capfd.readouterr().out == "closed"
    assert "keeper_lost" in caplog.text
