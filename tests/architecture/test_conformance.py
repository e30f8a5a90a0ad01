"""The conformance suite is for every engine: its tests use the engine interface."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "conformance"
TEXTS = {path.name: path.read_text() for path in sorted(FOLDER.glob("*.py"))}
LAYOUT = re.compile(r"world\.key\(|\bNATIVE\b|tests\.support\.native|tenure\.engines\.(?!kit\b)\w+")
"""What a test of one wire format uses. Such tests belong to `tests/wire`."""


def test_conformance_tests_use_the_engine_interface_only() -> None:
    found = [f"{name}: {match[0]}" for name, text in TEXTS.items() for match in LAYOUT.finditer(text)]
    assert not found
