"""The native engine: what producers and workers need. Every transition is one script; see lua/ for each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from leasehold.core import limits
from leasehold.core.engine import CancelAsked, Feature, Heartbeat, Maintained, Timing
from leasehold.core.errors import InvalidArgument, LeaseholdError, QueueFull, ReplyError, Unreachable
from leasehold.core.job import (
    Dropped,
    Enqueued,
    JobRecord,
    JobView,
    Lease,
    Leased,
    LeaseRef,
    NewJob,
    Refused,
    State,
    WorkerView,
)
from leasehold.core.outcome import (
    Outcome,
)
from leasehold.core.shape import Progress
from leasehold.core.steps import Arg, Command, Draw, Invoke, Nonce, Reply, Steps
from leasehold.engines.native.control import NativeController
from leasehold.engines.native.inspect import NativeInspector
from leasehold.engines.native.keys import namespace_prefix, queue_prefix
from leasehold.engines.native.records import (
    RAW,
    as_bytes,
    as_text,
    read_record,
    read_view,
    reason_of,
    write_progress,
)
from leasehold.engines.native.scripts import SCRIPTS
from leasehold.engines.native.wire import (
    TOO_LONG,
    Part,
    chunks,
    enqueue_script,
    new_part,
    outcome_part,
    read_enqueued,
    too_long,
)


@dataclass(frozen=True, slots=True)
class NativeConfig:
    """The numbers of a native engine. All clients and workers of a namespace should use the same."""

    timing: Timing = field(default_factory=Timing)
    outage_ms: int = limits.OUTAGE_MS
    amnesty_ms: int = limits.AMNESTY_MS
    max_crashes: int = limits.MAX_CRASHES
    isolate_after_crashes: int = limits.ISOLATE_AFTER_CRASHES
    completed_max: int = limits.COMPLETED_MAX
    failed_ttl_ms: int = limits.FAILED_TTL_MS
    failed_max: int = limits.FAILED_MAX

    def as_argument(self) -> str:
        """The order is that of lua/lib/config.lua."""
        numbers = (
            self.timing.lease_ms,
            self.timing.grace_ms,
            self.outage_ms,
            self.amnesty_ms,
            self.max_crashes,
            self.isolate_after_crashes,
            limits.MAX_HELD,
            limits.TEND_LIMIT,
            limits.OVERDUE_GRACE_MS,
            self.completed_max,
            self.failed_ttl_ms,
            self.failed_max,
            limits.DEFAULT_TIMEOUT_MS,
        )
        return " ".join(map(str, numbers))


class _Failures:
    """One queue that Redis refuses to touch must not keep a worker from its others: the error is raised at the end."""

    def __init__(self) -> None:
        self._first: LeaseholdError | None = None

    def guard(self, invoke: Invoke) -> Steps[Reply]:
        """The reply, or None when Redis refused. When it cannot be reached, the other queues cannot either."""
        try:
            return (yield invoke)
        except Unreachable:
            raise
        except LeaseholdError as error:
            self._first = self._first or error
            return None

    def end(self) -> None:
        if self._first is not None:
            raise self._first


class NativeEngine(NativeInspector, NativeController):
    """Leasehold's own wire format: engine, inspector and controller of one namespace.

    engine = NativeEngine("shop")
    driver.run(engine.enqueue([NewJob("images", "id-1", b"cat.png")]))
    """

    name = "native"
    features = frozenset(Feature)

    def __init__(self, namespace: str = "leasehold", config: NativeConfig | None = None) -> None:
        self.namespace = namespace
        self.config = config or NativeConfig()
        self.timing = self.config.timing
        self._config = self.config.as_argument()
        self._registered: dict[str, int] = {}

    def prefix(self, queue: str) -> str:
        return queue_prefix(self.namespace, queue)

    def enqueue(self, jobs: Sequence[NewJob]) -> Steps[list[Enqueued]]:
        answers = [Enqueued(job.id, False) for job in jobs]
        by_queue: dict[str, list[Part]] = {}
        for position, job in enumerate(jobs):
            by_queue.setdefault(job.queue, []).append(new_part(position, job))
        sent = 0
        for queue, parts in by_queue.items():
            yield from self._register(queue)
            # The first call makes sure that there is room for all: then those that follow need not ask.
            room = len(parts)
            for chunk in chunks(parts):
                try:
                    reply = yield from self._call(enqueue_script(chunk), queue, chunk, room)
                except ReplyError as error:
                    if error.prefix != TOO_LONG:
                        raise
                    raise too_long(queue, error) from error
                except QueueFull as error:
                    if not sent:
                        raise
                    # More jobs than one call takes: those of the calls before are in their queues.
                    raise QueueFull(
                        f"{error} Of {len(jobs):,} jobs, {sent:,} had been enqueued before that."
                    ) from error
                sent += len(chunk)
                room = 0
                for part, answer in zip(chunk, read_enqueued(jobs, chunk, reply), strict=True):
                    answers[part.position] = answer
        return answers

    def _call(self, script: str, queue: str, chunk: list[Part], *head: Arg) -> Steps[bytes]:
        """One call for many jobs, under a nonce; the answer has one character a job."""
        nonce: Nonce = yield Draw()
        args = (nonce.session, nonce.number, *head, *(arg for part in chunk for arg in part.args))
        reply: bytes = yield Invoke(SCRIPTS[script], (self.prefix(queue),), args)
        return reply

    def _register(self, queue: str) -> Steps[None]:
        """List the queue before its first job of this engine, and again now and then."""
        uses = self._registered.get(queue, 0)
        if uses % limits.REGISTER_EVERY == 0:
            if len(self._registered) >= limits.REGISTERED_MAX:
                self._registered.clear()
            args = (as_bytes(queue), limits.META_TTL_MS)
            yield Invoke(SCRIPTS["register"], (namespace_prefix(self.namespace),), args)
        self._registered[queue] = uses + 1

    def lease(
        self,
        worker: str,
        queues: Sequence[str],
        limit: int,
        lease_ms: int | None = None,
        slots: int = limits.MAX_HELD,
        of_lane: Mapping[str, int] | None = None,
    ) -> Steps[Leased]:
        leases: list[Lease] = []
        dropped: list[Dropped] = []
        refused: list[Refused] = []
        nearest: int | None = None
        for queue in queues:
            wanted = min(limit - len(leases), limits.MAX_BATCH)
            if wanted <= 0:
                break
            nonce: Nonce = yield Draw()
            args: tuple[Arg, ...] = (
                nonce.session,
                nonce.number,
                self._config,
                worker,
                wanted,
                lease_ms or self.timing.lease_ms,
                int(lease_ms is not None),
                slots,
                (of_lane or {}).get(queue, 1),
            )
            try:
                next_ms, rows, lost = yield Invoke(SCRIPTS["claim"], (self.prefix(queue),), args)
            except Unreachable:
                # What the queues before have given must reach the worker.
                if leases:
                    break
                raise
            except LeaseholdError as error:
                if len(queues) == 1:
                    raise
                refused.append(Refused(queue, str(error)))
                continue
            leases += [
                Lease(worker, int(token), read_record(queue, id, raw), failures, crashes, deadline)
                for id, raw, token, failures, crashes, deadline in rows
            ]
            dropped += [Dropped(queue, as_text(id), "listed as ready, but there is no such job") for id in lost]
            nearest = _sooner(nearest, next_ms)
        return Leased(tuple(leases), tuple(dropped), tuple(refused), nearest)

    def wait(self, queues: Sequence[str], timeout_ms: int) -> Steps[str | None]:
        keys = {f"{self.prefix(queue)}:wake": queue for queue in queues}
        timeout = max(timeout_ms, limits.MIN_WAIT_MS)
        reply: Reply = yield Command(("BLPOP", *keys, f"{timeout / 1000:.3f}"), block_ms=timeout)
        return keys[reply[0].decode()] if reply else None

    def settle(self, settlements: Sequence[tuple[Lease, Outcome]]) -> Steps[list[bool]]:
        answers = [False] * len(settlements)
        groups: dict[tuple[str, str], list[Part]] = {}
        seen: set[LeaseRef] = set()
        for position, (lease, outcome) in enumerate(settlements):
            if lease.ref not in seen:
                seen.add(lease.ref)
                parts = groups.setdefault((lease.record.queue, lease.worker), [])
                parts.append(outcome_part(position, lease, outcome))
        for (queue, worker), parts in groups.items():
            for chunk in chunks(parts):
                reply = yield from self._call("settle", queue, chunk, self._config, worker)
                for part, settled in zip(chunk, reply, strict=True):
                    answers[part.position] = settled == ord("1")
        return answers

    def extend(self, lease: Lease, ms: int) -> Steps[bool]:
        if not limits.MIN_LEASE_MS <= ms <= limits.MAX_LEASE_MS:
            raise InvalidArgument(f"A lease lasts {limits.MIN_LEASE_MS} ms to {limits.MAX_LEASE_MS} ms, not {ms} ms.")
        nonce: Nonce = yield Draw()
        who: tuple[Arg, ...] = (lease.worker, as_bytes(lease.record.id), lease.token)
        args: tuple[Arg, ...] = (nonce.session, nonce.number, self._config, *who, ms)
        reply: bytes = yield Invoke(SCRIPTS["extend"], (self.prefix(lease.record.queue),), args)
        return reply == b"1"

    def heartbeat(self, worker: str, queues: Sequence[str], leases: Sequence[LeaseRef]) -> Steps[Heartbeat]:
        lost: list[LeaseRef] = []
        strays: list[Lease] = []
        cancelled: list[CancelAsked] = []
        nearest: int | None = None
        failures = _Failures()
        for queue in queues:
            asked = [lease for lease in leases if lease.queue == queue]
            pairs: tuple[Arg, ...] = tuple(arg for lease in asked for arg in (as_bytes(lease.id), lease.token))
            invoke = Invoke(SCRIPTS["heartbeat"], (self.prefix(queue),), (self._config, worker, *pairs))
            reply = yield from failures.guard(invoke)
            if reply is None:
                continue
            lost += [asked[position] for position in reply[0]]
            strays += [_stray(worker, queue, *row) for row in reply[1]]
            nearest = _sooner(nearest, reply[2])
            cancelled += [
                CancelAsked(LeaseRef(queue, as_text(id), int(token)), reason_of(body)) for id, token, body in reply[3]
            ]
        failures.end()
        return Heartbeat(frozenset(lost), tuple(strays), nearest, tuple(cancelled))

    def progress(self, lease: Lease, progress: Progress) -> Steps[bool]:
        args: tuple[Arg, ...] = (lease.worker, as_bytes(lease.record.id), lease.token, write_progress(progress))
        reply: int = yield Invoke(SCRIPTS["progress"], (self.prefix(lease.record.queue),), args)
        return reply == 1

    def leave(self, worker: str, queues: Sequence[str], crashed: bool = False) -> Steps[int]:
        released = 0
        failures = _Failures()
        for queue in queues:
            nonce: Nonce = yield Draw()
            args: tuple[Arg, ...] = (nonce.session, nonce.number, self._config, worker, int(crashed))
            reply = yield from failures.guard(Invoke(SCRIPTS["leave"], (self.prefix(queue),), args))
            released += int(reply or 0)
        yield from failures.guard(Invoke(SCRIPTS["withdraw"], (namespace_prefix(self.namespace),), (worker,)))
        failures.end()
        return released

    def maintain(
        self,
        queues: Sequence[str],
        tasks: Sequence[str],
        limit: int = limits.TEND_LIMIT,
        raw_queues: Collection[str] = (),
    ) -> Steps[Maintained]:
        sums, more = [0, 0, 0, 0], False
        failures = _Failures()
        for queue in queues:
            offered = (*tasks, RAW) if queue in raw_queues else tasks
            args: tuple[Arg, ...] = (self._config, min(limit, limits.MAX_BATCH), limits.META_TTL_MS, *offered)
            reply = yield from failures.guard(Invoke(SCRIPTS["maintain"], (self.prefix(queue),), args))
            if reply is not None:
                sums = [total + count for total, count in zip(sums, reply, strict=False)]
                more = more or reply[4] == 1
        failures.end()
        promoted, reclaimed, pruned, unparked = sums
        return Maintained(promoted, reclaimed, pruned, unparked, more)

    def announce(self, worker: WorkerView) -> Steps[bool]:
        args: tuple[Arg, ...] = (
            worker.id,
            msgspec.json.encode(worker),
            limits.PRESENCE_TTL_MS,
            limits.META_TTL_MS,
            *map(as_bytes, worker.queues),
        )
        reply: int = yield Invoke(SCRIPTS["announce"], (namespace_prefix(self.namespace),), args)
        return reply == 1

    def result(self, queue: str, id: str) -> Steps[JobView | None]:
        raw_id = as_bytes(id)
        args: tuple[Arg, ...] = (raw_id, limits.WATCH_TTL_MS)
        reply = yield Invoke(SCRIPTS["show"], (self.prefix(queue),), args)
        return read_view(queue, State(reply[0].decode()), raw_id, reply[1:]) if reply else None

    def result_channel(self, queue: str, id: str) -> str:
        return f"{self.prefix(queue)}:ended:{id}"


def _sooner(nearest: int | None, next_ms: int) -> int | None:
    """The smaller of the two; a script says -1 for "nothing known"."""
    if next_ms < 0:
        return nearest
    return next_ms if nearest is None else min(nearest, next_ms)


def _stray(worker: str, queue: str, id: bytes, token: bytes, claimed: bytes) -> Lease:
    return Lease(worker, int(token), JobRecord(as_text(id), queue, None, b"", int(claimed)), 0, 0)
