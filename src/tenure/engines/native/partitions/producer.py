"""The enqueueing half of the native engine: which job goes to which partition of its queue."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Final

from tenure.core.errors import ReplyError, TenureError, UnsupportedFeature
from tenure.core.job import Enqueued, NewJob
from tenure.core.partitions import PartitionMap, key_of, place_of, split_place
from tenure.core.shape import PLAIN
from tenure.core.steps import Steps
from tenure.engines.native.engine import NativeEngine
from tenure.engines.native.partitions.controller import PartitionedController
from tenure.engines.native.wire import NOT_HERE

NO_POST_S: Final = 30.0
"""How long no partition of a queue is named to its workers after that has failed: each attempt may take seconds."""


class PartitionedProducer(PartitionedController):
    """Adds jobs by the map of their queue, which another process may replace meanwhile: see decision 0027."""

    def __init__(self, native: NativeEngine) -> None:
        super().__init__(native)
        self._no_post_until: dict[str, float] = {}

    def want_partitions(self, queue: str, partitions: int) -> None:
        """The number of partitions that a queue gets when it is first used."""
        self.maps.wanted[queue] = partitions

    def list_queue(self, queue: str) -> Steps[None]:
        # One call for both, as a queue that is listed has been used.
        yield from self.maps.register(queue)

    def enqueue(self, jobs: Sequence[NewJob]) -> Steps[list[Enqueued]]:
        return self.native.enqueue(jobs, self._add_all)

    def import_jobs(self, name: str, jobs: Sequence[NewJob]) -> Steps[list[bool]]:
        """Add the jobs of a move to one queue, once for each name of a move: see `engines.kit.moving`."""
        queue = jobs[0].queue

        def import_by(map: PartitionMap) -> Steps[list[bool]]:
            if map.is_parted:
                raise UnsupportedFeature(
                    f"Queue {queue!r} has partitions; jobs of other wire formats move to one without."
                )
            return self.native.import_jobs(name, jobs, map.version)

        yield from self.native.register(queue)
        return (yield from self.changes.following(queue, import_by))

    def _add_all(
        self, queue: str, jobs: Sequence[NewJob], positions: Sequence[int], answers: dict[int, Enqueued]
    ) -> Steps[None]:
        def add(map: PartitionMap) -> Steps[None]:
            left = [position for position in positions if position not in answers] if answers else positions
            return self._add_by(map, queue, jobs, left, answers)

        yield from self.native.register(queue)
        if self.maps.are_whole((queue,)):
            try:
                return (yield from self.native.add_to(queue, jobs, positions, answers, self.native.add))
            except ReplyError as error:
                self.maps.note_refusal(queue, error)
        yield from self.changes.following(queue, add)

    def _add_by(
        self,
        map: PartitionMap,
        queue: str,
        jobs: Sequence[NewJob],
        positions: Sequence[int],
        answers: dict[int, Enqueued],
    ) -> Steps[None]:
        if not map.version:
            return (yield from self.native.add_to(queue, jobs, positions, answers, self.native.add))
        homes: dict[int, list[int]] = {}
        olds: dict[int, list[int]] = {}
        for position in positions:
            job = jobs[position]
            if map.is_parted and job.shape is not PLAIN:
                _check(job)
            old, *_ = both = map.homes(key_of(job.id, job.shape))
            of_group = job.own_id or job.shape.lane is not None or job.shape.unique is not None
            groups, home = (olds, old) if of_group and len(both) > 1 else (homes, both[-1])
            groups.setdefault(home, []).append(position)
        for old, there in olds.items():
            for position in (yield from self._ask_old(place_of(queue, old), map, jobs, there, answers)):
                job = jobs[position]
                homes.setdefault(map.homes(key_of(job.id, job.shape))[-1], []).append(position)
        add = partial(self.native.add, version=map.version)
        for home, there in homes.items():
            yield from self.native.add_to(place_of(queue, home), jobs, sorted(there), answers, add)

    def _ask_old(
        self,
        place: str,
        map: PartitionMap,
        jobs: Sequence[NewJob],
        positions: Sequence[int],
        answers: dict[int, Enqueued],
    ) -> Steps[list[int]]:
        """Add the jobs whose lane, key or id is still in the old partition. Return the positions of the others."""
        asked: dict[int, Enqueued] = {}
        try:
            yield from self.native.add_to(
                place, jobs, positions, asked, partial(self.native.add, version=map.version, asks=True)
            )
        finally:
            answers |= {position: answer for position, answer in asked.items() if answer is not NOT_HERE}
        return [position for position in positions if asked[position] is NOT_HERE]

    def reschedule(
        self,
        queue: str,
        id: str,
        *,
        delay_ms: int | None = None,
        run_at_ms: int | None = None,
        priority: int | None = None,
    ) -> Steps[bool]:
        def reschedule_by(map: PartitionMap) -> Steps[bool]:
            def reschedule_in(place: str) -> Steps[bool]:
                is_changed = yield from self.native.reschedule(
                    place, id, delay_ms=delay_ms, run_at_ms=run_at_ms, priority=priority, map_version=map.version
                )
                if is_changed and map.places > 1:
                    yield from self.post(place)
                return is_changed

            return self._first(queue, id, reschedule_in, False, refuses_old_maps=True)

        return (yield from self.changes.following(queue, reschedule_by))

    def post(self, place: str) -> Steps[None]:
        """Name a partition that has jobs to one of the workers that wait; of a queue without partitions nothing.

        Only a hint: workers look into all partitions anyway. So it never fails what it comes after, and where it fails,
        as with a lost node of the first partition, it is left out for a time.
        """
        queue, partition = split_place(place)
        is_whole = self.maps.known(queue).places == 1
        if is_whole or time.monotonic() < self._no_post_until.get(queue, 0.0):
            return
        try:
            yield from self.native.post(queue, partition)
        except TenureError:
            self._no_post_until[queue] = time.monotonic() + NO_POST_S


def _check(job: NewJob) -> None:
    """Raises `UnsupportedFeature` for a job whose parts belong to different partitions."""
    shape = job.shape
    if shape.lane is not None and shape.unique is not None:
        raise UnsupportedFeature(
            f"Queue {job.queue!r} has partitions: a job there has a lane or a unique key, not both. Lane and key may "
            "belong to different partitions, and no script sees two of them."
        )
    if shape.limits or shape.share is not None:
        raise UnsupportedFeature(
            f"Queue {job.queue!r} has partitions: jobs with limits or a share need a queue without partitions."
        )
