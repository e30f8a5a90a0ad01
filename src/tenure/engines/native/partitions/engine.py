"""An engine around the native one, for queues with and without partitions. See docs/decisions/0026.

Each partition is an ordinary queue of the native engine (`core.partitions` has its name), so that no script knows of
the others. What is asked of the queue is asked of the partition that a job belongs to, or of all of them in turn. The
native engine serves queues without partitions directly.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias

from msgspec import structs

from tenure.core import limits
from tenure.core.engine import Alone, Feature, HeartbeatReply, Maintained
from tenure.core.errors import TenureError, is_away, is_silent
from tenure.core.job import Dropped, Lease, Leased, LeaseRef, Refused, together
from tenure.core.outcome import Completed, Outcome
from tenure.core.partitions import place_of, split_place
from tenure.core.shape import PLAIN
from tenure.core.steps import Command, Reply, Steps, T
from tenure.core.values import replace
from tenure.core.waiting import Lead, Wake
from tenure.core.worker_view import WorkerView
from tenure.engines.kit.chunks import Failures, known, sooner
from tenure.engines.kit.encoding import as_text
from tenure.engines.kit.engine import Ask
from tenure.engines.native.engine import Around, NativeConfig, NativeEngine, block
from tenure.engines.native.partitions.producer import PartitionedProducer
from tenure.engines.native.partitions.turns import Turns

_Order: TypeAlias = tuple[list[str], dict[str, Turns], list[Refused], bool]
"""Places, queues with partitions, queues whose number of partitions is unknown, and whether a post had one."""


class PartitionedEngine(PartitionedProducer):
    """Tenure's own wire format, as users have it: engine, inspector and controller of one namespace.

        engine = PartitionedEngine("shop")
        driver.run(engine.enqueue([NewJob("images", "id-1", b"cat.png")]))

    `make`: makes the native engine; on a cluster a `NativeClusterEngine`.
    """

    features = frozenset(Feature)
    traits = NativeEngine.traits
    name = NativeEngine.name
    layout = NativeEngine.layout

    def __init__(
        self,
        namespace: str = "tenure",
        config: NativeConfig | None = None,
        make: Callable[[str, NativeConfig | None, Around], NativeEngine] = NativeEngine,
    ) -> None:
        native = make(namespace, config, self)
        super().__init__(native)
        self.namespace, self.config, self.timing = native.namespace, native.config, native.timing
        self._turns: dict[str, Turns] = {}
        self._claims: set[str] = set()
        """Queues with partitions from which a worker of this process claims."""
        self._waits: set[str] = set()
        """Those for which it waits now."""
        self.limits = self.history = self.presence = native
        self.results = self.schedules = self.lanes = self.delays = self.settings = self.partitions = self
        self.flows, self.requests = native.flows, None
        # One place of a queue, or none, is all that these need.
        self.prefix, self.shared, self.signal_channel = native.prefix, native.shared, native.signal_channel
        self.queues, self.announced, self.layout_of = native.queues, native.announced, native.layout_of
        self.advance_limits = native.advance_limits
        self.extend, self.progress, self.result_channel = native.extend, native.progress, native.result_channel
        self.announce_schedules, self.due_schedules = native.announce_schedules, native.due_schedules
        self.schedule, self.schedule_page = native.schedule, native.schedule_page
        self.pause_schedule, self.resume_schedule = native.pause_schedule, native.resume_schedule
        self.remove_schedule, self.end_import = native.remove_schedule, native.end_import

    def note_map(self, place: str, text: bytes) -> None:
        self.maps.note(split_place(place)[0], as_text(text))

    def note_claim(self, place: str, left: int, next_ms: int | None) -> None:
        if self._turns:
            name, partition = split_place(place)
            if name in self._turns:
                self._turns[name].learn(partition, left, next_ms)

    def _turns_of(self, queue: str, partitions: int) -> Turns:
        turns = self._turns.get(queue)
        if turns is None or turns.partitions != partitions:
            turns = self._turns[queue] = Turns(partitions)
        return turns

    # -------------------------------------------------------------------------------------------------------- workers

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
        if self.maps.are_whole(queues):
            return self.native.claim_from(queues, limit, ask)
        return self._lease_from_places(queues, limit, ask)

    def _lease_from_places(self, queues: Sequence[str], limit: int, ask: Ask) -> Steps[Leased]:
        answers: list[Leased] = []
        while True:
            places, parted, unknown, posted = yield from self._order(queues, ask)
            if not parted and not unknown:
                return (yield from self.native.claim_from(queues, limit, ask))
            if ask.of_lane:
                of_places = {place: ask.of_lane.get(split_place(place)[0], 1) for place in places}
                asked = replace(ask, of_lane=of_places)
            else:
                asked = ask
            try:
                leased = yield from self.native.claim_from(places, limit, asked)
            except TenureError as error:
                # Among several places the engine itself continues with the others.
                if len(places) > 1 or is_away(error) or places[0] in queues:
                    raise
                leased = Leased(refused=(Refused(places[0], str(error)),))
            for queue, turns in parted.items():
                turns.suspect_in = None
                if len(leased.leases) >= limit and (partition := turns.to_post()) is not None:
                    yield from self.post(place_of(queue, partition))
            answers.append(self._whole(leased, parted, unknown))
            if leased.leases or not posted:
                return together(answers)

    def _order(self, queues: Sequence[str], ask: Ask) -> Steps[_Order]:
        """The places to claim from, in their order."""
        places: list[str] = []
        parted: dict[str, Turns] = {}
        unknown: list[Refused] = []
        is_posted = False
        for queue in queues:
            try:
                partitions = yield from self.partition_count(queue)
            except TenureError as error:
                if is_away(error) or len(queues) == 1:
                    raise
                unknown.append(Refused(queue, str(error)))
                continue
            if partitions == 1:
                places.append(queue)
                continue
            turns = parted[queue] = self._turns_of(queue, partitions)
            if ask.lease_ms is None:
                self._claims.add(queue)
            if turns.suspect_in is not None and ask.alone is not Alone.NO:
                places.append(place_of(queue, turns.suspect_in))
                continue
            posted = (yield from self._take_post(queue, turns)) if turns.takes_post() else None
            is_posted = is_posted or posted is not None
            if posted is None and turns.looks_around():
                yield from self._look_around(queue, turns)
            places += [place_of(queue, partition) for partition in turns.order(posted)]
        return places, parted, unknown, is_posted

    def _whole(self, leased: Leased, parted: Mapping[str, Turns], unknown: Sequence[Refused]) -> Leased:
        """The answer of a claim from partitions, as one from their queues."""
        refused = [*unknown]
        for one in leased.refused:
            queue, partition = split_place(one.queue)
            if queue not in parted:
                refused.append(one)
            elif parted[queue].refuse(partition):
                refused.append(Refused(queue, one.reason, partition))
        suspect_queue = leased.suspect_queue
        if suspect_queue is not None:
            suspect_queue, partition = split_place(suspect_queue)
            if suspect_queue in parted:
                parted[suspect_queue].suspect_in = partition
        dropped = tuple(Dropped(split_place(one.queue)[0], one.id, one.reason) for one in leased.dropped)
        next_ms = sooner(leased.next_ms, _soonest(parted))
        return Leased(leased.leases, dropped, tuple(refused), next_ms, suspect_queue)

    def _take_post(self, queue: str, turns: Turns) -> Steps[int | None]:
        try:
            posted = yield Command(("LPOP", f"{self.native.prefix(queue)}:post"))
        except TenureError as error:
            if is_silent(error):
                raise
            turns.look_everywhere()  # the node of the first partition is away, others may not be
            return None
        return int(posted) % turns.partitions if posted else None

    def _look_around(self, queue: str, turns: Turns) -> Steps[None]:
        for partition in range(turns.partitions):
            if (yield from _if_reached(self._flagged(place_of(queue, partition)))):
                turns.note(partition)

    def _post_if_flagged(self, place: str) -> Steps[bool]:
        is_flagged = yield from _if_reached(self._flagged(place))
        if is_flagged:
            yield from self.post(place)
        return bool(is_flagged)

    def _flagged(self, place: str) -> Steps[bool]:
        """Whether jobs may be ready: scripts push to `wake` for them, and a claim that leaves none deletes it."""
        return bool((yield Command(("LLEN", f"{self.native.prefix(place)}:wake"))))

    def wait(self, worker: str, queues: Sequence[str], timeout_ms: int) -> Wake | Lead:
        # Where the map of partitions must be read first, the claim would begin with another script.
        if self.maps.are_whole(queues):
            return self.native.wait(worker, queues, timeout_ms)
        return Wake(self._wake(queues, timeout_ms))

    def _known_partitions(self, queue: str) -> Steps[int]:
        """As `partitions`, or the last known number where Redis refuses the call: the claim reports that."""
        try:
            return (yield from self.partition_count(queue))
        except TenureError as error:
            if is_away(error):
                raise
            return self.maps.known(queue).places

    def _wake(self, queues: Sequence[str], timeout_ms: int) -> Steps[str | None]:
        """Wait for a job. A queue needs one connection, however many partitions it has."""
        keys, parted = {}, {}
        for queue in queues:
            partitions = yield from self._known_partitions(queue)
            if partitions > 1:
                parted[queue] = self._turns_of(queue, partitions)
            keys[f"{self.native.prefix(queue)}:{'post' if partitions > 1 else 'wake'}"] = queue
        for queue, turns in parted.items():
            if turns.next_ms() == 0:  # a job has ended since the last claim
                return queue
        self._waits |= parted.keys()
        try:
            reply: Reply = yield block(keys, timeout_ms)
        finally:
            self._waits -= parted.keys()
        woken = keys[reply[0].decode()] if reply else None
        if woken in parted:
            parted[woken].note(int(reply[1]) % parted[woken].partitions)
        return woken

    def settle(self, settlements: Sequence[tuple[Lease, Outcome]]) -> Steps[list[bool]]:
        if self._turns:
            return self._settle_in_places(settlements)
        for lease, _ in settlements:
            if lease.partition:
                return self._settle_in_places(settlements)
        return self.native.settle(settlements)

    def _settle_in_places(self, settlements: Sequence[tuple[Lease, Outcome]]) -> Steps[list[bool]]:
        answers = yield from self.native.settle(settlements)
        for place in {lease.place for lease, outcome in settlements if _may_wake(lease, outcome)}:
            queue, partition = split_place(place)
            if (yield from self._known_partitions(queue)) == 1:
                continue
            if queue in self._claims and queue not in self._waits:  # this worker has a free slot now
                self._turns[queue].note(partition)
            else:
                yield from self._post_if_flagged(place)
        return answers

    def heartbeat(self, worker: str, queues: Sequence[str], leases: Sequence[LeaseRef]) -> Steps[HeartbeatReply]:
        if self.maps.are_whole(queues) and not any(ref.partition for ref in leases):
            return self.native.heartbeat(worker, queues, leases)
        return self._heartbeat_places(worker, queues, leases)

    def _heartbeat_places(
        self, worker: str, queues: Sequence[str], leases: Sequence[LeaseRef]
    ) -> Steps[HeartbeatReply]:
        places: list[str] = []
        for queue in queues:
            partitions = yield from self._known_partitions(queue)
            held = {ref.partition for ref in leases if ref.queue == queue}
            if partitions == 1 and held <= {0}:
                places.append(queue)
            else:
                turns = self._turns_of(queue, max([partitions, *(one + 1 for one in held)]))
                places += [place_of(queue, partition) for partition in turns.beats(held)]
        reply = yield from self.native.heartbeat(worker, places, leases)
        if places == list(queues):
            return reply
        orphaned = tuple(map(_of_queue, reply.orphaned))
        cancelled = tuple(replace(one, ref=_ref_of_queue(one.ref)) for one in reply.cancelled)
        paused = frozenset(split_place(place)[0] for place in reply.paused)
        return replace(reply, orphaned=orphaned, cancelled=cancelled, paused=paused)

    def announce(self, worker: WorkerView) -> Steps[bool]:
        # A queue that is listed counts as used, and gets no partitions any more: so they come first.
        for queue in worker.queues:
            if self.maps.wanted.get(queue, 1) > 1:
                yield from _if_reached(self.maps.ask(queue))
        return (yield from self.native.announce(worker))

    def leave(self, worker: str, queues: Sequence[str], crashed: bool = False) -> Steps[int]:
        places: list[str] = []
        for queue in queues:
            partitions = yield from self._known_partitions(queue)
            places += [place_of(queue, partition) for partition in range(partitions)]
        released = yield from self.native.leave(worker, places, crashed)
        if released:
            for place in places:
                if place not in queues or place_of(place, 1) in places:
                    yield from self._post_if_flagged(place)
        return released

    def maintain(
        self,
        queues: Sequence[str],
        tasks: Sequence[str],
        limit: int = limits.TEND_LIMIT,
        raw_queues: Collection[str] = (),
    ) -> Steps[Maintained]:
        maintain = self.native.maintain
        places: list[str] = []
        for queue in queues:
            map = yield from self.maps.of(queue)
            if not map.before and (map.version or self.maps.wanted.get(queue, 1) > 1):
                yield from _if_reached(self.changes.take_back(queue, map))
            places += yield from self._places(queue)
        if len(places) == len(queues):
            return (yield from maintain(queues, tasks, limit, raw_queues))
        raw_places = [place for place in places if split_place(place)[0] in raw_queues]
        done = yield from maintain(places, tasks, limit, raw_places)
        failures = Failures()
        for place in places:
            if place not in queues or place_of(place, 1) in places:
                yield from failures.guard(self._post_if_flagged(place))
        failures.end()
        poisoned = tuple(replace(view, queue=split_place(view.queue)[0]) for view in done.poisoned)
        more, next_ms = done.more, known(done.next_ms)
        for queue in queues:
            if (yield from self.maps.of(queue)).sources:
                wait_ms = yield from self.changes.round(queue)
                more, next_ms = more or wait_ms == 0, sooner(next_ms, known(wait_ms))
        return replace(done, poisoned=poisoned, more=more, next_ms=-1 if next_ms is None else next_ms)


def _may_wake(lease: Lease, outcome: Outcome) -> bool:
    """Whether the end of a lease may make a job ready: its own, the next one of its lane, or one that waits for it."""
    ends_alone = isinstance(outcome, Completed) and not outcome.follow and not outcome.flows
    return lease.record.shape is not PLAIN or not ends_alone


def _of_queue(lease: Lease) -> Lease:
    """A lease whose record names a place, with the queue and the partition instead."""
    queue, partition = split_place(lease.record.queue)
    return structs.replace(lease, record=structs.replace(lease.record, queue=queue), partition=partition)


def _ref_of_queue(ref: LeaseRef) -> LeaseRef:
    queue, partition = split_place(ref.queue)
    return structs.replace(ref, queue=queue, partition=partition)


def _soonest(parted: Mapping[str, Turns]) -> int | None:
    soonest: int | None = None
    for turns in parted.values():
        soonest = sooner(soonest, turns.next_ms())
    return soonest


def _if_reached(steps: Steps[T]) -> Steps[T | None]:
    """The answer; None when the node is away."""
    try:
        return (yield from steps)
    except TenureError as error:
        if is_silent(error):
            raise
        return None
