"""`leasehold info --watch`: queues and workers, looked at again and again; what a screen shows of them moves."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, Protocol

import click

from leasehold.cli.errors import note, safe
from leasehold.cli.output.tables import Table, drawn, plain
from leasehold.core import limits
from leasehold.core.errors import RedisError

if TYPE_CHECKING:
    from rich.console import Console, Group

REFRESH_MS: Final = 1 * limits.SECOND
"""How often `leasehold info --watch` refreshes."""

_BESIDE = 8
"""Lines of the screen that are no rows: the clock, a trouble, two titles with their heads, what is left out."""


class Seen(Protocol):
    """What is looked at: as JSON, and as the tables of queues and of workers. `troubles`: what is missing there."""

    def to_json(self) -> dict[str, Any]: ...
    def troubles(self) -> list[str]: ...
    def tables(self, now_ms: float) -> list[Table]: ...


def follow(look: Callable[[], Seen], *, as_json: bool) -> None:
    """Look every second until Ctrl-C. A Redis that is away at the beginning is an error; later it is waited for."""
    seen = look()
    if sys.stdout.isatty() and not as_json:
        _draw(look, seen)
        return
    while True:
        if as_json:
            click.echo(json.dumps({"at_ms": round(time.time() * limits.SECOND), **seen.to_json()}, default=asdict))
        else:
            tables = "\n\n".join(plain(table) for table in seen.tables(time.time() * limits.SECOND))
            click.echo(f"{time.strftime('%H:%M:%S')}\n{tables}\n")
            for trouble in seen.troubles():
                note(trouble)
        sys.stdout.flush()
        seen = _next(look)


def _next(look: Callable[[], Seen]) -> Seen:
    while True:
        time.sleep(REFRESH_MS / limits.SECOND)
        try:
            return look()
        except RedisError as error:
            note(error.found or str(error))


def _draw(look: Callable[[], Seen], seen: Seen) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console()
    trouble, at = "", time.strftime("%H:%M:%S")
    with Live(console=console, auto_refresh=False, screen=True, vertical_overflow="crop") as screen:
        while True:
            screen.update(_picture(console, seen, trouble), refresh=True)
            time.sleep(REFRESH_MS / limits.SECOND)
            try:
                seen, trouble, at = look(), "", time.strftime("%H:%M:%S")
            except RedisError as error:
                # What was seen last stays; the words say that it is old.
                trouble = f"As it was at {at}: {safe(error.found or str(error))}"


def _picture(console: Console, seen: Seen, trouble: str) -> Group:
    from rich.console import Group
    from rich.text import Text

    clock = Text(f"{time.strftime('%H:%M:%S')}  Ctrl-C ends.", style="dim")
    troubles = [trouble] if trouble else list(map(safe, seen.troubles()))
    words = [clock, *(Text(one, style="red") for one in troubles)]
    tables = seen.tables(time.time() * limits.SECOND)
    return Group(*words, *(part for table in _cut(tables, console.height - _BESIDE) for part in drawn(table, console)))


def _cut(tables: list[Table], rows: int) -> list[Table]:
    """The tables with no more rows than there is room for, the first with two thirds of it if it needs them."""
    queues, workers = tables
    spare = max(rows, 3)
    for_queues = max(spare - len(workers.rows), 2 * spare // 3)
    first = queues.first(for_queues)
    return [first, workers.first(max(spare - len(first.rows), 1))]
