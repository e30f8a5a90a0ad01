"""Backoff: the pause before a job, a call to Redis, a connection or a loop of the worker is tried again."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeAlias

from tenure.core import limits, names
from tenure.core.errors import invalid

BackoffFunction: TypeAlias = Callable[[int, BaseException], float | timedelta]
"""Takes the number of failures so far (from 1) and the error; returns the delay in seconds, or as a `timedelta`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Exponential backoff: `base * factor ** (failures - 1)` seconds, at most `cap` seconds.

    With `jitter` the delay is random, evenly spread from 0 to that number, so that jobs that failed together retry at
    different times.

        Backoff()                       # up to 1 s, 2 s, 4 s, ... 1 h
        Backoff(base=5, cap=60)         # up to 5 s, 10 s, 20 s, 40 s, 60 s, 60 s, ...
        Backoff.fixed(30)               # 30 s, always

    Raises `InvalidArgument` when a number is negative, not finite or above ten years, or when `base` is above `cap`.
    """

    base: float = 1.0
    factor: float = 2.0
    cap: float = 3600.0
    jitter: bool = True

    def __post_init__(self) -> None:
        for name, least in (("base", 0.0), ("factor", 1.0), ("cap", 0.0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not _within(value, least):
                raise invalid(f"backoff {name}", f"a number from {least:g} to {_MOST:,.0f}", names.shown(value))
        if self.base > self.cap:
            raise invalid(
                "backoff cap",
                f"at least the base of {self.base:g} s",
                f"{self.cap:g} s",
                f"Write Backoff(base={self.base:g}, cap={self.base * 8:g}) or Backoff.fixed({self.base:g}).",
            )
        names.flag(self.jitter, "backoff jitter")

    @classmethod
    def fixed(cls, seconds: float, *, jitter: bool = False) -> Backoff:
        """Return a backoff with the same delay after every failure. With `jitter`: a random delay up to `seconds`.

        Backoff.fixed(30)
        """
        return cls(base=seconds, factor=1.0, cap=seconds, jitter=jitter)

    def delay_ms(self, failures: int, random: Callable[[], float]) -> int:
        """Return the milliseconds to wait after failure number `failures` (from 1). `random` returns 0 up to 1."""
        seconds = self._longest(failures)
        if self.jitter:
            seconds *= random()
        return round(seconds * limits.SECOND)

    def _longest(self, failures: int) -> float:
        if self.base == 0:
            return 0.0
        try:
            return min(float(self.cap), self.base * float(self.factor) ** max(0, failures - 1))
        except OverflowError:
            return float(self.cap)


@dataclass(frozen=True, slots=True)
class OwnBackoff:
    """A backoff that a function of the user decides.

    `base`: seconds before a persistent job runs again if its handler returned at once.
    """

    function: BackoffFunction
    base: float = 1.0

    def delay_ms(self, failures: int, error: BaseException) -> int:
        """Return the milliseconds to wait. Raises what the function raises, or `InvalidArgument` for a bad delay."""
        return names.duration_ms(self.function(failures, error), "backoff", least_ms=0, most_ms=limits.MAX_DELAY_MS)


_MOST = limits.MAX_DELAY_MS / limits.SECOND


def _within(value: float, least: float) -> bool:
    return math.isfinite(value) and least <= value <= _MOST


class Pauses:
    """Growing pauses between attempts: each is twice the one before it, up to a cap. Half of each is drawn at random,
    so that processes which failed together do not come back together.

    >>> pauses = Pauses(0.1, 0.3, random=lambda: 1.0)
    >>> [pauses.next_s() for _ in range(3)]
    [0.1, 0.2, 0.3]
    """

    __slots__ = ("_cap_s", "_failures", "_first_s", "_random")

    def __init__(self, first_s: float, cap_s: float, random: Callable[[], float]) -> None:
        self._first_s = first_s
        self._cap_s = cap_s
        self._random = random
        self._failures = 0

    def next_s(self, cap_s: float | None = None) -> float:
        """Count a failure, and return the pause in seconds. `cap_s`: another cap, for this pause only."""
        full_s = min(self._cap_s if cap_s is None else cap_s, self._first_s * 2.0 ** min(self._failures, 20))
        self._failures += 1
        return full_s * (0.5 + self._random() / 2)

    def reset(self) -> None:
        """Begin with the shortest pause again."""
        self._failures = 0


RESEND_FIRST_S: Final = 0.03
"""The pause before the first retry of a call. It doubles with every attempt."""
RESEND_CAP_S: Final = 0.3
"""The longest pause between two attempts, until the call has failed for `RESEND_SLOW_AFTER_S`."""
RESEND_SLOW_AFTER_S: Final = 10.0
RESEND_SLOW_CAP_S: Final = 2.0
"""The longest pause between two attempts after that time."""
MIN_ATTEMPT_S: Final = 0.1
"""The shortest time limit of a call's last attempt."""
HELD_S: Final = RESEND_CAP_S
"""A connection or a wait that held this long counts as good."""


class RetryBudget:
    """How long one call is retried, from its first failure, and the pauses between its attempts, all in seconds.

    >>> budget = RetryBudget(limit_s=10.0, random=lambda: 0.5)
    >>> budget.failed(now=100.0), budget.left(now=100.5)
    (0.0225, 9.5)

    Without a limit: the pauses before a lost connection or a lost wait is opened again.

    >>> reconnects = RetryBudget(math.inf, random=lambda: 1.0)
    >>> [reconnects.lost(held_s, now=100.0) for held_s in (60.0, 0.0, 0.0, 0.0, 60.0)]
    [0.03, 0.06, 0.12, 0.24, 0.03]
    """

    __slots__ = ("_limit", "_pauses", "_since", "_told")

    def __init__(self, limit_s: float, random: Callable[[], float]) -> None:
        self._limit = limit_s
        self._pauses = Pauses(RESEND_FIRST_S, RESEND_CAP_S, random)
        self._since: float | None = None
        self._told: Exception | None = None

    def failed(self, now: float) -> float | None:
        """Return how long to wait before the next attempt; None: give up."""
        if self._since is None:
            self._since = now
        waited = now - self._since
        if waited >= self._limit:
            return None
        cap_s = RESEND_CAP_S if waited < RESEND_SLOW_AFTER_S else RESEND_SLOW_CAP_S
        return min(self._pauses.next_s(cap_s), self._limit - waited)

    def lost(self, held_s: float, now: float) -> float:
        """Return the pause after a connection or a wait was lost that had held for `held_s`."""
        if held_s >= HELD_S:
            self.good()
        pause_s = self.failed(now)
        assert pause_s is not None, "this budget has no limit"
        return pause_s

    def good(self) -> None:
        """Reset the pauses: a connection or a wait ended well."""
        self._since = None
        self._pauses.reset()

    def telling(self, error: Exception, says_why: bool) -> Exception:
        """Return the error to report: this one, or an earlier one that gave a reason if this one gives none."""
        if says_why:
            self._told = error
        return self._told or error

    def forget(self) -> None:
        """Drop the error, once the call has ended: its traceback has the frames of the call, which have this budget."""
        self._told = None

    def left(self, now: float) -> float:
        """Return the time limit for an attempt that starts now."""
        if self._since is None:
            return self._limit
        return max(MIN_ATTEMPT_S, self._limit - (now - self._since))
