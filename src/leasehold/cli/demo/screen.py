"""What the demo shows: a live line of progress on a terminal, plain lines elsewhere, and the report."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from leasehold.cli.demo.run import DemoReport


class Screen:
    """Shows progress. Use as a context; `tell` is what `run_demo` calls."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown = 0
        self._progress = Progress(
            TextColumn("[bold]jobs"),
            BarColumn(bar_width=40),
            MofNCompleteColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("jobs", total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._progress.stop()

    def tell(self, text: str, done: int, total: int) -> None:
        if text:
            self._console.print(f"  {text}", highlight=False)
        self._progress.update(self._task, completed=done, total=total)
        quarter = 4 * done // max(total, 1)
        if not self._console.is_terminal and quarter > self._shown:
            self._shown = quarter
            self._console.print(f"  {done:,} of {total:,} jobs done", highlight=False)


def show_report(console: Console, report: DemoReport) -> None:
    table = Table(title="leasehold demo", show_header=False, title_justify="left", title_style="bold")
    table.add_column(style="dim")
    table.add_column(justify="right")
    rows = [
        ("files", f"{report.files:,}"),
        ("bytes", f"{report.bytes:,}"),
        ("lines", f"{report.lines:,}"),
        ("jobs", f"{report.jobs:,}"),
        ("runs", f"{report.runs:,}"),
        ("jobs that ran more than once", f"{report.rerun:,}"),
        ("jobs the killed worker held, begun or not", f"{report.held_by_dead:,}"),
        ("seconds until the last of these ran elsewhere", f"{report.recovered_s:.1f}"),
        ("seconds in all", f"{report.seconds:.1f}"),
        ("results equal to a direct pass", f"{report.compared - report.different:,} of {report.files:,}"),
        ("lost", _judged(report.lost)),
        ("completed twice", _judged(report.completed_twice)),
    ]
    for name, value in rows:
        table.add_row(name, value)
    console.print(table)
    if report.problems:
        for problem in report.problems:
            console.print(f"[red]Not as it should be:[/] {problem}.")
    else:
        console.print("[green]One worker was killed; every job ran to its end, none was lost, none completed twice.[/]")


def _judged(count: int) -> str:
    return f"[red]{count:,}[/]" if count else "[green]0[/]"
