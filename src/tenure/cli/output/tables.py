"""Tables, drawn on a terminal within its width and plain in a pipe; and the answer of a command, which prints them."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import click

from tenure.cli.errors import Exit, note, safe, tell, visible
from tenure.core.values import replace
from tenure.manage.documents import encoded

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_FIRST: Final = 24
_OTHERS: Final = 8
CUT_LEAST: Final = 20
"""Columns that a text has at least, however narrow the terminal is."""

Row: TypeAlias = dict[str, str]
"""The text of each column, in order. All rows of a table have the same columns."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a title.

    `right`: the columns of numbers and times, which are aligned to the right. `lists`: the columns with words separated
    by commas; a terminal breaks lines at these only. `spare`: groups of columns that a narrow terminal leaves out, the
    first group first. `below`: a line below the table, on a terminal. `cut`: the column whose texts a terminal cuts to
    the width that is left; `cut_note`: what it then writes below.
    """

    title: str
    rows: tuple[Row, ...]
    right: Collection[str] = ()
    empty: str = "Nothing."
    spare: tuple[tuple[str, ...], ...] = ()
    lists: Collection[str] = ()
    below: str = ""
    cut: str = ""
    cut_note: str = ""

    @property
    def head(self) -> tuple[str, ...]:
        return tuple(self.rows[0]) if self.rows else ()

    def without(self, *names: str) -> Table:
        rows = tuple({name: cell for name, cell in row.items() if name not in names} for row in self.rows)
        return replace(self, rows=rows)

    def only(self, cell: str) -> tuple[str, ...]:
        """Return the columns in which every cell is this."""
        return tuple(name for name in self.head if all(row[name] == cell for row in self.rows))

    def without_empty(self, *names: str) -> Table:
        """Leave out columns among these that have no text in any row."""
        return self.without(*set(names).intersection(self.only("")))

    def first(self, count: int) -> Table:
        """Return at most `count` rows, with the number of the others below the table."""
        if len(self.rows) <= count:
            return self
        return replace(self, rows=self.rows[:count], below=f"... and {len(self.rows) - count:,} more")

    def width_of(self, name: str) -> int:
        return max((len(visible(row[name])) for row in self.rows), default=0)

    def fitted(self, width: int) -> Table:
        """Return the table for a terminal: spaces after the commas of lists, without spare columns that do not fit."""
        spaced = (row | {name: row[name].replace(",", ", ") for name in self.lists if name in row} for row in self.rows)
        table = replace(self, rows=tuple(spaced))
        for names in self.spare:
            if table._drawn_width() <= width:
                break
            table = table.without(*names)
        return table._cut_to(width) if self.cut in table.head else table

    def _drawn_width(self) -> int:
        """Return how wide it is drawn, with the column that is cut at its least."""
        # Drawn, a column has a space on both sides and one behind it, and the table has one next to it.
        columns = {name: self.width_of(name) for name in self.head}
        if self.cut in columns:
            columns[self.cut] = min(columns[self.cut], CUT_LEAST)
        return sum(max(len(name), size) + 3 for name, size in columns.items()) + 1

    def _cut_to(self, width: int) -> Table:
        most = CUT_LEAST + max(0, width - self._drawn_width())
        if self.width_of(self.cut) <= most:
            return self
        rows = tuple(row | {self.cut: _shortened(visible(row[self.cut]), most)} for row in self.rows)
        return replace(self, rows=rows, below=self.below or self.cut_note)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command prints: with --json the document, else the text or tables; None: nothing.

    Texts in a list are safe to print: their control characters are escaped.

    `notes`: on stderr, below. `hints`: the same, without --json only. `errors`: why it was not done, or not wholly.
    `status`: its exit status without errors.
    """

    document: object
    shown: str | Sequence[str | Table] | None
    notes: Sequence[str] = ()
    hints: Sequence[str] = ()
    errors: Sequence[str] = ()
    status: Exit = Exit.OK

    def print(self, as_json: bool) -> Exit:
        """Print it and return the exit status."""
        if as_json and self.document is not None:
            click.echo(encoded(self.document))
        elif as_json:
            pass
        elif isinstance(self.shown, str):
            click.echo(safe(self.shown))
        elif self.shown is not None:
            show(self.shown)
        for text in (*self.notes, *(() if as_json else self.hints)):
            note(text)
        for text in self.errors:
            tell(text)
        return Exit.FAILED if self.errors else self.status


def show(parts: Sequence[str | Table]) -> None:
    """Print tables on stdout, drawn on a terminal and plain in a pipe."""
    if not sys.stdout.isatty():
        click.echo("\n\n".join(part if isinstance(part, str) else plain(part) for part in parts))
        return
    from rich.console import Console

    console = Console()
    for part in parts:
        if isinstance(part, str):
            click.echo(f"{part}\n" if len(parts) > 1 else part)
        else:
            console.print(*drawn(part, console), sep="\n")


def plain(table: Table) -> str:
    """Format columns with two or more spaces between them, one line for each row: for `grep` and `awk`.

    Numbers and times are one word each. In names and texts only control characters are escaped.
    """
    if not table.rows:
        return table.empty
    columns = [_plain_column(name, table) for name in table.head]
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))


def _plain_column(name: str, table: Table) -> list[str]:
    cells = [visible(cell).replace("\n", "\\n") or "-" for cell in (name, *(row[name] for row in table.rows))]
    width = max(map(len, cells))
    if name in table.right:
        return [cell.replace(" ", "_").rjust(width) for cell in cells]
    return [cell.ljust(width) for cell in cells]


def drawn(whole: Table, console: Console) -> Iterator[RenderableType]:
    """Yield the table as a terminal of this width shows it."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    if not whole.rows:
        yield Text(whole.empty)
        return
    table = whole.fitted(console.width)
    # Text, not markup: names may contain brackets.
    shown = RichTable(title=Text(visible(table.title), "italic"), title_justify="left", box=box.SIMPLE_HEAD)
    for n, name in enumerate(table.head):
        # Wide columns are folded: numbers never, the first column (for copying) last.
        least, number = table.width_of(name), name in table.right
        least = least if number else min(least, _OTHERS if n else _FIRST)
        shown.add_column(name, justify="right" if number else "left", overflow="fold", min_width=least)
    for row in table.rows:
        shown.add_row(*(Text(visible(cell), "dim" if cell == "0" else "") for cell in row.values()))
    yield shown
    if table.below:
        yield Text(f"  {table.below}", "dim")
