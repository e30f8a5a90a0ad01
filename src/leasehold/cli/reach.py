"""Reaching queues: where they are, in which protocol, or whose app says so; the connection; unknown names."""

from __future__ import annotations

import difflib
import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import click

from leasehold.app.app import Leasehold
from leasehold.cli.errors import UserError, note
from leasehold.cli.loader import load
from leasehold.core import limits
from leasehold.core.engine import Feature
from leasehold.protocols.registry import DEFAULT, choices, entry_of
from leasehold.redis.url import Target

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Where:
    """What a command line says of the place of queues; None: nothing, so the app or the environment does."""

    url: str | None = None
    namespace: str | None = None
    protocol: str | None = None
    app: str | None = None

    def said(self) -> Iterator[tuple[str, str, str, str]]:
        """What is said and an app may say as well: the option, its variable, its setting, the value."""
        for name in ("url", "namespace", "protocol"):
            value = getattr(self, name)
            if value is not None:
                yield f"--{name}", f"LEASEHOLD_{name.upper()}", name, value


_URL: Final = click.option("--url", help="Where Redis is. [default: LEASEHOLD_URL, then REDIS_URL, then localhost]")
_NAMESPACE: Final = click.option(
    "--namespace", help="The namespace of the app. [default: LEASEHOLD_NAMESPACE, then leasehold]"
)
_PROTOCOL: Final = click.option(
    "--protocol", metavar="NAME",
    help=f"The wire format: {choices()}. [default: LEASEHOLD_PROTOCOL, then {DEFAULT}]",
)  # fmt: skip
_APP: Final = click.option(
    "--app", metavar="MODULE:APP", help="An app that says all of this itself; its tasks check payloads."
)
_JSON: Final = click.option("as_json", "--json", is_flag=True, help="Print JSON, for programs.")


def reaching(command: F) -> F:
    """The options of all commands that need a Redis. The command gets `where` and `as_json`."""
    return _APP(reaching_without_app(command))


def reaching_without_app(command: F) -> F:
    """The same, for a command that takes `app` as an argument of its own."""

    @functools.wraps(command)
    def with_where(
        *args: Any, url: str | None, namespace: str | None, protocol: str | None, app: str | None = None, **others: Any
    ) -> Any:
        return command(*args, where=Where(url, namespace, protocol, app), **others)

    wrapped: Any = with_where
    for option in (_JSON, _PROTOCOL, _NAMESPACE, _URL):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[no-any-return]


@contextmanager
def reach(where: Where, *, may_make: bool = False, any_namespace: bool = False) -> Iterator[Leasehold]:
    """The app that is named, or one without tasks, to look at queues and to act on them.

    A Redis that is away is said to be so soon. `may_make`: an embedded Redis is made where none was. `any_namespace`:
    --namespace has a meaning also where the protocol has no namespaces. Raises `UserError`, also when the app and an
    option say different things.
    """
    # A command is somebody who waits.
    soon = limits.START_PATIENCE_MS / limits.SECOND
    if where.app is None:
        app = Leasehold(where.url, namespace=where.namespace, protocol=where.protocol, patience=soon)
    else:
        if where.url is not None:
            Target.parse(where.url)  # a mistake in it is none of the environment's, nor of the app's
        for _, variable, _, value in where.said():
            os.environ[variable] = value
        os.environ.setdefault("LEASEHOLD_PATIENCE", f"{soon:g}")
        app = load(where.app)
        for option, _, name, value in where.said():
            if getattr(app.settings, name) != value:
                raise UserError(f"{where.app} says itself what {option} would say. Leave out one of the two.")
    if where.namespace is not None and not any_namespace and not entry_of(app.engine).has_namespace:
        raise UserError(
            f"--namespace is for the {DEFAULT} protocol; with {app.engine.name} the prefix says which keys."
        )
    with app:
        if not may_make:
            _refuse_new_redis(app.settings.url)
        yield app


def without(app: Leasehold, feature: Feature) -> bool:
    """Whether the protocol in use lacks this."""
    return feature not in app.engine.features


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
        where = repr(target.path) if target.path else "a URL without a path"
        raise UserError(
            f"There is no embedded Redis in {where}, so there are no queues. Expected the path that the "
            "producers and workers use, as in embedded:./leasehold-data."
        )
