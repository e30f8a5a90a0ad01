"""What commands share: their options for Redis and the app, the print of their answer, unknown jobs and queues."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from shlex import quote
from typing import Any, Final, NoReturn, TypeVar

import click

from tenure.app.app import Tenure
from tenure.cli.completion import queue_names
from tenure.cli.errors import NotDone, UserError, note
from tenure.cli.loader import load
from tenure.cli.output.tables import Answer
from tenure.client.connections import Connections
from tenure.core import limits
from tenure.core.engine import Feature
from tenure.core.hints import did_you_mean
from tenure.core.job import JobView
from tenure.manage.documents import encoded
from tenure.manage.search import QUEUES_MAX
from tenure.protocols.registry import DEFAULT, choices, entry_of
from tenure.redis.url import Target
from tenure.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])


class ConnectionOption(click.Option):
    """An option that is the same for all commands. Their help folds these into one line."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        if ctx.command is CONNECTION:
            return super().get_help_record(ctx)
        folded = [one for one in ctx.command.params if isinstance(one, ConnectionOption)]
        if self is not folded[0]:
            return None
        return ", ".join(
            one.opts[0] for one in folded
        ), "Which Redis, namespace, format and app: see `tenure help connection`."


_SETTINGS: Final = ("url", "namespace", "protocol")
_OPTIONS: Final = (
    click.option("as_json", "--json", is_flag=True, help="Print JSON, for programs."),
    click.option(
        "--protocol",
        cls=ConnectionOption,
        metavar="NAME",
        help=f"The wire format: {choices()}. Its options follow a question mark. "
        f"[default: TENURE_PROTOCOL, then {DEFAULT}]",
    ),
    click.option(
        "--namespace", cls=ConnectionOption, help="The namespace of the app. [default: TENURE_NAMESPACE, then tenure]"
    ),
    click.option(
        "--url", cls=ConnectionOption, help="The URL of Redis. [default: TENURE_URL, then REDIS_URL, then localhost]"
    ),
)
_APP: Final = click.option(
    "--app", cls=ConnectionOption, metavar="MODULE:APP",
    help="An app: its URL, namespace and protocol are used, and its tasks check new payloads. An option that "
    "differs from what the code of the app sets is refused.",
)  # fmt: skip


@click.command("connection", add_help_option=False)
@_APP
@_OPTIONS[3]
@_OPTIONS[2]
@_OPTIONS[1]
def CONNECTION(**given: Any) -> None:
    """The options of all commands that need Redis."""


def reaching(
    *,
    by_argument: bool = False,
    any_namespace: bool = False,
    streams: bool = False,
    check: Callable[..., None] = lambda **given: None,
) -> Callable[[F], F]:
    """Add the options of all commands that need Redis. The command gets `app`, and its `Answer` is printed.

    `app`: the app of `--app`, or one without tasks. `by_argument`: the command has an argument `app` instead of the
    option; for this app it may create an embedded Redis. `any_namespace`: accept `--namespace` also for a protocol
    without namespaces. `streams`: the command may print itself, and gets `as_json`, too. `check` gets the command line,
    and raises errors of it before the app is loaded.
    """

    def decorate(command: F) -> F:
        @functools.wraps(command)
        def run(*args: Any, app: str | None, as_json: bool, **others: Any) -> Any:
            check(app=app, **others)
            given = {name: value for name in _SETTINGS if (value := others.pop(name)) is not None}
            # `tenure autoscale --run` names the app of workers that it runs: these inherit the environment.
            target = others.get("run")
            with _app_of(target or app, given, is_short=target is None) as opened:
                if "namespace" in given and not any_namespace and not entry_of(opened.engine).has_namespace:
                    raise UserError(
                        f"--namespace needs the {DEFAULT} protocol, got {opened.engine.name}, where the prefix "
                        "names the keys."
                    )
                if app is None or not by_argument:
                    _refuse_new_redis(opened.settings.url)
                if streams:
                    others["as_json"] = as_json
                try:
                    done = command(*args, app=opened, **others)
                except NotDone as error:
                    if as_json and error.document is not None:
                        click.echo(encoded(error.document))
                    raise
                return done.print(as_json) if isinstance(done, Answer) else done

        wrapped: Any = run
        for option in _OPTIONS if by_argument else (*_OPTIONS, _APP):
            wrapped = option(wrapped)
        return wrapped  # type: ignore[no-any-return]

    return decorate


def _app_of(target: str | None, given: dict[str, Any], *, is_short: bool = True) -> Tenure:
    """Return an app with these settings. Raises `UserError`, also if the named app has others. `is_short`: the command
    ends soon."""
    # A user waits for the command, so it gives up sooner than a program.
    soon = limits.START_PATIENCE_MS / limits.SECOND
    if target is None:
        # And of many queues on a lost node of a cluster it waits for the first only.
        runner = Connections(Settings.load(patience=soon, **given), limits.START_PATIENCE_MS)
        return Tenure(patience=soon, runner=runner, **given)
    if "url" in given:
        Target.parse(given["url"])  # so that an error does not blame the environment or the app
    os.environ.update({f"TENURE_{name.upper()}": value for name, value in given.items()})
    if is_short:
        os.environ.setdefault("TENURE_PATIENCE", f"{soon:g}")
    app = load(target)
    for name, value in given.items():
        if getattr(app.settings, name) != value:
            raise UserError(f"{target} sets another value than --{name}. Leave out one of the two.")
    return app


def without(app: Tenure, feature: Feature) -> bool:
    """Return whether the protocol in use lacks this feature."""
    return feature not in app.engine.features


def known_job(app: Tenure, queue: str, job_id: str, document: object = None) -> JobView:
    """Return an existing job. Raises `NotDone` with this document, after a note if the queue is unknown."""
    view = app.inspect.job(queue, job_id)
    return no_job(app, queue, job_id, document) if view is None else view


def no_job(app: Tenure, queue: str, job_id: str, document: object) -> NoReturn:
    """Raise `NotDone` with this document, after a note if the queue is unknown."""
    for text in unknown(app, queue):
        note(text)
    raise NotDone(f"There is no job {job_id!r} in queue {queue!r}, or its record has expired.", document)


def queue_of(app: Tenure, job_id: str, whole: str, document: object) -> str:
    """Return the queue that has a record of this job.

    `whole`: the command line for a whole queue `{}`, for a user who has named one in place of a job. Raises `NotDone`
    with this document, and `UserError` also if several queues have such a job.
    """
    places = app.inspect.places(job_id)
    for queue, error in places.refused.items():
        note(f"Queue {queue!r} was left out: {error}")
    found = places.found
    if len(found) > 1:
        raise UserError(f"Job {job_id!r} is in the queues {', '.join(map(repr, found))}. Name one before the job.")
    if not found and job_id in places.queues:
        raise UserError(f"{job_id!r} is a queue, not a job. For the whole queue: {whole.format(quote(job_id))}")
    if not found:
        raise NotDone(f"There is no job {job_id!r} in any queue, or its record has expired.", document)
    return found[0]


def job_meant(
    app: Tenure, queue: str | None, job_id: str, whole: str, /, **parts: Any
) -> tuple[JobView, dict[str, Any]]:
    """Return an existing job, of a queue or found by its id, and the beginning of a document with these parts.

    `whole`: as for `queue_of`. Raises `NotDone` with the document.
    """
    document = {"queue": queue, "job": job_id, **parts}
    if queue is None:
        queue = document["queue"] = queue_of(app, job_id, whole, document)
    return known_job(app, queue, job_id, document), document


def note_left_out(count: int) -> None:
    """Note how many queues a search has left out."""
    if count:
        note(f"Only {QUEUES_MAX:,} of {QUEUES_MAX + count:,} queues were looked through. Name a queue for the others.")


def unknown(app: Tenure, queue: str | None) -> list[str]:
    """Return a note if the queue is unknown: its name may be mistyped. No error, because it may be new."""
    if queue is None:
        return []
    known = app.inspect.queues()
    if queue in known or any(app.inspect.queue(queue).counts.values()):
        return []
    near = did_you_mean(queue, known)
    return [f"Queue {queue!r} is unknown: no job was enqueued to it lately, and no worker serves it.{near}"]


def _refuse_new_redis(url: str) -> None:
    """Refuse to create an embedded Redis for a command that only reads."""
    target = Target.parse(url)
    if target.scheme == "embedded" and (
        not target.path or not os.path.isdir(target.path) or not os.listdir(target.path)
    ):
        where = repr(target.path) if target.path else "a URL without a path"
        raise UserError(
            f"There is no embedded Redis in {where}, so there are no queues. Use the path of the producers and "
            "workers, as in embedded:./tenure-data."
        )


QUEUE: Final = click.argument("queue", shell_complete=queue_names)
ANY_QUEUE: Final = click.argument("queue", required=False, shell_complete=queue_names)
ANY_JOB: Final = click.argument("job_id", required=False)


def JOB(command: F) -> F:
    """Add [QUEUE] JOB_ID to a command. With one word, that is in `queue`."""
    queue = click.argument("queue", shell_complete=queue_names, metavar="[QUEUE]")
    return queue(click.argument("job_id", required=False, metavar="JOB_ID")(command))
