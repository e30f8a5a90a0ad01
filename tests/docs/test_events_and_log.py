"""The reference page of events and the registry of log events name all there are, and nothing else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import tenure
from tenure import events
from tenure.core import events as core
from tenure.core.events import EVENTS, Event
from tenure.core.log_events import LOG_EVENTS
from tenure.core.logfmt import MAX_LOG_TEXT
from tenure.core.outcome import Broken, Cancelled, Completed, Failed, Released, Unroutable

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(tenure.__file__).parent
LOGGED_BY = {"log_event", "log_line", "line", "_of", "_log", "_error"}


def rows(page: str) -> dict[str, str]:
    """The first cell of each row of a page's tables, every name in it, and the rest of the row."""
    found: dict[str, str] = {}
    for line in (ROOT / "docs" / "reference" / page).read_text().splitlines():
        cells = line.split("|")
        if len(cells) > 3 and "`" in cells[1]:
            found |= dict.fromkeys(re.findall(r"`(\w+)`", cells[1]), "|".join(cells[2:]))
    return found


def test_every_event_and_field_is_on_the_page():
    page = rows("events.md")
    kinds: list[type[Event]] = [getattr(events, name) for name in events.__all__]
    assert set(EVENTS) <= set(kinds)
    assert set(page) == {kind.__name__ for kind in kinds}
    for kind in kinds:
        above = {field.name for base in kind.__bases__ if base is not object for field in fields(base)}
        for field in fields(kind):
            assert field.name in above or f"`{field.name}`" in page[kind.__name__], f"{kind.__name__}.{field.name}"


def test_the_tree_of_events_is_drawn_as_it_is():
    drawn = re.findall(r"─ (\w+)", (ROOT / "docs" / "reference" / "events.md").read_text())
    assert drawn == re.findall(r"─ (\w+)", core.__doc__ or "")
    assert {*drawn, "Event"} == set(events.__all__)


def test_the_log_events_are_those_of_the_registry():
    """Every call names a registered event, and every registered event is logged somewhere."""
    outcomes = {kind.__name__.lower() for kind in (Broken, Completed, Cancelled, Failed, Released, Unroutable)}
    assert {*names_in_the_log(), *outcomes} == set(LOG_EVENTS)


def test_names_and_messages_follow_the_style_guide():
    for name, event in LOG_EVENTS.items():
        assert re.fullmatch("[a-z]+(_[a-z]+)*", name)
        assert re.fullmatch(r"[A-Z].*\.", event.message), name
        assert len(event.message) <= MAX_LOG_TEXT, name


def names_in_the_log() -> Iterator[str]:
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in LOGGED_BY:
                yield from names_in(node)


def names_in(call: ast.Call) -> Iterator[str]:
    """The name is one of the first arguments, and may be chosen by a condition."""
    for argument in call.args[:2]:
        for branch in (argument.body, argument.orelse) if isinstance(argument, ast.IfExp) else (argument,):
            if isinstance(branch, ast.Constant) and isinstance(branch.value, str):
                yield branch.value
