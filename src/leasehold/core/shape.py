"""How a job lies in its queue besides being next: its lane, its priority, and what it must be the only one of."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from leasehold.core.errors import InvalidArgument
from leasehold.core.text import cut

MAX_PROGRESS_TEXT: Final = 500
"""Bytes of the text of a progress report."""


class Until(StrEnum):
    """For how long a job is the only one of its key.

    started  until its first claim
    ended    until it has ended, in whatever way; also across its retries
    window   for a time from its enqueue on, whatever becomes of it (but for being cancelled, discarded or purged)
    """

    STARTED = "started"
    ENDED = "ended"
    WINDOW = "window"


class Conflict(StrEnum):
    """What an enqueue does when another job has the key.

    reject    nothing is enqueued; the answer names the other job
    existing  nothing is enqueued; the answer is the other job
    replace   the other job gets the new payload, if it waits; if it runs, as `reject`
    rerun     if the other job runs, the new one runs once more after it has ended; if it waits, as `existing`. A second
              one while the first waits for that gives its payload to the first
    postpone  the other job gets the new payload and waits anew, if it waits; see `UniqueRule.wait_ms`
    """

    REJECT = "reject"
    EXISTING = "existing"
    REPLACE = "replace"
    RERUN = "rerun"
    POSTPONE = "postpone"


@dataclass(frozen=True, slots=True)
class UniqueRule:
    """That a job is to be the only one of `key` on its queue. The key is any text; long ones are digests.

    `window_ms`: for `Until.WINDOW`. `wait_ms`: for `Conflict.POSTPONE`, how long the last of them waits for the next;
    however many come, the job is due `POSTPONE_MOST` times that after the first at the latest.
    """

    key: str
    until: Until = Until.ENDED
    conflict: Conflict = Conflict.REJECT
    window_ms: int = 0
    wait_ms: int = 0


@dataclass(frozen=True, slots=True)
class Shape:
    """The place that a job wants. A job with a lane has no priority: in a lane, order is all.

    `lane_limit`: how many of the lane may run at one time; with more than one there is no order. What the latest job of
    a lane brings is what counts. `persistent`: never completes; when its handler returns it is run again.
    """

    lane: str | None = None
    lane_limit: int = 1
    priority: int = 0
    unique: UniqueRule | None = None
    persistent: bool = False


PLAIN = Shape()
"""What most jobs have: the next in line, in the order of their enqueue."""


class LaneFailure(StrEnum):
    """What becomes of a lane when one of its jobs fails for good (ends in `failed` or `broken`).

    skip   it is recorded, and the lane goes on
    block  the lane waits until somebody retries or discards the job
    park   the whole lane is set aside until somebody resumes it
    """

    SKIP = "skip"
    BLOCK = "block"
    PARK = "park"


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """What is set for a queue as a whole, for all who use it.

    `max_length` counts jobs that have not ended; 0: no limit. `paused`: nothing is claimed.
    """

    max_length: int = 0
    lane_failure: LaneFailure = LaneFailure.SKIP
    paused: bool = False


class LaneState(StrEnum):
    """ready   its next job waits for a worker
    busy    as many of its jobs as may run are held or wait for their retry, or none is in line behind those
    blocked jobs that failed keep places of it until somebody retries or discards them; with all of them it stands still
    parked  set aside
    idle    nothing of it is known
    """

    READY = "ready"
    BUSY = "busy"
    BLOCKED = "blocked"
    PARKED = "parked"
    IDLE = "idle"


@dataclass(frozen=True, slots=True)
class LaneView:
    """A lane as the inspector sees it. `waiting`: jobs in line. `busy`: those out of line that keep it busy: held,
    waiting for their retry, unroutable, or failed and blocking. `parked_by`: the job whose failure parked it.
    `blocked_by`: the job that failed and keeps its place (of several, the one that failed first)."""

    name: str
    state: LaneState
    waiting: int = 0
    busy: int = 0
    limit: int = 1
    parked_ms: int | None = None
    parked_by: str | None = None
    blocked_by: str | None = None


@dataclass(frozen=True, slots=True)
class LanePage:
    """Some lanes. `cursor`: where the next page begins; 0: there is no more."""

    lanes: tuple[LaneView, ...]
    cursor: int


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job says it is. `total` None: not known. `at_ms`: when it said so, by Redis' clock."""

    current: float
    total: float | None = None
    text: str = ""
    at_ms: int | None = None


def progress_of(current: object, total: object, text: object) -> Progress:
    """What a caller says, with a text that is cut to its limit. Raises `InvalidArgument` for what cannot be."""
    whole = None if total is None else _finite(total, "total")
    if whole is not None and whole <= 0:
        raise InvalidArgument(f"progress: total is {whole:g}; expected a number above 0, or None.")
    if not isinstance(text, str):
        raise InvalidArgument(f"progress: text is a {type(text).__name__}; expected text.")
    return Progress(_finite(current, "current"), whole, cut(text, MAX_PROGRESS_TEXT))


def _finite(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidArgument(f"progress: {name} is a {type(value).__name__}; expected a number.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InvalidArgument(f"progress: {name} is not finite; expected a number.")
    return value


class CancelAnswer(StrEnum):
    """What became of the wish to cancel a job. False in a condition when there was nothing to cancel.

    cancelled  it has ended in `cancelled`
    requested  it is running: its worker was told, see `JobView.cancelling`
    nothing    there is no such job, or it has ended already
    """

    CANCELLED = "cancelled"
    REQUESTED = "requested"
    NOTHING = "nothing"

    def __bool__(self) -> bool:
        return self is not CancelAnswer.NOTHING


@dataclass(frozen=True, slots=True)
class CancelCount:
    """How many jobs were cancelled, and how many that run were asked to end."""

    cancelled: int = 0
    requested: int = 0
