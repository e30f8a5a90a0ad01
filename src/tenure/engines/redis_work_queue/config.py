"""The numbers of the engine."""

from __future__ import annotations

from typing import Final

from tenure.core import limits
from tenure.engines.kit.config import EngineConfig

WIRE_LEASE_MS: Final = 10 * limits.SECOND
"""The time to live of a kept lease as other clients see it. Heartbeats renew it; Tenure workers take over sooner."""
STRAY_MS: Final = 5 * limits.SECOND
"""The grace: how long an id must have been seen without a lease before it is requeued, if another client held it.
Longer than other clients take between the two commands of a lease, or of an enqueue."""
MARK_MS: Final = 10 * limits.MINUTE
"""How long a sighting counts after `STRAY_MS`. A pass through the longest lists takes a worker less."""
CALLERS_MARK_MS: Final = 2 * limits.DAY
"""The same for cleans that a program calls. One that cleans on a schedule does it once a day at least."""
MARKS_MAX: Final = 10_000
"""Items that were added again and are noted as possibly missing from every list. A deep clean checks the others."""
COPIES_MAX: Final = 50_000
"""Ids in `processing` in which one call looks for second copies of the jobs that it ends: about two milliseconds."""
COPIES_FEW: Final = 2_000
"""The same limit while no other program is known to use the queue."""
DEEP_MS: Final = limits.MINUTE
"""How long after a search for items that are in no list a worker begins the next one."""
DEEP_PAGE: Final = 1_000
"""Ids or items that one step of a deep clean looks at."""
STRAY_PAGE: Final = 1_000
"""Items in no list that one call notes or requeues."""
STRAY_STEPS: Final = 10
"""Calls that requeue such items in one round of maintenance."""
SEARCH_MAX: Final = 50_000
"""Ids in the lists up to which one call searches for many ids at once: about 20 milliseconds."""
MARK_PAGE: Final = 1_000
"""Marks that one call checks for items that are gone."""
LIGHT_MS: Final = 3_500
"""How long after workers have begun a pass through a long `processing` they begin the next, however many they are."""
LIGHT_PAGE: Final = 250
"""Ids that one step of a light clean looks at and may requeue: some milliseconds."""
SEARCHES_MAX: Final = 5
"""Ids that one call searches for one by one. Each search takes as long as the lists are."""
LEFT_PAGE: Final = 20
"""Ids in the list of another cleaner that one round looks at."""
NESTED_MAX: Final = 16
"""Parts of an id that a deep clean compares with the keys of queues with prefixes among the items."""
CLEAN_STEPS: Final = 40
"""Calls for `processing`, and for the search of all items, in one round of maintenance."""
KNOWN_MAX: Final = 500_000
"""Ids that a deep clean remembers at one time. Longer lists are cleaned in parts."""
DROPIN_ANSWER_MS: Final = limits.MINUTE
"""How long Redis remembers the last answer of a session of the drop-in client, unless its next call removes it. A call
is repeated for half as long."""
COMPARED_MAX: Final = 1_000
"""Bytes up to which `complete` of the drop-in client sends the data that it leased, so that Redis compares the two.
For longer data it sends the hash."""
WAIT_SLICE_MS: Final = 500
"""How long a worker of several queues waits for one of them before it waits for the next."""


class RedisWorkQueueConfig(EngineConfig, frozen=True):
    """The numbers of the engine. All Tenure workers of one queue should use the same.

    `wire_lease_ms`: the time to live of a lease as other clients see it; heartbeats renew it, and Tenure workers
    take over sooner. `stray_ms`: the grace, how long an id must have been seen without a lease before it is requeued,
    if another client held it; 0: at first sight. `mark_ms`: how long such a sighting counts after that. `deep_ms`: how
    long after a search for items in no list the next one begins. `creates_meta`: False for a
    client that is no worker. It writes `P:meta` only where there is one, so that no key of a drained queue remains.
    """

    wire_lease_ms: int = WIRE_LEASE_MS
    stray_ms: int = STRAY_MS
    mark_ms: int = MARK_MS
    deep_ms: int = DEEP_MS
    creates_meta: bool = True

    def as_argument(self) -> str:
        own = {"wire": self.wire_lease_ms, "stray": self.stray_ms, "mark": self.mark_ms}
        return self.encoded(**own, meta=int(self.creates_meta))
