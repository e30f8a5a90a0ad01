"""The numbers of the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from leasehold.core import limits
from leasehold.engines.kit.config import EngineConfig

WIRE_LEASE_MS: Final = 10 * limits.SECOND
"""The time to live of a kept lease as other clients see it. Heartbeats renew it; Leasehold workers take over sooner."""
STRAY_MS: Final = limits.MINUTE
"""How long an id must have been seen without a lease of Leasehold's before it returns to its queue."""
MARK_MS: Final = 2 * limits.DAY
"""How long a sighting still counts after `STRAY_MS`. Programs that clean on a schedule do it once a day at least."""
MARKS_MAX: Final = 10_000
"""Items that were added again and are noted as possibly missing from every list. A deep clean checks the others."""
COPIES_MAX: Final = 50_000
"""Ids in `processing` in which one call looks for second copies of the jobs that it ends: about two milliseconds."""
COPIES_FEW: Final = 2_000
"""The same limit while no other program is known to use the queue."""
DEEP_MS: Final = 10 * limits.MINUTE
"""How often a worker looks for items that are in no list."""
DEEP_PAGE: Final = 1_000
"""Ids or items that one step of a deep clean looks at."""
LIGHT_PAGE: Final = 250
"""Ids that one step of a light clean looks at and may requeue: some milliseconds."""
SEARCHES_MAX: Final = 5
"""Ids of one step that one call searches for in the lists. Each search takes as long as the lists are."""
LEFT_PAGE: Final = 20
"""Ids in the list of another cleaner that one round looks at."""
NESTED_MAX: Final = 16
"""Parts of an id that a deep clean compares with the keys of queues whose prefixes lie among the items."""
CLEAN_STEPS: Final = 40
"""Steps of a light clean, and of a deep clean, in one round of maintenance."""
KNOWN_MAX: Final = 500_000
"""Ids that a deep clean remembers at one time. Longer lists are cleaned in parts."""
DROPIN_ANSWER_MS: Final = limits.MINUTE
"""How long Redis remembers the last answer of a session of the drop-in client, unless its next call removes it. A call
is repeated for half as long."""
WAIT_SLICE_MS: Final = 500
"""How long a worker of several queues waits for one of them before it waits for the next."""


@dataclass(frozen=True, slots=True)
class RedisWorkQueueConfig(EngineConfig):
    """The numbers of the engine. All Leasehold workers of one queue should use the same.

    `wire_lease_ms`: the time to live of a lease as other clients see it; heartbeats renew it, and Leasehold workers
    take over sooner. `stray_ms`: how long an id must have been seen without a lease before it is requeued, if another
    client held it: at least as long as the leases of the other clients. `deep_ms`: how often items in no list are
    looked for. `creates_meta`: False for a client that is no worker. It writes `P:meta` only where there is one, so
    that no key of a drained queue remains.
    """

    wire_lease_ms: int = WIRE_LEASE_MS
    stray_ms: int = STRAY_MS
    deep_ms: int = DEEP_MS
    creates_meta: bool = True

    def as_argument(self) -> str:
        return self.encoded(wire=self.wire_lease_ms, stray=self.stray_ms, meta=int(self.creates_meta))
