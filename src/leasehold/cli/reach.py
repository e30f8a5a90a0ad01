"""Reaching queues without an app of the user's: `--url`, `--namespace` and `--json`, the connection, unknown names."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from leasehold.app import Leasehold
from leasehold.cli.errors import UserError, note
from leasehold.core import limits
from leasehold.redis.target import Target

F = TypeVar("F", bound=Callable[..., Any])


def reaching(command: F) -> F:
    """The options of all commands that need a Redis and no app."""
    for option in (
        click.option("as_json", "--json", is_flag=True, help="Print JSON, for programs."),
        click.option("--namespace", help="The namespace of the app. [default: LEASEHOLD_NAMESPACE, then leasehold]"),
        click.option("--url", help="Where Redis is. [default: LEASEHOLD_URL, then REDIS_URL, then localhost]"),
    ):
        command = option(command)
    return command


@contextmanager
def reach(url: str | None, namespace: str | None) -> Iterator[Leasehold]:
    """An app without tasks, to look at queues and to act on them. A Redis that is away is said to be so soon."""
    with Leasehold(url, namespace=namespace, patience=limits.START_PATIENCE_MS / limits.SECOND) as app:
        _refuse_new_redis(app.settings.url)
        yield app


def note_unknown(app: Leasehold, queue: str) -> None:
    """Say on stderr when nothing is known of a queue: its name may be a slip of the pen. No error: it may be new."""
    known = app.inspect.queues()
    if queue in known or any(app.inspect.queue(queue).counts.values()):
        return
    near = difflib.get_close_matches(queue, known, 1)
    meant = f" Did you mean {near[0]!r}?" if near else ""
    note(f"Nothing is known of a queue {queue!r}: no job came to it lately, and no worker serves it.{meant}")


def _refuse_new_redis(url: str) -> None:
    """To look must not make an embedded Redis where none was."""
    target = Target.parse(url)
    if target.scheme == "embedded" and (
        not target.path or not os.path.isdir(target.path) or not os.listdir(target.path)
    ):
        raise UserError(
            f"There is no embedded Redis in {target.path!r}, so there are no queues. Expected the path that the "
            "producers and workers use, as in embedded:./leasehold-data."
        )
