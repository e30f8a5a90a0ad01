"""Every error that Redis may answer, to every loop of a worker and of its keeper: none ends a process that could wait.

The real driver, engine and scripts; a proxy answers in the place of Redis.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from tenure.core import events
from tenure.core.clock import lease_clock
from tenure.core.engine import Timing
from tenure.core.errors import AccessDenied, ReplyError, WrongState
from tenure.core.job import NewJob, State
from tenure.engines.native.engine import NativeConfig
from tenure.engines.native.partitions.engine import PartitionedEngine
from tenure.engines.native.scripts import SCRIPTS
from tenure.manage.preflight import inspect_server
from tenure.processes.link import KeeperLink
from tenure.processes.messages import Orders, encode
from tenure.protocols.registry import engine_spec_of
from tenure.redis.aio import AsyncDriver
from tenure.redis.replies import action_for
from tenure.redis.sync import SyncDriver
from tenure.runtime.assembly import UserCode, WorkerSettings
from tenure.runtime.jobs.job import current_job
from tenure.runtime.ports import Env
from tenure.runtime.shutdown import ExitStatus
from tenure.runtime.worker import Worker
from tenure.testing.server import RedisServer
from tests.redis.proxy import Proxy
from tests.runtime.fakes import FakeKeeper, task
from tests.support.replies import ERROR_REPLIES
from tests.support.waiting import until

REPLIES: Final[dict[str, bytes | None]] = {
    **{name: f"-{text}\r\n".encode() for name, text in ERROR_REPLIES.items()},
    "connection reset": b"",
    "timeout": None,
}
LOOPS: Final = {
    "fetch": SCRIPTS["claim"].sha.encode(),
    "fetch, waiting": b"BLPOP",
    "settle": SCRIPTS["settle_full"].sha.encode(),  # a job that reports its progress is more than plain
    "maintain": SCRIPTS["maintain"].sha.encode(),
    "present": SCRIPTS["announce"].sha.encode(),
    "report": SCRIPTS["progress"].sha.encode(),
    "listen": b"SUBSCRIBE",
    "listen, asking": SCRIPTS["heartbeat"].sha.encode(),
}
"""The loops of a worker that talk to Redis, and what they send."""
FOR_PEOPLE: Final = frozenset(
    {"NOAUTH", "WRONGPASS", "NOPERM", "WRONGTYPE", "NOSCRIPT", "MOVED", "ASK", "CROSSSLOT", "EXECABORT", "unknown"}
)
"""What ends a worker that starts, with a message: somebody is there who has just started it."""
LEAVE: Final = SCRIPTS["leave"].sha.encode()
TIMES: Final = 3
"""So often each of them is refused."""
FAST_S: Final = 0.005
FAST: Final = Timing(lease_ms=300_000, grace_ms=100_000, idle_wait_ms=20, maintain_ms=20, presence_ms=20)


@pytest.fixture
def proxy(server: RedisServer) -> Iterator[Proxy]:
    with Proxy(server.socket_path) as proxy:
        yield proxy


class Scene:
    """A worker behind a proxy, with a job that tells its progress all the time."""

    def __init__(self, proxy: Proxy, server: RedisServer, reply_ms: int) -> None:
        self.proxy = proxy
        self.engine = PartitionedEngine("tenure", NativeConfig(timing=FAST))
        self.client = AsyncDriver(server.url)
        self.driver = AsyncDriver(proxy.url, patience_ms=50, reply_timeout_ms=reply_ms)
        self.keeper = FakeKeeper()
        self.working: asyncio.Task[ExitStatus] | None = None
        self.jobs = 0
        self.pause_s = FAST_S
        """The longest of the worker's pauses."""
        self._server = server
        self.worker = Worker(
            self.engine,
            self.driver,
            UserCode(
                [task(lambda: None), task(_tell, name="tell")],
                [events.Listener((events.Event,), lambda event: None)],
            ),
            WorkerSettings(["q"], grace_ms=0, signals=False),
            keeper=self.keeper,
            env=Env(sleep=lambda seconds: asyncio.sleep(min(seconds, self.pause_s))),
        )

    async def add(self, id: str, task: str) -> None:
        await self.client.run(self.engine.enqueue([NewJob("q", id, b"", task=task)]))

    async def done(self, id: str) -> None:
        while (view := await self.client.run(self.engine.job("q", id))) is None or view.state is not State.COMPLETED:
            self.keeper.beat()
            await asyncio.sleep(4 * FAST_S)

    async def refused(self, times: int) -> None:
        """Until so many more requests were refused. Each round has a job to run, and something for the listener."""
        goal = self.proxy.refused + times
        while self.proxy.refused < goal:
            self.jobs += 1
            await self.add(str(self.jobs), "t")
            self._server.command("PUBLISH", self.engine.signal_channel(self.worker.id), "q")
            self.keeper.beat()
            await asyncio.sleep(4 * FAST_S)


async def _tell() -> None:
    job, number = current_job(), 0
    assert job is not None
    while True:
        number += 1
        job.progress(number)
        await asyncio.sleep(FAST_S)


@asynccontextmanager
async def scene(proxy: Proxy, server: RedisServer, reply_ms: int) -> AsyncIterator[Scene]:
    here = Scene(proxy, server, reply_ms)
    try:
        yield here
    finally:
        proxy.refuse = {}
        here.worker.stop_hard()
        if here.working is not None:
            await here.working
        await here.driver.close()
        await here.client.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a connection, see the end
@pytest.mark.parametrize("name", REPLIES)
async def test_no_reply_ends_a_worker(name: str, proxy: Proxy, server: RedisServer, caplog: pytest.LogCaptureFixture):
    reply = REPLIES[name]
    caplog.set_level(logging.INFO)
    # A reply that never comes is waited for; one that only comes late, from a busy machine, is not given up.
    reply_ms, times = (1_000, 1) if reply is None else (5_000, TIMES)
    async with scene(proxy, server, reply_ms) as here, asyncio.timeout(150):
        proxy.refuse = {LOOPS["listen"]: reply}
        working = here.working = asyncio.create_task(here.worker.run())
        await here.refused(times)
        proxy.refuse = {}
        await here.add("telling", "tell")
        for loop, marker in LOOPS.items():
            if loop == "listen":
                continue
            proxy.refuse = {marker: reply}
            await here.refused(times)
            assert not working.done(), loop
            proxy.refuse = {}
            await here.done(str(here.jobs))
        here.pause_s = 60
        await asyncio.sleep(10 * FAST_S)  # one that is being made as the loop ends is never closed
        proxy.refuse = {LEAVE: reply}
        here.worker.stop()
        assert await working in (ExitStatus.OK, ExitStatus.ABANDONED)
    assert not re.search("loop_failed (?!loop=shutdown)", caplog.text)
    assert "CRITICAL" not in caplog.text


@pytest.mark.parametrize("name", REPLIES)
async def test_a_start_waits_as_a_worker_that_runs_does_but_for_what_only_people_can_mend(
    name: str, proxy: Proxy, server: RedisServer
):
    """What the start asks Redis first. The driver tries on for as long as it is told to."""
    reply = REPLIES[name]
    driver = AsyncDriver(proxy.url, patience_ms=60_000, reply_timeout_ms=300 if reply is None else 5_000)
    proxy.refuse = {b"PING": reply}
    looking = asyncio.create_task(driver.run(inspect_server(clustered=False)))
    while proxy.refused < 2 and not looking.done():  # noqa: ASYNC110 - the proxy runs in threads
        await asyncio.sleep(FAST_S)
    proxy.refuse = {}
    try:
        if name in FOR_PEOPLE:
            with pytest.raises((AccessDenied, WrongState, ReplyError)):
                await looking
        else:
            found = await looking
            assert found.refusals() == ()
            assert ("writes" in {one.name for one in found.findings}) == (name in ("OOM", "MISCONF"))
    finally:
        await driver.close()


async def test_no_reply_ends_a_keeper(proxy: Proxy, server: RedisServer):
    """One process for all of them. It says that it is there, and what is wrong."""
    engine = PartitionedEngine("tenure", NativeConfig(timing=Timing(beat_ms=50)))
    keeper = KeeperLink(proxy.url, engine_spec_of(engine))
    await keeper.start("w", ["q"])
    pid = keeper.pid
    try:
        await _good_beat(keeper)
        for reply in REPLIES.values():
            goal = proxy.refused + TIMES
            proxy.refuse = {LOOPS["listen, asking"]: reply}
            while proxy.refused < goal:
                await _report(keeper)
            proxy.refuse = {}
            await _good_beat(keeper)
        assert keeper.pid == pid
    finally:
        await keeper.stop()


async def _good_beat(keeper: KeeperLink) -> None:
    before = lease_clock()
    while min(keeper.kept_at.values(), default=0.0) <= before:
        await _report(keeper)


async def _report(keeper: KeeperLink) -> None:
    """Wait for a report. A keeper sends one several times a second; a stopped keeper is a failure and no hang."""
    async with asyncio.timeout(30):
        await keeper.report()


def test_no_reply_keeps_a_keeper_from_giving_back_what_a_dead_worker_held(server: RedisServer):
    """Redis answers so at first: one reply of each kind, as each has its process.

    The keepers see at once that the process they are for is not their parent.
    """
    kinds = {action_for(name): name for name in ERROR_REPLIES}
    engine, client = PartitionedEngine("tenure", NativeConfig(timing=FAST)), SyncDriver(server.url)

    def give_back(name: str) -> None:
        client.run(engine.enqueue([NewJob(name, "a", b"")]))
        client.run(engine.lease(f"worker {name}", [name], 1))
        with Proxy(server.socket_path) as proxy:
            proxy.refuse = {LEAVE: REPLIES[name]}
            orders = Orders(proxy.url, engine_spec_of(engine), f"worker {name}", (name,), os.getppid())
            ours, theirs = socket.socketpair()
            with ours, theirs:
                keeper = subprocess.Popen(
                    [sys.executable, "-m", "tenure.processes.keeper"], stdin=theirs.fileno(), stderr=subprocess.PIPE
                )
                ours.sendall(encode(orders))
            until(_either(lambda: proxy.refused >= 2, keeper))
            proxy.refuse = {}
            _, said = keeper.communicate(timeout=60)
            assert (keeper.returncode, b"worker_died" in said) == (0, True), (name, said)
        view = client.run(engine.job(name, "a"))
        assert view is not None
        assert (view.state, view.crashes) == (State.READY, 1), (name, said)

    with ThreadPoolExecutor(4) as pool:
        for _ in pool.map(give_back, ["connection reset", "timeout", *kinds.values()]):
            pass
    client.close()


def _either(condition: Callable[[], bool], process: subprocess.Popen[Any]) -> Callable[[], bool]:
    return lambda: condition() or process.poll() is not None
