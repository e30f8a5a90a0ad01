"""The `demo` command."""

from __future__ import annotations

import os
import sysconfig
import tempfile
from dataclasses import asdict
from pathlib import Path

import click

from leasehold.cli.output.jobs import dump


@click.command()
@click.argument(
    "directory",
    required=False,
    metavar="[DIR]",
    type=click.Path(exists=True, file_okay=False, readable=True, path_type=Path),
)
@click.option("as_json", "--json", is_flag=True, help="Print the report as JSON; what goes on is told on stderr.")
@click.pass_context
def demo(context: click.Context, directory: Path | None, as_json: bool) -> None:
    """See it work: one job per file below DIR, two workers, one of them killed.

    Each job finds the size, the lines and the SHA-256 of one file (default: the files of Python's standard library).
    The Redis is one of the demo's own, in a temporary folder. When a part of the work is done, one of the two workers
    is ended with SIGKILL. The report counts what ran, what ran again and what was lost, and compares every result with
    a direct pass over the files.

    Exit status: 0 when all is as it should be, 1 when anything is missing, 2 when DIR cannot be used.
    """
    from rich.console import Console

    from leasehold.cli.demo.files import NOT_THE_LIBRARY, survey
    from leasehold.cli.demo.run import run_demo
    from leasehold.cli.demo.screen import Screen, show_report
    from leasehold.redis.embedded.instance import open_embedded

    console = Console(stderr=as_json)
    without = NOT_THE_LIBRARY if directory is None else frozenset()
    directory = directory or Path(sysconfig.get_path("stdlib"))
    found = survey(directory, without)
    if not found.paths:
        raise click.UsageError(f"There is no readable file below {directory}. Name a directory with some files.")
    skipped = (
        f" ({found.skipped:,} were left out: not readable, not plain files, or oddly named)" if found.skipped else ""
    )
    more = "; only these were taken, there are more" if found.more else ""
    files = "file" if len(found.paths) == 1 else "files"
    console.print(f"{len(found.paths):,} {files} below {directory}{skipped}{more}", highlight=False)
    with tempfile.TemporaryDirectory(prefix="leasehold-demo-") as folder:
        server = open_embedded(f"{folder}/redis")
        try:
            environment = {"LEASEHOLD_URL": server.url, "LEASEHOLD_NAMESPACE": "demo"}
            os.environ.update(environment)
            from leasehold.cli.demo.jobs import app, look_at  # the app reads the environment when it is made

            with app, Screen(console) as screen:
                report = run_demo(app, look_at, found, Path(folder), environment, screen.tell)
        finally:
            server.close()
    if as_json:
        shown = {name: round(value, 3) if isinstance(value, float) else value for name, value in asdict(report).items()}
        click.echo(dump({**shown, "problems": report.problems}))
    else:
        show_report(console, report)
    context.exit(1 if report.problems else 0)
