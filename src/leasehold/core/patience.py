"""When to retry a failed call, and when to give up. Pure: the caller passes time and randomness.

>>> patience = RetryBudget(limit_s=10.0, random=lambda: 0.5)
>>> patience.failed(now=100.0), patience.left(now=100.5)
(0.0225, 9.5)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from leasehold.core import limits
from leasehold.core.backoff import Pauses

RESEND_FIRST_MS: Final = 30
"""The pause before the first retry of a call. It doubles with every attempt."""
RESEND_CAP_MS: Final = 300
"""The longest pause between two attempts, in the first seconds."""
RESEND_SLOW_AFTER_MS: Final = 10 * limits.SECOND
"""After this time without a reply the pauses grow longer."""
RESEND_SLOW_CAP_MS: Final = 2 * limits.SECOND
"""The longest pause between two attempts, after that time."""
MIN_ATTEMPT_MS: Final = 100
"""The shortest time limit of a call's last attempt."""

_FIRST = RESEND_FIRST_MS / 1000
_CAP = RESEND_CAP_MS / 1000
_SLOW_AFTER = RESEND_SLOW_AFTER_MS / 1000
_SLOW_CAP = RESEND_SLOW_CAP_MS / 1000
_MIN_ATTEMPT = MIN_ATTEMPT_MS / 1000
HELD_S: Final = _CAP
"""A connection or a wait that held this long counts as good."""


class RetryBudget:
    """How long one call is retried. The budget starts with the call's first failure. All times are seconds."""

    __slots__ = ("_limit", "_pauses", "_since", "_told")

    def __init__(self, limit_s: float, random: Callable[[], float]) -> None:
        self._limit = limit_s
        self._pauses = Pauses(_FIRST, _CAP, random)
        self._since: float | None = None
        self._told: Exception | None = None

    def failed(self, now: float) -> float | None:
        """Return how long to wait before the next attempt; None: give up."""
        if self._since is None:
            self._since = now
        waited = now - self._since
        if waited >= self._limit:
            return None
        return min(self._pauses.next_s(_CAP if waited < _SLOW_AFTER else _SLOW_CAP), self._limit - waited)

    def telling(self, error: Exception, says_why: bool) -> Exception:
        """Return the error to report: this one, or an earlier one that gave a reason if this one gives none."""
        if says_why:
            self._told = error
        return self._told or error

    def left(self, now: float) -> float:
        """Return the time limit for an attempt that starts now."""
        if self._since is None:
            return self._limit
        return max(_MIN_ATTEMPT, self._limit - (now - self._since))


class ReconnectBackoff:
    """The growing pauses before a lost connection or a lost wait is opened again. After one that held for `HELD_S`,
    the next pause is the first again.

    >>> renewals = ReconnectBackoff(random=lambda: 1.0)
    >>> [renewals.lost(held_s, now=100.0) for held_s in (60.0, 0.0, 0.0, 0.0, 60.0)]
    [0.03, 0.06, 0.12, 0.24, 0.03]
    """

    __slots__ = ("_patience", "_random")

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self.good()

    def good(self) -> None:
        """Reset the pauses: a connection or a wait ended well."""
        self._patience = RetryBudget(math.inf, self._random)

    def lost(self, held_s: float, now: float) -> float:
        """Return the pause in seconds after one was lost that had held for `held_s` seconds."""
        if held_s >= HELD_S:
            self.good()
        pause_s = self._patience.failed(now)
        assert pause_s is not None, "this patience has no end"
        return pause_s
