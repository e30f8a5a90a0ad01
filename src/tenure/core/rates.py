"""Limits of jobs: how many may start in a time, and how many may run at a time, as engines take them."""

from __future__ import annotations

from dataclasses import dataclass, field
from string import Formatter
from typing import Final, Protocol

from msgspec import Struct

from tenure.core import limits
from tenure.core.names import has_digest
from tenure.core.steps import Steps

MAX_COST: Final = 1_000
"""The most that one job uses of a limit."""
MAX_REST_MS: Final = limits.DAY
"""The longest time for which a handler can let a limit rest."""


@dataclass(frozen=True, slots=True)
class LimitRule:
    """A limit of one job, with the numbers of its code. `name`: the key, its template filled. `template`: as the code
    has it, with braces; empty: `name` is as the code has it.

    `cost`: how much of the limit the job uses. `concurrency` None: any number may run. `interval_us`: the time between
    two starts, in microseconds; None: any number may start. `burst`: how many may start at once.
    """

    name: str
    cost: int = 1
    concurrency: int | None = None
    interval_us: int | None = None
    burst: int = 1
    template: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class LimitHolder:
    """A running job that holds places of a limit, since its claim."""

    queue: str
    id: str
    worker: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class LimitView:
    """A limit as Redis knows it.

    `concurrency`, `interval_us` and `burst`: what is stored; None: the number of the code applies. `active`: places
    that leases hold. `lanes`: how many lanes wait at the limit, by queue; a lane waits with all of its jobs, and `jobs`
    counts these. `rests_ms`: until when no job starts, because a handler raised `RateLimited`; None: it does not rest.
    `code`: the numbers of the code, by the latest job that runs or waits, or else by this app or a worker; None: not
    known. `holders`: up to 20 jobs that hold places, those first that have run longest.
    """

    name: str
    concurrency: int | None = None
    interval_us: int | None = None
    burst: int | None = None
    active: int = 0
    lanes: dict[str, int] | None = None
    rests_ms: int | None = None
    jobs: dict[str, int] | None = None
    code: LimitRule | None = None
    holders: tuple[LimitHolder, ...] = ()

    @property
    def rate(self) -> str | None:
        """The stored rate in words, as in "5 per second"."""
        return in_words(self.interval_us)

    @property
    def is_known(self) -> bool:
        """Whether Redis has the limit: numbers, jobs that run or wait, or a rest."""
        return self.is_stored or self.active > 0 or bool(self.lanes) or self.rests_ms is not None

    @property
    def is_stored(self) -> bool:
        """Whether Redis has numbers that replace the numbers in the code."""
        return any(number is not None for number in (self.concurrency, self.interval_us, self.burst))


def in_words(interval_us: int | None) -> str | None:
    """Return a rate in words, as in "5 per second"; None: there is no rate."""
    if interval_us is None:
        return None
    periods = {"second": 1_000_000, "minute": 60_000_000, "hour": 3_600_000_000, "day": 86_400_000_000}
    counts = {period: us / interval_us for period, us in periods.items() if us >= interval_us or period == "day"}
    for period, count in counts.items():
        if abs(count - round(count)) < 0.001 * count:
            return f"{round(count):,} per {period}"
    period, count = next(iter(counts.items()))
    return f"{count:,.2f} per {period}"


def names_limit(template: str, name: str) -> bool:
    """Return whether arguments can make this name from the name that code has."""
    parts = list(Formatter().parse(template))
    literals = [text for text, *_ in parts] + [""] * (parts[-1][1] is not None)
    if len(literals) == 1:
        return name == template
    first, *between, last = literals
    at, end = len(first), len(name) - len(last)
    if has_digest(name):
        return name.startswith(first)
    for text in between:
        at = name.find(text, at)
        if at < 0:
            return False
        at += len(text)
    return name.startswith(first) and name.endswith(last) and at <= end


class LimitPage(Struct, frozen=True):
    """Some names of limits. `cursor`: where the next page begins; empty: this is the last page."""

    names: tuple[str, ...]
    cursor: str = ""


class SharePage(Struct, frozen=True):
    """Some shares with stored weights. `cursor`: where the next page begins; 0: this is the last page."""

    weights: dict[str, int]
    cursor: int


class LimitPort(Protocol):
    """The limits and shares of an engine's namespace: `Feature.LIMITS` and `Feature.SHARES`."""

    def note_limit(self, template: str, queue: str) -> None:
        """Note that the code gives jobs of a queue this limit. Sends nothing.

        Raises `UnsupportedFeature` if the limit cannot hold for this queue and for another one.
        """
        ...

    def limit(self, name: str) -> Steps[LimitView]:
        """What Redis knows of a limit: stored numbers, and the jobs that it counts or stops."""
        ...

    def limit_names(self, cursor: str = "") -> Steps[LimitPage]:
        """Names of limits that have stored numbers, for which jobs wait, or that rest; a name may come twice."""
        ...

    def resting_limits(self) -> Steps[list[str]]:
        """Some names of limits that rest, at most 100 of a queue."""
        ...

    def set_limit(
        self,
        name: str,
        *,
        concurrency: int | None = None,
        interval_us: int | None = None,
        burst: int | None = None,
    ) -> Steps[None]:
        """Store numbers of a limit, which replace the numbers in the code at once; None leaves one unchanged."""
        ...

    def clear_limit(self, name: str) -> Steps[bool]:
        """Remove the stored numbers of a limit: the numbers in the code apply again. False: Redis had no numbers."""
        ...

    def shares(self, cursor: int = 0) -> Steps[SharePage]:
        """Shares with a stored weight."""
        ...

    def set_share(self, name: str, weight: int) -> Steps[None]:
        """Store how many jobs of a share are claimed in one of its turns."""
        ...
