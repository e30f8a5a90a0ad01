"""The `demo` command."""

from __future__ import annotations

import os
import stat
import sysconfig
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from tenure.cli.errors import Exit
from tenure.core.values import as_dict
from tenure.manage.documents import encoded

if TYPE_CHECKING:
    from rich.console import Console

    from tenure.cli.demo.run import DemoReport

MAX_FILES: Final = 20_000
_NOT_THE_LIBRARY: Final = frozenset({"site-packages", "dist-packages", "__pycache__"})
"""Folders below the standard library that are not part of it."""


@click.argument(
    "directory",
    required=False,
    metavar="[DIR]",
    type=click.Path(exists=True, file_okay=False, readable=True, path_type=Path),
)
@click.option("as_json", "--json", is_flag=True, help="Print the report as JSON, and the progress on stderr.")
@click.option("stays", "--dashboard", is_flag=True, help="Show it in the browser, and stay until Ctrl-C.")
def demo(directory: Path | None, as_json: bool, stays: bool) -> Exit:
    """Each job finds the size, the lines and the SHA-256 of one file (default: the files of Python's standard library).
    The Redis is one of the demo's own, in a temporary folder. When a part of the work is done, one of the two workers
    is ended with SIGKILL. The report counts what ran, what ran again and what was lost, and compares every result with
    a direct pass over the files.

    Exit status: 0 when all is as it should be, 1 when anything is missing, 2 when DIR cannot be used.
    """
    from rich.console import Console
    from rich.progress import Progress

    from tenure.redis.embedded.instance import open_embedded

    console = Console(stderr=as_json, highlight=False)
    without = _NOT_THE_LIBRARY if directory is None else frozenset()
    directory = directory or Path(sysconfig.get_path("stdlib"))
    paths = files_below(directory, without)
    if not paths:
        raise click.UsageError(f"There is no readable file below {directory}. Name a directory with some files.")
    first = "the first " if len(paths) == MAX_FILES else ""
    console.print(f"{first}{len(paths):,} files below {directory}", markup=False)
    with tempfile.TemporaryDirectory(prefix="tenure-demo-") as folder:
        server = open_embedded(f"{folder}/redis")
        try:
            os.environ.update({"TENURE_URL": server.url, "TENURE_NAMESPACE": "demo"})
            from tenure.cli.demo.jobs import app  # the app reads the environment when it is made
            from tenure.cli.demo.run import dashboard, run_demo

            with dashboard() if stays else nullcontext() as shown:
                if shown is not None:
                    console.print(shown[0], markup=False)
                with app, Progress(console=console, disable=not console.is_terminal) as progress:
                    report = run_demo(paths, Path(folder), progress)
                _report(console, report, as_json=as_json)
                if shown is not None:
                    console.print("The dashboard stays until Ctrl-C.")
                    shown[1].wait()
        finally:
            server.close()
    return Exit.FAILED if report.problems else Exit.OK


def _report(console: Console, report: DemoReport, *, as_json: bool) -> None:
    if as_json:
        shown = {
            name: round(value, 3) if isinstance(value, float) else value for name, value in as_dict(report).items()
        }
        click.echo(encoded({**shown, "problems": report.problems}))
    else:
        _show(console, report)


def files_below(directory: Path, without: frozenset[str]) -> list[str]:
    """Return up to `MAX_FILES` readable regular files in a fixed order, without following links.

    `without`: names of folders to skip.
    """
    paths: list[str] = []
    for folder, below, names in os.walk(directory):
        below[:] = sorted(set(below) - without)
        paths += filter(_is_usable, (os.path.join(folder, name) for name in sorted(names)))
        if len(paths) >= MAX_FILES:
            break
    return paths[:MAX_FILES]


def _is_usable(path: str) -> bool:
    try:
        path.encode()
        return stat.S_ISREG(os.lstat(path).st_mode) and os.access(path, os.R_OK)
    except (UnicodeEncodeError, OSError):
        return False


def _show(console: Console, report: DemoReport) -> None:
    from rich.table import Table

    table = Table("", "", title="tenure demo", show_header=False, title_justify="left", title_style="bold")
    table.columns[1].justify = "right"
    rows = {
        "files": f"{report.files:,}",
        "bytes": f"{report.bytes:,}",
        "lines": f"{report.lines:,}",
        "jobs": f"{report.jobs:,}",
        "runs": f"{report.runs:,}",
        "jobs that ran more than once": f"{report.rerun:,}",
        "jobs that the killed worker held": f"{report.held_by_dead:,}",
        "seconds until the last of these ran elsewhere": f"{report.recovered_s:.1f}",
        "seconds in all": f"{report.seconds:.1f}",
        "results equal to a direct pass": f"{report.compared - report.different:,} of {report.files:,}",
        "lost": _judged(report.lost),
        "completed twice": _judged(report.completed_twice),
    }
    for name, value in rows.items():
        table.add_row(name, value)
    console.print(table)
    for problem in report.problems:
        console.print(f"[red]Not as it should be:[/] {problem}.")
    if not report.problems:
        console.print("[green]One worker was killed; every job ran to its end, none was lost, none completed twice.[/]")


def _judged(count: int) -> str:
    return f"[red]{count:,}[/]" if count else "[green]0[/]"
