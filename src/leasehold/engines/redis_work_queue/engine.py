"""The engine for the wire format of redis-work-queue: what producers and workers need. A transition is one script."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

import msgspec

from leasehold.core import limits
from leasehold.core.engine import Feature, Heartbeat, Maintained
from leasehold.core.errors import InvalidArgument, LeaseholdError, QueueFull, Unreachable
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
    WorkerView,
)
from leasehold.core.outcome import Outcome
from leasehold.core.shape import Progress
from leasehold.core.steps import Arg, Command, Draw, Invoke, Nonce, Reply, Steps
from leasehold.engines.redis_work_queue.clean import DeepPass, leftovers, light_page
from leasehold.engines.redis_work_queue.config import RedisWorkQueueConfig
from leasehold.engines.redis_work_queue.control import RedisWorkQueueController
from leasehold.engines.redis_work_queue.inspect import RedisWorkQueueInspector
from leasehold.engines.redis_work_queue.keys import SHARED, check_prefix, check_suffix
from leasehold.engines.redis_work_queue.records import RAW, as_bytes, as_text, read_record
from leasehold.engines.redis_work_queue.scripts import SCRIPTS
from leasehold.engines.redis_work_queue.wire import NAME, Part, chunks, new_part, outcome_part, unsupported

DEFAULT_QUEUE = "default"
"""The queue whose keys begin with the prefix itself."""


class _Failures:
    """One queue that Redis refuses to touch must not keep a worker from its others: the error is raised at the end."""

    def __init__(self) -> None:
        self._first: LeaseholdError | None = None

    def guard(self, steps: Steps[Reply]) -> Steps[Reply]:
        """The answer, or None when Redis refused. When it cannot be reached, the other queues cannot either."""
        try:
            return (yield from steps)
        except Unreachable:
            raise
        except LeaseholdError as error:
            self._first = self._first or error
            return None

    def end(self) -> None:
        if self._first is not None:
            raise self._first


class RedisWorkQueueEngine(RedisWorkQueueInspector, RedisWorkQueueController):
    """Queues that clients of redis-work-queue share: engine, inspector and controller.

    engine = RedisWorkQueueEngine("jobs")
    driver.run(engine.enqueue([NewJob("default", "id-1", b"...")]))       # jobs:queue, jobs:item:id-1

    The queue `default` has the keys of the prefix, `jobs:queue`; another one lies beneath it, `jobs:images:queue`, or
    where `queues` says: `queues={"images": "pictures"}` is `pictures:queue`. Raises `InvalidArgument` for prefixes
    whose keys would be those of another queue.
    """

    name: ClassVar[str] = NAME
    features: ClassVar[frozenset[Feature]] = frozenset(
        {
            Feature.OWN_ID,
            Feature.TASKS,
            Feature.TIMEOUT,
            Feature.RETRIES,
            Feature.COUNTS,
            Feature.RECORDS,
            Feature.UNROUTABLE,
            Feature.EXTEND,
        }
    )

    def __init__(
        self, base: str, config: RedisWorkQueueConfig | None = None, queues: Mapping[str, str] | None = None
    ) -> None:
        self.base = check_prefix(base)
        self.named = {name: check_prefix(prefix, f"the prefix of {name!r}") for name, prefix in (queues or {}).items()}
        self.config = config or RedisWorkQueueConfig()
        self.timing = self.config.timing
        self._config = self.config.as_argument()
        self._registered: dict[str, int] = {}
        self._passes: dict[str, DeepPass] = {}
        self._waits = 0

    def prefix(self, queue: str) -> str:
        """The beginning of all keys of a queue. Raises `InvalidArgument` for a name that cannot lie beneath."""
        if queue in self.named:
            return self.named[queue]
        return self.base if queue == DEFAULT_QUEUE else f"{self.base}:{check_suffix(queue)}"

    def shared(self) -> str:
        return f"{self.base}:{SHARED}"

    def enqueue(self, jobs: Sequence[NewJob]) -> Steps[list[Enqueued]]:
        answers = [Enqueued(job.id, False) for job in jobs]
        by_queue: dict[str, list[Part]] = {}
        for position, job in enumerate(jobs):
            by_queue.setdefault(job.queue, []).append(new_part(position, job))
        sent = 0
        for queue, parts in by_queue.items():
            yield from self._register(queue)
            for chunk in chunks(parts):
                try:
                    reply = yield from self._call("enqueue", queue, chunk, self.config.stray_ms)
                except QueueFull as error:
                    if not sent:
                        raise
                    raise QueueFull(
                        f"{error} Of {len(jobs):,} jobs, {sent:,} had been enqueued before that."
                    ) from error
                sent += len(chunk)
                for part, letter in zip(chunk, reply, strict=True):
                    answers[part.position] = Enqueued(jobs[part.position].id, letter == ord("1"))
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
            yield Invoke(SCRIPTS["register"], (self.shared(),), (as_bytes(queue), limits.META_TTL_MS))
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
        kind = str(slots) if lease_ms is None else "h"
        for queue in queues:
            wanted = min(limit - len(leases), limits.MAX_BATCH)
            if wanted <= 0:
                break
            try:
                got = yield from self.claim(queue, worker, wanted, lease_ms or self.timing.lease_ms, kind)
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
            leases += got.leases
            dropped += got.dropped
            nearest = _sooner(nearest, got.next_ms)
        return Leased(tuple(leases), tuple(dropped), tuple(refused), nearest)

    def claim(self, queue: str, worker: str, limit: int, lease_ms: int, kind: str) -> Steps[Leased]:
        """Claim from one queue. `kind`: see lua/claim.lua."""
        nonce: Nonce = yield Draw()
        times: tuple[Arg, ...] = (lease_ms, kind, limits.DEFAULT_TIMEOUT_MS, limits.OVERDUE_GRACE_MS)
        args: tuple[Arg, ...] = (nonce.session, nonce.number, self._config, as_bytes(worker), limit, *times)
        next_ms, rows, lost = yield Invoke(SCRIPTS["claim"], (self.prefix(queue),), args)
        leases = tuple(
            Lease(worker, int(token), read_record(queue, id, data), failures, crashes, deadline)
            for id, data, token, failures, crashes, deadline in rows
        )
        dropped = tuple(Dropped(queue, as_text(id), "listed in the queue, but there is no such item") for id in lost)
        return Leased(leases, dropped, (), None if next_ms < 0 else next_ms)

    def wait(self, queues: Sequence[str], timeout_ms: int) -> Steps[str | None]:
        """An item is moved from the right end of its list to the right end: it stays where it is.

        Redis waits for one list in this way. Of several, one after the other is waited for.
        """
        left = max(timeout_ms, limits.MIN_WAIT_MS)
        slice_ms = left if len(queues) == 1 else max(limits.MIN_WAIT_MS, min(limits.RWQ_SLICE_MS, left))
        if len(queues) > 1:
            for queue in queues:
                if (yield Command(("LLEN", f"{self.prefix(queue)}:queue"))):
                    return queue
        while left > 0:
            queue = queues[self._waits % len(queues)]
            self._waits += 1
            key = f"{self.prefix(queue)}:queue"
            block = min(slice_ms, left)
            left -= block
            text = f"{block / 1000:.3f}"
            try:
                reply = yield Command(("BLMOVE", key, key, "RIGHT", "RIGHT", text), block_ms=block)
            except QueueFull:
                # To move may need memory, so it is refused when there is none. To take from a list that is not there
                # is not.
                yield Command(("BLPOP", f"{self.shared()}:nothing", text), block_ms=block)
                return queue if (yield Command(("LLEN", key))) else None
            if reply is not None:
                return queue
        return None

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
                reply = yield from self._call("settle", queue, chunk, self._config, as_bytes(worker))
                for part, settled in zip(chunk, reply, strict=True):
                    answers[part.position] = settled == ord("1")
        return answers

    def extend(self, lease: Lease, ms: int) -> Steps[bool]:
        if not limits.MIN_LEASE_MS <= ms <= limits.MAX_LEASE_MS:
            raise InvalidArgument(f"A lease lasts {limits.MIN_LEASE_MS} ms to {limits.MAX_LEASE_MS} ms, not {ms} ms.")
        nonce: Nonce = yield Draw()
        who: tuple[Arg, ...] = (as_bytes(lease.worker), as_bytes(lease.record.id), lease.token)
        args: tuple[Arg, ...] = (nonce.session, nonce.number, self._config, *who, ms, limits.OVERDUE_GRACE_MS)
        reply: bytes = yield Invoke(SCRIPTS["extend"], (self.prefix(lease.record.queue),), args)
        return reply == b"1"

    def heartbeat(self, worker: str, queues: Sequence[str], leases: Sequence[LeaseRef]) -> Steps[Heartbeat]:
        lost: list[LeaseRef] = []
        strays: list[Lease] = []
        nearest: int | None = None
        failures = _Failures()
        for queue in queues:
            asked = [lease for lease in leases if lease.queue == queue]
            pairs: tuple[Arg, ...] = tuple(arg for lease in asked for arg in (as_bytes(lease.id), lease.token))
            reply = yield from failures.guard(self._one("heartbeat", queue, self._config, as_bytes(worker), *pairs))
            if reply is None:
                continue
            lost += [asked[position] for position in reply[0]]
            strays += [_stray(worker, queue, *row) for row in reply[1]]
            nearest = _sooner(nearest, None if reply[2] < 0 else reply[2])
        failures.end()
        return Heartbeat(frozenset(lost), tuple(strays), nearest)

    def _one(self, script: str, queue: str, *args: Arg) -> Steps[Reply]:
        return (yield Invoke(SCRIPTS[script], (self.prefix(queue),), args))

    def leave(self, worker: str, queues: Sequence[str], crashed: bool = False) -> Steps[int]:
        released = 0
        failures = _Failures()
        name = as_bytes(worker)
        for queue in queues:
            nonce: Nonce = yield Draw()
            args: tuple[Arg, ...] = (nonce.session, nonce.number, self._config, name, int(crashed))
            reply = yield from failures.guard(self._one("leave", queue, *args))
            released += int(reply or 0)
        yield Invoke(SCRIPTS["withdraw"], (self.shared(),), (name,))
        failures.end()
        return released

    def maintain(
        self,
        queues: Sequence[str],
        tasks: Sequence[str],
        limit: int = limits.TEND_LIMIT,
        raw_queues: Collection[str] = (),
    ) -> Steps[Maintained]:
        total = Maintained()
        failures = _Failures()
        for queue in queues:
            offered = (*tasks, RAW) if queue in raw_queues else tuple(tasks)
            done = yield from failures.guard(self._maintain(queue, offered, min(limit, limits.MAX_BATCH)))
            if done is not None:
                total = Maintained(
                    total.promoted + done.promoted,
                    total.reclaimed + done.reclaimed,
                    total.pruned + done.pruned,
                    total.unparked + done.unparked,
                    total.more or done.more,
                )
        failures.end()
        return total

    def _maintain(self, queue: str, tasks: Sequence[str], limit: int) -> Steps[Maintained]:
        prefix = self.prefix(queue)
        args: tuple[Arg, ...] = (self._config, limit, limits.META_TTL_MS, self.config.deep_ms, *tasks)
        *numbers, more, deep = yield Invoke(SCRIPTS["maintain"], (prefix,), args)
        promoted, reclaimed, pruned, unparked = numbers
        reclaimed += (yield from leftovers(prefix, self.config)).requeued
        for _ in range(limits.RWQ_STEPS):
            light, following = yield from light_page(prefix, self.config)
            reclaimed += light.requeued
            if following < 0:
                break
        reclaimed += yield from self._deepen(queue, deep == 1)
        return Maintained(promoted, reclaimed, pruned, unparked, more == 1)

    def _deepen(self, queue: str, begin: bool) -> Steps[int]:
        """Some steps of a deep clean, if it is time for one or one has begun. Answers how many items it put back."""
        if begin:
            turn = self._passes[queue].turn + 1 if queue in self._passes else 0
            self._passes[queue] = DeepPass(self.prefix(queue), turn)
        requeued = 0
        if queue in self._passes:
            for _ in range(limits.RWQ_STEPS):
                requeued += (yield from self._passes[queue].step(self.config)).requeued
        return requeued

    def announce(self, worker: WorkerView) -> Steps[bool]:
        args: tuple[Arg, ...] = (
            as_bytes(worker.id),
            msgspec.json.encode(worker),
            limits.PRESENCE_TTL_MS,
            limits.META_TTL_MS,
            *map(as_bytes, worker.queues),
        )
        yield Invoke(SCRIPTS["announce"], (self.shared(),), args)
        return False

    def progress(self, lease: Lease, progress: Progress) -> Steps[bool]:
        raise unsupported("the progress of a job")

    def signal_channel(self, worker: str) -> str:
        return f"{self.shared()}:signal:{worker}"

    def result(self, queue: str, id: str) -> Steps[JobView | None]:
        raise unsupported("results")

    def result_channel(self, queue: str, id: str) -> str:
        return f"{self.shared()}:ended:{id}"


def _sooner(nearest: int | None, next_ms: int | None) -> int | None:
    if nearest is None or next_ms is None:
        return nearest if next_ms is None else next_ms
    return min(nearest, next_ms)


def _stray(worker: str, queue: str, id: bytes, token: bytes, claimed: bytes) -> Lease:
    return Lease(worker, int(token), JobRecord(as_text(id), queue, None, b"", int(claimed)), 0, 0)
