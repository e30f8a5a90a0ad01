"""What `tenure worker` shows first on a terminal."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import click

from tenure import __version__
from tenure.cli.errors import visible
from tenure.redis.url import Target

if TYPE_CHECKING:
    from tenure.app.app import Tenure

_NAME: Final = 10


def show_banner(name: str, app: Tenure, queues: Sequence[str], slots: int) -> None:
    """Print where the app's Redis is, what the worker serves, and how to stop it, on stderr."""
    tasks = [spec.name for spec in app.specs() if spec.name is not None]
    handlers = [spec.queue for spec in app.specs() if spec.name is None]
    rows = [
        ("app", name),
        ("redis", str(Target.parse(app.settings.url))),
        ("protocol", app.settings.protocol),
        ("queues", _listed(queues)),
        ("tasks", _listed(tasks)),
        ("handlers", _listed(handlers)),
        ("slots", f"{slots} jobs at one time"),
    ]
    lines = [f"tenure {__version__}", *(f"  {key:<{_NAME}}{visible(text)}" for key, text in rows if text)]
    click.echo("\n".join([*lines, "  Ctrl-C stops it, and a second one at once.", ""]), err=True)


def _listed(words: Iterable[str]) -> str:
    """Join as many words as fit on the line, and count the others."""
    width, known = shutil.get_terminal_size().columns - _NAME - 16, sorted(words)
    shown: list[str] = []
    while len(shown) < len(known) and sum(len(word) + 2 for word in [*shown, known[len(shown)]]) <= width:
        shown.append(known[len(shown)])
    shown = shown or known[:1]
    left = len(known) - len(shown)
    return ", ".join(shown) + (f" and {left} more" if left else "")
