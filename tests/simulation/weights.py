"""Which operations the processes of a simulation choose, and how often."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

WEIGHTS: Final[Mapping[str, Mapping[str, int]]] = {
    "client": {
        "enqueue": 12, "enqueue_again": 2, "cancel": 2, "discard": 1, "retry": 3, "pause": 1, "park": 1, "limit": 1,
        "flow": 3, "stop_flow": 1, "schedule": 2, "repartition": 1,
    },
    "claim": {"claim": 1},
    "settle": {"settle": 16, "leave": 1},
    "beat": {"beat": 1},
    "tend": {"tend": 2, "tick": 2},
    "keeper": {"keep": 1, "tend": 2},
}  # fmt: skip
"""Strands by name, and their operations. A strand makes one call at a time; a process may have several."""
SUBJECTS: Final = ("", "plain", "lane", "limit", "unique", "schedule", "flow")
"""What most jobs of a history are about. Empty: everything. `BY_SUBJECT` also has those of
tests/simulation/traces.py."""
BY_SUBJECT: Final[Mapping[str, Mapping[str, Mapping[str, int]]]] = {
    "plain": {"client": {"enqueue": 8, "enqueue_again": 2, "cancel": 1, "discard": 1, "retry": 1}, "tend": {"tend": 1}},
    "lane": {"client": {"enqueue": 10, "cancel": 1, "discard": 1, "retry": 2, "pause": 1, "park": 3, "repartition": 1}},
    "limit": {"client": {"enqueue": 10, "cancel": 1, "discard": 1, "retry": 2, "pause": 1, "park": 1, "limit": 4}},
    "unique": {"client": {"enqueue": 12, "enqueue_again": 1, "cancel": 2, "discard": 2, "retry": 4, "repartition": 1}},
    "schedule": {"client": {"schedule": 4, "enqueue": 1, "cancel": 1}, "tend": {"tick": 4, "tend": 1}},
    "flow": {"client": {"flow": 6, "enqueue": 2, "cancel": 1, "discard": 1, "stop_flow": 1}, "tend": {"tend": 1}},
    **{
        name: {"client": {"enqueue": 1}, "settle": {"settle": 1}, "tend": {"tend": 1}}
        for name in ("Lease", "Lane", "Limit", "Channel")
    },
    "Tick": {"client": {"schedule": 1}, "settle": {"settle": 1}, "tend": {"tick": 4, "tend": 1}},
}
STRANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "client": ("client",),
    "worker": ("claim", "settle", "beat", "tend"),
    "keeper": ("keeper",),
}
