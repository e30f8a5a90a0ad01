"""How long the place of a worker process that died stays empty. Pure: time and chance come from outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from leasehold.core import limits

CHILD_YOUNG_MS: Final = 10 * limits.SECOND
"""A worker process that dies sooner after its start died young: it is replaced after a pause that grows."""
CHILD_BACKOFF_MS: Final = 250
"""The first pause before a worker process that died young is replaced. It doubles."""
CHILD_BACKOFF_CAP_MS: Final = 10 * limits.SECOND
"""The longest of these pauses."""
CHILD_FAILURES: Final = 10
"""When this many in a row died before they were ready, and no other is ready, the supervisor ends."""


class Pauses:
    """Of one place. A death is made up for at once; those soon after the start, one after the other, later and later.

    >>> pauses = Pauses(lambda: 1.0)
    >>> [pauses.after(lived_s) for lived_s in (3600, 1, 1, 1, 3600)]
    [0.0, 0.0, 0.25, 0.5, 0.0]
    """

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self._young = 0

    def after(self, lived_s: float) -> float:
        """One died that had lived for so long. In seconds; half of it by chance, so that places do not go together."""
        self._young = self._young + 1 if lived_s * limits.SECOND < CHILD_YOUNG_MS else 0
        if self._young < 2:
            return 0.0
        most = min(CHILD_BACKOFF_CAP_MS, CHILD_BACKOFF_MS << min(self._young - 2, 16))
        return most * (0.5 + self._random() / 2) / limits.SECOND
