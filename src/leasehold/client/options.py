"""What can be asked for a job when it is enqueued: the options as the user writes them, and checked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

from leasehold.client.unique import rule_of
from leasehold.core import limits, names
from leasehold.core.errors import InvalidArgument
from leasehold.core.shape import Conflict, UniqueRule, Until

if TYPE_CHECKING:
    from datetime import datetime, timedelta
    from typing import Unpack

    from leasehold.client.unique import UniqueOption


class ShapeOptions(TypedDict, total=False):
    """The place that a job gets in its queue. A task may have defaults for these.

    lane        jobs with the same lane run strictly one at a time, in the order of their enqueue; None: no lane
    lane_limit  how many of the lane may run at one time, 1 to 1,000; with more than 1 there is no order
    priority    -100 to 100, higher first, 0 by default; in a lane order is all, so it goes with no lane
    unique      what it must be the only one of: a key, True (by its arguments), `Unique(...)`, `Debounce(...)`,
                `Throttle(...)`; None or False: nothing
    persistent  True: when its handler returns the job is run again, for ever, and by default without a timeout; a
                unique key must then last until its end
    """

    lane: str | None
    lane_limit: int | None
    priority: int | None
    unique: UniqueOption
    persistent: bool | None


class ManyOptions(ShapeOptions, total=False):
    """Options that many jobs can share.

    delay      seconds or a `timedelta`; counts from Redis' clock
    run_after  a `datetime` with a time zone
    timeout    seconds (or a `timedelta`) for one attempt; None: no limit
    retries    how many more attempts after the first
    durable    replicas that must have the job before the call returns, or `NotDurable` is raised; 0: none. By default
               what the app says
    """

    delay: float | timedelta | None
    run_after: datetime | None
    timeout: float | timedelta | None
    retries: int | None
    durable: int | None


class JobOptions(ManyOptions, total=False):
    """Options of one job.

    id  an id of your own; a second job with it is refused while the first is known
    """

    id: str | None


class UsingOptions(JobOptions, total=False):
    """Options of a job that also say to which queue it goes."""

    queue: str | None


OF_SHAPE: Final = frozenset(ShapeOptions.__annotations__)
OF_MANY: Final = OF_SHAPE | ManyOptions.__annotations__.keys()
OF_JOB: Final = OF_MANY | JobOptions.__annotations__.keys()
OF_USING: Final = OF_JOB | UsingOptions.__annotations__.keys()

NO_TIMEOUT_MS: Final = 0
"""How a job says on the wire that it has no timeout."""
NO_LANE: Final = ""
"""That somebody asked for no lane. No lane's name is empty."""


class Unset(Enum):
    """Tells "not given" from None, which for a timeout means "no limit"."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET


@dataclass(frozen=True, slots=True)
class Options:
    """What the user asked for one job, checked. None where nothing was asked.

    `delay_ms` and `run_at_ms` are one wish: 0 and a time, or a number and None. `timeout_ms` 0: no limit. `lane` "" and
    `unique` False: none, whatever the task says.
    """

    id: str | None = None
    queue: str | None = None
    delay_ms: int | None = None
    run_at_ms: int | None = None
    timeout_ms: int | None = None
    retries: int | None = None
    durable: int | None = None
    lane: str | None = None
    lane_limit: int | None = None
    priority: int | None = None
    unique: UniqueRule | Literal[False] | None = None
    persistent: bool | None = None

    def using(self, known: frozenset[str], /, **options: Unpack[UsingOptions]) -> Options:
        """These options with some of them changed. `known`: the names of those that may be asked for here.

        Raises `InvalidArgument`, naming the one that is wrong. Whether they go together says `check`.
        """
        if not options:
            return self
        unknown = sorted(options.keys() - known)
        if unknown:
            raise InvalidArgument(f"There is no option {unknown[0]!r} here; expected {', '.join(sorted(known))}.")
        return replace(self, **_attempt(options), **_shape(options))

    def over(self, defaults: Options) -> Options:
        """These options, and of the defaults those that nothing was asked for here. An id is no default."""
        asked = self if self.delay_ms is not None else defaults
        lane_limit = defaults.lane_limit if self.lane != NO_LANE else None
        return Options(
            id=self.id,
            queue=self.queue or defaults.queue,
            delay_ms=asked.delay_ms,
            run_at_ms=asked.run_at_ms,
            timeout_ms=defaults.timeout_ms if self.timeout_ms is None else self.timeout_ms,
            retries=defaults.retries if self.retries is None else self.retries,
            durable=defaults.durable if self.durable is None else self.durable,
            lane=defaults.lane if self.lane is None else self.lane,
            lane_limit=lane_limit if self.lane_limit is None else self.lane_limit,
            priority=defaults.priority if self.priority is None else self.priority,
            unique=defaults.unique if self.unique is None else self.unique,
            persistent=defaults.persistent if self.persistent is None else self.persistent,
        )

    def check(self) -> Options:
        """Refuse what does not go together. Raises `InvalidArgument`; else these options."""
        if self.lane and self.priority:
            raise InvalidArgument(
                f"lane {self.lane!r} and priority {self.priority} are both asked for; in a lane the order of enqueue "
                "is all. Leave one of them out, with lane=None or priority=0 where the task has it."
            )
        if self.lane_limit is not None and not self.lane:
            raise InvalidArgument(f"lane_limit is {self.lane_limit}, but there is no lane; expected lane= with it.")
        if self.unique and self.delayed:
            _check_no_delay(self.unique)
        if self.unique and self.persistent:
            _check_lasting(self.unique)
        return self

    @property
    def delayed(self) -> bool:
        return bool(self.delay_ms) or self.run_at_ms is not None


def timeout_on_wire(timeout: object) -> int:
    """Seconds as milliseconds; None, no limit, as 0."""
    return NO_TIMEOUT_MS if timeout is None else names.duration_ms(timeout, "timeout")


def _attempt(options: UsingOptions) -> dict[str, Any]:
    """Which job it is, where it goes, and when and how it is run: what is None is as it was, but for the timeout."""
    changes: dict[str, Any] = {}
    if (id := options.get("id")) is not None:
        changes["id"] = names.job_id(id)
    if (queue := options.get("queue")) is not None:
        changes["queue"] = names.queue_name(queue)
    delay, run_after = options.get("delay"), options.get("run_after")
    if delay is not None or run_after is not None:
        changes["delay_ms"], changes["run_at_ms"] = names.due(delay, run_after)
    if "timeout" in options:
        changes["timeout_ms"] = timeout_on_wire(options["timeout"])
    if (retries := options.get("retries")) is not None:
        changes["retries"] = names.count(retries, "retries")
    if (durable := options.get("durable")) is not None:
        changes["durable"] = names.count(durable, "durable", most=limits.MAX_DURABLE)
    return changes


def _shape(options: UsingOptions) -> dict[str, Any]:
    """The place of the job in its queue: None is as it was, but for the lane and the unique key, where it is none."""
    changes: dict[str, Any] = {}
    if "lane" in options:
        lane = options["lane"]
        changes["lane"] = NO_LANE if lane is None else names.lane_name(lane)
        if lane is None:
            changes["lane_limit"] = None
    if (lane_limit := options.get("lane_limit")) is not None:
        changes["lane_limit"] = names.count(lane_limit, "lane_limit", least=1, most=limits.MAX_LANE_LIMIT)
    if (priority := options.get("priority")) is not None:
        changes["priority"] = names.count(priority, "priority", least=limits.MIN_PRIORITY, most=limits.MAX_PRIORITY)
    if "unique" in options:
        changes["unique"] = rule_of(options["unique"]) or False
    if (persistent := options.get("persistent")) is not None:
        if not isinstance(persistent, bool):
            raise InvalidArgument(f"persistent is a {type(persistent).__name__}; expected True or False.")
        changes["persistent"] = persistent
    return changes


def _check_no_delay(rule: UniqueRule) -> None:
    if rule.conflict is Conflict.POSTPONE:
        raise InvalidArgument(
            "Debounce and delay or run_after are both asked for; a debounced job waits by its own seconds. Leave one "
            "of them out."
        )
    if rule.conflict is Conflict.RERUN:
        raise InvalidArgument(
            'on_conflict="rerun" and delay or run_after are both asked for; the new run begins when the one before it '
            "ends. Leave one of them out."
        )


def _check_lasting(rule: UniqueRule) -> None:
    """Who wants something to run for ever wants it once: a key that ends before the job would let a second one in."""
    if rule.conflict is Conflict.RERUN:
        raise InvalidArgument(
            'persistent and on_conflict="rerun" are both asked for; a persistent job never completes, so that the new '
            "run would wait for ever. Leave one of them out."
        )
    if rule.until is Until.ENDED:
        return
    if rule.conflict is Conflict.POSTPONE:
        asked = "Debounce"
    elif rule.until is Until.STARTED:
        asked = 'unique until "started"'
    else:
        asked = "a unique key for a time (Throttle, or until=seconds)"
    raise InvalidArgument(
        f"persistent and {asked} are both asked for; a persistent job never completes, so that its key would end "
        'before it, and a second one could run. Expected a key that lasts: until="ended", the default of Unique.'
    )
