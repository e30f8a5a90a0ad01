"""Limits and shares of jobs: the values of the options `limits` and `share`, and their names, filled from arguments."""

from __future__ import annotations

import string
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, TypeAlias

from tenure.core import names
from tenure.core.errors import InvalidArgument, invalid
from tenure.core.rates import MAX_COST, LimitRule
from tenure.core.values import replace

MAX_LIMITS: Final = 8
"""The most limits of one job."""
MAX_CONCURRENCY: Final = 100_000
"""The largest concurrency of a limit."""
MAX_PER_SECOND: Final = 100_000
"""The most starts per second that a limit can allow."""
MAX_BURST: Final = 1_000_000
"""The largest burst of a limit."""
MAX_INTERVAL_DAYS: Final = 30
"""The longest time between two starts of a limit."""
_SECOND_US: Final = 1_000_000
_DAY_S: Final = 86_400
_PERIODS: Final = {"per_second": 1, "per_minute": 60, "per_hour": 3_600, "per_day": _DAY_S}
_PLAIN: Final = (str, int, float, bool)


@dataclass(frozen=True, slots=True)
class Limit:
    """Limit how many jobs start in a time, how many run at a time, or both, by name.

        Limit("stripe", per_second=10, burst=20)
        Limit("mail", per_second=2, per_day=5_000)
        Limit("tenant:{tenant}", concurrency=3)
        Limit("gpu", concurrency=4, cost=2)

    `name`: jobs with the same name share the limit, on all queues of the namespace; on a Redis Cluster a limit belongs
    to one queue. A name in braces is an argument of the task: each of its values has its own limit. `per_second`,
    `per_minute`, `per_hour`, `per_day`: how many jobs may start, also fractions (0.5). With several rates all of them
    hold: the shortest period has the `name`, and each other is a limit of its own, called "mail per day", with its
    number as its burst. `burst`: how many may start at once, after a pause. `concurrency`: how many jobs may run at a
    time. `cost`: how much of the limit one job uses. The numbers are defaults: `app.limits.set` changes them for the
    whole fleet. Raises `InvalidArgument`.
    """

    name: str
    _: KW_ONLY
    per_second: float | None = None
    per_minute: float | None = None
    per_hour: float | None = None
    per_day: float | None = None
    burst: int = 1
    concurrency: int | None = None
    cost: int = 1

    def __post_init__(self) -> None:
        fields_of(names.limit_template(self.name, "Limit: name"), "Limit: name")
        rates = self.rates
        names.count(self.burst, "Limit: burst", least=1, most=MAX_BURST)
        names.count(self.cost, "Limit: cost", least=1, most=MAX_COST)
        if self.concurrency is not None:
            names.count(self.concurrency, "Limit: concurrency", least=1, most=MAX_CONCURRENCY)
        elif not rates:
            given = f"{', '.join(_PERIODS)} or concurrency"
            raise invalid(f"Limit {self.name!r}", f"given with {given}", "none of them")
        if not rates and self.burst != 1:
            raise invalid("Limit: burst", f"given with one of {', '.join(_PERIODS)}", f"{self.burst} without")
        for field, most in (("burst", self.burst if rates else None), ("concurrency", self.concurrency)):
            if most is not None and self.cost > most:
                raise invalid("Limit: cost", f"at most the {field} ({most:,})", f"{self.cost:,}", "No job could start.")

    @property
    def rates(self) -> dict[str, float]:
        """Its rates by period, the shortest first. Raises `InvalidArgument`."""
        given = {name: getattr(self, name) for name in _PERIODS}
        return {name: checked_rate(rate, name, "Limit: ") for name, rate in given.items() if rate is not None}

    @property
    def unfilled(self) -> tuple[LimitRule, ...]:
        """Its limits, one for each rate, with the names that the code has."""
        return _unfilled(self)

    def rules(self, arguments: Mapping[str, Any]) -> tuple[LimitRule, ...]:
        """Return the limits of a job with these arguments, one for each rate. Raises `InvalidArgument`."""
        return tuple(replace(rule, name=filled(rule.template, arguments, "Limit")) for rule in self.unfilled)


@lru_cache(maxsize=1_024)
def _unfilled(limit: Limit) -> tuple[LimitRule, ...]:
    """The rules of a limit with the names that the code has."""
    rates = list(limit.rates.items())
    first_us = interval_us(*rates[0]) if rates else None
    found = [LimitRule(limit.name, limit.cost, limit.concurrency, first_us, limit.burst, limit.name)]
    for period, rate in rates[1:]:
        name = f"{limit.name} {period.replace('_', ' ')}"
        burst = min(MAX_BURST, max(limit.cost, int(rate)))
        found.append(LimitRule(name, limit.cost, None, interval_us(period, rate), burst, name))
    return tuple(found)


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


def checked_rate(rate: object, period: str, owner: str = "") -> float:
    """Return how many jobs may start in a period. Raises `InvalidArgument`."""
    seconds = _PERIODS[period]
    least, most = seconds / (MAX_INTERVAL_DAYS * _DAY_S), MAX_PER_SECOND * seconds
    if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not least <= rate <= most:
        rule = f"a number above 0, at most {most:,}, and at least one start in {MAX_INTERVAL_DAYS} days"
        raise invalid(f"{owner}{period}", rule, names.shown(rate))
    return rate


def interval_us(period: str, rate: float) -> int:
    """Return the time between two starts in microseconds, rounded up: never faster than the rate."""
    return int(-(-_PERIODS[period] * _SECOND_US // Fraction(str(rate))))


def interval_of(rates: Mapping[str, object]) -> int | None:
    """Return the time between two starts of the one rate that is given by its period; None: none is."""
    given = {period: rate for period, rate in rates.items() if rate is not None}
    if not given:
        return None
    if len(given) > 1:
        advice = "A further rate is a limit of its own, such as 'mail per day'."
        raise invalid("limit", f"given with one of {', '.join(_PERIODS)}", " and ".join(given), advice)
    ((period, rate),) = given.items()
    return interval_us(period, checked_rate(rate, period))


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
    return names.filled_name(template.format_map(values))


def check_fields(templates: Iterable[str], parameters: Collection[str], owner: str) -> None:
    """Refuse names that mention an argument which the function does not have. Raises `InvalidArgument`."""
    for template in templates:
        for name in fields_of(template, owner):
            if name not in parameters:
                rule = f"one with arguments of {owner} ({', '.join(parameters) or 'it has none'})"
                raise invalid(f"{owner}: name of a limit or share", rule, names.shown(template))


def rules_of_job(found: Sequence[Limit], arguments: Mapping[str, Any]) -> tuple[LimitRule, ...]:
    """Return the limits of one job. If two have the same name, the first counts. Raises `InvalidArgument`."""
    rules: dict[str, LimitRule] = {}
    for one in found:
        for rule in one.rules(arguments):
            rules.setdefault(rule.name, rule)
    if len(rules) > MAX_LIMITS:
        raise invalid("limits", f"at most {MAX_LIMITS} for one job, with the limits of its queue", f"{len(rules)}")
    return tuple(rules.values())
