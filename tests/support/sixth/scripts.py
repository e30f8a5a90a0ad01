"""The Lua operations of the engine, and the numbers that they take."""

from __future__ import annotations

from typing import Final

from leasehold.core import engine, limits
from leasehold.core.steps import Script
from leasehold.engines.kit import config
from leasehold.engines.kit.scripts import load, numbers_of

ARGUMENTS: Final[dict[str, str]] = {
    "enqueue": "session number (id payload task timeout retries)...",
    "claim": "session number config worker limit lease_ms kind alone of_lane",
    "settle": "session number config worker (id token kind ms body)...",
    "extend": "session number config worker id token ms",
    "heartbeat": "config worker (id token)...",
    "leave": "session number config worker crashed",
    "maintain": "config limit meta_ttl_ms",
    "show": "id",
    "page": "state offset limit after",
    "counts": "",
    "retry": "session number id edited payload",
    "discard": "session number id",
    "cancel": "session number config body id...",
    "purge": "session number state",
    "announce": "worker text ttl_ms keep_ms queue...",
    "withdraw": "worker",
    "register": "queue keep_ms",
    "workers": "ttl_ms",
}
LAYOUT: Final = 1
WORDS: Final = {"CALLS": "call", "LAYOUT": LAYOUT, **numbers_of(limits, engine, config)}
SCRIPTS: Final[dict[str, Script]] = load(__package__, ARGUMENTS, WORDS)
