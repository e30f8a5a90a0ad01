"""The native engine: what producers and workers need. Every transition is one script; see lua/ for each.

A queue is in one hash slot here, with its keys under one prefix. `partitions.engine` spreads a queue over several
slots: each of its places (`core.partitions`) is a queue of this engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, Protocol

from tenure.core import limits
from tenure.core.engine import Feature, Maintained, Trait
from tenure.core.errors import QueueFull, ReplyError
from tenure.core.flows import NewFlow
from tenure.core.job import Enqueued, JobView, Lease, NewJob, State
from tenure.core.minutes import Ends
from tenure.core.partitions import split_place
from tenure.core.shape import Progress
from tenure.core.steps import Arg, Command, Invoke, Reply, Steps
from tenure.core.waiting import Lead, Wake
from tenure.engines.kit.chunks import Part, known
from tenure.engines.kit.config import META_TTL_MS
from tenure.engines.kit.encoding import as_bytes, as_text
from tenure.engines.native.config import WATCH_TTL_MS, NativeConfig
from tenure.engines.native.control import NativeController
from tenure.engines.native.flows import SENDERS, SENT, NativeFlows
from tenure.engines.native.keys import namespace_prefix, queue_prefix
from tenure.engines.native.members import WholeQueues
from tenure.engines.native.minutes import ends_args
from tenure.engines.native.records import read_record, write_progress
from tenure.engines.native.schedules import NativeScheduler
from tenure.engines.native.scripts import IMPORTS, LAYOUT, SCRIPTS
from tenure.engines.native.wire import (
    TOO_LONG,
    WOKE,
    enqueue_call,
    new_part,
    outcome_part,
    read_enqueued,
    too_long,
)

MORE: Final = b"+"
"""The answer of a plain script for a queue that is more than plain."""
MORE_NOW: Final = b"-"
"""Its answer when only this call needs the full script."""
FULL_CALLS: Final = 1_000
"""How many calls in a row go to the full script of such a queue, until the plain one is tried again."""
FULL_MAX: Final = 10_000
"""Queues that an engine remembers as more than plain. With more, it forgets all of them."""

__all__ = ["NativeConfig", "NativeEngine"]


class Around(WholeQueues, Protocol):
    """An engine around this one, for queues in several places. This engine reports to it what its calls find there."""

    def list_queue(self, queue: str) -> Steps[None]:
        """Add a queue to the list of queues, in place of this engine."""

    def note_claim(self, place: str, left: int, next_ms: int | None) -> None:
        """Note what a claim has left, and how long until something may be due."""

    def note_map(self, place: str, text: bytes) -> None:
        """Note the map of partitions that a place has noted; empty: none."""

    def post(self, place: str) -> Steps[None]:
        """Name a place that has jobs to one of the workers that wait."""


class NativeEngine(NativeScheduler, NativeController):
    """Tenure's own wire format: engine, inspector and controller of one namespace. `around`: see there.

    engine = NativeEngine("shop")
    driver.run(engine.enqueue([NewJob("images", "id-1", b"cat.png")]))
    """

    name: ClassVar[str] = "native"
    features: ClassVar[frozenset[Feature]] = frozenset(Feature) - {Feature.PARTITIONS}
    traits: ClassVar[frozenset[Trait]] = frozenset(Trait) - {Trait.GROUPS, Trait.PASSED_RAW}
    scripts = SCRIPTS
    layout = LAYOUT
    _new_part = staticmethod(new_part)
    _outcome_part = staticmethod(outcome_part)

    def __init__(
        self, namespace: str = "tenure", config: NativeConfig | None = None, around: Around | None = None
    ) -> None:
        self.namespace = namespace
        self._around = around
        self.config = config or NativeConfig()
        super().__init__(self.config.timing, self.config.as_argument())
        self._lacking = frozenset()  # no job needs what this engine lacks: partitions
        self.results = self.schedules = self.limits = self.lanes = self.delays = self
        self.settings = self.history = self.presence = self
        self.flows = self._flows = NativeFlows(self, around or self, self.prepare, self.register, self.post_to)
        self._full: dict[tuple[str, str], int] = {}
        """Script and place of a queue that was more than plain, and for how many calls that is taken for granted."""

    def note_limit(self, template: str, queue: str) -> None:
        """A limit holds for all queues."""

    def _run(self, script: str, queue: str, args: tuple[Arg, ...], plain: bool = True) -> Steps[Reply]:
        """Call the plain script first: lua/claim.lua or lua/settle.lua. The full one is called for what the plain one
        refuses, under the same nonce: if the plain one has done its work, the full one finds its answer."""
        left = self._full.get((script, queue), 0)
        if plain and not left:
            reply = yield self._call(script, queue, args)
            if reply not in (MORE, MORE_NOW):
                return (yield from self._handed_over(queue, reply)) if script == "settle" else reply
            if reply == MORE:
                if len(self._full) >= FULL_MAX:
                    self._full.clear()
                self._full[script, queue] = FULL_CALLS
        elif plain:
            self._full[script, queue] = left - 1
        reply = yield self._call(f"{script}_full", queue, args)
        return (yield from self._handed_over(queue, reply)) if script == "settle" else reply

    def _handed_over(self, queue: str, reply: bytes) -> Steps[bytes]:
        """Hand over what the settlements have sent to other queues. Return their answers."""
        if not reply.endswith(SENT):
            return reply
        yield from self._flows.hand_over_soon(queue)
        return reply.removesuffix(SENT)

    def places(self, queue: str) -> Steps[Sequence[str]]:
        """The places of a queue: one, without partitions."""
        yield from ()
        return [queue]

    def _act(self, script: str, queue: str, *args: Arg) -> Steps[bytes]:
        reply = yield from super()._act(script, queue, *args)
        if script in SENDERS and reply.endswith(SENT) and not reply.startswith(b":"):  # `:`, and the id of another job
            yield from self._flows.hand_over_soon(queue)
            return reply.removesuffix(SENT)
        return reply

    def prefix(self, queue: str) -> str:
        return queue_prefix(self.namespace, queue)

    def shared(self) -> str:
        return namespace_prefix(self.namespace)

    def _list(self, queue: str) -> Steps[None]:
        return super()._list(queue) if self._around is None else self._around.list_queue(queue)

    def _note_claim(self, worker: str, queue: str, next_ms: int, notes: Sequence[int]) -> None:
        if self._around is not None:
            self._around.note_claim(queue, notes[0] if notes else 0, known(next_ms))

    def _note_map(self, queue: str, text: bytes) -> None:
        if self._around is not None:
            self._around.note_map(queue, text)

    def _add(self, jobs: Sequence[NewJob], queue: str, chunk: list[Part], room: int) -> Steps[Iterable[Enqueued]]:
        return self.add(jobs, queue, chunk, room)

    def add(
        self,
        jobs: Sequence[NewJob],
        place: str,
        chunk: list[Part],
        room: int,
        version: int | None = None,
        asks: bool = False,
    ) -> Steps[Iterable[Enqueued]]:
        """Add a chunk of `jobs` to one place. `version`, `asks`: see `wire.enqueue_call`."""
        script, asked, args = enqueue_call(chunk, room, version, asks)
        reply = yield from _with_room(place, self._act(script, place, asked, *args))
        if reply.endswith(WOKE):
            yield from self.post_to(place)
        return read_enqueued(jobs, chunk, reply)

    def post_to(self, place: str) -> Steps[None]:
        """Name a place that has jobs to a worker, if this is one of several of its queue."""
        if self._around is not None:
            yield from self._around.post(place)

    def prepare(self, jobs: Iterable[NewJob]) -> Steps[None]:
        """What the limits and shares of jobs need before the jobs are added. Here nothing, on a cluster notes."""
        yield from ()

    def import_jobs(self, name: str, jobs: Sequence[NewJob], map_version: int | None = None) -> Steps[list[bool]]:
        """Add the jobs of a move to one queue, once for each name of a move: see `engines.kit.moving`."""
        queue = jobs[0].queue
        yield from self.register(queue)
        parts = [new_part(position, job) for position, job in enumerate(jobs)]
        script, room, args = enqueue_call(parts, len(jobs), map_version)
        added = _added((yield from _with_room(queue, _one(self._import(script, queue, name, room, *args)))))
        if added is None:
            raise QueueFull(f"Another run of the migration found queue {queue!r} full.")
        return added

    def end_import(self, queue: str, name: str) -> Steps[list[bool] | None]:
        """Give up a move, unless its jobs were added: see `engines.kit.moving`."""
        return _added((yield self._import("enqueue", queue, name, 0)))

    def _import(self, script: str, queue: str, name: str, room: Arg, *args: Arg) -> Invoke:
        return Invoke(IMPORTS[script], self._keys(queue), (f"move-{name}", 1, room, *args))

    def _lease(self, worker: str, queue: str, row: list[Any], alone_ms: int) -> Lease:
        id, data, token, failures, crashes = row
        name, partition = split_place(queue) if "/" in queue else (queue, 0)
        return Lease(worker, int(token), read_record(name, id, data), failures, crashes, alone_ms, "", partition)

    def follow(self, queue: str, id: str, job: NewJob | NewFlow) -> Steps[State | None]:
        return self._flows.follow_in(queue, id, job)

    def progress(self, lease: Lease, progress: Progress) -> Steps[bool]:
        args: tuple[Arg, ...] = (lease.worker, as_bytes(lease.record.id), lease.token, write_progress(progress))
        noted: int = yield from self._ask("progress", lease.place, *args)
        return noted == 1

    def note_ends(self, queue: str, ends: Ends) -> Steps[None]:
        # A queue with partitions has one history, in its first partition.
        yield from self._act("note_ends", queue, *ends_args(ends))

    def _tidy(self, queue: str, tasks: Sequence[str], limit: int) -> Steps[Maintained]:
        reply = yield from self._ask("maintain", queue, self._config, limit, META_TTL_MS, *tasks)
        promoted, reclaimed, pruned, unparked, more, poison, tick_ms, outs, stopping, over, *notes = reply
        self._note_map(queue, notes[0] if notes else b"")
        poisoned = []
        for raw_id in poison:
            view = yield from self.job(queue, as_text(raw_id))
            if view is not None and view.state is State.BROKEN:
                poisoned.append(view)
        tending = self._flows.tend(queue, map(as_text, stopping), over > 0)
        refused = (yield from tending) if outs or stopping or over else ()
        return Maintained(
            promoted, reclaimed, pruned, unparked, more == 1, tuple(poisoned), tick_ms=known(tick_ms), refused=refused
        )

    def result(self, queue: str, id: str) -> Steps[JobView | None]:
        raw_id = as_bytes(id)
        reply = yield from self._ask("show", queue, raw_id, WATCH_TTL_MS)
        return self._view(queue, State(reply[0].decode()), raw_id, reply[1:]) if reply else None

    def wait(self, worker: str, queues: Sequence[str], timeout_ms: int) -> Wake | Lead:
        """Wait for a token in `wake`. An idle worker of one queue claims in the same write: see decision 0002."""
        keys = {f"{self.prefix(queue)}:wake": queue for queue in queues}
        if len(queues) > 1:
            return Wake(woken_by(keys, timeout_ms))
        most_ms = self.timing.lease_ms + self.timing.grace_ms - self.timing.beat_ms
        return Lead(block(keys, min(timeout_ms, most_ms)), queues[0], if_idle=True)

    def result_channel(self, queue: str, id: str) -> str:
        return f"{self.prefix(queue)}:ended:{id}"


def block(keys: Iterable[str], timeout_ms: int) -> Command:
    """Take a token of one of these lists, or wait for it."""
    block_ms = max(timeout_ms, limits.MIN_WAIT_MS)
    return Command(("BLPOP", *keys, f"{block_ms / limits.SECOND:.3f}"), block_ms=block_ms)


def woken_by(keys: Mapping[str, str], timeout_ms: int) -> Steps[str | None]:
    """Wait for a token in one of these lists. Return the queue of the list."""
    reply: Reply = yield block(keys, timeout_ms)
    return keys[reply[0].decode()] if reply else None


def _with_room(queue: str, steps: Steps[bytes]) -> Steps[bytes]:
    """Raise `QueueFull` where the script refuses jobs above the queue's maximum length."""
    try:
        return (yield from steps)
    except ReplyError as error:
        if error.prefix != TOO_LONG:
            raise
        raise too_long(queue, error) from error


def _added(letters: bytes) -> list[bool] | None:
    return None if letters == b"-" else [letter == ord("1") for letter in letters.removesuffix(WOKE)]


def _one(call: Invoke) -> Steps[bytes]:
    reply: bytes = yield call
    return reply
