"""The options of a job: as the user writes them, and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

from tenure.client.limit import checked_limits, fields_of
from tenure.client.unique import rule_of
from tenure.core import limits, names
from tenure.core.errors import InvalidArgument, invalid
from tenure.core.hints import option_hint
from tenure.core.shape import Conflict, UniqueRule, Until

if TYPE_CHECKING:
    from datetime import datetime, timedelta
    from typing import Unpack

    from tenure.client.limit import Limit, LimitsOption
    from tenure.client.unique import UniqueOption


class ShapeOptions(TypedDict, total=False):
    """How a job is placed in its queue. A task may have defaults for these. `Task.using` describes all job options."""

    lane: str | None
    lane_limit: int | None
    priority: int | None
    unique: UniqueOption
    persistent: bool | None
    limits: LimitsOption
    share: str | None


class ManyOptions(ShapeOptions, total=False):
    """Options that many jobs can share."""

    delay: float | timedelta | None
    run_after: datetime | None
    timeout: float | timedelta | None
    retries: int | None
    durable: int | None
    headers: Mapping[str, str] | None


class JobOptions(ManyOptions, total=False):
    """Options of one job."""

    id: str | None


class UsingOptions(JobOptions, total=False):
    """Options of a job, and its queue."""

    queue: str | None


OF_SHAPE: Final = frozenset(ShapeOptions.__annotations__)
OF_MANY: Final = OF_SHAPE | ManyOptions.__annotations__.keys()
OF_JOB: Final = OF_MANY | JobOptions.__annotations__.keys()
OF_USING: Final = OF_JOB | UsingOptions.__annotations__.keys()

NO_TIMEOUT_MS: Final = 0
NO_LANE: Final = ""
"""The user passed None as the lane. No lane's name is empty."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one job, checked. None: not given.

    `delay_ms` and `run_at_ms` are set together: 0 and a time, or a number and None. `timeout_ms` 0: no limit. `lane` ""
    and `unique` False: none, even if the task has one; so do empty `headers`, `limits` and an empty `share`.
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
    headers: Mapping[str, str] | None = None
    limits: tuple[Limit, ...] | None = None
    share: str | None = None

    def using(self, known: frozenset[str], /, **options: Unpack[UsingOptions]) -> Options:
        """Return these options with some of them changed. `known`: the names that are allowed here.

        Raises `InvalidArgument`, which names the wrong option. `check` finds options that contradict each other.
        """
        if not options:
            return self
        check_names(options, known)
        return replace(self, **_checked(options))

    def over(self, defaults: Options) -> Options:
        """Return these options, completed from `defaults`. The id is never a default."""
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
            headers=defaults.headers if self.headers is None else self.headers,
            limits=defaults.limits if self.limits is None else self.limits,
            share=defaults.share if self.share is None else self.share,
        )

    def check(self) -> Options:
        """Return these options. Raises `InvalidArgument` if they contradict each other."""
        if self.lane and self.priority:
            raise InvalidArgument(
                f"lane {self.lane!r} and priority {self.priority} cannot both be given: a lane runs in the order of "
                "enqueue. Leave one of them out, with lane=None or priority=0 if the task has it."
            )
        if self.lane_limit is not None and not self.lane:
            raise invalid("lane_limit", "given with lane=", f"{self.lane_limit} without a lane")
        if self.priority:
            self._check_order()
        if self.share and self.lane:
            raise InvalidArgument(
                f"share {self.share!r} and lane {self.lane!r} cannot both be given: each lane has turns of its own. "
                "Leave one of them out, with share=None or lane=None if the task has it."
            )
        if self.unique and self.delayed:
            _check_no_delay(self.unique)
        if self.unique and self.persistent:
            _check_lasting(self.unique)
        return self

    def _check_order(self) -> None:
        for name, value in (("limits", self.limits), ("share", self.share)):
            if value:
                raise InvalidArgument(
                    f"{name} and priority {self.priority} cannot both be given: such jobs start in the order of their "
                    f"enqueue. Leave one of them out, with {name}={'[]' if name == 'limits' else 'None'} or priority=0 "
                    "if the task has it."
                )

    @property
    def delayed(self) -> bool:
        return bool(self.delay_ms) or self.run_at_ms is not None


NONE_GIVEN: Final = Options()


def check_names(options: Mapping[str, object], known: frozenset[str]) -> None:
    """Refuse unknown options: raise `InvalidArgument`."""
    unknown = sorted(options.keys() - known)
    if unknown:
        names_known = ", ".join(sorted(known))
        raise invalid("option", f"one of {names_known}", repr(unknown[0]), option_hint(unknown[0], known).strip())


def timeout_on_wire(timeout: object) -> int:
    """Convert a timeout in seconds to milliseconds; None (no limit) becomes 0."""
    return NO_TIMEOUT_MS if timeout is None else names.duration_ms(timeout, "timeout")


def _checked(options: UsingOptions) -> dict[str, Any]:
    """Check the options. None keeps the old value, except for timeout, lane and unique key: there it removes it."""
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
        changes["persistent"] = names.flag(persistent, "persistent")
    if (given := options.get("limits")) is not None:
        changes["limits"] = checked_limits(given)
    if "share" in options:
        share = options["share"]
        changes["share"] = "" if share is None else names.limit_template(share, "share")
        fields_of(changes["share"], "share")
    if (headers := options.get("headers")) is not None:
        changes["headers"] = names.headers(headers)
    return changes


def _check_no_delay(rule: UniqueRule) -> None:
    if rule.conflict is Conflict.POSTPONE:
        raise InvalidArgument("Debounce cannot go with delay or run_after: its seconds are the delay.")
    if rule.conflict is Conflict.RERUN:
        raise InvalidArgument('on_conflict="rerun" cannot go with delay or run_after: it runs when the other job ends.')


def _check_lasting(rule: UniqueRule) -> None:
    """Refuse a key that ends before a persistent job does, and a rerun, which would wait for ever."""
    if rule.conflict is Conflict.RERUN:
        asked = 'on_conflict="rerun"'
    elif rule.until is Until.ENDED:
        return
    elif rule.conflict is Conflict.POSTPONE:
        asked = "Debounce"
    elif rule.until is Until.STARTED:
        asked = 'a unique key until "started"'
    else:
        asked = "a unique key for a time (Throttle, or until=seconds)"
    raise InvalidArgument(
        f"persistent cannot go with {asked}: a persistent job never completes, and no other job with its key may run "
        'meanwhile. Use until="ended", the default of Unique.'
    )
