"""Which errors of jobs are logged in full: the first of each kind. The others are counted, in one line a second."""

from __future__ import annotations

import asyncio
from typing import Final

from tenure.core.job import Lease
from tenure.core.log_events import LOG_EVENTS
from tenure.core.outcome import Broken, Failed, Outcome, Retried
from tenure.runtime.log import log_event

FULL_MOST: Final = 5
"""Errors of one kind that are logged in full in a second."""
KINDS_MOST: Final = 100
"""Kinds of errors with counts of their own in a second. All further ones count as one kind."""
COUNTED_S: Final = 1.0

_Kind = tuple[str, str | None, str]
_OTHERS: Final[_Kind] = ("failed", None, "other kinds")


class ErrorCounts:
    """Used from the event loop's thread only. A kind is an outcome, a task and a type of errors.

    A kind with more than `FULL_MOST` errors in a second is counted until a second has no error of it.
    """

    def __init__(self) -> None:
        self._counts: dict[_Kind, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def is_shown(self, lease: Lease, outcome: Outcome) -> bool:
        """Count an outcome. Return whether it is logged in full."""
        match outcome:
            case Retried(error) | Failed(error) | Broken(error):
                name = "deferred" if isinstance(outcome, Retried) and outcome.deferred else type(outcome).__name__
            case _:
                return True
        kind = (name.lower(), lease.record.task, error.type)
        if kind not in self._counts and len(self._counts) >= KINDS_MOST:
            kind = _OTHERS
        count = self._counts[kind] = self._counts.get(kind, 0) + 1
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(COUNTED_S, self._second_ended)
        return count <= FULL_MOST

    def end(self) -> None:
        """Log the last counts."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._log()

    def _second_ended(self) -> None:
        self._counts = dict.fromkeys(self._log(), FULL_MOST)
        self._timer = None
        if self._counts:
            self._timer = asyncio.get_running_loop().call_later(COUNTED_S, self._second_ended)

    def _log(self) -> list[_Kind]:
        """Log the errors that were only counted. Return their kinds."""
        counted = [kind for kind, count in self._counts.items() if count > FULL_MOST]
        for name, task, error in counted:
            count = self._counts[name, task, error] - FULL_MOST
            log_event("errors_counted", LOG_EVENTS[name].level, outcome=name, task=task, error=error, count=count)
        return counted
