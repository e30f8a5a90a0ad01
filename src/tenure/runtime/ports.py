"""What the worker needs from outside: a driver, a keeper, a clock. Tests bring their own."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, NamedTuple, Protocol, TypeVar

from msgspec import Struct, field

from tenure.core import limits
from tenure.core.clock import lease_clock
from tenure.core.engine import HeartbeatReply
from tenure.core.job import LeaseRef
from tenure.core.outcome import TimedOut
from tenure.core.steps import Steps, Watcher

T = TypeVar("T")


class Messages(Protocol):
    """A subscription: gives the next message, or None after the timeout. Messages may be lost."""

    async def get(self, timeout_s: float) -> bytes | None: ...


class Driver(Protocol):
    """Runs an engine's steps. If `run` is cancelled, its calls may have taken effect or not."""

    async def run(self, steps: Steps[T]) -> T: ...

    def subscribe(self, channel: str) -> AbstractAsyncContextManager[Messages]:
        """Listen on a channel, across lost connections. Entering it again while it is open costs nothing."""
        ...

    def watch(self, watcher: Watcher) -> None:
        """Call the watcher, on the event loop, as soon as Redis does not answer, and when it answers again."""
        ...


class Exclusive(NamedTuple):
    """A job process with a job that must not run at the same time as others. `asked_at`: when the claim was sent, by
    `Env.lease_clock`."""

    pid: int
    queue: str
    asked_at: float


class KeeperGone(Exception):
    """The process that keeps the leases has ended or is silent."""


class ParentGone(KeeperGone):
    """The keeper was the parent of this process, which has logged its end and retires."""


class Keeper(Protocol):
    """The process that keeps this worker's leases: its parent, or one that this worker starts. It runs no handlers.

    All methods but `start`, `report` and `stop` send a message and never block.
    """

    async def start(self, worker: str, queues: Sequence[str]) -> None:
        """Have the leases kept; also again after `KeeperGone`. The first report means that it is ready.

        Raises `OSError` when the system cannot start a process now.
        """
        ...

    async def report(self) -> HeartbeatReply | None:
        """The next report: a heartbeat that went through, or None: the keeper is alive, but Redis did not answer.

        Raises `KeeperGone` as soon as it has ended.
        """
        ...

    @property
    def kept_at(self) -> Mapping[str, float]:
        """When the last good heartbeat of each queue with leases was sent, by `Env.lease_clock`, by the last report.
        The report itself may have waited to be read."""
        ...

    def show(self, leases: Mapping[LeaseRef, float]) -> None:
        """Send the leases that the worker holds, and when, by the monotonic clock, to give each up."""
        ...

    def keep(self, queues: frozenset[str]) -> None:
        """Send the queues on which leases may be held. Before the first call it keeps all queues.

        While it keeps any queue, it sends heartbeats for the others too, often enough to keep what a claim has brought
        before the worker could send this.
        """
        ...

    def guard(self, pids: Sequence[int], exclusive: Sequence[Exclusive] = ()) -> None:
        """Send the job processes, those that may have a job first. When this process dies, the keeper kills them, each
        with its group, before it releases jobs. `exclusive`: those that it kills when the lease has expired, too."""
        ...

    def replace(self) -> None:
        """Give up a keeper that is silent: `report` raises `KeeperGone`. Harmless when it has ended."""
        ...

    async def stop(self, *, left: bool = False, crashed: bool = False, outcomes: TimedOut = ()) -> None:
        """End the keeping. `left`: this worker still holds jobs; the keeper releases them when this process has ended,
        as `crashed` or not, and settles those with `outcomes`. Harmless when it has ended."""
        ...


PROGRESS_MS: Final = 100
"""Progress is reported at most this often; in between only the newest report is kept."""
ROUND_MOST: Final = 200
"""Jobs that a worker claims or settles in one call: Redis serves no other client during it. A batch of one lane is
claimed whole."""


class WorkerLimits(Struct, frozen=True):
    """Times and numbers of a worker that tests vary.

    cancel_ms          how long an async handler has to end after its cancellation; then its slot is given up
    redis_pause_ms     the longest pause after a background loop lost Redis
    stuck_slots_ms     when handlers that do not end have occupied every slot for this long, the worker retires
    stuck_ms           a claimed job that has waited this long for a slot is released for another worker
    claim_most         jobs that a worker claims in one call
    settle_most        jobs that a worker settles in one call
    flush_ms           at a stop: how long outcomes may take to reach Redis
    leave_ms           at a stop: how long it may take to release the remaining jobs
    tell_ms            at a stop: how long listeners and hooks have for the events that they have not received yet
    listener_ms        how long an async listener may take for one event
    listener_slow_ms   a listener that blocks the event loop for longer than this is logged
    events_waiting     events that wait for listeners; further events are dropped and counted
    hooks_running      `on_failure` hooks that run at one time
    hooks_waiting      calls of hooks that wait for a free one; further calls are dropped, which is logged
    progress_ms        progress is written to Redis at most this often
    resubscribe_ms     after this time without a message the subscriber subscribes again
    rest_ms            how long a persistent job that returned keeps its slot; None: only if it ended at once
    """

    cancel_ms: int = 1 * limits.SECOND
    redis_pause_ms: int = 1 * limits.SECOND
    stuck_slots_ms: int = 5 * limits.SECOND
    stuck_ms: int = 25
    claim_most: int = ROUND_MOST
    settle_most: int = ROUND_MOST
    flush_ms: int = 5 * limits.SECOND
    leave_ms: int = 2 * limits.SECOND
    tell_ms: int = 2 * limits.SECOND
    listener_ms: int = 10 * limits.SECOND
    listener_slow_ms: int = 100
    events_waiting: int = 10_000
    hooks_running: int = 16
    hooks_waiting: int = 1_000
    progress_ms: int = PROGRESS_MS
    resubscribe_ms: int = limits.MINUTE
    rest_ms: int | None = None


class Env(Struct, frozen=True):
    """Time and randomness, replaced in tests. Both clocks are monotonic, in seconds; see `core.clock`."""

    clock: Callable[[], float] = time.monotonic
    lease_clock: Callable[[], float] = lease_clock
    random: Callable[[], float] = random.random
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    limits: WorkerLimits = field(default_factory=WorkerLimits)
