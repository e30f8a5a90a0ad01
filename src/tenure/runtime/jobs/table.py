"""The table of leases that this process holds. It decides nothing and does no I/O.

A lease is `pending` (claimed, not started), then `running`, then `settling`, then gone. It may be `lost` at any time; a
lost lease is not settled. A handler that outlives its attempt (a thread cannot be stopped) occupies its slot after its
lease is gone. A batch has one slot.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from tenure.core import limits
from tenure.core.job import Lease, LeaseRef
from tenure.core.task import TaskSpec
from tenure.runtime.jobs.batches import Gathering, Group
from tenure.runtime.jobs.held import PENDING, RUNNING, SETTLING, Batch, Held, Key, Phase
from tenure.runtime.prefetch import Prefetch


class Inflight:
    """See the module. Used from the event loop's thread only. `stuck_ms`: a pending lease that has waited this long
    for a slot is stuck."""

    def __init__(self, slots: int, stuck_ms: int = 25) -> None:
        self.slots = slots
        self._stuck_s = stuck_ms / limits.SECOND
        self.pending: deque[Held] = deque()
        """Leases without a batch handler. The pending ones of batch handlers are in `gathering`."""
        self.gathering = Gathering()
        self.running: set[Held | Batch] = set()
        self.prefetch = Prefetch()
        self.low_water = 0
        """When at most this many are pending, the fetcher claims again."""
        self.started = 0
        """Jobs started so far."""
        self._measured = 0.0, 0, False
        """The last measurement: when, how many jobs had started, and whether others were pending."""
        self.room = asyncio.Event()
        """Set when a slot came free or few enough leases are pending: the fetcher may claim."""
        self.changed = asyncio.Event()
        """Set when a slot came free or a lease ended."""
        self.occupied = asyncio.Event()
        """Set when a lease was added: the worker watches its timeouts."""
        self._table: dict[Key, Held] = {}
        self._open: dict[tuple[str, str], int] = {}
        """How many leases of each group have no outcome yet, by queue and group."""
        self._added = 0

    @property
    def free(self) -> int:
        return self.slots - len(self.running)

    @property
    def held(self) -> int:
        return len(self._table)

    @property
    def empty(self) -> bool:
        return not self._table and not self.running

    @property
    def only_settles(self) -> bool:
        """Whether all jobs that are held have ended, and only their outcomes are to be written."""
        return bool(self._table) and not (self.running or self.pending or self.gathering.group_of)

    @property
    def lasting(self) -> bool:
        """Whether only persistent jobs are held, and the only handlers that run belong to persistent jobs or were given
        up."""
        held = all(held.persistent for held in self._table.values())
        return held and all(run.persistent or run.abandoned for run in self.running)

    def everything(self) -> tuple[Held, ...]:
        """All leases, in the order of their claims."""
        return tuple(self._table.values())

    def queues(self, most: float = math.inf) -> frozenset[str]:
        """The queues of the leases. `most`: how many there can be."""
        found: set[str] = set()
        for queue, _, _ in self._table:
            found.add(queue)
            if len(found) >= most:
                break
        return frozenset(found)

    def knows(self, ref: LeaseRef) -> bool:
        return _key(ref) in self._table

    def find(self, ref: LeaseRef) -> Held | None:
        return self._table.get(_key(ref))

    def add(
        self, lease: Lease, spec: TaskSpec, now: float, to_run: bool = True, asked_at: float | None = None
    ) -> Held | None:
        """Add a lease. With `to_run` it waits for a slot. None: the table has it already."""
        record = lease.record
        key = (record.queue, record.id, lease.token)
        if key in self._table:
            return None
        self._added += 1
        asked_at = now if asked_at is None else asked_at
        held = Held(lease, key, spec, now, self._added, asked_at, record.shape.persistent)
        self._table[key] = held
        if lease.group:
            group = (record.queue, lease.group)
            self._open[group] = self._open.get(group, 0) + 1
        if to_run:
            if spec.batch is None:
                self.pending.append(held)
            else:
                self.gathering.add(held, now)
        self.occupied.set()
        return held

    def starting(
        self, now: float, may_start: Callable[[Held], bool] = lambda held: True, fresh_after: float = math.inf
    ) -> Iterator[Held | Batch]:
        """Move the oldest claims into the free slots, one with each step, unless `may_start` forbids it. Leases that
        were claimed later than `fresh_after` may start."""
        running, pending = self.running, self.pending
        while len(running) < self.slots:
            if self.gathering.group_of:
                group = self.gathering.ripe(now)
                if group is not None and (not pending or group.first < pending[0].number):
                    if not all(map(may_start, group.held)):
                        break
                    yield self._start_batch(group, now)
                    continue
            if not pending or not (pending[0].asked_at > fresh_after or may_start(pending[0])):
                break
            held = pending.popleft()
            held.phase = RUNNING
            held.started_at = now
            self.started += 1
            running.add(held)
            yield held
        if len(pending) <= self.low_water:
            self.room.set()

    def _start_batch(self, group: Group, now: float) -> Batch:
        batch = self.gathering.take(group)
        for held in batch.members:
            held.phase, held.batch, held.started_at = RUNNING, batch, now
        batch.started_at = now
        self.started += len(batch.members)
        self.running.add(batch)
        self.room.set()
        return batch

    def leave_slots(self, runs: Iterable[Held | Batch]) -> None:
        self.running.difference_update(runs)
        self.room.set()
        self.changed.set()

    def begin_settling(self, held: Held) -> bool:
        """False: the lease was lost, or its outcome is decided already."""
        if held.phase is not RUNNING and held.phase is not PENDING:
            return False
        held.phase = SETTLING
        if held.lease.group:
            self._decided(held)
        return True

    def awaits_others(self, lease: Lease) -> bool:
        """Whether leases of its group have no outcome yet, so that it cannot be settled."""
        return (lease.record.queue, lease.group) in self._open

    def _decided(self, held: Held) -> None:
        """The lease has an outcome, or is lost."""
        if held.lease.group:
            group = (held.lease.record.queue, held.lease.group)
            self._open[group] -= 1
            if not self._open[group]:
                del self._open[group]

    def gone(self, leases: Iterable[Held]) -> None:
        """The leases are settled, or known to be lost."""
        for held in leases:
            self._table.pop(held.key, None)
        self.changed.set()
        if len(self._table) >= limits.MAX_HELD - limits.MAX_BATCH:
            self.room.set()  # the fetcher may be waiting because the table was full

    def lose(self, ref: LeaseRef) -> Held | None:
        """Mark a lease as lost. None: it is unknown, or it is being settled, which will show the loss."""
        held = self.find(ref)
        if held is None or held.phase is SETTLING:
            return None
        self.unqueue(held)
        held.phase = Phase.LOST
        self._decided(held)
        self.gone((held,))
        return held

    def unqueue(self, held: Held) -> None:
        """Remove a lease from those that wait for a slot."""
        if held.phase is PENDING:
            if not self.gathering.remove(held):
                self.pending.remove(held)
            self.room.set()

    def take_pending(self, wanted: Callable[[Held], bool]) -> list[Held]:
        """Remove the pending leases for which `wanted` is true and the later ones of their queues, in the order of
        their claims. A later one that stayed would start before an earlier one."""
        queues: set[str] = set()
        taken: list[Held] = []
        for held in sorted((*self.pending, *self.gathering.group_of), key=lambda held: held.number):
            queue = held.lease.record.queue
            if queue in queues or wanted(held):
                queues.add(queue)
                taken.append(held)
        if taken:
            out = set(taken)
            self.pending = deque(held for held in self.pending if held not in out)
            for held in out.intersection(self.gathering.group_of):
                self.gathering.remove(held)
            self.room.set()
        return taken

    def ripe_at(self, held: Held) -> float:
        """Since when a pending lease waits for a slot only; in the future while its batch gathers."""
        return held.claimed_at if held.spec.batch is None else self.gathering.ripe_at(held)

    def snapshot(self, before: float = math.inf) -> dict[LeaseRef, float]:
        """The leases that were claimed before a moment, and when each is overdue. The keeper's last heartbeat may not
        know later ones."""
        return {held.ref: held.overdue_at for held in self._table.values() if held.claimed_at <= before}

    def running_since(self) -> float | None:
        """When the oldest running handler was started. For any thread."""
        return min((run.started_at for run in list(self.running)), default=None)

    def ahead(self, now: float) -> int:
        """How many jobs to hold beyond the free slots, for the slots that run short jobs."""
        since = now - self._stuck_s
        lively = self.free + sum(1 for run in self.running if run.started_at >= since)
        ahead = self.prefetch.ahead(lively)
        self.low_water = ahead // 2
        return ahead

    def measure(self, now: float, late: bool) -> bool:
        """Measure how fast jobs started since the last call, unless this one is `late`. Return whether jobs wait for a
        slot only."""
        saturated = bool(self.pending) or self.gathering.next_at() <= now
        at, started, was_saturated = self._measured
        if not late:
            self.prefetch.window(self.started - started, now - at, saturated and was_saturated)
        self._measured = now, self.started, saturated
        return saturated

    def take_stuck(self, now: float) -> list[Held]:
        """Remove the pending leases that have waited too long for a slot: other workers may be idle."""
        before = now - self._stuck_s
        stuck = self.take_pending(lambda held: self.ripe_at(held) < before)
        if stuck:
            self.prefetch.stuck()
        return stuck


def _key(ref: LeaseRef) -> Key:
    return ref.queue, ref.id, ref.token
