"""Moves a queue with all its jobs to another server, page by page, while both sides work.

A run may be killed between any two calls. What it has begun is in Redis: the next run finds it and continues.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol, TypeVar

from msgspec import structs

from tenure.client.inspect import lanes_in
from tenure.client.schedules import schedules_in
from tenure.core import limits
from tenure.core.engine import FullEngine
from tenure.core.errors import NotDurable, UnsupportedFeature
from tenure.core.features import Feature
from tenure.core.job import WAITING, State
from tenure.core.ports import LanePort, SettingsPort, needed
from tenure.core.schedules.schedule import SchedulePort, StoredSchedule
from tenure.core.shape import LaneFailure, LaneState, LaneView
from tenure.core.steps import Steps, Work, durably
from tenure.engines.kit.moving import CLOSED, CLOSED_BY, Row, Transferable, move_pages

T = TypeVar("T")

MOVES: Final = "moves to another server"
"""The reason of the pause of a schedule that moves."""
RECORDS: Final = (State.FAILED, State.BROKEN, State.CANCELLED)


class TransferRun(Protocol):
    """Runs steps on one of the two servers."""

    def __call__(self, steps: Steps[T]) -> T: ...


@dataclass(frozen=True, slots=True)
class Side:
    """A queue on one server. `engine` and `transfer` are of the same wire format on both sides.

    It is the target of `move_pages` for steps of the other side. `replicas`: how many of its replicas must have what
    arrives, before the other side forgets it.
    """

    run: TransferRun
    engine: FullEngine
    transfer: Transferable
    queue: str
    replicas: int = 0

    def copy(self, steps: Steps[T], *ids: str) -> T:
        """Add what the other side forgets afterwards. Raises `NotDurable`: the next run sends it again, and waits."""
        if not self.replicas:
            return self.run(steps)
        durable = self.run(durably(steps, self.replicas))
        if durable.replicas < self.replicas:
            raise NotDurable(ids, durable.replicas, self.replicas, durable.trouble)
        return durable.answer

    def prefix(self, queue: str) -> str:
        return self.engine.prefix(queue)

    def import_jobs(self, name: str, jobs: Sequence[Row]) -> Steps[list[bool]]:
        steps = self.transfer.import_jobs(name, jobs)
        added: list[bool] = yield Work(partial(self.copy, steps, *(row.id for row in jobs)))
        return added

    def end_import(self, queue: str, name: str) -> Steps[list[bool] | None]:
        added: list[bool] | None = yield Work(partial(self.run, self.transfer.end_import(queue, name)))
        return added

    @property
    def settings(self) -> SettingsPort:
        return needed(self.engine.name, self.engine.settings, Feature.PAUSE)

    @property
    def lanes(self) -> LanePort:
        return needed(self.engine.name, self.engine.lanes, Feature.LANES)

    @property
    def schedules(self) -> SchedulePort:
        return needed(self.engine.name, self.engine.schedules, Feature.SCHEDULES)


@dataclass(slots=True)
class Transferred:
    """What a run has moved. `there`: ids that jobs of the destination have: these jobs were there before. `schedules`:
    how many moved; `kept_schedules`: names that the destination uses otherwise. `left`: what the source still has."""

    jobs: int = 0
    there: list[str] = field(default_factory=list)
    schedules: int = 0
    kept_schedules: list[str] = field(default_factory=list)
    left: dict[State, int] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """Whether no job is left that may still run at the source."""
        return not any(self.left.get(state) for state in (*WAITING, State.ACTIVE))


class Transfer:
    """Moves one queue.

    transfer = Transfer(source, target)
    transfer.run(first=True)
    """

    def __init__(self, source: Side, target: Side) -> None:
        self._source = source
        self._target = target
        self.done = Transferred()

    def run(self, *, first: bool) -> Transferred:
        """Move all that waits. `first`: the destination is paused until it has arrived; a later run moves what
        workers of the source have returned since.

        Raises `QueueFull`, `NotDurable`, `InvalidArgument` and `UnsupportedFeature`; then the rest is where it was.
        """
        source, target = self._source, self._target
        self.check()
        if first:
            for stored in source.run(schedules_in(source.schedules, source.queue)):
                self._move_schedule(stored)
            if self.left():
                target.run(target.settings.configure(target.queue, paused=True))
        moved, full = source.run(move_pages(source.transfer, source.queue, target, target.queue))
        self.done.jobs += moved.count
        self.done.there += moved.refused
        if full is not None:
            raise full
        self._close_lanes()
        self._open_lanes()
        if first:
            self._take_settings()
        self.done.left = self.left()
        return self.done

    def check(self) -> None:
        """Raises `UnsupportedFeature` for a queue with partitions, or with open flows: they stay where they are."""
        flows = self._source.engine.flows
        if flows is not None and (count := self._source.run(flows.open_flows(self._source.queue))):
            raise UnsupportedFeature(
                f"Queue {self._source.queue!r} has {count:,} open flows, which do not move. Let them end, or cancel "
                f"them: `tenure flows {self._source.queue}`."
            )
        for side in (self._source, self._target):
            partitions = side.engine.partitions
            if partitions is not None and (count := side.run(partitions.partition_count(side.queue))) > 1:
                raise UnsupportedFeature(
                    f"Queue {side.queue!r} has {count} partitions; a queue moves without. Set one partition on both "
                    "sides, and partitions at the destination after the move."
                )

    def left(self) -> dict[State, int]:
        """What the source has, without completed jobs. Jobs of an interrupted move count as ready."""
        source = self._source
        counts = source.run(source.engine.queue(source.queue)).counts
        moving = source.run(source.transfer.remains(source.queue, ())).moving
        found = {**counts, State.COMPLETED: 0, State.READY: counts[State.READY] + moving}
        return {state: count for state, count in found.items() if count}

    def _close_lanes(self) -> None:
        """Close the lanes at the destination with jobs that the source still holds, or that have returned since."""
        source, target = self._source, self._target
        # A job that returns to its line, or starts again, between two lists is in the next one.
        states = (LaneState.BUSY, LaneState.BLOCKED, LaneState.READY, LaneState.BUSY)
        held = [view.name for state in states for view in self._lanes(source, state)]
        held += [view.name for view in self._lanes(source, LaneState.PARKED) if view.busy or view.waiting]
        held += source.run(source.transfer.remains(source.queue, ())).followed
        for names in _pages(list(dict.fromkeys(held))):
            target.run(target.transfer.set_lanes(target.queue, dict.fromkeys(names, CLOSED)))

    def _open_lanes(self) -> None:
        """Open the lanes of which nothing is left at the source. Those that were parked there stay parked."""
        source, target = self._source, self._target
        closed = [view.name for view in self._lanes(target, LaneState.PARKED) if view.parked_by == CLOSED_BY]
        parked = [view.name for view in self._lanes(source, LaneState.PARKED) if view.parked_by != CLOSED_BY]
        for names in _pages(list(dict.fromkeys(closed + parked))):
            empty = source.run(source.transfer.remains(source.queue, names)).empty
            if empty:
                target.run(target.transfer.set_lanes(target.queue, empty))
            for name, was in empty.items():
                if was:
                    source.run(source.lanes.resume_lane(source.queue, name))

    @staticmethod
    def _lanes(side: Side, state: LaneState) -> list[LaneView]:
        return side.run(lanes_in(side.engine, side.queue, state))

    def _take_settings(self) -> None:
        """Give the destination the settings that it does not have, and resume it unless the source is paused."""
        source, target = self._source, self._target
        ours = source.run(source.engine.settings_of(source.queue))
        theirs = target.run(target.engine.settings_of(target.queue))
        target.run(
            target.settings.configure(
                target.queue,
                max_length=None if theirs.max_length else ours.max_length,
                lane_failure=ours.lane_failure if theirs.lane_failure is LaneFailure.SKIP else None,
                paused=ours.paused,
            )
        )

    def _move_schedule(self, stored: StoredSchedule) -> None:
        """Stop the ticks of a schedule at the source, before any comes at the destination. One of an app's code stays
        there, paused: its workers would add it again."""
        source, target = self._source, self._target
        if not stored.state.paused_ms:
            source.run(source.schedules.pause_schedule(source.queue, stored.name, MOVES))
        _, current = source.run(source.schedules.schedule(source.queue, stored.name))
        if current is None or current.spec is None:
            return
        spec, state = structs.replace(current.spec, queue=target.queue), current.state
        stays_paused = state.reason != MOVES
        times = (0, 0) if stays_paused else (state.planned_ms, state.fire_ms)
        is_new = target.copy(target.schedules.put_schedule(spec, current.digest, "", *times), stored.name)
        _, there = target.run(target.schedules.schedule(target.queue, stored.name))
        if there is None or there.digest != current.digest:
            self.done.kept_schedules.append(stored.name)
            return
        if stays_paused:
            target.run(target.schedules.pause_schedule(target.queue, stored.name, state.reason))
        if not spec.source:
            source.run(source.schedules.remove_schedule(source.queue, stored.name))
        self.done.schedules += is_new


def _pages(names: list[str]) -> Iterator[list[str]]:
    return (names[at : at + limits.PAGE_MAX] for at in range(0, len(names), limits.PAGE_MAX))
