"""The `enqueue` command: a call of an app's task with its arguments checked, or a raw payload for a queue."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Any, Final

import click

from tenure.app.app import Tenure
from tenure.cli.completion import queue_names
from tenure.cli.errors import UserError
from tenure.cli.input import arguments, given
from tenure.cli.output.tables import Answer
from tenure.cli.reach import reaching, without
from tenure.cli.units import Duration
from tenure.client.handle import JobHandle
from tenure.core import limits
from tenure.core.engine import Feature
from tenure.core.hints import did_you_mean

if TYPE_CHECKING:
    from tenure.app.tasks import Task

_MAX_NAMES: Final = 10
_MAX_DELAY_S: Final = limits.MAX_DELAY_MS / limits.SECOND


def _check(*, app: str | None, task: str | None, queue: str | None, payload: str | None, **others: Any) -> None:
    if task is not None and payload is not None:
        raise click.UsageError("--payload goes with a queue and no task; arguments of a task are ARGS, in JSON.")
    if task is None and (queue is None or payload is None):
        missing = "MODULE:APP and TASK" if app is None else "TASK after MODULE:APP"
        raise click.UsageError(f"Expected {missing}, or --queue and --payload for a raw payload.")


def _headers(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> dict[str, str] | None:
    pairs = [value.partition("=") for value in values]
    if not all(equals for _, equals, _ in pairs):
        raise click.BadParameter("Expected NAME=TEXT.")
    return {name: text for name, _, text in pairs} or None


@click.argument("app", metavar="[MODULE:APP]", required=False)
@click.argument("task", required=False)
@click.argument("args", nargs=-1, metavar="[ARGS]...")
@click.option(
    "--queue", metavar="NAME", shell_complete=queue_names,
    help="The queue. [default: the task's; required for a raw payload]",
)  # fmt: skip
@click.option(
    "--payload", metavar="TEXT", help="A raw payload, for a queue with a handler that takes bytes. `-`: stdin."
)
@click.option("id", "--id", metavar="TEXT", help="An id of your own; a second job with it is refused.")
@click.option(
    "--delay",
    type=Duration(0, _MAX_DELAY_S),
    metavar="DURATION",
    help="How long the job waits before it may run: seconds, or 90s, 15m, 2h, 7d.",
)
@click.option("--lane", metavar="NAME", help="Jobs with the same lane run one at a time, in order.")
@click.option(
    "--priority", type=click.IntRange(limits.MIN_PRIORITY, limits.MAX_PRIORITY), metavar="N",
    help=f"{limits.MIN_PRIORITY} to {limits.MAX_PRIORITY}; higher priorities run first. [default: 0]",
)  # fmt: skip
@click.option(
    "headers", "--header", metavar="NAME=TEXT", multiple=True, callback=_headers,
    help="A text that travels with the job; may be repeated.",
)  # fmt: skip
@click.option("--unique", metavar="KEY", help="Refused while another job with this key has not ended.")
@reaching(by_argument=True, check=_check)
def enqueue(
    task: str | None,
    args: tuple[str, ...],
    queue: str | None,
    payload: str | None,
    app: Tenure,
    **options: Any,
) -> Answer:
    """\b
    tenure enqueue shop:app shop.thumbnail '["cat.png"]' '{"size": 64}'
    tenure enqueue shop:app shop.thumbnail - < arguments.json
    tenure enqueue --queue emails --payload 'Hello'
    pg_dump shop | tenure enqueue --queue dumps --payload -

    ARGS is JSON: an array of positional arguments, an object of named ones, or one of each; `-` stands for stdin. They
    are checked against the signature and the type hints of the task, before anything is sent. Options left out
    come from the task. Arguments on a command line can be seen by others on the machine, in `ps`.

    A raw payload goes as it is to the handler of its queue. MODULE:APP may stand alone then: the app knows where Redis
    is.
    """
    chosen: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    limit = app.settings.payload_limit
    if task is not None:
        chosen_task = task_of(app, task)
        positional, named = chosen_task.rebuild(*arguments(args, limit))
        handle: JobHandle[Any] = chosen_task.using(**chosen, queue=queue).enqueue(*positional, **named)
    else:
        assert queue is not None and payload is not None, "see _check"  # noqa: PT018
        handle = app.queue(queue).enqueue(given(payload, limit), **chosen)
    conflict = None if handle.conflict is None else handle.conflict.value
    text = f"Job {handle.id!r} is in queue {handle.queue!r}."
    if not handle.created:
        text = f"Nothing new: job {handle.id!r} of queue {handle.queue!r} has the unique key ({conflict})."
    document = {"queue": handle.queue, "id": handle.id, "task": task, "created": handle.created, "conflict": conflict}
    watch = "" if without(app, Feature.RESULTS) else " --watch"
    return Answer(document, text, hints=[f"To follow it: tenure job {quote(handle.queue)} {quote(handle.id)}{watch}"])


def task_of(app: Tenure, name: str) -> Task[Any, Any, Any]:
    """Return the task with this name. Raises `UserError`."""
    if name in app.tasks:
        return app.tasks[name]
    near = did_you_mean(name, app.tasks)
    if not near:
        known = ", ".join(sorted(app.tasks)[:_MAX_NAMES]) or "none"
        near = f" It has: {known}{', ...' if len(app.tasks) > _MAX_NAMES else ''}."
    raise UserError(f"The app has no task {name!r}.{near}")
