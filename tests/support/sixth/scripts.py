"""The Lua operations of the engine, and the numbers that they take."""

from __future__ import annotations

from typing import Final

from tenure.engines.kit.scripts import load, words_of

LAYOUT: Final = 1
WORDS: Final = words_of(calls="call", layout=LAYOUT)
SCRIPTS: Final = load(__package__, WORDS)
