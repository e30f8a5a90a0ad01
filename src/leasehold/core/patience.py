"""When to try again what has failed, and when to give up. Pure: time and randomness come from outside.

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
"""The pause before a call is sent again for the first time. It doubles with every attempt."""
RESEND_CAP_MS: Final = 300
"""The longest pause between two attempts, at first."""
RESEND_SLOW_AFTER_MS: Final = 10 * limits.SECOND
"""After this time without a reply the pauses grow further."""
RESEND_SLOW_CAP_MS: Final = 2 * limits.SECOND
"""The longest pause between two attempts then."""
MIN_ATTEMPT_MS: Final = 100
"""The last attempt of a call gets at least this long."""

_FIRST = RESEND_FIRST_MS / 1000
_CAP = RESEND_CAP_MS / 1000
_SLOW_AFTER = RESEND_SLOW_AFTER_MS / 1000
_SLOW_CAP = RESEND_SLOW_CAP_MS / 1000
_MIN_ATTEMPT = MIN_ATTEMPT_MS / 1000
HELD_S: Final = _CAP
"""A connection, or a wait, that was there for so long was a good one."""


class RetryBudget:
    """The waiting of one call. It starts with the call's first failure. All times in seconds."""

    __slots__ = ("_limit", "_pauses", "_since", "_told")

    def __init__(self, limit_s: float, random: Callable[[], float]) -> None:
        self._limit = limit_s
        self._pauses = Pauses(_FIRST, _CAP, random)
        self._since: float | None = None
        self._told: Exception | None = None

    def failed(self, now: float) -> float | None:
        """How long to wait before the next attempt; None: give up."""
        if self._since is None:
            self._since = now
        waited = now - self._since
        if waited >= self._limit:
            return None
        return min(self._pauses.next_s(_CAP if waited < _SLOW_AFTER else _SLOW_CAP), self._limit - waited)

    def telling(self, error: Exception, says_why: bool) -> Exception:
        """The failure to be told of: this one, or an earlier one that said why, when this one does not."""
        if says_why:
            self._told = error
        return self._told or error

    def left(self, now: float) -> float:
        """How long an attempt that starts now may take at most, whatever its own limit."""
        if self._since is None:
            return self._limit
        return max(_MIN_ATTEMPT, self._limit - (now - self._since))


class ReconnectBackoff:
    """The pauses before something that was lost is begun anew: a connection, a wait for work. They grow, up to a cap;
    after one that held for `HELD_S` the next pause is the first again.

    >>> renewals = ReconnectBackoff(random=lambda: 1.0)
    >>> [renewals.lost(held_s, now=100.0) for held_s in (60.0, 0.0, 0.0, 0.0, 60.0)]
    [0.03, 0.06, 0.12, 0.24, 0.03]
    """

    __slots__ = ("_patience", "_random")

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self.good()

    def good(self) -> None:
        """One came to a good end."""
        self._patience = RetryBudget(math.inf, self._random)

    def lost(self, held_s: float, now: float) -> float:
        """One was lost that had held for so long. How long to wait before the next, in seconds."""
        if held_s >= HELD_S:
            self.good()
        pause_s = self._patience.failed(now)
        assert pause_s is not None, "this patience has no end"
        return pause_s
