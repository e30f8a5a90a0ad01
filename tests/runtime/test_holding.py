"""A job that must not run beside another has one holder at most, in real processes: cut off, stopped, killed."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tenure.core.job import NewJob
from tenure.core.rates import LimitRule
from tenure.core.shape import Shape
from tenure.engines.native.partitions.engine import PartitionedEngine
from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer
from tests.redis.proxy import Proxy
from tests.support import processes

HERE = Path(__file__).parent


class Holder:
    """A worker process whose handler says when it began and when it ended. Its lines are read as they come."""

    def __init__(self, url: str) -> None:
        root = HERE.parent.parent
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "program.py"), url],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": f"{root / 'src'}"},
        )
        self.lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line.strip())

    def says(self, word: str, timeout: float = 90) -> float:
        """Wait until it says this, and answer the number behind it."""
        while True:
            said, _, number = self.lines.get(timeout=timeout).partition(" ")
            if said == word:
                return float(number or 0)

    def close(self) -> None:
        processes.end(self.process)
        self._reader.join(10)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def start() -> Iterator[Callable[[str], Holder]]:
    started: list[Holder] = []

    def start(url: str) -> Holder:
        started.append(Holder(url))
        return started[-1]

    yield start
    for holder in started:
        holder.close()


ALONE = {
    "persistent": Shape(persistent=True),
    "lane": Shape(lane="a"),
    "limit": Shape(limits=(LimitRule("one", concurrency=1),)),
}


def enqueue(url: str, shape: Shape = ALONE["persistent"]) -> None:
    driver = SyncDriver(url)
    job = NewJob("q", "p", b"", task="hold", timeout_ms=0, shape=shape)
    driver.run(PartitionedEngine("tenure").enqueue([job]))
    driver.close()


@pytest.mark.parametrize(("what", "silent"), [("persistent", False), ("lane", True), ("limit", False)])
def test_one_that_is_cut_off_has_ended_before_another_begins(server: RedisServer, start, what, silent):
    """`silent`: packets are swallowed; else connections are closed, too."""
    with Proxy(server.socket_path) as proxy:
        first = start(proxy.url)
        first.says("ready")
        enqueue(server.url, ALONE[what])
        first.says("begin")
        second = start(server.url)
        second.says("ready")
        proxy.hole(new=True)
        if not silent:
            proxy.close()
        began = second.says("begin")
        ended = first.says("end")
    assert ended < began


def test_one_that_was_stopped_ends_at_once_when_it_goes_on(server: RedisServer, start):
    first = start(server.url)
    first.says("ready")
    enqueue(server.url)
    first.says("begin")
    second = start(server.url)
    second.says("ready")
    first.process.send_signal(signal.SIGSTOP)
    second.says("begin")
    went_on = time.monotonic()
    first.process.send_signal(signal.SIGCONT)
    assert first.says("end") - went_on < 1
    second.process.send_signal(signal.SIGTERM)
    first.process.send_signal(signal.SIGTERM)
    assert second.process.wait(10) == first.process.wait(10) == 0


def test_a_stop_hands_it_to_another_at_once(server: RedisServer, start):
    first = start(server.url)
    first.says("ready")
    enqueue(server.url)
    first.says("begin")
    second = start(server.url)
    second.says("ready")
    first.process.send_signal(signal.SIGTERM)
    ended = first.says("end")
    began = second.says("begin")
    assert ended <= began < ended + 1.5
    assert first.process.wait(10) == 0
