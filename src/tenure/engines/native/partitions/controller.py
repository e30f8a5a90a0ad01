"""Changes a queue in several partitions as one queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from tenure.core import limits, names
from tenure.core.errors import ReplyError, TenureError, Unreachable, UnsupportedFeature, invalid, is_silent
from tenure.core.flows import NewFlow
from tenure.core.job import NewJob, State
from tenure.core.partitions import PartitionMap, place_of, share_of, split_place
from tenure.core.schedules.schedule import ScheduleSpec, Tick, Ticked
from tenure.core.shape import CancelAnswer, CancelCount, LaneFailure, QueueSettings, Shape
from tenure.core.steps import Steps
from tenure.engines.native.control import PARK_USED
from tenure.engines.native.inspect import read_settings
from tenure.engines.native.partitions.inspector import PartitionedInspector
from tenure.engines.native.partitions.maps import MAP_TRIES
from tenure.engines.native.partitions.views import settings_of
from tenure.engines.native.wire import MOVES, NOT_PARTED

T = TypeVar("T")


class PartitionedController(PartitionedInspector):
    """The acting half of the engine."""

    def retry(self, queue: str, id: str, payload: bytes | None = None, reshaped: Shape | None = None) -> Steps[bool]:
        def retry_by(map: PartitionMap) -> Steps[bool]:
            if map.is_parted and reshaped is not None and reshaped.unique is not None:
                raise UnsupportedFeature(
                    f"Job {id!r} has a unique key that is made from its arguments, and its queue has partitions: the "
                    "key of other arguments may belong to another one. Discard the job and enqueue it again."
                )
            ask = partial(self._retry_in, id=id, edit=(payload, reshaped), map=map)
            return self._first(queue, id, ask, False, refuses_old_maps=True)

        return (yield from self.changes.following(queue, retry_by))

    def _retry_in(self, place: str, id: str, edit: tuple[bytes | None, Shape | None], map: PartitionMap) -> Steps[bool]:
        try:
            is_retried = yield from self.native.retry(place, id, *edit, map.version)
        except ReplyError as error:
            if error.prefix == NOT_PARTED:
                raise UnsupportedFeature(
                    f"Job {id!r} has limits, or a lane and a unique key, and its queue has partitions now: it cannot "
                    "run there. Enqueue it to another queue."
                ) from error
            if error.prefix == MOVES:
                yield from self.changes.move(*split_place(place), id)
            raise
        if is_retried and map.places > 1:
            yield from self.post(place)
        return is_retried

    def discard(self, queue: str, id: str) -> Steps[bool]:
        return (yield from self._first(queue, id, lambda place: self.native.discard(place, id), False))

    def follow(self, queue: str, id: str, job: NewJob | NewFlow) -> Steps[State | None]:
        return (yield from self._first(queue, id, lambda place: self.native.follow(place, id, job), None))

    def cancel(self, queue: str, id: str, reason: str = "") -> Steps[CancelAnswer]:
        def cancel(place: str) -> Steps[CancelAnswer]:
            return self.native.cancel(place, id, reason)

        return (yield from self._first(queue, id, cancel, CancelAnswer.NOTHING))

    def cancel_each(self, queue: str, ids: Sequence[str], reason: str) -> Steps[list[CancelAnswer]]:
        """As `cancel`, for members of groups, which do not change their partitions while they are looked for twice."""
        found: dict[str, CancelAnswer] = dict.fromkeys(ids, CancelAnswer.NOTHING)
        for place in (yield from self._places(queue)):
            left = [id for id, answer in found.items() if not answer]
            found.update(zip(left, (yield from self.native.cancel_each(place, left, reason)), strict=True))
        return list(found.values())

    def places(self, queue: str) -> Steps[Sequence[str]]:
        return (yield from self._places(queue))

    def cancel_all(self, queue: str, lane: str | None = None, reason: str = "") -> Steps[CancelCount]:
        counts = Counter[str]()

        def cancel(place: str, map: PartitionMap) -> Steps[None]:
            count = yield from self.native.cancel_all(place, lane, reason, map.version)
            counts.update(cancelled=count.cancelled, requested=count.requested)

        yield from self._in_each(queue, lane, cancel)
        return CancelCount(counts["cancelled"], counts["requested"])

    def _in_each(self, queue: str, lane: str | None, act: Callable[[str, PartitionMap], Steps[None]]) -> Steps[None]:
        """Act in all partitions of a queue, or in those where a lane may be: first in those that jobs leave."""

        def act_by(map: PartitionMap) -> Steps[None]:
            def act_in(place: str) -> Steps[None]:
                yield from act(place, map)
                yield from self._finish_moves_of(queue, place)

            places = yield from (self._places(queue) if lane is None else self._homes_of_lane(queue, lane))
            yield from _where_reached([act_in(place) for place in places])

        yield from self.changes.following(queue, act_by)

    def purge(self, queue: str, state: State) -> Steps[int]:
        removed: list[int] = []

        def remove(place: str, map: PartitionMap) -> Steps[None]:
            removed.append((yield from self.native.purge(place, state, map.version)))

        yield from self._in_each(queue, None, remove)
        return sum(removed)

    def configure(
        self,
        queue: str,
        *,
        max_length: int | None = None,
        lane_failure: LaneFailure | None = None,
        paused: bool | None = None,
    ) -> Steps[QueueSettings]:
        if max_length is not None:
            names.count(max_length, "max_length", most=limits.MAX_QUEUE_LENGTH)
        values: dict[int, dict[str, str]] = {}
        map = yield from self.maps.to_configure(queue, bool(max_length or lane_failure is not None or paused))
        for _ in range(MAP_TRIES):
            if max_length is not None and 0 < max_length < map.number:
                rule = f"0, or at least {map.number}, the number of the queue's partitions"
                raise invalid("max_length", rule, str(max_length))

            def set_in(partition: int, map: PartitionMap = map) -> Steps[None]:
                in_use = max_length is not None and partition < map.number
                share = share_of(max_length or 0, partition, map.number) if in_use else None
                place = place_of(queue, partition)
                values[partition] = yield from self.native.set_in(place, share, lane_failure, paused)
                if paused is False and map.places > 1:
                    yield from self.post(place)
                self.maps.note(queue, values[partition].get("map", ""))

            yield from _where_reached([set_in(partition) for partition in map.order])
            known, map = map, (yield from self.maps.of(queue))
            if map.version == known.version and (not map.version or all("map" in values[n] for n in map.order)):
                break  # else a partition was unknown, or another process may note the map there with old settings
        keys = {
            partition: f"{self.native.prefix(place_of(queue, partition))}:settings" for partition in range(map.number)
        }
        return settings_of([read_settings(values[partition], key) for partition, key in keys.items()])

    def repartition(self, queue: str, partitions: int) -> Steps[None]:
        yield from self.changes.begin(queue, partitions)

    def partitions_outside(self, queue: str) -> Steps[list[int]]:
        return (yield from self.changes.outside(queue, (yield from self.maps.ask(queue)).places))

    def park_lane(self, queue: str, lane: str) -> Steps[bool]:
        def park(map: PartitionMap) -> Steps[bool]:
            *olds, home = yield from self._homes_of_lane(queue, lane)
            parked = False
            for old in olds:
                parked = yield from self.native.park_lane(old, lane, map.version, PARK_USED)
                yield from self._finish_moves_of(queue, old)
            return (yield from self.native.park_lane(home, lane, map.version)) or parked

        return (yield from self.changes.following(queue, park))

    def resume_lane(self, queue: str, lane: str) -> Steps[bool]:
        resumed: list[str] = []

        def resume(map: PartitionMap) -> Steps[None]:
            for home in (yield from self._homes_of_lane(queue, lane)):
                if (yield from self.native.resume_lane(home, lane, map.version)):
                    resumed.append(home)
                yield from self._finish_moves_of(queue, home)

        yield from self.changes.following(queue, resume)
        if (yield from self.partition_count(queue)) > 1:
            for home in resumed:
                yield from self.post(home)
        return bool(resumed)

    def advance(self, queue: str, ms: int) -> Steps[None]:
        for place in (yield from self._places(queue)):
            yield from self.native.advance(place, ms)

    def tick(self, queue: str, ticks: Sequence[Tick]) -> Steps[list[Ticked | TenureError]]:
        """Schedules and the jobs of their ticks are in the first partition."""
        answers = yield from self.native.tick(queue, ticks)
        if (yield from self.partition_count(queue)) > 1:
            yield from self.post(queue)
        return answers

    def put_schedule(
        self, spec: ScheduleSpec, digest: str, expected: str, planned_ms: int, fire_ms: int
    ) -> Steps[bool]:
        def put(map: PartitionMap) -> Steps[bool]:
            if map.is_parted and (spec.shape.lane is not None or spec.shape.unique is not None):
                raise UnsupportedFeature(
                    f"Queue {spec.queue!r} has partitions: the jobs of a schedule there have no lane and no unique key."
                )
            return self.native.put_schedule(spec, digest, expected, planned_ms, fire_ms, map.version)

        return (yield from self.changes.following(spec.queue, put))


def _where_reached(of_partitions: Sequence[Steps[None]]) -> Steps[None]:
    """Run the steps of each partition, also if nodes of some are lost; then raise the error of the first of these."""
    lost: Unreachable | None = None
    for steps in of_partitions:
        try:
            yield from steps
        except Unreachable as error:
            if is_silent(error):
                raise
            lost = lost or error
    if lost is not None:
        lost.args = (f"{lost} The partitions on other nodes are done.",)
        raise lost
