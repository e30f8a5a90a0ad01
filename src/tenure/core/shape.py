"""How a job is placed in its queue: lane, priority and unique key. Also queue settings, lanes and progress."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from tenure.core.errors import invalid
from tenure.core.features import Feature
from tenure.core.rates import LimitRule
from tenure.core.text import cut

MAX_PROGRESS_TEXT: Final = 500
"""The most bytes of the text of a progress report."""


DIGEST: Final = "a:"
"""How the key of a job begins that is unique by its task and arguments. Before these are known, the key is empty."""


class Until(StrEnum):
    """How long a job holds its unique key.

    started  until its first claim
    ended    until it has ended; also across its retries
    window   for a time from its enqueue, even after it has ended; cancelling, discarding or purging the job frees it
    """

    STARTED = "started"
    ENDED = "ended"
    WINDOW = "window"


class Conflict(StrEnum):
    """What an enqueue does when another job holds the key.

    reject    nothing; the answer names the other job
    existing  nothing; the answer is the other job
    replace   if the other job waits, it gets the new payload; if it runs, as `reject`
    rerun     if the other job runs, the new job runs once after it ends; if it waits, as `existing`. A further job
              gives its payload to the one that waits for the rerun
    postpone  if the other job waits, it gets the new payload and its wait restarts; see `UniqueRule.wait_ms`
    """

    REJECT = "reject"
    EXISTING = "existing"
    REPLACE = "replace"
    RERUN = "rerun"
    POSTPONE = "postpone"


@dataclass(frozen=True, slots=True)
class UniqueRule:
    """That a job is to be the only one with `key` on its queue. A key is any text; long keys are digests.

    `window_ms`: for `Until.WINDOW`. `wait_ms`: for `Conflict.POSTPONE`, how long the latest job waits for another one;
    the job is due at most `POSTPONE_MOST` times `wait_ms` after the first.
    """

    key: str
    until: Until = Until.ENDED
    conflict: Conflict = Conflict.REJECT
    window_ms: int = 0
    wait_ms: int = 0

    @property
    def is_plain(self) -> bool:
        """Whether `Feature.UNIQUE` is all that it needs."""
        by_arguments = not self.key or self.key.startswith(DIGEST)
        return by_arguments and self.until is Until.ENDED and self.conflict is Conflict.REJECT


@dataclass(frozen=True, slots=True)
class Shape:
    """The place of a job in its queue. A job with a lane has no priority: a lane runs in order.

    `lane_limit`: how many jobs of the lane may run at a time; above one there is no order. The latest job's limit
    counts. `persistent`: the job never completes; it runs again after its handler returns. `limits`: it starts when all
    of them allow it. `share`: the jobs of different shares are claimed in turns. `expires`: it ends in `cancelled`
    unless it begins by then: `+n` is n ms after its enqueue, `n` a time since 1970 in ms. `on_failed`: the job that
    follows a bad end, as `FlowPort.text_of` writes it. `flow`: the group of a member: see `core.flows.membership`.
    `at_most_once`: it ends in `broken` when its lease comes back and it may have begun.

    A field with another value than its default needs the feature in its metadata: see `core.unsupported`.
    """

    lane: str | None = field(default=None, metadata={"needs": Feature.LANES})
    lane_limit: int = field(default=1, metadata={"needs": Feature.LANE_POLICIES})
    priority: int = field(default=0, metadata={"needs": Feature.PRIORITIES})
    unique: UniqueRule | None = field(default=None, metadata={"needs": Feature.UNIQUE})
    persistent: bool = field(default=False, metadata={"needs": Feature.PERSISTENT})
    limits: tuple[LimitRule, ...] = field(default=(), metadata={"needs": Feature.LIMITS})
    share: str | None = field(default=None, metadata={"needs": Feature.SHARES})
    expires: str | None = field(default=None, metadata={"needs": Feature.EXPIRES})
    on_failed: str = field(default="", metadata={"needs": Feature.FLOWS})
    flow: str = field(default="", metadata={"needs": Feature.FLOWS})
    at_most_once: bool = field(default=False, metadata={"needs": Feature.AT_MOST_ONCE})

    def expires_ms(self, enqueued_ms: int) -> int | None:
        """When a job that was enqueued at this time expires; None: never."""
        if self.expires is None:
            return None
        return int(self.expires) + (enqueued_ms if self.expires.startswith("+") else 0)


PLAIN = Shape()
"""The shape of most jobs: they run in the order of their enqueue."""


class LaneFailure(StrEnum):
    """What happens to a lane when one of its jobs ends in `failed` or `broken`.

    skip   the lane continues
    block  the lane waits until a user retries or discards the job
    park   the lane is parked until a user resumes it
    """

    SKIP = "skip"
    BLOCK = "block"
    PARK = "park"


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """The settings of a queue, the same for every worker and client.

    `max_length` counts jobs that have not ended; 0: no limit. `paused`: nothing is claimed.
    """

    max_length: int = 0
    lane_failure: LaneFailure = LaneFailure.SKIP
    paused: bool = False


class LaneState(StrEnum):
    """ready   its next job waits for a worker
    busy    its jobs are held or wait for their retry, up to the lane's limit, or no further job waits
    blocked failed jobs occupy places of the lane until a user retries or discards them; with all places it stands still
    parked  a failed job or a user parked the lane; no job of it starts until a user resumes it
    idle    the lane has no jobs
    """

    READY = "ready"
    BUSY = "busy"
    BLOCKED = "blocked"
    PARKED = "parked"
    IDLE = "idle"


@dataclass(frozen=True, slots=True)
class LaneView:
    """A lane as the inspector shows it. `waiting`: jobs in line. `busy`: jobs out of line that occupy it: held,
    waiting for their retry, unroutable, or failed and blocking. `parked_by`: the job whose failure parked the lane.
    `blocked_by`: the failed job that blocks it (of several, the first that failed)."""

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
    """Some lanes. `cursor`: where the next page begins; 0: this is the last page."""

    lanes: tuple[LaneView, ...]
    cursor: int


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress that a job reported. `total` None: unknown. `at_ms`: the time of the report by Redis' clock."""

    current: float
    total: float | None = None
    text: str = ""
    at_ms: int | None = None


def progress_of(current: object, total: object, text: object) -> Progress:
    """Check a progress report, and cut its text to the limit. Raises `InvalidArgument`."""
    whole = None if total is None else _finite(total, "total")
    if whole is not None and whole <= 0:
        raise invalid("progress: total", "a number above 0, or None", f"{whole:g}")
    if not isinstance(text, str):
        raise invalid("progress: text", "a str", type(text).__name__)
    return Progress(_finite(current, "current"), whole, cut(text, MAX_PROGRESS_TEXT))


def _finite(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise invalid(f"progress: {name}", "a number", type(value).__name__)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise invalid(f"progress: {name}", "a finite number", f"{number:g}")
    return value


class CancelAnswer(StrEnum):
    """The answer to a cancel request. False in a condition if there was nothing to cancel.

    cancelled  the job has ended in `cancelled`
    requested  the job is running, and its worker was notified; see `JobView.cancelling`
    nothing    no such job, or it has ended already
    """

    CANCELLED = "cancelled"
    REQUESTED = "requested"
    NOTHING = "nothing"

    def __bool__(self) -> bool:
        return self is not CancelAnswer.NOTHING


@dataclass(frozen=True, slots=True)
class CancelCount:
    """How many jobs were cancelled, and how many running ones were asked to end."""

    cancelled: int = 0
    requested: int = 0
