"""`tenure info --watch`: queues and workers, shown again every second."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

import click

from tenure.app.app import Tenure
from tenure.cli.errors import note, safe
from tenure.cli.output.overview import overview_tables
from tenure.cli.output.tables import Table, drawn, plain
from tenure.core import limits
from tenure.core.errors import RedisError
from tenure.manage.documents import encoded, overview_document, refused_document
from tenure.manage.overview import Overview

if TYPE_CHECKING:
    from rich.console import Console, Group

REFRESH_MS: Final = 1 * limits.SECOND
"""How often `tenure info --watch` refreshes."""

_BETWEEN = 3
"""Lines of a further table that are no rows."""
_BESIDE = 8
"""Lines of the screen that are no rows: the clock, an error, two titles with their heads, the number of other rows."""


def follow(app: Tenure, queue: str | None, *, as_json: bool) -> None:
    """Show queues and workers every second until Ctrl-C. Without Redis at the start, it raises; later, it waits."""
    seen = app.inspect.overview(queue)
    if sys.stdout.isatty() and not as_json:
        _draw(app, queue, seen)
    while True:
        if as_json:
            at = {"at_ms": round(time.time() * limits.SECOND)}
            click.echo(encoded(at | overview_document(seen) | refused_document(seen), lines=False))
        else:
            tables = "\n\n".join(plain(table) for table in overview_tables(seen))
            click.echo(f"{time.strftime('%H:%M:%S')}\n{tables}\n")
            for trouble in seen.troubles():
                note(trouble)
        sys.stdout.flush()
        seen = _next(app, queue)


def _next(app: Tenure, queue: str | None) -> Overview:
    while True:
        time.sleep(REFRESH_MS / limits.SECOND)
        try:
            return app.inspect.overview(queue)
        except RedisError as error:
            note(error.found or str(error))


def _draw(app: Tenure, queue: str | None, seen: Overview) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console()
    trouble, at = "", time.strftime("%H:%M:%S")
    with Live(console=console, auto_refresh=False, screen=True, vertical_overflow="crop") as screen:
        while True:
            screen.update(_picture(console, seen, trouble), refresh=True)
            time.sleep(REFRESH_MS / limits.SECOND)
            try:
                seen, trouble, at = app.inspect.overview(queue), "", time.strftime("%H:%M:%S")
            except RedisError as error:
                # The screen keeps what it showed last, and shows how old that is.
                trouble = f"As it was at {at}: {error.found or error}"


def _picture(console: Console, seen: Overview, trouble: str) -> Group:
    from rich.console import Group
    from rich.text import Text

    clock = Text(f"{time.strftime('%H:%M:%S')}  Ctrl-C ends.", style="dim")
    troubles = [Text(safe(one), style="red") for one in ([trouble] if trouble else seen.troubles())]
    tables = _cut(overview_tables(seen), console.height - _BESIDE)
    return Group(clock, *troubles, *(part for table in tables for part in drawn(table, console)))


def _cut(tables: list[Table], rows: int) -> list[Table]:
    """Cut the first and the last table to the rows of the screen. The first gets up to two thirds if it needs them."""
    queues, *between, workers = tables
    spare = max(rows - sum(_BETWEEN + len(table.rows) for table in between), 3)
    first = queues.first(max(spare - len(workers.rows), 2 * spare // 3))
    return [first, *between, workers.first(max(spare - len(first.rows), 1))]
