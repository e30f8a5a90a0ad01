"""Returns the items of dead workers of other programs to their queue, for queues without a Tenure worker."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final

from tenure.core import limits
from tenure.core.steps import Steps, Work
from tenure.core.values import replace
from tenure.engines.kit.extras import Cleaned
from tenure.protocols.spec import Cleaning

MARGIN_MS: Final = 100
"""How much later than the grace the second look begins: clocks differ a little."""


def clean(cleaning: Cleaning, queue: str, deep: bool, waits: Callable[[int], None]) -> Steps[Cleaned]:
    """Clean a queue. If there are items without a lease, look again after the grace of the cleaning.

    So no item is taken from a client that is about to lease it. `waits` is called before the wait with the number of
    these items. `deep`: also check all items for those that are in no list.
    """
    done = yield from cleaning.first(queue, deep)
    if done.noted:
        waits(done.noted)
        yield Work(partial(time.sleep, (cleaning.again_ms + MARGIN_MS) / limits.SECOND))
        second = yield from cleaning.again(queue)
        done = replace(done + second, looked=done.looked, noted=second.noted)
    return done
