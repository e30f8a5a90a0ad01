"""The operations that a wire format may lack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from tenure.core import limits
from tenure.core.engine import Feature
from tenure.core.job import JobView, Lease, NewJob
from tenure.core.minutes import Ends, Minutes
from tenure.core.rates import LimitPage, LimitView, SharePage
from tenure.core.schedules.schedule import (
    Announced,
    DueSchedules,
    SchedulePage,
    ScheduleSpec,
    StoredSchedule,
    Tick,
    Ticked,
)
from tenure.core.shape import LaneFailure, LanePage, LaneState, LaneView, Progress, QueueSettings
from tenure.core.steps import Draw, Steps
from tenure.core.unsupported import unsupported


class Unsupported:
    """The operations that need a feature. Engines name it as their last base, and define those that they have."""

    name: ClassVar[str]

    def reschedule(
        self,
        queue: str,
        id: str,
        *,
        delay_ms: int | None = None,
        run_at_ms: int | None = None,
        priority: int | None = None,
    ) -> Steps[bool]:
        raise unsupported(self.name, Feature.DELAY)

    def lane(self, queue: str, lane: str) -> Steps[LaneView]:
        raise unsupported(self.name, Feature.LANES)

    def lanes(self, queue: str, state: LaneState, cursor: int = 0, limit: int = limits.PAGE_MAX) -> Steps[LanePage]:
        raise unsupported(self.name, Feature.LANES)

    def park_lane(self, queue: str, lane: str) -> Steps[bool]:
        raise unsupported(self.name, Feature.LANES)

    def resume_lane(self, queue: str, lane: str) -> Steps[bool]:
        raise unsupported(self.name, Feature.LANES)

    def configure(
        self,
        queue: str,
        *,
        max_length: int | None = None,
        lane_failure: LaneFailure | None = None,
        paused: bool | None = None,
    ) -> Steps[QueueSettings]:
        asked = ((Feature.MAX_LENGTH, max_length), (Feature.LANE_POLICIES, lane_failure), (Feature.PAUSE, paused))
        for feature, value in asked:
            if value is not None:
                raise unsupported(self.name, feature)
        return _nothing_set()

    def limit(self, name: str) -> Steps[LimitView]:
        raise unsupported(self.name, Feature.LIMITS)

    def limit_names(self, cursor: str = "") -> Steps[LimitPage]:
        raise unsupported(self.name, Feature.LIMITS)

    def resting_limits(self) -> Steps[list[str]]:
        raise unsupported(self.name, Feature.LIMITS)

    def set_limit(
        self,
        name: str,
        *,
        concurrency: int | None = None,
        interval_us: int | None = None,
        burst: int | None = None,
    ) -> Steps[None]:
        raise unsupported(self.name, Feature.LIMITS)

    def clear_limit(self, name: str) -> Steps[bool]:
        raise unsupported(self.name, Feature.LIMITS)

    def shares(self, cursor: int = 0) -> Steps[SharePage]:
        raise unsupported(self.name, Feature.SHARES)

    def set_share(self, name: str, weight: int) -> Steps[None]:
        raise unsupported(self.name, Feature.SHARES)

    def want_partitions(self, queue: str, partitions: int) -> None:
        raise unsupported(self.name, Feature.PARTITIONS)

    def partitions(self, queue: str) -> Steps[int]:
        yield from ()
        return 1

    def repartition(self, queue: str, partitions: int) -> Steps[None]:
        raise unsupported(self.name, Feature.PARTITIONS)

    def partitions_outside(self, queue: str) -> Steps[list[int]]:
        yield from ()
        return []

    def note_ends(self, queue: str, ends: Ends) -> Steps[None]:
        raise unsupported(self.name, Feature.HISTORY)

    def minutes(self, queue: str) -> Steps[Minutes]:
        raise unsupported(self.name, Feature.HISTORY)

    def note_audit(self, entry: bytes) -> Steps[None]:
        raise unsupported(self.name, Feature.HISTORY)

    def audit(self) -> Steps[list[bytes]]:
        raise unsupported(self.name, Feature.HISTORY)

    def ask_stacks(self, worker: str) -> Steps[None]:
        raise unsupported(self.name, Feature.STACKS)

    def quiet(self, worker: str, quiet: bool = True) -> Steps[bool]:
        raise unsupported(self.name, Feature.QUIET)

    def progress(self, lease: Lease, progress: Progress) -> Steps[bool]:
        raise unsupported(self.name, Feature.PROGRESS)

    def announce_schedules(
        self, queue: str, source: str, digests: Mapping[str, str], earlier: Mapping[str, Sequence[str]]
    ) -> Steps[Announced]:
        raise unsupported(self.name, Feature.SCHEDULES)

    def put_schedule(
        self, spec: ScheduleSpec, digest: str, expected: str, planned_ms: int, fire_ms: int
    ) -> Steps[bool]:
        raise unsupported(self.name, Feature.SCHEDULES)

    def due_schedules(self, queue: str, limit: int) -> Steps[DueSchedules]:
        raise unsupported(self.name, Feature.SCHEDULES)

    def tick(self, queue: str, tick: Tick) -> Steps[Ticked]:
        raise unsupported(self.name, Feature.SCHEDULES)

    def trigger(self, queue: str, name: str, job: NewJob) -> Steps[Ticked]:
        raise unsupported(self.name, Feature.SCHEDULES)

    def schedule(self, queue: str, name: str) -> Steps[tuple[int, StoredSchedule | None]]:
        raise unsupported(self.name, Feature.SCHEDULES)

    def schedule_page(self, queue: str, cursor: int = 0) -> Steps[SchedulePage]:
        raise unsupported(self.name, Feature.SCHEDULES)

    def pause_schedule(self, queue: str, name: str, reason: str) -> Steps[bool]:
        raise unsupported(self.name, Feature.SCHEDULES)

    def resume_schedule(self, queue: str, name: str, digest: str, planned_ms: int, fire_ms: int) -> Steps[bool]:
        raise unsupported(self.name, Feature.SCHEDULES)

    def remove_schedule(self, queue: str, name: str) -> Steps[bool]:
        raise unsupported(self.name, Feature.SCHEDULES)

    def result(self, queue: str, id: str) -> Steps[JobView | None]:
        raise unsupported(self.name, Feature.RESULTS)


def _nothing_set() -> Steps[QueueSettings]:
    yield Draw()
    return QueueSettings()
