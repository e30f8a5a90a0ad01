"""What the worker needs from outside: a driver, a keeper, a clock. Small protocols: tests bring their own."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from leasehold.core.clock import lease_clock
from leasehold.core.engine import HeartbeatReply
from leasehold.core.job import LeaseRef
from leasehold.core.steps import Steps, Watcher
from leasehold.runtime.machine import Machine

T = TypeVar("T")


class Messages(Protocol):
    """What a subscription gives: the next message, or None after the timeout. Any of them may be lost."""

    async def get(self, timeout_s: float) -> bytes | None: ...


class Driver(Protocol):
    """Runs an engine's steps. Cancelling `run` is allowed; what it was doing may have taken place or not."""

    async def run(self, steps: Steps[T]) -> T: ...

    def subscribe(self, channel: str) -> AbstractAsyncContextManager[Messages]:
        """Listen on a channel, across lost connections. To enter it again while it is open costs nothing."""
        ...


class WatchedDriver(Driver, Protocol):
    """One that also says whether Redis answers."""

    def watch(self, watcher: Watcher) -> None:
        """Have this called, on the event loop, as soon as Redis does not answer, and when it does again."""
        ...


class KeeperGone(Exception):
    """The process that keeps the leases has ended."""


class Keeper(Protocol):
    """The process that keeps this worker's leases, from outside of the event loop and of the handlers' GIL."""

    @property
    def pid(self) -> int | None:
        """Its process, a child of this one; None when there is none."""
        ...

    async def start(self, worker: str, queues: Sequence[str]) -> None:
        """Start it, also again after it has ended. Its first heartbeat says that it is ready.

        Raises `OSError` when the system cannot start a process just now.
        """
        ...

    async def report(self) -> HeartbeatReply | None:
        """The next thing it says: a heartbeat that went through, or None: alive, but Redis did not answer.

        Raises `KeeperGone` as soon as it has ended.
        """
        ...

    @property
    def kept_at(self) -> Mapping[str, float]:
        """When the last good beat of each queue was sent, as the last report says; by `Env.lease_clock`.

        Of queues of which something may be held. The report may have waited to be read, so this is not when it came.
        """
        ...

    def show(self, leases: Mapping[LeaseRef, float]) -> None:
        """Tell it which leases to ask about, and when, by the monotonic clock, to give each up. Never blocks."""
        ...

    def keep(self, queues: frozenset[str]) -> None:
        """Tell it of which queues something may be held; none: there is nothing to keep, and it rests.

        Never blocks. Until it is told, it keeps all. While it keeps any, it comes by the others now and then: often
        enough to keep what a claim has brought before we could tell.
        """
        ...

    def guard(self, pids: Sequence[int]) -> None:
        """Tell it which job processes there are, those that may have a job first. When this process dies, it kills
        them, each with its group, before it gives anything back. Never blocks."""
        ...

    def kill(self) -> None:
        """End it at once, because it is silent: `report` raises `KeeperGone`. Harmless when it has ended."""
        ...

    def bequeath(self, crashed: bool) -> bool:
        """This process is about to end, and with it handlers beside which nothing may run, or it could not give back
        what it holds: keep until then, and give back after that what is held, as crashed or not. In place of `stop`;
        nothing is said to it any more. False: it has ended, or is stopped, and cannot."""
        ...

    async def stop(self) -> None:
        """End it. Harmless when it has ended."""
        ...


@dataclass(frozen=True, slots=True)
class Env:
    """Time, chance and neighbours, to be replaced in tests. Both clocks are monotonic, in seconds; see `core.clock`.

    `machine`: the other worker processes that may die together with this one; None: there are none.
    """

    clock: Callable[[], float] = time.monotonic
    lease_clock: Callable[[], float] = lease_clock
    random: Callable[[], float] = random.random
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    machine: Machine | None = None
