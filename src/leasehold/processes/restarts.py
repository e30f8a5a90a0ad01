"""How long the place of a worker process that died stays empty. Pure: time and chance come from outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from leasehold.core import limits
from leasehold.core.backoff import Pauses

CHILD_YOUNG_MS: Final = 10 * limits.SECOND
"""A worker process that dies sooner after its start died young: it is replaced after a pause that grows."""
CHILD_BACKOFF_MS: Final = 250
"""The first pause before a worker process that died young is replaced. It doubles."""
CHILD_BACKOFF_CAP_MS: Final = 10 * limits.SECOND
"""The longest of these pauses."""
CHILD_FAILURES: Final = 10
"""When this many in a row died before they were ready, and no other is ready, the parent ends."""


class RestartPauses:
    """The pauses of one place: none after a first death, growing ones after deaths that follow a start closely.

    >>> pauses = RestartPauses(lambda: 1.0)
    >>> [pauses.after(lived_s) for lived_s in (3600, 1, 1, 1, 3600)]
    [0.0, 0.0, 0.25, 0.5, 0.0]
    """

    def __init__(self, random: Callable[[], float]) -> None:
        self._pauses = Pauses(CHILD_BACKOFF_MS / limits.SECOND, CHILD_BACKOFF_CAP_MS / limits.SECOND, random)
        self._died_young = False

    def after(self, lived_s: float) -> float:
        """Return the pause in seconds after the death of a process that had lived for `lived_s`."""
        before, self._died_young = self._died_young, lived_s * limits.SECOND < CHILD_YOUNG_MS
        if before and self._died_young:
            return self._pauses.next_s()
        self._pauses.reset()
        return 0.0
