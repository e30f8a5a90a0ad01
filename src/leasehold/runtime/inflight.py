"""The table of leases that this process holds: what waits, what runs, what is being settled. Decides nothing, no I/O.

A lease is `pending` (claimed, not started), then `running`, then `settling`, then gone. It may be `lost` at any time:
nothing is settled for it any more. A slot is apart from the lease: a handler that outlives its attempt (a thread cannot
be stopped) keeps its slot busy after its lease is gone.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from leasehold.core import limits
from leasehold.core.job import Lease, LeaseRef
from leasehold.core.task import TaskSpec

if TYPE_CHECKING:
    from leasehold.runtime.context import Job


class Phase(Enum):
    PENDING = "pending"
    RUNNING = "running"
    SETTLING = "settling"
    LOST = "lost"


class Stop(Enum):
    """Why we ended a handler before it ended by itself."""

    TIMEOUT = "timeout"
    LOST = "lost"
    SHUTDOWN = "shutdown"


@dataclass(slots=True, eq=False)
class Held:
    """One lease in this process. Times are seconds of the monotonic clock."""

    lease: Lease
    ref: LeaseRef
    spec: TaskSpec
    claimed_at: float
    phase: Phase = Phase.PENDING
    began: bool = False
    started_at: float = 0.0
    ends_at: float = math.inf
    timeout_s: float | None = None
    give_up_at: float = math.inf
    stop: Stop | None = None
    abandoned: bool = False
    job: Job | None = None
    task: asyncio.Task[None] | None = field(default=None, repr=False)


class Inflight:
    """See the module. Used from the event loop's thread only."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.pending: deque[Held] = deque()
        self.running: set[Held] = set()
        self.low_water = 0
        self.room = asyncio.Event()
        """Set when a slot came free or few enough are pending: time for the fetcher to look."""
        self.changed = asyncio.Event()
        """Set when a slot came free or a lease ended: for whoever waits for the end of things."""
        self.occupied = asyncio.Event()
        """Set when there is something to watch."""
        self._by_ref: dict[LeaseRef, Held] = {}
        self._by_queue: dict[str, int] = {}

    @property
    def free(self) -> int:
        return self.slots - len(self.running)

    @property
    def held(self) -> int:
        return len(self._by_ref)

    @property
    def empty(self) -> bool:
        return not self._by_ref and not self.running

    def queues(self) -> frozenset[str]:
        """Those of which something is held."""
        return frozenset(self._by_queue)

    def knows(self, ref: LeaseRef) -> bool:
        return ref in self._by_ref

    def add(self, lease: Lease, spec: TaskSpec, now: float, to_run: bool = True) -> Held | None:
        """Take a lease in, in line for a slot unless it is not to be run. None: it is here already."""
        ref = lease.ref
        if ref in self._by_ref:
            return None
        held = Held(lease, ref, spec, now)
        self._by_ref[ref] = held
        self._by_queue[ref.queue] = self._by_queue.get(ref.queue, 0) + 1
        if to_run:
            self.pending.append(held)
        self.occupied.set()
        return held

    def start_next(self, now: float) -> Held | None:
        """Move the oldest pending lease into a slot. None: no slot is free, or nothing is pending."""
        if len(self.running) >= self.slots:
            return None
        if self.pending:
            held = self.pending.popleft()
            if len(self.pending) <= self.low_water:
                self.room.set()
            held.phase = Phase.RUNNING
            held.started_at = now
            self.running.add(held)
            return held
        return None

    def leave_slot(self, held: Held) -> None:
        self.running.discard(held)
        self.room.set()
        self.changed.set()

    def begin_settling(self, held: Held) -> bool:
        """The one gate to settling. False: it was lost, or its outcome is decided already."""
        if held.phase is not Phase.PENDING and held.phase is not Phase.RUNNING:
            return False
        held.phase = Phase.SETTLING
        return True

    def gone(self, held: Held) -> None:
        """The lease is settled, or known to be lost."""
        if self._by_ref.pop(held.ref, None) is not None:
            left = self._by_queue[held.ref.queue] - 1
            if left:
                self._by_queue[held.ref.queue] = left
            else:
                del self._by_queue[held.ref.queue]
        self.changed.set()
        if len(self._by_ref) >= limits.MAX_HELD - limits.MAX_BATCH:
            self.room.set()  # the fetcher may be waiting because the table was full

    def lose(self, ref: LeaseRef) -> Held | None:
        """Mark a lease as lost. None: unknown here, or its outcome is on its way and will tell."""
        held = self._by_ref.get(ref)
        if held is None or held.phase is Phase.SETTLING:
            return None
        if held.phase is Phase.PENDING:
            self.pending.remove(held)
            self.room.set()
        held.phase = Phase.LOST
        self.gone(held)
        return held

    def take_pending(self, wanted: Callable[[Held], bool]) -> list[Held]:
        """Remove the pending leases that are wanted, in the order in which they would have run."""
        taken = [held for held in self.pending if wanted(held)]
        if taken:
            out = set(taken)
            self.pending = deque(held for held in self.pending if held not in out)
            self.room.set()
        return taken

    def snapshot(self, before: float) -> list[LeaseRef]:
        """The leases claimed before a moment: younger ones may be newer than the keeper's question."""
        return [ref for ref, held in self._by_ref.items() if held.claimed_at <= before]

    def lively(self, since: float) -> int:
        """Slots that are free or took up their job after a moment: those that work through short jobs."""
        return self.free + sum(1 for held in self.running if held.started_at >= since)
