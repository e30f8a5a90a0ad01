"""The Lua operations of the engine. The header of each names its arguments."""

from __future__ import annotations

from typing import Final

from tenure.core import engine, limits
from tenure.core.steps import Script
from tenure.engines.kit import config as kit
from tenure.engines.kit.scripts import load, numbers_of
from tenure.engines.worqr import config

LAYOUT: Final = 1
"""The version of our side keys that this release writes: `meta.layout`, see docs/decisions/0019."""

WORDS: Final = {"CALLS": "call", "LAYOUT": LAYOUT, **numbers_of(limits, engine, kit, config)}
KITS: Final = ("tenure.engines.kit.lists",)
SCRIPTS: Final[dict[str, Script]] = load(__package__, WORDS, kits=KITS)
