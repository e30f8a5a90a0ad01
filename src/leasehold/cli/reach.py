"""Access to queues: the options for URL, namespace, protocol and app; the connection; unknown names."""

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
    """The location of queues from the command line; None: not given, so the app or the environment decides."""

    url: str | None = None
    namespace: str | None = None
    protocol: str | None = None
    app: str | None = None

    def said(self) -> Iterator[tuple[str, str, str, str]]:
        """Yield the options given that an app may set as well: option, variable, setting and value."""
        for name in ("url", "namespace", "protocol"):
            value = getattr(self, name)
            if value is not None:
                yield f"--{name}", f"LEASEHOLD_{name.upper()}", name, value


_URL: Final = click.option("--url", help="The URL of Redis. [default: LEASEHOLD_URL, then REDIS_URL, then localhost]")
_NAMESPACE: Final = click.option(
    "--namespace", help="The namespace of the app. [default: LEASEHOLD_NAMESPACE, then leasehold]"
)
_PROTOCOL: Final = click.option(
    "--protocol", metavar="NAME",
    help=f"The wire format: {choices()}. [default: LEASEHOLD_PROTOCOL, then {DEFAULT}]",
)  # fmt: skip
_APP: Final = click.option(
    "--app", metavar="MODULE:APP", help="An app that sets all of these; its tasks check payloads."
)
_JSON: Final = click.option("as_json", "--json", is_flag=True, help="Print JSON, for programs.")


def reaching(command: F) -> F:
    """Add the options of all commands that need Redis. The command gets `where` and `as_json`."""
    return _APP(reaching_without_app(command))


def reaching_without_app(command: F) -> F:
    """Add the same options to a command that has its own argument `app`."""

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
    """Yield the named app, or one without tasks, to read and change queues.

    `may_make`: create an embedded Redis if there is none. `any_namespace`: accept --namespace for a protocol without
    namespaces. Raises `UserError`, also if the app and an option contradict each other.
    """
    # A user waits for the command, so it gives up sooner than a program.
    soon = limits.START_PATIENCE_MS / limits.SECOND
    if where.app is None:
        app = Leasehold(where.url, namespace=where.namespace, protocol=where.protocol, patience=soon)
    else:
        if where.url is not None:
            Target.parse(where.url)  # so that an error does not blame the environment or the app
        for _, variable, _, value in where.said():
            os.environ[variable] = value
        os.environ.setdefault("LEASEHOLD_PATIENCE", f"{soon:g}")
        app = load(where.app)
        for option, _, name, value in where.said():
            if getattr(app.settings, name) != value:
                raise UserError(f"{where.app} sets another value than {option}. Leave out one of the two.")
    if where.namespace is not None and not any_namespace and not entry_of(app.engine).has_namespace:
        raise UserError(
            f"--namespace needs the {DEFAULT} protocol, got {app.engine.name}, whose prefix names the keys."
        )
    with app:
        if not may_make:
            _refuse_new_redis(app.settings.url)
        yield app


def without(app: Leasehold, feature: Feature) -> bool:
    """Return whether the protocol in use lacks this feature."""
    return feature not in app.engine.features


def note_unknown(app: Leasehold, queue: str) -> None:
    """Note on stderr that a queue is unknown: its name may be mistyped. No error, because it may be new."""
    known = app.inspect.queues()
    if queue in known or any(app.inspect.queue(queue).counts.values()):
        return
    near = difflib.get_close_matches(queue, known, 1)
    meant = f" Did you mean {near[0]!r}?" if near else ""
    note(f"Queue {queue!r} is unknown: no job was enqueued to it lately, and no worker serves it.{meant}")


def _refuse_new_redis(url: str) -> None:
    """Refuse to create an embedded Redis for a command that only reads."""
    target = Target.parse(url)
    if target.scheme == "embedded" and (
        not target.path or not os.path.isdir(target.path) or not os.listdir(target.path)
    ):
        where = repr(target.path) if target.path else "a URL without a path"
        raise UserError(
            f"There is no embedded Redis in {where}, so there are no queues. Use the path of the producers and "
            "workers, as in embedded:./leasehold-data."
        )
