"""The Lua operations of the engine, with the names of their arguments."""

from __future__ import annotations

from typing import Final

from leasehold.core import engine, limits
from leasehold.core.steps import Script
from leasehold.engines.kit import config as kit
from leasehold.engines.kit.scripts import load, numbers_of
from leasehold.engines.redis_work_queue import config

ARGUMENTS: Final[dict[str, str]] = {
    "enqueue": "session number stray_ms (id data)...",
    "add": "id data",
    "claim": "session number config worker limit lease_ms kind alone of_lane",
    "take": "session number worker lease_ms grace_ms",
    "complete": "session number id token worker",
    "settle": "session number config worker (id token kind ms task body size)...",
    "extend": "session number config worker id token ms",
    "finish": "session number id data",
    "heartbeat": "config worker (id token)...",
    "leave": "session number config worker crashed",
    "maintain": "config limit meta_ttl_ms deep_ms task...",
    "light": "config start count own",
    "deep": "config most id...",
    "export": "move to limit bytes id_most",
    "end_export": "move letters",
    "show": "id",
    "page": "state offset limit place number mark entry",
    "counts": "",
    "retry": "session number id edited data",
    "discard": "session number id",
    "cancel": "session number config id body",
    "purge": "session number config state limit cancel body",
    "announce": "worker text ttl_ms keep_ms queue...",
    "withdraw": "worker",
    "register": "queue keep_ms",
    "workers": "ttl_ms",
}
"""What each operation takes in ARGV, as its header says. KEYS is always the prefix alone."""

LAYOUT: Final = 1
"""The version of our side keys that this release writes: `meta.layout`, see docs/decisions/0019."""

WORDS: Final = {"CALLS": "done", "LAYOUT": LAYOUT, **numbers_of(limits, engine, kit, config)}
SCRIPTS: Final[dict[str, Script]] = load(__package__, ARGUMENTS, WORDS)
