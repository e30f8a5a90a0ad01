"""Limits and shares of jobs: the values of the options `limits` and `share`, and their names, filled from arguments."""

from __future__ import annotations

import string
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from tenure.core import names
from tenure.core.errors import InvalidArgument, invalid
from tenure.core.rates import MAX_COST, LimitRule

MAX_LIMITS: Final = 8
"""The most limits of one job."""
MAX_CONCURRENCY: Final = 100_000
"""The largest concurrency of a limit."""
MAX_PER_SECOND: Final = 10_000
"""The most starts per second that a limit can allow."""
MAX_BURST: Final = 1_000_000
"""The largest burst of a limit."""
_SECOND_US: Final = 1_000_000
_PERIODS: Final = {"per_second": 1, "per_minute": 60, "per_hour": 3_600}
_PLAIN: Final = (str, int, float, bool)


@dataclass(frozen=True, slots=True)
class Limit:
    """Limit how many jobs start in a time, how many run at a time, or both, by name.

        Limit("stripe", per_second=10, burst=20)
        Limit("tenant:{tenant}", concurrency=3)
        Limit("gpu", concurrency=4, cost=2)

    `name`: jobs with the same name share the limit, on all queues of the namespace; on a Redis Cluster a limit belongs
    to one queue. A name in braces is an argument of
    the task: each of its values has its own limit. `per_second`, `per_minute` or `per_hour`: how many jobs may start.
    `burst`: how many of them may start at once, after a pause. `concurrency`: how many jobs may run at a time. `cost`:
    how much of the limit one job uses. The numbers are defaults: `app.limits.set` changes them for the whole fleet.
    Raises `InvalidArgument`.
    """

    name: str
    per_second: int | None = None
    per_minute: int | None = None
    per_hour: int | None = None
    burst: int = 1
    concurrency: int | None = None
    cost: int = 1

    def __post_init__(self) -> None:
        fields_of(names.limit_template(self.name, "Limit: name"), "Limit: name")
        interval_us = interval_of(self.per_second, self.per_minute, self.per_hour)
        names.count(self.burst, "Limit: burst", least=1, most=MAX_BURST)
        names.count(self.cost, "Limit: cost", least=1, most=MAX_COST)
        if self.concurrency is not None:
            names.count(self.concurrency, "Limit: concurrency", least=1, most=MAX_CONCURRENCY)
        elif interval_us is None:
            given = "per_second, per_minute, per_hour or concurrency"
            raise invalid(f"Limit {self.name!r}", f"given with {given}", "none of them")
        if interval_us is None and self.burst != 1:
            raise invalid("Limit: burst", "given with per_second, per_minute or per_hour", f"{self.burst} without")
        for field, most in (("burst", self.burst if interval_us else None), ("concurrency", self.concurrency)):
            if most is not None and self.cost > most:
                raise invalid("Limit: cost", f"at most the {field} ({most:,})", f"{self.cost:,}", "No job could start.")

    def rule(self, arguments: Mapping[str, Any]) -> LimitRule:
        """Return the limit of a job with these arguments. Raises `InvalidArgument`."""
        name = filled(self.name, arguments, "Limit")
        interval_us = interval_of(self.per_second, self.per_minute, self.per_hour)
        return LimitRule(name, self.cost, self.concurrency, interval_us, self.burst, self.name)


LimitsOption: TypeAlias = Iterable[Limit] | None
"""The value of the option `limits`. An empty list removes the limits of the task."""


def checked_limits(value: object, field: str = "limits") -> tuple[Limit, ...]:
    """Return the limits of an option. Raises `InvalidArgument`."""
    if isinstance(value, (Limit, str)) or not isinstance(value, Iterable):
        raise invalid(field, 'a list, such as [Limit("stripe", per_second=10)]', type(value).__name__)
    found = tuple(value)
    for one in found:
        if not isinstance(one, Limit):
            raise invalid(field, 'a list, such as [Limit("stripe", per_second=10)]', f"one with {names.shown(one)}")
    if len(found) > MAX_LIMITS:
        raise invalid(field, f"at most {MAX_LIMITS}", f"{len(found)}")
    if len({one.name for one in found}) < len(found):
        raise invalid(field, "limits with different names", "two with the same name", "Write one with both numbers.")
    return found


def interval_of(per_second: object, per_minute: object, per_hour: object) -> int | None:
    """Return the time between two starts in microseconds, rounded up; None: no rate. Raises `InvalidArgument`."""
    given = dict(zip(_PERIODS, (per_second, per_minute, per_hour), strict=True))
    rates = {name: rate for name, rate in given.items() if rate is not None}
    if not rates:
        return None
    if len(rates) > 1:
        raise invalid("Limit", f"given with one of {', '.join(_PERIODS)}", " and ".join(rates))
    ((name, rate),) = rates.items()
    seconds = _PERIODS[name]
    most = names.count(rate, f"Limit: {name}", least=1, most=MAX_PER_SECOND * seconds)
    return -(-seconds * _SECOND_US // most)


def fields_of(template: str, field: str) -> tuple[str, ...]:
    """Return the arguments that a name mentions. Raises `InvalidArgument` for braces that name none."""
    found = []
    try:
        for text, name, form, conversion in string.Formatter().parse(template):
            if "{" in text or "}" in text:
                raise ValueError
            if name is not None:
                if not name.isidentifier() or form or conversion:
                    raise ValueError
                found.append(name)
    except ValueError:
        rule = "text in which braces hold the name of an argument, as in 'tenant:{tenant}'"
        raise invalid(field, rule, names.shown(template)) from None
    return tuple(found)


def filled(template: str, arguments: Mapping[str, Any], field: str) -> str:
    """Return the name with the arguments in it. Raises `InvalidArgument` if one is missing, or is not plain."""
    values: dict[str, str] = {}
    for name in fields_of(template, field):
        if name not in arguments:
            raise InvalidArgument(
                f"{field} {template!r} needs the argument {name!r}, and the job has none of this name."
            )
        if not isinstance(arguments[name], _PLAIN):
            kind = type(arguments[name]).__name__
            raise invalid(f"{field} {template!r}: argument {name!r}", "text, a number or a bool", kind)
        values[name] = str(arguments[name])
        if "{" in values[name] or "}" in values[name]:
            raise invalid(f"{field} {template!r}: argument {name!r}", "without braces", names.shown(values[name]))
    return names.limit_name(template.format_map(values), f"{field} {template!r}")


def check_fields(templates: Iterable[str], parameters: Collection[str], owner: str) -> None:
    """Refuse names that mention an argument which the function does not have. Raises `InvalidArgument`."""
    for template in templates:
        for name in fields_of(template, owner):
            if name not in parameters:
                rule = f"one with arguments of {owner} ({', '.join(parameters) or 'it has none'})"
                raise invalid(f"{owner}: name of a limit or share", rule, names.shown(template))


def rules_of_job(found: Sequence[Limit], arguments: Mapping[str, Any]) -> tuple[LimitRule, ...]:
    """Return the limits of one job. Of two with the same name the first counts. Raises `InvalidArgument`."""
    rules: dict[str, LimitRule] = {}
    for one in found:
        rule = one.rule(arguments)
        rules.setdefault(rule.name, rule)
    if len(rules) > MAX_LIMITS:
        raise invalid("limits", f"at most {MAX_LIMITS} for one job, those of its queue included", f"{len(rules)}")
    return tuple(rules.values())
