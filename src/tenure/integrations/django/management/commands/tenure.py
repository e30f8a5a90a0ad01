"""`manage.py tenure worker`, and the other commands of `tenure` on the app of the settings."""

from __future__ import annotations

import os
import sys
from argparse import REMAINDER
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, Final

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from tenure.bootstrap import command_of
from tenure.core.hints import did_you_mean

TARGET: Final = "tenure.integrations.django.worker"
OF_OUTBOX: Final = ("relay", "sql-clean")
"""Commands on the outbox of the project."""


class Command(BaseCommand):
    """Replaces this process by `tenure`, so that signals reach it, and with the app of this project."""

    help = (
        "Runs `tenure worker` for the tasks of this project, or another command of `tenure`. "
        "After the command come its own options."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options before the command of `tenure`."""
        parser.add_argument("--backend", metavar="ALIAS", help="The app of this entry of TASKS. [default: of TENURE]")
        parser.add_argument("--no-reload", action="store_true", help="Do not restart on changes, as DEBUG does.")
        parser.add_argument("name", metavar="COMMAND", help="As `worker`, `info` or `jobs`.")
        parser.add_argument("words", metavar="...", nargs=REMAINDER, help="See `tenure COMMAND --help`.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the command in place of this process."""
        if "DJANGO_SETTINGS_MODULE" not in os.environ:
            raise CommandError("DJANGO_SETTINGS_MODULE must be set: each worker process reads the settings.")
        target = f"{TARGET}:app"
        if (alias := options["backend"]) is not None:
            if alias not in settings.TASKS:
                raise CommandError(f"TASKS has no {alias!r}.{did_you_mean(alias, settings.TASKS)}")
            target = f"{TARGET}:of.{alias}"
        reload = not options["no_reload"] and elsewhere() is None
        words = arguments(options["name"], options["words"], target, reload=reload)
        command = command_of("tenure", *words)
        self.stdout.flush()
        os.execve(command[0], command, environment())  # noqa: S606 - no shell, and the words of the user


def arguments(name: str, words: Sequence[str], target: str, *, reload: bool) -> list[str]:
    """Return the arguments of `tenure`. The log is the one of the settings; with DEBUG, changes restart a worker."""
    if name in OF_OUTBOX:
        return [name, f"{TARGET}:outbox", *words]
    if name != "worker":
        return [name, *words, "--app", target]
    added = [] if "--log-by-app" in words else ["--log-by-app"]
    if settings.DEBUG and reload and not {"--reload", "--burst"} & set(words) and find_spec("watchfiles"):
        added.append("--reload")
    return [name, target, *added, *words]


def elsewhere() -> str | None:
    """Return the folder of `manage.py`, if it is not the current one, which is watched for changes."""
    folder = os.path.dirname(os.path.abspath(sys.argv[0]))
    return None if folder == os.getcwd() or os.path.basename(sys.argv[0]) != "manage.py" else folder


def environment() -> dict[str, str]:
    """Return the variables of the command: its processes find the modules of the project as this one does."""
    if (folder := elsewhere()) is None:
        return dict(os.environ)
    path = [folder, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
