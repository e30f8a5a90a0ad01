"""Tables: drawn on a terminal, as wide as it is; plain columns in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import click

from leasehold.cli.errors import visible
from leasehold.core import limits

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_FIRST: Final = 24
_OTHERS: Final = 8


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under a title. `right`: the columns to be aligned to the right: numbers and times.

    `lists`: the columns with several words in a cell, commas between: a terminal breaks their lines there only.
    `spare`: the columns that a narrow terminal does without: group by group, the first to go first. `below`: a line
    below the table, on a terminal.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[str] = frozenset()
    empty: str = "Nothing."
    spare: tuple[tuple[str, ...], ...] = ()
    lists: frozenset[str] = frozenset()
    below: str = ""

    def without(self, names: Sequence[str]) -> Table:
        kept = [n for n, name in enumerate(self.head) if name not in names]
        rows = tuple(tuple(row[n] for n in kept) for row in self.rows)
        return replace(self, head=tuple(self.head[n] for n in kept), rows=rows)

    def first(self, count: int) -> Table:
        """The table with so many rows at the most, and how many are left out below it."""
        if len(self.rows) <= count:
            return self
        return replace(self, rows=self.rows[:count], below=f"... and {len(self.rows) - count:,} more")

    def spaced(self) -> Table:
        """The table with a space after the commas of its lists."""
        rows = (
            tuple(cell.replace(",", ", ") if self.head[n] in self.lists else cell for n, cell in enumerate(row))
            for row in self.rows
        )
        return replace(self, rows=tuple(rows))

    def all_zero(self) -> tuple[str, ...]:
        """The columns that have nothing but 0 in them."""
        return tuple(name for n, name in enumerate(self.head) if all(row[n] == "0" for row in self.rows))


def show(tables: Sequence[Table]) -> None:
    """Print tables on stdout, as it is."""
    if sys.stdout.isatty():
        _draw(tables)
    else:
        click.echo("\n\n".join(plain(table) for table in tables))


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
    """The table as columns with two spaces and more between, one line a row: for `grep` and `awk`.

    Numbers and times are one word each; names and texts are as they are, with what is no text escaped.
    """
    if not table.rows:
        return table.empty
    words = [name in table.right for name in table.head]
    lines = [
        tuple(_plain_cell(cell, word) for cell, word in zip(row, words, strict=True))
        for row in (table.head, *table.rows)
    ]
    widths = [max(len(row[n]) for row in lines) for n in range(len(table.head))]
    sides = [str.rjust if name in table.right else str.ljust for name in table.head]
    columns = list(zip(sides, widths, strict=True))
    return "\n".join(
        "  ".join(side(cell, width) for cell, (side, width) in zip(row, columns, strict=True)).rstrip() for row in lines
    )


def fitted(table: Table, width: int) -> Table:
    """The table without as many of its spare columns as it takes to fit."""
    for names in table.spare:
        if _width(table) <= width:
            break
        table = table.without(names)
    return table


def _width(table: Table) -> int:
    """How wide the drawn table is: a space on both sides of a column and between two, and one beside the table."""
    return sum(max(len(name), _widest(table, n)) + 3 for n, name in enumerate(table.head)) + 1


def _widest(table: Table, n: int) -> int:
    return max((len(visible(row[n])) for row in table.rows), default=0)


def _plain_cell(cell: str, word: bool) -> str:
    text = visible(cell).replace("\n", "\\n")
    return (text.replace(" ", "_") if word else text) or "-"


def _draw(tables: Sequence[Table]) -> None:
    from rich.console import Console

    console = Console()
    for table in tables:
        for part in drawn(table, console):
            console.print(part)


def drawn(whole: Table, console: Console) -> Iterator[RenderableType]:
    """The table as a terminal of this width shows it."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    if not whole.rows:
        yield Text(whole.empty)
        return
    table = fitted(whole.spaced(), console.width)
    # Text, not markup: names may hold brackets.
    shown = RichTable(title=Text(visible(table.title), "italic"), title_justify="left", box=box.SIMPLE_HEAD)
    for n, name in enumerate(table.head):
        # What is still too wide is folded, but not the numbers, and the first column (to be copied) as the last.
        number = name in table.right
        least = _widest(table, n) if number else min(_widest(table, n), _FIRST if n == 0 else _OTHERS)
        shown.add_column(name, justify="right" if number else "left", overflow="fold", min_width=least)
    for row in table.rows:
        shown.add_row(*(Text(visible(cell), "dim" if cell == "0" else "") for cell in row))
    yield shown
    if table.below:
        yield Text(f"  {table.below}", "dim")
