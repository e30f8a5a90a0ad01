"""The command line: `tenure worker`, `info`, `jobs` and others, from the table in `tenure.cli.table`.

`tenure.cli.errors.Exit` has the exit statuses.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final, NoReturn

import click

from tenure._version import __version__
from tenure.cli.errors import run
from tenure.cli.table import COMMANDS, SECTIONS
from tenure.core.hints import did_you_mean

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


_SERVICES: Final = ("worker", "dev", "autoscale", "relay")
"""Commands that run until a signal stops them, and may be the first process of a container."""


@cache
def _load(name: str) -> click.Command:
    """Return a command. Its module is imported at its first use."""
    row = COMMANDS[name]
    function = getattr(import_module(f"{__name__}.{row.module}"), name.replace("-", "_"))
    return click.command(name, help=row.help(function))(function)


class Commands(click.Group):
    """A group that knows only the names of its commands, so that `tenure --help` is fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return _load(cmd_name) if cmd_name in COMMANDS else None

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
                formatter.write_dl([(name.ljust(widest), row.line) for name, row in section.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        # Not as click does it: that would load every command to find its first line.
        found = [CompletionItem(name, help=row.line) for name, row in COMMANDS.items() if name.startswith(incomplete)]
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

    A worker, an autoscaler or a relay that gets SIGTERM before it has started anything ends in good order, also as the
    first process of a container, where the default is to ignore it. Its handler raises no exception: a signal may come
    in the middle of code that swallows one, such as a finalizer, and would be lost.
    """
    if words and words[0] in _SERVICES and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
