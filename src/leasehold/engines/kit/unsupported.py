"""Refuses what a wire format cannot hold, in the same words for every engine."""

from __future__ import annotations

from typing import ClassVar

from leasehold.core import limits
from leasehold.core.errors import UnsupportedFeature
from leasehold.core.job import JobView, Lease, NewJob
from leasehold.core.shape import PLAIN, LaneFailure, LanePage, LaneState, LaneView, Progress, QueueSettings
from leasehold.core.steps import Draw, Steps


def unsupported(protocol: str, asked: str) -> UnsupportedFeature:
    return UnsupportedFeature(
        f"The protocol {protocol!r} cannot hold {asked}. Leave it out, or use a protocol that has it, such as the "
        "native one."
    )


def check_plain(protocol: str, job: NewJob) -> None:
    """Raises `UnsupportedFeature` for a job that is not just next in line: with a delay, a lane, a priority, ..."""
    shape = job.shape
    if job.delay_ms > 0 or job.run_at_ms is not None:
        raise unsupported(protocol, "a delay")
    if shape is not PLAIN and shape != PLAIN:
        asked = (
            ("lanes", shape.lane),
            ("priorities", shape.priority),
            ("unique jobs", shape.unique),
            ("persistent jobs", shape.persistent),
        )
        raise unsupported(protocol, next((name for name, value in asked if value), "a lane limit"))


class Unsupported:
    """The operations that need a feature. Engines name it as their last base, and define those that they have."""

    name: ClassVar[str]

    def lane(self, queue: str, lane: str) -> Steps[LaneView]:
        raise unsupported(self.name, "lanes")

    def lanes(self, queue: str, state: LaneState, cursor: int = 0, limit: int = limits.PAGE_MAX) -> Steps[LanePage]:
        raise unsupported(self.name, "lanes")

    def park_lane(self, queue: str, lane: str) -> Steps[bool]:
        raise unsupported(self.name, "lanes")

    def resume_lane(self, queue: str, lane: str) -> Steps[bool]:
        raise unsupported(self.name, "lanes")

    def configure(
        self,
        queue: str,
        *,
        max_length: int | None = None,
        lane_failure: LaneFailure | None = None,
        paused: bool | None = None,
    ) -> Steps[QueueSettings]:
        asked = (("a maximum length", max_length), ("lanes", lane_failure), ("paused queues", paused))
        for name, value in asked:
            if value is not None:
                raise unsupported(self.name, name)
        return _nothing_set()

    def quiet(self, worker: str, quiet: bool = True) -> Steps[bool]:
        raise unsupported(self.name, "quiet workers")

    def progress(self, lease: Lease, progress: Progress) -> Steps[bool]:
        raise unsupported(self.name, "the progress of a job")

    def result(self, queue: str, id: str) -> Steps[JobView | None]:
        raise unsupported(self.name, "results")


def _nothing_set() -> Steps[QueueSettings]:
    yield Draw()
    return QueueSettings()
