"""The command line: `leasehold worker`, `info`, `cancel` and others. A command's module is loaded when it is asked for.

Exit status, for all commands: 0 done; 1 it could not be done (Redis away, a check that failed); 2 the command line, the
app or a setting is wrong; 130 stopped with Ctrl-C. `leasehold worker` has one more: 3 stopped hard.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

import click

from leasehold._version import __version__
from leasehold.cli.errors import run

COMMANDS: Final = {
    "worker": "Run the jobs of an app until told to stop.",
    "info": "Show queues and workers, lanes, or jobs.",
    "cancel": "Cancel a job, the jobs of a lane, or all jobs of a queue.",
    "pause": "Let no worker start a job of a queue, or of one lane.",
    "resume": "Let a paused queue, or parked lanes, go on.",
    "configure": "Set the maximum length of a queue, and what a failure means for its lanes.",
    "quiet": "Let a worker finish what it runs and start nothing new.",
    "demo": "See it work: one job per file below DIR, two workers, one of them killed.",
}
"""The commands and their first lines, which `--help` shows without loading them. A test compares the two."""


class Commands(click.Group):
    """A group that knows its commands by name only, so that `leasehold --help` takes no time."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        match cmd_name:
            case "worker":
                from leasehold.cli.worker import worker

                return worker
            case "info":
                from leasehold.cli.info import info

                return info
            case "cancel":
                from leasehold.cli.cancel import cancel

                return cancel
            case "pause":
                from leasehold.cli.pause import pause

                return pause
            case "resume":
                from leasehold.cli.pause import resume

                return resume
            case "configure":
                from leasehold.cli.configure import configure

                return configure
            case "quiet":
                from leasehold.cli.quiet import quiet

                return quiet
            case "demo":
                from leasehold.cli.demo.command import demo

                return demo
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            near = difflib.get_close_matches(name, COMMANDS, 1)
            meant = f"Did you mean {near[0]!r}?" if near else f"Expected one of: {', '.join(COMMANDS)}."
            raise click.UsageError(f"There is no command {name!r}. {meant}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="LEASEHOLD_URL says where Redis is (then REDIS_URL, then redis://localhost:6379/0).",
)
@click.version_option(__version__, message="leasehold %(version)s")
def commands() -> None:
    """Leasehold: a work queue on Redis whose jobs are held on a lease, never taken away."""


def main(args: Sequence[str] | None = None) -> NoReturn:
    """The command `leasehold`. Ends the process with the status of the command."""
    sys.exit(run(commands, list(sys.argv[1:] if args is None else args)))
