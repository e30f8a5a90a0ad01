"""The command line: `tenure worker`, `info`, `jobs` and others. A command's module is loaded at its use.

`tenure.cli.errors.Exit` has the exit statuses.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Final, NoReturn

import click

from tenure._version import __version__
from tenure.cli.errors import run
from tenure.core.hints import did_you_mean

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

SECTIONS: Final = {
    "Run": {
        "worker": "Run the jobs of an app until a signal stops it.",
        "dev": "Run a worker for development: with a Redis of its own, restarted on changes.",
        "demo": "See it work: one job per file below DIR, two workers, one of them killed.",
    },
    "Look": {
        "info": "Show queues and workers, or one queue and its lanes.",
        "jobs": "List the jobs of a queue, by their states.",
        "job": "Show one job: its progress, times, error.",
    },
    "Change": {
        "enqueue": "Enqueue a call of a task, or a raw payload.",
        "retry": "Retry a job now, with its attempt counters reset; optionally with another payload.",
        "reschedule": "Give a job that waits another time or priority.",
        "discard": "Remove a job that no worker holds, with all its records.",
        "purge": "Remove all jobs in one state, of a queue or of all queues.",
        "cancel": "Cancel a job, the jobs of a lane, or all jobs of a queue or of all queues.",
        "pause": "Stop workers from starting jobs of a queue, or of one lane.",
        "resume": "Resume a paused queue, or parked lanes.",
        "configure": "Set the maximum length of a queue, its number of partitions, and what a failed job does to its "
        "lane.",
        "schedules": "List schedules with their next times, or pause, resume, trigger or remove one.",
        "limits": "Show limits, or change one for all workers at once.",
        "quiet": "Let a worker finish its running jobs and start no others.",
    },
    "Redis": {
        "check": "Check that Redis is configured safely for jobs, and explain how to fix it.",
        "migrate": "Move waiting jobs to the native protocol, or whole queues to another server or cluster.",
    },
    "Other wire formats": {
        "clean": "Return the items of dead workers to a queue of redis-work-queue, or delete unused large payloads.",
        "monitor": "Return the jobs of dead workers to their queues, again and again, until a signal stops it.",
    },
    "Help": {
        "help": "Show the help of a command, or of the options for Redis, the namespace and the format.",
        "completion": "Print a script that completes words in your shell.",
    },
}
"""The commands and their first lines, which `--help` shows without loading them. A test compares the two."""
COMMANDS: Final = {name: line for section in SECTIONS.values() for name, line in section.items()}

_MODULES: Final = {
    "worker": "work.worker",
    "dev": "work.dev",
    "discard": "remove",
    "purge": "remove",
    "resume": "pause",
    "demo": "demo.command",
}
"""The modules of commands; those of the others have the command's name."""


class Commands(click.Group):
    """A group that knows only the names of its commands, so that `tenure --help` is fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"{__name__}.{_MODULES.get(cmd_name, cmd_name)}"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            meant = did_you_mean(name, COMMANDS) or f" Expected one of: {', '.join(COMMANDS)}."
            raise click.UsageError(f"There is no command {name!r}.{meant}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, COMMANDS))
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(widest), line) for name, line in section.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        # Not as click does it: that would load every command to find its first line.
        found = [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return found or click.Command.shell_complete(self, ctx, incomplete)


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="The URL of Redis is in TENURE_URL (then REDIS_URL, then redis://localhost:6379/0).",
)
@click.version_option(__version__, message="tenure %(version)s")
def commands() -> None:
    """Tenure: a reliable work queue on Redis. Workers lease jobs, and a lost worker's jobs run again."""


def main(args: Sequence[str] | None = None) -> NoReturn:
    """The command `tenure`. Ends the process with the status of the command."""
    words = list(sys.argv[1:] if args is None else args)
    _handle_signals(words)
    sys.exit(run(commands, words))


def _handle_signals(words: Sequence[str]) -> None:
    """Let signals end the command, also if its caller has blocked them.

    A worker that gets SIGTERM before it has started anything ends in good order, also as the first process of a
    container, where the default is to ignore it.
    """
    if words[:1] in (["worker"], ["dev"]) and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
