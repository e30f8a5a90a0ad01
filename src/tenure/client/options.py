"""The options of a job: as the user writes them, and checked."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypedDict

from msgspec import Struct
from msgspec.structs import replace

from tenure.client.limit import checked_limits, fields_of
from tenure.client.unique import rule_of
from tenure.core import limits, names
from tenure.core.errors import InvalidArgument, invalid
from tenure.core.hints import option_hint
from tenure.core.shape import Conflict, UniqueRule, Until
from tenure.core.task import FlowCall, not_a_call

if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Unpack

    from tenure.client.limit import Limit, LimitsOption
    from tenure.client.unique import UniqueOption
    from tenure.core.task import Call


class AttemptOptions(TypedDict, total=False):
    """Options of a job that are also options of a task, of a queue and of an app."""

    timeout: float | timedelta | None
    retries: int | None


class ShapeOptions(TypedDict, total=False):
    """How a job is placed in its queue. A task may have defaults for these. `Task.using` describes all job options."""

    lane: str | None
    lane_limit: int | None
    priority: int | None
    unique: UniqueOption
    persistent: bool | None
    limits: LimitsOption
    share: str | None
    expires: float | timedelta | datetime | None
    on_failed: Call | FlowCall | None
    at_most_once: bool | None


class ManyOptions(ShapeOptions, AttemptOptions, total=False):
    """Options that many jobs can share."""

    delay: float | timedelta | None
    run_after: datetime | None
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


class Option(NamedTuple):
    """How an option is checked.

    `check` takes the value and the name of the option, and returns the value of `field`, by default the field of the
    same name. `none`: whether None is a value; otherwise None means that the option is not given.
    """

    check: Callable[[Any, str], Any]
    field: str = ""
    none: bool = False


def checked(options: Mapping[str, Any], table: Mapping[str, Option]) -> dict[str, Any]:
    """Return the given options of the table by their fields. Raises `InvalidArgument`, which names the option."""
    found: dict[str, Any] = {}
    for name, value in options.items():
        option = table.get(name)
        if option is not None and (value is not None or option.none):
            found[option.field or name] = option.check(value, name)
    return found


def check_names(options: Mapping[str, object], known: frozenset[str]) -> None:
    """Refuse unknown options: raise `InvalidArgument`."""
    unknown = sorted(options.keys() - known)
    if unknown:
        names_known = ", ".join(sorted(known))
        raise invalid("option", f"one of {names_known}", repr(unknown[0]), option_hint(unknown[0], known).strip())


def _timeout_ms(timeout: object, name: str) -> int:
    return NO_TIMEOUT_MS if timeout is None else names.duration_ms(timeout, name)


NEVER: Final = ""
"""The user passed None as the time when a job expires."""


def _expires(expires: object, name: str) -> str:
    """When a job expires, as its shape has it."""
    if expires is None:
        return NEVER
    if isinstance(expires, datetime):
        at_ms = names.time_ms(expires, name)
        if at_ms <= time.time() * limits.SECOND:
            raise invalid(name, "a time in the future", names.shown(expires))
        return str(at_ms)
    return f"+{names.duration_ms(expires, name, most_ms=limits.MAX_DELAY_MS)}"


def _call(call: object, name: str) -> object:
    if call is not None and not (hasattr(call, "task") and hasattr(call, "payload")) and not isinstance(call, FlowCall):
        raise not_a_call(call, name)
    return call or False


def _share(share: object, name: str) -> str:
    template = "" if share is None else names.limit_template(share, name)
    fields_of(template, name)
    return template


OF_ATTEMPT: Final[Mapping[str, Option]] = {
    "timeout": Option(_timeout_ms, "timeout_ms", none=True),
    "retries": Option(names.count),
}
_OPTIONS: Final[Mapping[str, Option]] = {
    **OF_ATTEMPT,
    "id": Option(names.job_id),
    "queue": Option(names.queue_name),
    "durable": Option(partial(names.count, most=limits.MAX_DURABLE)),
    "headers": Option(names.headers),
    "lane": Option(lambda lane, name: NO_LANE if lane is None else names.lane_name(lane, name), none=True),
    "lane_limit": Option(partial(names.count, least=1, most=limits.MAX_LANE_LIMIT)),
    "priority": Option(partial(names.count, least=limits.MIN_PRIORITY, most=limits.MAX_PRIORITY)),
    "unique": Option(lambda unique, _: rule_of(unique) or False, none=True),
    "persistent": Option(names.flag),
    "limits": Option(checked_limits),
    "share": Option(_share, none=True),
    "expires": Option(_expires, none=True),
    "on_failed": Option(_call, none=True),
    "at_most_once": Option(names.flag),
}
"""The options of a job but for `delay` and `run_after`, which are checked together. Each is a field of `Options`."""


class Options(Struct, frozen=True, gc=False):
    """The options of one job, checked. None: not given.

    `delay_ms` and `run_at_ms` are set together: 0 and a time, or a number and None. `timeout_ms` 0: no limit. `lane` ""
    and `unique` False: none, even if the task has one; so do empty `headers`, `limits`, `share` and `expires`,
    and `on_failed` False.
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
    expires: str | None = None
    on_failed: Call | FlowCall | Literal[False] | None = None
    at_most_once: bool | None = None

    def using(self, known: frozenset[str], /, **options: Unpack[UsingOptions]) -> Options:
        """Return these options with some of them changed. `known`: the names that are allowed here.

        Raises `InvalidArgument`, which names the wrong option. `check` finds options that contradict each other.
        """
        if not options:
            return self
        check_names(options, known)
        changes = checked(options, _OPTIONS)
        delay, run_after = options.get("delay"), options.get("run_after")
        if delay is not None or run_after is not None:
            changes["delay_ms"], changes["run_at_ms"] = names.due(delay, run_after)
        if changes.get("lane") == NO_LANE:
            changes.setdefault("lane_limit", None)
        return replace(self, **changes)

    def over(self, defaults: Options) -> Options:
        """Return these options, completed from `defaults`. The id is never a default."""
        given = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}
        if self.delay_ms is not None:
            given["run_at_ms"] = self.run_at_ms
        if self.lane == NO_LANE:
            given["lane_limit"] = self.lane_limit
        return replace(defaults, **{**given, "id": self.id})

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
        if self.expires:
            self._check_expires(self.expires)
        if self.at_most_once and (self.persistent or self.retries):
            other = "persistent" if self.persistent else f"retries={self.retries}"
            raise InvalidArgument(f"at_most_once cannot go with {other}: such a job never runs again.")
        if self.unique and self.delayed:
            _check_no_delay(self.unique)
        if self.unique and self.persistent:
            _check_lasting(self.unique)
        return self

    def _check_expires(self, expires: str) -> None:
        if self.persistent:
            raise InvalidArgument("expires cannot go with persistent: such a job begins again and again.")
        due_ms = self.delay_ms if expires.startswith("+") else self.run_at_ms
        if due_ms and int(expires) <= due_ms:
            raise InvalidArgument(
                "expires must be later than delay or run_after: the job would expire before it is due."
            )

    def _check_order(self) -> None:
        for name, value in (("limits", self.limits), ("share", self.share)):
            if value:
                raise InvalidArgument(
                    f"{name} and priority {self.priority} cannot both be given: such jobs start in the order of their "
                    f"enqueue. Leave one of them out, with {name}={'[]' if name == 'limits' else 'None'} or priority=0 "
                    "if the task has it."
                )

    def shape(self) -> dict[str, Any]:
        """Return the options that a job's shape has, without those for none; empty: the shape is plain."""
        return {name: value for name in OF_SHAPE if (value := getattr(self, name))}

    @property
    def delayed(self) -> bool:
        return bool(self.delay_ms) or self.run_at_ms is not None


NONE_GIVEN: Final = Options()


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
