"""The Lua operations of the native engine, with the names of their arguments."""

from __future__ import annotations

from typing import Final

from leasehold.core import engine, limits
from leasehold.core.steps import Script
from leasehold.engines.kit import config as kit
from leasehold.engines.kit.moving import IMPORT_TTL_MS
from leasehold.engines.kit.scripts import load, numbers_of
from leasehold.engines.native import config

ARGUMENTS: Final[dict[str, str]] = {
    "enqueue": "session number room (id record due own)...",
    "enqueue_shaped": "session number room (id record due rule)...",
    "claim": "session number config worker limit lease_ms kind alone of_lane",
    "settle": "session number config worker (id token kind ms head body)...",
    "extend": "session number config worker id token ms",
    "heartbeat": "config worker (id token)...",
    "leave": "session number config worker crashed",
    "maintain": "config limit meta_ttl_ms task...",
    "show": "id watch_ms",
    "page": "state lane offset limit place number mark entry",
    "counts": "",
    "holders": "",
    "retry": "session number id edited payload",
    "discard": "session number id",
    "cancel": "session number config id body signal queue",
    "sweep": "session number config state lane after limit body signal queue",
    "release": "session number lane",
    "progress": "worker id token text",
    "lane": "lane",
    "lanes": "state cursor limit",
    "park": "session number lane parked",
    "configure": "session number (setting value)...",
    "quiet": "session number worker quiet ttl_ms channel",
    "announce": "worker text ttl_ms keep_ms queue...",
    "withdraw": "worker",
    "register": "queue keep_ms",
    "workers": "ttl_ms",
}
"""What each operation takes in ARGV, as its header says. KEYS is always the prefix alone."""


LAYOUT: Final = 1
"""The version of the layout that this release writes: `meta.layout`, see docs/decisions/0019."""

WORDS: Final = {"CALLS": "call", "LAYOUT": LAYOUT, **numbers_of(limits, engine, kit, config)}
SCRIPTS: Final[dict[str, Script]] = load(__package__, ARGUMENTS, WORDS)
IMPORT: Final = load(__package__, ["enqueue"], {**WORDS, "ANSWER_TTL_MS": IMPORT_TTL_MS})["enqueue"]
"""Adds the jobs of a move, and remembers its answer for as long as the move may be continued."""
