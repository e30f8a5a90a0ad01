"""Why a job does not run: the reasons, and the facts that an engine reads for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from msgspec import Struct

from tenure.core.job import JobView


class WhyCode(StrEnum):
    """The reasons why a job does not run now, the most binding first."""

    ENDED = "ended"
    HELD = "held"
    """A worker runs it, or has claimed it to run it soon."""
    HELD_BY_SILENT = "held_by_silent"
    """Its worker sends no heartbeat: the job returns to the queue at the end of the lease."""
    UNREACHABLE = "unreachable"
    NEWER_LAYOUT = "newer_layout"
    REDIS_REFUSES = "redis_refuses"
    MOVING = "moving"
    QUEUE_PAUSED = "queue_paused"
    QUEUE_CANCELLING = "queue_cancelling"
    """Many jobs of the queue or lane are being cancelled; none starts until that has ended."""
    SCHEDULED = "scheduled"
    BACKOFF = "backoff"
    AFTER_UNIQUE = "after_unique"
    """It waits until the owner of its unique key has ended."""
    NO_WORKER = "no_worker"
    NO_TASK = "no_task"
    QUIET = "quiet"
    AFTER_OUTAGE = "after_outage"
    """Redis was away: no job of a silent worker returns until the workers had time to send heartbeats."""
    LANE_PARKED = "lane_parked"
    LANE_BLOCKED = "lane_blocked"
    LANE_LIMIT = "lane_limit"
    """As many jobs of its lane run as may run at a time."""
    LANE_BEHIND = "lane_behind"
    SUSPECT = "suspect"
    LIMIT_RESTING = "limit_resting"
    LIMIT_FULL = "limit_full"
    LIMIT_RATE = "limit_rate"
    LOOP_BLOCKED = "loop_blocked"
    BUSY = "busy"
    """All slots of the workers are taken."""
    SHARE = "share"
    PRIORITY = "priority"
    TURN = "turn"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Culprit:
    """What keeps a job from running. `kind`: job, lane, limit, share, queue or worker. `queue`: of a job or lane."""

    kind: str
    name: str
    queue: str | None = None


@dataclass(frozen=True, slots=True)
class Why:
    """One reason why a job does not run now.

        why = app.inspect.why("orders", job.id)
        print(why.text)              # lane user:7 is blocked by failed job x17
        print(why.command)           # tenure retry orders x17

    `code`: see `WhyCode`. `since_ms` and `until_ms`: since when and until when it applies, in milliseconds since 1970
    by Redis' clock, None if unknown. `culprit`: the job, lane, limit, queue or worker that keeps it from running.
    `command`: what mends it; empty if nothing has to be done. `also`: further reasons that apply at the same time.
    """

    code: WhyCode
    text: str
    since_ms: int | None = None
    until_ms: int | None = None
    culprit: Culprit | None = None
    command: str = ""
    also: tuple[Why, ...] = ()


@dataclass(frozen=True, slots=True)
class WhyCount:
    """How many waiting jobs of a queue have each reason, the most frequent first, and how many were looked at.

    `is_whole`: these are all waiting jobs that the queue has.
    """

    reasons: Mapping[WhyCode, int]
    jobs: int
    is_whole: bool


class OtherJob(Struct, frozen=True, kw_only=True):
    """A job in the way of another one. `worker`: that holds it, since `since_ms`; `due_ms`: when it becomes ready."""

    id: str
    state: str = ""
    worker: str = ""
    since_ms: int | None = None
    due_ms: int | None = None


class LimitFacts(Struct, frozen=True, kw_only=True):
    """The limit that stops a job. `most`: its places; `taken`: those in use; `holding`: some jobs that hold them.

    `rests_ms`: until when it rests; `moment_ms`: when it lets the next job start, if that is known; `gate`: how many
    lanes wait for it before this one; `holding_queues`: other queues with jobs that hold places.
    """

    name: str
    taken: int = 0
    most: int | None = None
    rests_ms: int | None = None
    moment_ms: int | None = None
    gate: int | None = None
    holding: tuple[str, ...] = ()
    holding_queues: tuple[str, ...] = ()


class LaneFacts(Struct, frozen=True, kw_only=True):
    """The lane of a job that waits. `place`: how many jobs of it are before this one; `turn`: how many lanes are.

    `front`: the first job in the lane, if it is another one. `occupant`: the earliest job that runs, or that keeps the
    lane in another way. `is_moving`: a move from another server has parked it. `name` is empty for jobs with limits
    or a share and without a lane.
    """

    name: str = ""
    busy: int = 0
    most: int = 1
    parked_ms: int | None = None
    parked_by: str = ""
    is_moving: bool = False
    blocked_by: str = ""
    is_on_hold: bool = False
    place: int = 0
    front: str = ""
    occupant: OtherJob | None = None
    share: str = ""
    share_place: int | None = None
    turn: int | None = None


class JobFacts(Struct, frozen=True, kw_only=True):
    """What an engine reads about one job, to explain why it does not run. What it does not know keeps its default.

    `view` None: it is being moved. `now_ms`: Redis' clock. `most_looked`: a larger place is given as this number.
    `refusal`: the error with which Redis refuses all writes. `before`: jobs before it in its own list;
    `higher`: jobs of higher priorities; `suspect`: its place among the jobs that run alone or with few others.
    `longest`: the job of the queue that has run longest; `held`: how many jobs of the queue each worker holds.
    """

    view: JobView | None
    now_ms: int | None = None
    most_looked: int = 0
    refusal: str = ""
    newer_layout: int | None = None
    amnesty_ms: int | None = None
    is_paused: bool = False
    is_on_hold: bool = False
    owner: OtherJob | None = None
    lane: LaneFacts | None = None
    limit: LimitFacts | None = None
    before: int | None = None
    higher: int = 0
    suspect: int | None = None
    longest: OtherJob | None = None
    held: Mapping[str, int] = {}
    lease_ends_ms: int | None = None
    silent_ms: int | None = None
