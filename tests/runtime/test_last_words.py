"""What a worker says just before its end, while its keeper is in the middle of a beat: it decides about its jobs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any, cast

import pytest

from leasehold.core import limits
from leasehold.core.engine import HeartbeatReply, Timing
from leasehold.core.errors import Unreachable
from leasehold.engines.native import NativeEngine
from leasehold.engines.native.engine import NativeConfig
from leasehold.processes.keeper.main import BEQUEST_MS, KeeperProcess, Pipe
from leasehold.processes.keeper.messages import BEQUESTS, GOODBYE, Orders
from leasehold.processes.system import Parent
from leasehold.protocols.registry import engine_spec_of


class Dying(Parent):
    """A worker that says something while a beat is under way, and is dead when it has."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.ended = False

    @property
    def signs(self) -> list[int]:
        return []

    @property
    def dead(self) -> bool:
        return self.ended


class Redis:
    """Knows what the worker held. The first beat is long: `meanwhile` happens in it."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self._meanwhile = meanwhile
        self.left: list[bool] = []

    def run(self, asked: Any) -> Any:
        if isinstance(asked, bool):
            self.left.append(asked)
            return 1
        self._meanwhile()
        return HeartbeatReply(), ""


class Engine(NativeEngine):
    def heartbeat(self, *_: Any) -> Any:
        return None

    def leave(self, worker: str, queues: Sequence[str], crashed: bool = False) -> Any:
        return crashed


@pytest.fixture
def ends() -> Iterator[tuple[int, int, int, int]]:
    """The two pipes: what the keeper reads, what the worker writes; what the worker reads, what the keeper writes."""
    alarm = cast("Callable[[int, FrameType | None], Any]", signal.getsignal(signal.SIGALRM))
    made = (*os.pipe(), *os.pipe())
    yield made
    signal.signal(signal.SIGALRM, alarm)
    for one in (made[0], made[3]):
        os.close(one)


@pytest.mark.parametrize("order", ["stdin first", "stdout first"])
@pytest.mark.parametrize(
    ("said", "left"), [([BEQUESTS[False]], [False]), ([BEQUESTS[True]], [True]), ([GOODBYE], []), ([], [True])]
)
def test_they_are_heard_though_nobody_reads_its_reports_any_more(ends, said, left, order):
    stdin, to_keeper, from_keeper, stdout = ends
    parent = Dying()

    def die() -> None:
        for line in said:
            os.write(to_keeper, line + b"\n")
        os.close(from_keeper)
        if order == "stdin first":
            os.close(to_keeper)
        parent.ended = True

    engine, redis = Engine("lh", NativeConfig(timing=Timing(lease_ms=10_000))), Redis(die)
    orders = Orders("redis://unused", engine_spec_of(NativeEngine("lh")), "w", ("q",), parent.pid)
    KeeperProcess(orders, parent, Pipe(parent, stdin, stdout), engine, cast("Any", redis)).run()
    if order == "stdout first":  # as when the process takes its time to end
        os.close(to_keeper)
    assert redis.left == left


@pytest.mark.parametrize("away", [True, False])
def test_it_says_what_has_become_of_them(ends, monkeypatch, caplog, away):
    for user in ("processes.keeper.main", "processes.system"):
        monkeypatch.setattr(f"leasehold.{user}.HAND_BACK_MS", 0)
    stdin, to_keeper, from_keeper, stdout = ends
    parent = Dying()

    class Away(Redis):
        def run(self, asked: Any) -> Any:
            if away and isinstance(asked, bool):
                raise Unreachable("gone")
            return super().run(asked)

    def die() -> None:
        os.write(to_keeper, BEQUESTS[False] + b"\n")
        for one in (from_keeper, to_keeper):
            os.close(one)
        parent.ended = True

    engine, redis = Engine("lh", NativeConfig(timing=Timing(lease_ms=10_000))), Away(die)
    orders = Orders("redis://unused", engine_spec_of(NativeEngine("lh")), "w", ("q",), parent.pid)
    KeeperProcess(orders, parent, Pipe(parent, stdin, stdout), engine, cast("Any", redis)).run()
    said = "bequest_lapses worker=w not_given_back=gone" if away else "bequeathed worker=w given_back=1"
    assert caplog.messages == [said]


class Replaced(Dying):
    """A worker that goes on as the program that waits for its keeper, while a child of a handler holds its pipes."""

    @property
    def over(self) -> bool:
        return self.ended

    @property
    def dead(self) -> bool:
        return False


def test_a_child_that_a_handler_forked_does_not_hide_that_the_worker_is_over(ends):
    stdin, to_keeper, from_keeper, stdout = ends
    parent = Replaced()

    def replaced() -> None:
        os.write(to_keeper, BEQUESTS[False] + b"\n")
        parent.ended = True

    engine, redis = Engine("lh", NativeConfig(timing=Timing(lease_ms=10_000))), Redis(replaced)
    orders = Orders("redis://unused", engine_spec_of(NativeEngine("lh")), "w", ("q",), parent.pid)
    began = time.monotonic()
    KeeperProcess(orders, parent, Pipe(parent, stdin, stdout), engine, cast("Any", redis)).run()
    assert redis.left == [False]
    assert time.monotonic() - began < BEQUEST_MS / limits.SECOND / 2
    for one in (to_keeper, from_keeper):
        os.close(one)
