"""The Lua operations of the native engine, with the names of their arguments."""

from __future__ import annotations

from typing import Final

from leasehold.core.steps import Script
from leasehold.engines.kit.moving import IMPORT_TTL_MS
from leasehold.engines.kit.scripts import load
from leasehold.engines.native.config import NUMBERS

ARGUMENTS: Final[dict[str, str]] = {
    "enqueue": "session number room (id record due own)...",
    "enqueue_shaped": "session number room (id record due rule)...",
    "claim": "session number config worker limit lease_ms by_hand slots of_lane alone",
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
    "purge": "session number state limit after",
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

_WORDS: Final[dict[str, str | int]] = {"CALLS": "call", "LAYOUT": LAYOUT, **NUMBERS}
SCRIPTS: Final[dict[str, Script]] = load(__package__, ARGUMENTS, _WORDS)
IMPORT: Final = load(__package__, ["enqueue"], {**_WORDS, "ANSWER_TTL_MS": IMPORT_TTL_MS})["enqueue"]
"""Adds the jobs of a move, and remembers its answer for as long as the move may be continued."""
