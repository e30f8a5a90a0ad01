"""The table of leases that this process holds: what waits, what runs, what is being settled. Decides nothing, no I/O.

A lease is `pending` (claimed, not started), then `running`, then `settling`, then gone. It may be `lost` at any time:
nothing is settled for it any more. A slot is apart from the lease: a handler that outlives its attempt (a thread cannot
be stopped) keeps its slot busy after its lease is gone. A batch has one slot.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable

from leasehold.core import limits
from leasehold.core.job import Lease, LeaseRef
from leasehold.core.task import TaskSpec
from leasehold.runtime.batches import Gathering
from leasehold.runtime.held import Batch, Held, Phase


class Inflight:
    """See the module. Used from the event loop's thread only."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.pending: deque[Held] = deque()
        """Those that run alone. The pending ones of batch handlers are in `gathering`."""
        self.gathering = Gathering()
        self.running: set[Held | Batch] = set()
        self.low_water = 0
        self.room = asyncio.Event()
        """Set when a slot came free or few enough are pending: time for the fetcher to look."""
        self.changed = asyncio.Event()
        """Set when a slot came free or a lease ended: for whoever waits for the end of things."""
        self.occupied = asyncio.Event()
        """Set when there is something to watch."""
        self._by_ref: dict[LeaseRef, Held] = {}
        self._by_queue: dict[str, int] = {}
        self._added = 0
        self._ending = 0

    @property
    def free(self) -> int:
        return self.slots - len(self.running)

    @property
    def held(self) -> int:
        return len(self._by_ref)

    @property
    def empty(self) -> bool:
        return not self._by_ref and not self.running

    @property
    def lasting(self) -> bool:
        """Whether nothing is held but persistent jobs, if anything: nothing that will come to an end."""
        return not self._ending and all(run.persistent for run in self.running)

    def queues(self) -> frozenset[str]:
        """Those of which something is held."""
        return frozenset(self._by_queue)

    def knows(self, ref: LeaseRef) -> bool:
        return ref in self._by_ref

    def find(self, ref: LeaseRef) -> Held | None:
        return self._by_ref.get(ref)

    def add(
        self, lease: Lease, spec: TaskSpec, now: float, to_run: bool = True, asked_at: float | None = None
    ) -> Held | None:
        """Take a lease in, in line for a slot unless it is not to be run. None: it is here already."""
        ref = lease.ref
        if ref in self._by_ref:
            return None
        self._added += 1
        held = Held(lease, ref, spec, now, self._added, now if asked_at is None else asked_at)
        held.persistent = lease.record.shape.persistent
        self._by_ref[ref] = held
        self._by_queue[ref.queue] = self._by_queue.get(ref.queue, 0) + 1
        self._ending += not held.persistent
        if to_run and spec.batch is not None:
            self.gathering.add(held, now)
        elif to_run:
            self.pending.append(held)
        self.occupied.set()
        return held

    def start_next(self, now: float) -> Held | Batch | None:
        """Move what was claimed first into a slot. None: no slot is free, or nothing is there to start."""
        if len(self.running) >= self.slots:
            return None
        group = self.gathering.ripe(now) if self.gathering.group_of else None
        if group is not None and (not self.pending or group.first < self.pending[0].number):
            batch = self.gathering.take(group)
            for held in batch.members:
                held.phase, held.batch, held.started_at = Phase.RUNNING, batch, now
            batch.started_at = now
            self.running.add(batch)
            self.room.set()
            return batch
        if self.pending:
            held = self.pending.popleft()
            if len(self.pending) <= self.low_water:
                self.room.set()
            held.phase = Phase.RUNNING
            held.started_at = now
            self.running.add(held)
            return held
        return None

    def leave_slot(self, run: Held | Batch) -> None:
        self.running.discard(run)
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
            self._ending -= not held.persistent
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
        self.unqueue(held)
        held.phase = Phase.LOST
        self.gone(held)
        return held

    def unqueue(self, held: Held) -> None:
        """Take it out of the line if it is pending."""
        if held.phase is Phase.PENDING:
            if not self.gathering.remove(held):
                self.pending.remove(held)
            self.room.set()

    def take_pending(self, wanted: Callable[[Held], bool]) -> list[Held]:
        """Remove the pending leases that are wanted, in the order in which they were claimed."""
        taken = [held for held in self.pending if wanted(held)]
        if taken:
            out = set(taken)
            self.pending = deque(held for held in self.pending if held not in out)
        if self.gathering.group_of:
            taken = sorted(taken + self.gathering.take_where(wanted), key=lambda held: held.number)
        if taken:
            self.room.set()
        return taken

    def ripe_at(self, held: Held) -> float:
        """Since when a pending lease has been waiting for nothing but a slot; a time to come while it gathers."""
        return held.claimed_at if held.spec.batch is None else self.gathering.ripe_at(held)

    def snapshot(self, before: float = math.inf) -> list[LeaseRef]:
        """The leases claimed before a moment: younger ones may be newer than the keeper's question."""
        return [ref for ref, held in self._by_ref.items() if held.claimed_at <= before]

    def lively(self, since: float) -> int:
        """Slots that are free or took up their job after a moment: those that work through short jobs."""
        return self.free + sum(1 for run in self.running if run.started_at >= since)
