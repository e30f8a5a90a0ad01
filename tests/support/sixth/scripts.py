"""The Lua operations of the engine, and the numbers that they take."""

from __future__ import annotations

from typing import Final

from tenure.core import engine, limits
from tenure.core.steps import Script
from tenure.engines.kit import config
from tenure.engines.kit.scripts import load, numbers_of

LAYOUT: Final = 1
WORDS: Final = {"CALLS": "call", "LAYOUT": LAYOUT, **numbers_of(limits, engine, config)}
SCRIPTS: Final[dict[str, Script]] = load(__package__, WORDS)
