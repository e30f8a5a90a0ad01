"""The value `Schedule`, and how it becomes the definition that Redis keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any, Final, Literal, TypeAlias, TypedDict

from msgspec.structs import replace as replaced

from tenure.client.options import OF_USING, Option, UsingOptions, check_names, checked
from tenure.core import limits, names
from tenure.core.errors import InvalidArgument, invalid
from tenure.core.job import NewJob
from tenure.core.schedules import rules
from tenure.core.schedules.schedule import CatchUp, Overlap, ScheduleSpec, ScheduleView, StoredSchedule
from tenure.core.schedules.when import Cron, Every, When, from_ms, moment
from tenure.core.shape import Shape
from tenure.core.values import replace

MAX_SCHEDULE_NAME: Final = 150
"""The most characters of a schedule's name: the lane of `overlap="queue"` is made of it."""
LANE: Final = "schedule:"
"""How the lane of the jobs of a schedule with `overlap="queue"` begins."""
WINDOW_MS: Final = limits.HOUR
"""How late a tick may run, unless the schedule has its own."""
MAX_WINDOW_MS: Final = 365 * limits.DAY
MAX_JITTER_MS: Final = limits.DAY
_NOT_HERE: Final = ("id", "queue", "delay", "run_after", "durable")


class ScheduleOptions(TypedDict, total=False):
    """The policies of a schedule; `Schedule` describes them."""

    catch_up: Literal["one", "all", "skip"]
    window: float | timedelta
    overlap: Literal["skip", "allow", "queue", "cancel"]
    jitter: float | timedelta
    start: datetime | None
    end: datetime | None


OF_SCHEDULE: Final = frozenset(ScheduleOptions.__annotations__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """The policies of a schedule, checked. Raises `InvalidArgument`."""

    catch_up: CatchUp = CatchUp.ONE
    window_ms: int = WINDOW_MS
    overlap: Overlap = Overlap.SKIP
    jitter_ms: int = 0
    start_ms: int | None = None
    end_ms: int | None = None

    @classmethod
    def of(cls, options: ScheduleOptions) -> Policies:
        """Check options; those left out have their defaults."""
        return cls(**given_policies(options)).check()

    def check(self) -> Policies:
        """Refuse policies that contradict each other."""
        if self.start_ms is not None and self.end_ms is not None and self.end_ms < self.start_ms:
            raise InvalidArgument(f"end must not be before start, got {from_ms(self.end_ms)}.")
        return self


def given_policies(options: ScheduleOptions) -> dict[str, Any]:
    """Return the given options as fields of `Policies`. Raises `InvalidArgument`, which names the option."""
    check_names(options, OF_SCHEDULE)
    return checked(options, _OPTIONS)


def _one_of(kinds: type[StrEnum], value: object, name: str) -> StrEnum:
    if value not in tuple(kinds):
        raise invalid(name, f"one of {', '.join(kinds)}", names.shown(value))
    return kinds(str(value))


_OPTIONS: Final[Mapping[str, Option]] = {
    "catch_up": Option(partial(_one_of, CatchUp)),
    "window": Option(partial(names.duration_ms, least_ms=limits.SECOND, most_ms=MAX_WINDOW_MS), "window_ms"),
    "overlap": Option(partial(_one_of, Overlap)),
    "jitter": Option(partial(names.duration_ms, least_ms=0, most_ms=MAX_JITTER_MS), "jitter_ms"),
    "start": Option(moment, "start_ms", none=True),
    "end": Option(moment, "end_ms", none=True),
}
"""The options in `ScheduleOptions`. Each is a field of `Policies`."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a task runs by itself, and with which arguments: for `@app.task(schedule=...)`.

        @app.task(schedule=Cron("0 9 * * mon-fri", tz="Europe/Berlin"))
        def report() -> None: ...

        @app.task(schedule=[
            Schedule(Every(minutes=5), name="europe", args=("eu",), overlap="cancel"),
            Schedule(Every(minutes=5), name="asia", args=("as",), using={"priority": -5}),
        ])
        def sync(region: str) -> None: ...

    `name`: its name on the queue, the task's by default; several schedules of a task need names. `args`, `kwargs`: the
    arguments. `using`: options of its jobs, as for `Task.using` except `id`, `queue`, `delay`, `run_after`,
    `durable` and `persistent`.
    `catch_up`: what happens to ticks that nothing could run in time: "one" (the default) runs the latest of them, "all"
    runs each, "skip" runs none. `window`: how many seconds late a tick may run (3,600); `skip` allows a minute.
    `overlap`: what happens at a tick while the previous job has not ended: "skip" (the default) leaves the tick out,
    "allow" enqueues it, "queue" lets it wait for the previous one, "cancel" cancels the previous one.
    `jitter`: up to how many seconds later a tick is due; each has its own delay, the same wherever it is computed.
    `start`, `end`: the first and the last time, with time zones. Raises `InvalidArgument`.
    """

    when: When
    name: str | None = None
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    using: UsingOptions = field(default_factory=lambda: UsingOptions())
    catch_up: Literal["one", "all", "skip"] = "one"
    window: float | timedelta = WINDOW_MS / limits.SECOND
    overlap: Literal["skip", "allow", "queue", "cancel"] = "skip"
    jitter: float | timedelta = 0
    start: datetime | None = None
    end: datetime | None = None

    def __post_init__(self) -> None:
        checked_when(self.when, "Schedule: when")
        if self.name is not None:
            schedule_name(self.name)
        if isinstance(self.args, (str, bytes)) or not isinstance(self.args, Sequence):
            raise invalid("Schedule: args", "a tuple of arguments", type(self.args).__name__)
        if not isinstance(self.kwargs, Mapping):
            raise invalid("Schedule: kwargs", "arguments by name", type(self.kwargs).__name__)
        checked_using(self.using)
        _ = self.policies

    @property
    def policies(self) -> Policies:
        """Its policies, checked."""
        known = {one.name for one in fields(self)} & OF_SCHEDULE
        options: Any = {name: getattr(self, name) for name in known}
        return Policies.of(options)


ScheduleOption: TypeAlias = Cron | Every | Schedule | Sequence[Cron | Every | Schedule] | None
"""The values of the option `schedule`."""


def schedules_of(value: object) -> tuple[Schedule, ...]:
    """Return what `@app.task(schedule=...)` was given. Raises `InvalidArgument`."""
    if value is None:
        return ()
    given = value if isinstance(value, (list, tuple)) else (value,)
    if len(given) > limits.PAGE_MAX:
        raise invalid("schedule", f"at most {limits.PAGE_MAX} schedules", str(len(given)))
    found = tuple(one if isinstance(one, Schedule) else Schedule(checked_when(one, "schedule")) for one in given)
    chosen = [one.name for one in found]
    if len(found) > 1 and (None in chosen or len(set(chosen)) < len(chosen)):
        raise InvalidArgument(
            "schedule: several schedules of a task need different names. Write Schedule(..., name=...) for each."
        )
    return found


def checked_when(value: object, what: str) -> When:
    """Refuse anything but `Cron` and `Every`."""
    if not isinstance(value, (Cron, Every)):
        kind = value.__name__ if isinstance(value, type) else type(value).__name__
        raise invalid(what, 'Cron("0 9 * * *", tz="Europe/Berlin") or Every(minutes=5)', kind)
    return value


def checked_using(using: object) -> UsingOptions:
    """Refuse options that a schedule's jobs cannot have."""
    if not isinstance(using, Mapping):
        raise invalid("using", "options by name, such as {'priority': 5}", type(using).__name__)
    check_names(using, OF_USING - set(_NOT_HERE))
    return using  # type: ignore[return-value]


def schedule_name(value: object) -> str:
    """Return the name of a schedule: 1 to 150 printable characters."""
    text = names.lane_name(value, "schedule name")
    if len(text) > MAX_SCHEDULE_NAME:
        raise invalid("schedule name", f"1 to {MAX_SCHEDULE_NAME} characters", f"{len(text)} characters")
    return text


def spec_of(name: str, when: When, policies: Policies, job: NewJob, source: str = "") -> ScheduleSpec:
    """Return the definition of a schedule that enqueues jobs like `job`. Raises `InvalidArgument`."""
    if job.delay_ms or job.run_at_ms is not None or job.own_id:
        raise InvalidArgument(
            f"Schedule {name!r}: its jobs cannot have an id, a delay, run_after or Debounce; each is due at its tick."
        )
    if job.shape.persistent:
        raise InvalidArgument(
            f"Schedule {name!r}: its jobs cannot be persistent: such a job never completes, so there would be one more "
            "at each tick, or none. Enqueue it once, with a unique key."
        )
    if job.shape.expires is not None and not job.shape.expires.startswith("+"):
        raise invalid("expires", "seconds, which count from each tick", "a time", "`end` is when a schedule is over.")
    return with_when(
        ScheduleSpec(
            name=schedule_name(name),
            queue=job.queue,
            source=source,
            payload=job.payload,
            **job.spec(),
        ),
        when,
        policies,
    )


def with_when(spec: ScheduleSpec, when: When, policies: Policies) -> ScheduleSpec:
    """Return the definition with another time and other policies."""
    policies.check()
    due = {"cron": when.expression, "tz": when.tz, "every_ms": 0} if isinstance(when, Cron) else {"every_ms": when.ms}
    given = {one.name: getattr(policies, one.name) for one in fields(policies)}
    shape = _shape(spec.name, spec.shape, policies.overlap)
    changed = replaced(spec, **{"cron": "", "tz": "UTC", **due}, **given, shape=shape)
    if changed.every_ms and policies.jitter_ms > changed.every_ms:
        raise invalid("jitter", "at most the interval, or ticks would pass each other", f"{policies.jitter_ms} ms")
    if policies.end_ms is not None and next(rules.ticks(changed, (policies.start_ms or 0) - 1), None) is None:
        raise InvalidArgument(f"Schedule {spec.name!r} is never due between its start and its end.")
    return changed


def policies_of(spec: ScheduleSpec) -> Policies:
    """Return the policies of a definition."""
    return Policies(**{one.name: getattr(spec, one.name) for one in fields(Policies)})


def view_of(queue: str, stored: StoredSchedule) -> ScheduleView | None:
    """Return a schedule as users see it; None if this release cannot read it."""
    spec, state = stored.spec, stored.state
    if spec is None:
        return None
    at = {name: from_ms(ms) if ms else None for name, ms in _times(stored).items()}
    try:
        when: When | None = spec.when
        explanation = spec.when.explain()
    except InvalidArgument as error:  # a time zone that this machine does not know
        when, explanation = None, str(error)
    last = [(state.ran_ms, state.last_id)] if state.last_id is not None else []
    return ScheduleView(
        name=stored.name,
        queue=queue,
        task=spec.task,
        when=when,
        explanation=explanation,
        source=spec.source or None,
        next=at["next"],
        last=at["last"],
        last_id=state.last_id,
        runs=state.runs,
        skipped=state.skipped,
        missed=state.missed,
        paused=at["paused"],
        reason=state.reason,
        catch_up=spec.catch_up,
        overlap=spec.overlap,
        end=from_ms(spec.end_ms) if spec.end_ms is not None else None,
        recent=tuple((from_ms(ms), id) for ms, id in (*last, *state.before)),
    )


def _times(stored: StoredSchedule) -> dict[str, int]:
    state = stored.state
    next_ms = 0 if state.paused_ms else state.planned_ms
    return {"next": next_ms, "last": state.last_planned_ms, "paused": state.paused_ms}


def _shape(name: str, shape: Shape, overlap: Overlap) -> Shape:
    """The shape of a job: with `overlap="queue"` it has a lane, which runs one job at a time."""
    own = shape.lane is not None and shape.lane != LANE + name
    if overlap is not Overlap.QUEUE:
        return shape if own else replace(shape, lane=None)
    if shape.priority:
        raise InvalidArgument('overlap="queue" cannot go with a priority: the jobs wait in a lane, in their order.')
    if own and shape.lane_limit > 1:
        raise InvalidArgument('overlap="queue" cannot go with lane_limit: jobs of the lane run at the same time.')
    return shape if shape.lane is not None else replace(shape, lane=LANE + name)
