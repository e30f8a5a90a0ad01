"""Moves a queue with all its jobs to another server, page by page, while both sides work.

A run may be killed between any two calls. What it has begun is in Redis: the next run finds it and continues.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from msgspec import structs

from tenure.client.inspect import lanes_in
from tenure.core import limits
from tenure.core.engine import FullEngine
from tenure.core.errors import InvalidArgument, NotDurable, QueueFull, UnsupportedFeature, WrongState
from tenure.core.features import Feature
from tenure.core.job import WAITING, State
from tenure.core.ports import LanePort, SettingsPort, needed
from tenure.core.schedules.schedule import SchedulePort, StoredSchedule
from tenure.core.shape import LaneFailure, LaneState, LaneView
from tenure.core.steps import Steps, durably
from tenure.engines.kit.moving import RESUME_MS
from tenure.engines.kit.transfer import CLOSED_BY, Rows, Transferable

T = TypeVar("T")

MOVES: Final = "moves to another server"
"""The reason of the pause of a schedule that moves."""
RECORDS: Final = (State.FAILED, State.BROKEN, State.CANCELLED)


class TransferRun(Protocol):
    """Runs steps on one of the two servers."""

    def __call__(self, steps: Steps[T]) -> T: ...


@dataclass(frozen=True, slots=True)
class Side:
    """A queue on one server. `engine` and `transfer` are of the same wire format on both sides."""

    run: TransferRun
    engine: FullEngine
    transfer: Transferable
    queue: str

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

        transfer = Transfer(source, target, replicas=1)
        transfer.run(first=True)

    `replicas`: how many replicas of the destination must have a page before the source forgets it.
    """

    def __init__(self, source: Side, target: Side, replicas: int = 0) -> None:
        self._source = source
        self._target = target
        self._replicas = replicas
        self._destination = target.engine.prefix(target.queue)
        self.done = Transferred()

    def run(self, *, first: bool) -> Transferred:
        """Move all that waits. `first`: the destination is paused until it has arrived; a later run moves what
        workers of the source have returned since.

        Raises `QueueFull`, `NotDurable`, `InvalidArgument` and `UnsupportedFeature`; then the rest is where it was.
        """
        target = self._target
        self.check()
        if first:
            for stored in self._schedules():
                self._move_schedule(stored)
            if self.left():
                target.run(target.settings.configure(target.queue, paused=True))
        for _ in range(limits.PURGE_ROUNDS):
            if not self._move_page():
                break
        self._close_lanes()
        self._open_lanes()
        if first:
            self._take_settings()
        self.done.left = self.left()
        return self.done

    def check(self) -> None:
        """Raises `UnsupportedFeature` for a queue with partitions."""
        for side in (self._source, self._target):
            partitions = side.engine.partitions
            if partitions is not None and (count := side.run(partitions.partition_count(side.queue))) > 1:
                raise UnsupportedFeature(
                    f"Queue {side.queue!r} has {count} partitions; a queue moves without. Set one partition on both "
                    "sides, and partitions at the destination after the move."
                )

    def left(self) -> dict[State, int]:
        """What the source has, without completed jobs. Those of a move that was interrupted count as ready."""
        source = self._source
        counts = source.run(source.engine.queue(source.queue)).counts
        moving = source.run(source.transfer.remains(source.queue, ())).moving
        found = {**counts, State.COMPLETED: 0, State.READY: counts[State.READY] + moving}
        return {state: count for state, count in found.items() if count}

    def _move_page(self) -> bool:
        """Move a page. False: nothing is left to move."""
        source, target = self._source, self._target
        rows = source.run(source.transfer.export(source.queue, self._destination))
        if not rows.rows:
            return rows.is_cut
        if rows.to != self._destination:
            raise InvalidArgument(
                f"An earlier migration of queue {source.queue!r} was interrupted; its NAMESPACE:QUEUE was "
                f"{rows.to.strip('{}')!r}. Run it again first."
            )
        if rows.age_ms > RESUME_MS:
            raise InvalidArgument(
                f"An earlier migration of queue {source.queue!r} was interrupted {rows.age_ms // limits.DAY} days ago. "
                f"It is no longer known whether its {len(rows.rows):,} jobs arrived: compare them by hand."
            )
        try:
            there = self._import(rows)
        except (QueueFull, WrongState, UnsupportedFeature, InvalidArgument):
            # Another run may add the same jobs meanwhile. Once the destination has given up the move, neither can.
            if target.run(target.transfer.given_up(target.queue, rows.name)):
                source.run(source.transfer.end_export(source.queue, rows.name, arrived=False))
                raise
            there = []
        source.run(source.transfer.end_export(source.queue, rows.name, arrived=True))
        self.done.jobs += len(rows.rows) - len(there)
        self.done.there += there
        return True

    def _import(self, rows: Rows) -> list[str]:
        # If too few replicas have it, the source keeps the page. The next run sends it again, and waits again.
        return self._copied(self._target.transfer.import_rows(self._target.queue, rows), rows.ids)

    def _copied(self, steps: Steps[T], ids: tuple[str, ...]) -> T:
        """Make a copy at the destination before the source forgets its own. Raises `NotDurable`."""
        if not self._replicas:
            return self._target.run(steps)
        durable = self._target.run(durably(steps, self._replicas))
        if durable.replicas < self._replicas:
            raise NotDurable(ids, durable.replicas, self._replicas, durable.trouble)
        return durable.answer

    def _close_lanes(self) -> None:
        """Close the lanes at the destination of which jobs are still held at the source, or have returned meanwhile."""
        source, target = self._source, self._target
        # A job that returns to its line, or starts again, between two lists is in the next one.
        states = (LaneState.BUSY, LaneState.BLOCKED, LaneState.READY, LaneState.BUSY)
        held = [view.name for state in states for view in self._lanes(source, state)]
        held += [view.name for view in self._lanes(source, LaneState.PARKED) if view.busy or view.waiting]
        held += source.run(source.transfer.remains(source.queue, ())).followed
        for names in _pages(list(dict.fromkeys(held))):
            target.run(target.transfer.close_lanes(target.queue, names))

    def _open_lanes(self) -> None:
        """Open the lanes of which nothing is left at the source. Those that were parked there stay parked."""
        source, target = self._source, self._target
        closed = [view.name for view in self._lanes(target, LaneState.PARKED) if view.parked_by == CLOSED_BY]
        parked = [view.name for view in self._lanes(source, LaneState.PARKED) if view.parked_by != CLOSED_BY]
        for names in _pages(list(dict.fromkeys(closed + parked))):
            empty = source.run(source.transfer.remains(source.queue, names)).empty
            if empty:
                target.run(target.transfer.open_lanes(target.queue, empty))
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

    def _schedules(self) -> list[StoredSchedule]:
        source, cursor = self._source, 0
        found: dict[str, StoredSchedule] = {}
        for _ in range(limits.PURGE_ROUNDS):
            page = source.run(source.schedules.schedule_page(source.queue, cursor))
            found |= {one.name: one for one in page.schedules}
            cursor = page.cursor
            if not cursor:
                break
        return list(found.values())

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
        is_new = self._copied(target.schedules.put_schedule(spec, current.digest, "", *times), (stored.name,))
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
