"""What producers and workers need of an engine whose transitions are scripts, as far as all such engines do the same.

An engine adds what is its own: the arguments of a job and of an outcome, how it enqueues, how a record is read, and its
maintenance (`_new_part`, `_outcome_part`, `_add`, `_lease`, `_tidy`).
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tenure.core import limits
from tenure.core.engine import Alone, CancelAsked, Feature, HeartbeatReply, Maintained, Timing
from tenure.core.errors import InvalidArgument, QueueFull, TenureError, Unreachable, is_away
from tenure.core.job import Dropped, Enqueued, JobRecord, JobView, Lease, Leased, LeaseRef, NewJob, Refused, Token
from tenure.core.outcome import Outcome
from tenure.core.steps import Arg, Draw, Invoke, Nonce, Reply, Steps, working
from tenure.core.unsupported import check_job
from tenure.core.worker_view import WorkerView
from tenure.engines.kit.base import Scripted, checking_layout
from tenure.engines.kit.chunks import Ahead, Failures, Part, args_of, chunks, known, sooner
from tenure.engines.kit.config import META_TTL_MS, PRESENCE_TTL_MS
from tenure.engines.kit.encoding import RAW, as_bytes, as_text, message_of

Add: TypeAlias = Callable[[Sequence[NewJob], str, list[Part], int], Steps[Iterable[Enqueued]]]
"""Adds a chunk of jobs to a place: see `ScriptedEngine._add`."""
AddAll: TypeAlias = Callable[[str, Sequence[NewJob], Sequence[int], dict[int, Enqueued]], Steps[None]]
"""Adds the jobs at some positions to one queue: see `ScriptedEngine._add_all`."""
REGISTER_S: Final = 30.0
"""With the first enqueue after this time an engine lists a queue again: Redis may have been emptied."""
REGISTERED_MAX: Final = 10_000
"""Queues that an engine knows as listed. With more, it lists all again."""


class Ask(Struct, frozen=True):
    """What a worker asks for in a claim: see `core.engine.Engine.lease`."""

    worker: str
    slots: int
    lease_ms: int | None
    of_lane: Mapping[str, int]
    alone: Alone


class ScriptedEngine(Scripted):
    """The working half of an engine. See `core.engine.Engine` for what each operation promises."""

    name: ClassVar[str]
    features: ClassVar[frozenset[Feature]]

    def __init__(self, timing: Timing, config: str) -> None:
        self.timing = timing
        self._config = config
        self._lacking = frozenset(Feature) - self.features
        self._registered: dict[str, float] = {}
        """Queues that were listed, and when they are listed again."""

    def _check_new(self, job: NewJob) -> None:
        """Raise `UnsupportedFeature` or `InvalidArgument` for a job that the format cannot hold, before any is sent."""
        check_job(self.name, self._lacking, job)

    @staticmethod
    @abstractmethod
    def _new_part(position: int, job: NewJob) -> Part:
        """A new job, as the script `enqueue` takes it. It may be called when other jobs of the call are in Redis."""

    @abstractmethod
    def _add(self, jobs: Sequence[NewJob], queue: str, chunk: list[Part], room: int) -> Steps[Iterable[Enqueued]]:
        """Add a chunk of `jobs`. `room`: for how many the queue must have room; 0 when a call before has asked."""

    @staticmethod
    @abstractmethod
    def _outcome_part(position: int, lease: Lease, outcome: Outcome) -> Part:
        """The end of a lease, as the script `settle` takes it."""

    @abstractmethod
    def _lease(self, worker: str, queue: str, row: list[Any], alone_ms: int) -> Lease:
        """A job in the reply of the script `claim`."""

    @staticmethod
    def _token(text: bytes) -> Token:
        """A fencing token, from its text in the reply of a script."""
        return int(text)

    def _dropped(self, queue: str, entry: Any) -> Dropped:
        """An entry of the queue that was no job, in the reply of the script `claim`."""
        return Dropped(queue, as_text(entry), "listed as ready, but there is no such job")

    def _note_claim(self, worker: str, queue: str, next_ms: int, notes: Sequence[int]) -> None:
        """What the script `claim` of an engine answers beyond that of others."""

    def _note_map(self, queue: str, text: bytes) -> None:
        """What the script `heartbeat` of an engine answers beyond that of others: a map of the queue's partitions, or
        nothing."""

    @abstractmethod
    def _tidy(self, queue: str, tasks: Sequence[str], limit: int) -> Steps[Maintained]:
        """Maintain one queue."""

    def enqueue(self, jobs: Sequence[NewJob], add_all: AddAll | None = None) -> Steps[list[Enqueued]]:
        """`add_all`: called in place of the method of that name."""
        if self._lacking:
            for job in jobs:
                self._check_new(job)
        return _each_queue(jobs, add_all or self._add_all)

    def _add_all(
        self, queue: str, jobs: Sequence[NewJob], positions: Sequence[int], answers: dict[int, Enqueued]
    ) -> Steps[None]:
        """Add those of the jobs at `positions` to one queue, and put down the answers."""
        yield from self.register(queue)
        yield from self.add_to(queue, jobs, positions, answers, self._add)

    def add_to(
        self, place: str, jobs: Sequence[NewJob], positions: Sequence[int], answers: dict[int, Enqueued], add: Add
    ) -> Steps[None]:
        """Add jobs to one place of a queue (see `core.partitions`), as many in each call of `add` as one may have."""
        # The first call makes sure that there is room for all: then those that follow need not ask.
        room, left = len(positions), len(positions)
        parts = Ahead(chunks(self._new_part(position, jobs[position]) for position in positions))
        while (chunk := parts.take()) is not None:
            adding = add(jobs, place, chunk, room)
            left -= len(chunk)
            added = yield from working(adding, parts.look) if left else adding
            room = 0
            for part, answer in zip(chunk, added, strict=True):
                answers[part.position] = answer

    def register(self, queue: str) -> Steps[None]:
        """List the queue before its first job of this engine, and again now and then."""
        now, again_at = time.monotonic(), self._registered.get(queue)
        if again_at is not None and now < again_at:
            return
        if len(self._registered) >= REGISTERED_MAX:
            self._registered.clear()
        try:
            yield from self._list(queue)
        except TenureError as error:
            if is_away(error) or again_at is None:
                raise  # else the node with the list is away, the node of the queue may not be
        self._registered[queue] = now + REGISTER_S

    def _list(self, queue: str) -> Steps[None]:
        yield Invoke(self.scripts["register"], (self.shared(),), (as_bytes(queue), META_TTL_MS))

    def lease(
        self,
        worker: str,
        queues: Sequence[str],
        limit: int,
        lease_ms: int | None = None,
        slots: int = limits.MAX_HELD,
        of_lane: Mapping[str, int] | None = None,
        alone: Alone = Alone.NOW,
    ) -> Steps[Leased]:
        ask = Ask(worker, slots, lease_ms, of_lane or {}, alone)
        return self.claim_from(queues, limit, ask)

    def claim_from(self, queues: Sequence[str], limit: int, ask: Ask) -> Steps[Leased]:
        """Claim from these queues, or partitions of queues."""
        leases: list[Lease] = []
        dropped: list[Dropped] = []
        refused: list[Refused] = []
        nearest: int | None = None
        suspect_queue: str | None = None
        for queue in queues:
            wanted = min(limit - len(leases), limits.MAX_BATCH)
            if wanted <= 0:
                break
            try:
                got = yield from checking_layout(queue, self._claim(queue, wanted, ask))
            except TenureError as error:
                if leases and is_away(error):
                    break  # the leases from the queues before must reach the worker
                if len(queues) == 1 or is_away(error):
                    raise
                refused.append(Refused(queue, str(error)))
                continue
            if len(queues) == 1:
                return got
            leases += got.leases
            dropped += got.dropped
            nearest = sooner(nearest, got.next_ms)
            suspect_queue = got.suspect_queue
            if suspect_queue is not None or (got.leases and got.leases[0].alone_ms):
                break
            if got.leases:
                ask = replace(ask, alone=Alone.NO)
        return Leased(tuple(leases), tuple(dropped), tuple(refused), nearest, suspect_queue)

    def _claim(self, queue: str, limit: int, ask: Ask) -> Steps[Leased]:
        """Claim from one queue."""
        nonce: Nonce = yield Draw()
        who: tuple[Arg, ...] = (nonce.session, nonce.number, self._config, as_bytes(ask.worker), limit)
        kind = str(ask.slots) if ask.lease_ms is None else "h"
        args = (*who, ask.lease_ms or self.timing.lease_ms, kind, ask.alone.value, ask.of_lane.get(queue, 1))
        next_ms, rows, lost, how, *notes = yield from self._run("claim", queue, args)
        self._note_claim(ask.worker, queue, next_ms, notes)
        leases = [self._lease(ask.worker, queue, row, max(0, how)) for row in rows]
        dropped = [self._dropped(queue, entry) for entry in lost]
        return Leased(tuple(leases), tuple(dropped), (), known(next_ms), queue if how < 0 else None)

    def _run(self, script: str, queue: str, args: tuple[Arg, ...], plain: bool = True) -> Steps[Reply]:
        """Call `claim` or `settle`. `plain`: as far as the caller knows, the call is about plain jobs only."""
        return (yield self._call(script, queue, args))

    def settle(self, settlements: Sequence[tuple[Lease, Outcome]]) -> Steps[list[bool]]:
        answers = [False] * len(settlements)
        groups: dict[tuple[str, str], dict[tuple[str, Token], Part]] = {}
        part_of = self._outcome_part
        for position, (lease, outcome) in enumerate(settlements):
            record = lease.record
            whose = lease.place if lease.partition else record.queue, lease.worker
            try:
                parts = groups[whose]
            except KeyError:
                parts = groups[whose] = {}
            ref = record.id, lease.token
            if ref not in parts:
                parts[ref] = part_of(position, lease, outcome)
        for (queue, worker), parts in groups.items():
            for chunk in chunks(parts.values()):
                nonce: Nonce = yield Draw()
                args = (nonce.session, nonce.number, self._config, as_bytes(worker), *args_of(chunk))
                reply = yield from self._run("settle", queue, args, plain=all(map(_completes_plain, chunk)))
                for part, settled in zip(chunk, reply, strict=True):
                    answers[part.position] = settled == ord("1")
        return answers

    def extend(self, lease: Lease, ms: int) -> Steps[bool]:
        if not limits.MIN_LEASE_MS <= ms <= limits.MAX_LEASE_MS:
            raise InvalidArgument(f"A lease lasts {limits.MIN_LEASE_MS} ms to {limits.MAX_LEASE_MS} ms, not {ms} ms.")
        who: tuple[Arg, ...] = (as_bytes(lease.worker), as_bytes(lease.record.id), lease.token)
        return (yield from self._act("extend", lease.place, self._config, *who, ms)) == b"1"

    def heartbeat(self, worker: str, queues: Sequence[str], leases: Sequence[LeaseRef]) -> Steps[HeartbeatReply]:
        lost: list[LeaseRef] = []
        orphaned: list[Lease] = []
        cancelled: list[CancelAsked] = []
        paused: set[str] = set()
        nearest: int | None = None
        failures = Failures()
        for queue in queues:
            asked = [lease for lease in leases if lease.place == queue]
            pairs: tuple[Arg, ...] = tuple(arg for lease in asked for arg in (as_bytes(lease.id), lease.token))
            reply = yield from failures.guard(self._ask("heartbeat", queue, self._config, as_bytes(worker), *pairs))
            if reply is None:
                continue
            # The next two: only of an engine whose running jobs can be asked to end, and whose queues can be paused.
            positions, held, next_ms, *more = reply
            wishes, is_paused, *notes = more or ((), 0)
            self._note_map(queue, notes[0] if notes else b"")
            lost += [asked[position] for position in positions]
            orphaned += [_orphaned(worker, queue, id, self._token(token), claimed) for id, token, claimed in held]
            nearest = sooner(nearest, known(next_ms))
            cancelled += [_wish(queue, id, self._token(token), body) for id, token, body in wishes]
            paused |= {queue} if is_paused else set()
        failures.end()
        return HeartbeatReply(frozenset(lost), tuple(orphaned), nearest, tuple(cancelled), frozenset(paused))

    def leave(self, worker: str, queues: Sequence[str], crashed: bool = False) -> Steps[int]:
        released = 0
        failures = Failures()
        name = as_bytes(worker)
        for queue in queues:
            # Each call releases at least one job, if there is any. If this process ends in between, the leases expire.
            for _ in range(limits.MAX_HELD):
                reply = yield from failures.guard(self._act("leave", queue, self._config, name, int(crashed)))
                count, more, _ = (reply or b"0").partition(b"+")
                released += int(count)
                if not more:
                    break
        yield from failures.guard(self._of_all("withdraw", name))
        failures.end()
        return released

    def maintain(
        self,
        queues: Sequence[str],
        tasks: Sequence[str],
        limit: int = limits.TEND_LIMIT,
        raw_queues: Collection[str] = (),
    ) -> Steps[Maintained]:
        promoted = reclaimed = pruned = unparked = 0
        more, next_ms, tick_ms = False, -1, None
        poisoned: list[JobView] = []
        refused: list[Refused] = []
        failures = Failures()
        for queue in queues:
            offered = (*tasks, RAW) if queue in raw_queues else tuple(tasks)
            tidy = self._tidy(queue, offered, min(limit, limits.MAX_BATCH))
            done = yield from failures.guard(checking_layout(queue, tidy))
            if done is not None:
                promoted += done.promoted
                reclaimed += done.reclaimed
                pruned += done.pruned
                unparked += done.unparked
                more = more or done.more
                poisoned += done.poisoned
                next_ms = min((ms for ms in (next_ms, done.next_ms) if ms >= 0), default=-1)
                tick_ms = sooner(tick_ms, done.tick_ms)
                refused += done.refused
        failures.end()
        moved = (promoted, reclaimed, pruned, unparked, more)
        return Maintained(*moved, tuple(poisoned), next_ms, tick_ms, tuple(refused))

    def announce(self, worker: WorkerView) -> Steps[bool]:
        lasting = (PRESENCE_TTL_MS, META_TTL_MS)
        shown: tuple[Arg, ...] = (as_bytes(worker.id), msgspec.json.encode(worker), *lasting)
        quiet: int = yield from self._of_all("announce", *shown, *map(as_bytes, worker.queues))
        return quiet == 1

    def _of_all(self, script: str, *args: Arg) -> Steps[Reply]:
        """A call about no queue in particular."""
        return (yield Invoke(self.scripts[script], (self.shared(),), args))


def _each_queue(jobs: Sequence[NewJob], add_all: AddAll) -> Steps[list[Enqueued]]:
    """Add jobs to one queue after the other."""
    answers: dict[int, Enqueued] = {}
    for queue, positions in _positions(jobs).items():
        try:
            yield from add_all(queue, jobs, positions, answers)
        except (QueueFull, Unreachable) as error:
            if answers:  # the calls before have added theirs
                before = f"Of {len(jobs):,} jobs, {len(answers):,} had been enqueued before that."
                error.args = (f"{error} {before}",)
            raise
    return [answers[position] for position in range(len(jobs))]


def _completes_plain(part: Part) -> bool:
    """Whether a part of a settlement completes a plain job."""
    return (part.weight == 1 and part.args[2] == "c") or part.args[2] == "n"


def _orphaned(worker: str, queue: str, id: bytes, token: Token, claimed: bytes) -> Lease:
    return Lease(worker, token, JobRecord(as_text(id), queue, b"", int(claimed)), 0, 0)


def _wish(queue: str, id: bytes, token: Token, body: bytes) -> CancelAsked:
    return CancelAsked(LeaseRef(queue, as_text(id), token), message_of(body))


def _positions(jobs: Sequence[NewJob]) -> Mapping[str, Sequence[int]]:
    """The positions of the jobs of each queue."""
    queues = {job.queue for job in jobs}
    if len(queues) == 1:  # as it is for most calls
        return dict.fromkeys(queues, range(len(jobs)))
    found: dict[str, list[int]] = {}
    for position, job in enumerate(jobs):
        found.setdefault(job.queue, []).append(position)
    return found
