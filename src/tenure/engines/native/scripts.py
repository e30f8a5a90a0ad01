"""The Lua operations of the native engine. The header of each names its arguments."""

from __future__ import annotations

from typing import Final

from tenure.core import partitions
from tenure.engines.kit.moving import IMPORT_TTL_MS
from tenure.engines.kit.scripts import load, words_of
from tenure.engines.native import config

LAYOUT: Final = 1
"""The version of the layout that this release writes: `meta.layout`, see docs/decisions/0019."""

WORDS: Final = words_of(partitions, config, calls="call", layout=LAYOUT)
SCRIPTS: Final = load(__package__, WORDS)
_IMPORTS: Final = ("enqueue", "enqueue_shaped", "arrive", "add_totals")
IMPORTS: Final = load(__package__, {**WORDS, "ANSWER_TTL_MS": IMPORT_TTL_MS}, _IMPORTS)
"""They add the jobs of a move, and remember their answer while the move may be continued."""
