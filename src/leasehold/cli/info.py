"""The `info` command: queues and workers, as tables for people, as plain columns for a pipe, or as JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import click

from leasehold.app import Leasehold
from leasehold.cli.errors import safe
from leasehold.core import limits
from leasehold.core.job import QueueView, State, WorkerView

_STATES: Final = tuple(State)
_QUEUES: Final = ("queue", *(state.value for state in _STATES))
_WORKERS: Final = ("worker", "host", "pid", "running", "slots", "seen", "up", "queues")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under a title. `right`: the columns to be aligned to the right."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[str]
    empty: str


@click.command()
@click.option("--url", help="Where Redis is. [default: LEASEHOLD_URL, then REDIS_URL, then localhost]")
@click.option("--namespace", help="The namespace of the app. [default: LEASEHOLD_NAMESPACE, then leasehold]")
@click.option("as_json", "--json", is_flag=True, help="Print JSON, for programs.")
def info(url: str | None, namespace: str | None, as_json: bool) -> None:
    """Show queues and workers.

    How many jobs are in each state on each queue, and which workers have shown themselves lately. Nothing is changed.

    Exit status: 0 done; 1 Redis could not be reached; 2 an option or a setting is wrong.
    """
    with Leasehold(url, namespace=namespace, patience=limits.START_PATIENCE_MS / limits.SECOND) as app:
        queues = [app.inspect.queue(name) for name in sorted(app.inspect.queues())]
        workers = sorted(app.inspect.workers(), key=lambda view: view.id)
    if as_json:
        click.echo(to_json(queues, workers))
        return
    tables = (queue_table(queues), worker_table(workers, time.time() * limits.SECOND))
    if sys.stdout.isatty():
        _show(tables)
    else:
        click.echo("\n\n".join(plain(table) for table in tables))


def to_json(queues: Sequence[QueueView], workers: Sequence[WorkerView]) -> str:
    """Everything, with the names of the fields of the views."""
    return json.dumps(
        {
            "queues": [
                {
                    "name": view.name,
                    "counts": {state.value: view.counts.get(state, 0) for state in _STATES},
                    "totals": view.totals,
                }
                for view in queues
            ],
            "workers": [
                {
                    "id": view.id,
                    "host": view.host,
                    "pid": view.pid,
                    "queues": view.queues,
                    "concurrency": view.concurrency,
                    "active": view.active,
                    "started_ms": view.started_ms,
                    "seen_ms": view.seen_ms,
                }
                for view in workers
            ],
        },
        indent=2,
    )


def queue_table(queues: Sequence[QueueView]) -> Table:
    rows = tuple((view.name, *(str(view.counts.get(state, 0)) for state in _STATES)) for view in queues)
    return Table("Queues", _QUEUES, rows, frozenset(_QUEUES[1:]), "No queues: nothing was enqueued lately.")


def worker_table(workers: Sequence[WorkerView], now_ms: float) -> Table:
    rows = tuple(
        (
            view.id,
            view.host,
            str(view.pid),
            str(view.active),
            str(view.concurrency),
            f"{ago(now_ms - view.seen_ms)} ago",
            ago(now_ms - view.started_ms),
            ",".join(view.queues),
        )
        for view in workers
    )
    return Table("Workers", _WORKERS, rows, frozenset({"pid", "running", "slots", "seen", "up"}), "No workers.")


def ago(ms: float) -> str:
    """A stretch of time in one unit. A clock that is behind Redis' gives 0s.

    >>> ago(5_400_000)
    '1h'
    """
    seconds = max(0, int(ms)) // limits.SECOND
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def plain(table: Table) -> str:
    """The table as columns with spaces between, one line a row: for `grep` and `awk`."""
    if not table.rows:
        return table.empty
    lines = [tuple(_word(cell) for cell in row) for row in (table.head, *table.rows)]
    widths = [max(len(row[n]) for row in lines) for n in range(len(table.head))]
    sides = [str.rjust if name in table.right else str.ljust for name in table.head]
    columns = list(zip(sides, widths, strict=True))
    return "\n".join(
        "  ".join(side(cell, width) for cell, (side, width) in zip(row, columns, strict=True)).rstrip() for row in lines
    )


def _word(cell: str) -> str:
    return safe(cell).replace(" ", "_") or "-"


def _show(tables: Sequence[Table]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console()
    for table in tables:
        if not table.rows:
            console.print(table.empty)
            continue
        shown = RichTable(title=table.title, title_justify="left", box=box.SIMPLE_HEAD)
        for name in table.head:
            shown.add_column(name, justify="right" if name in table.right else "left", overflow="fold")
        for row in table.rows:
            # Text, not markup: names may hold brackets.
            shown.add_row(*(Text(safe(cell), "dim" if cell == "0" else "") for cell in row))
        console.print(shown)
