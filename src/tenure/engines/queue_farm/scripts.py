"""The Lua operations of the engine. The header of each names its arguments."""

from __future__ import annotations

from typing import Final

from tenure.engines.kit.scripts import load, words_of
from tenure.engines.queue_farm import config

LAYOUT: Final = 1
"""The version of our side keys that this release writes: `meta.layout`, see docs/decisions/0019."""

WORDS: Final = words_of(config, calls="done", layout=LAYOUT)
KITS: Final = ("tenure.engines.kit.exports",)
SCRIPTS: Final = load(__package__, WORDS, kits=KITS)
