"""The `schedules` command: lists schedules, shows one, and pauses, resumes, triggers or removes it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from shlex import quote
from typing import Final

import click

from tenure.app.app import Tenure
from tenure.cli.output.tables import Answer, Table
from tenure.cli.output.text import ago, distance, facts, time_of
from tenure.cli.reach import ANY_QUEUE, reaching, unknown
from tenure.core import limits
from tenure.core.hints import did_you_mean
from tenure.core.schedules.schedule import ScheduleView
from tenure.core.schedules.when import to_ms
from tenure.manage.documents import ms_of, schedule_document

_ACTIONS: Final = ("pause", "resume", "trigger", "remove")


@ANY_QUEUE
@click.argument("name", required=False)
@click.option("--pause", is_flag=True, help="Stop its ticks, until --resume.")
@click.option("--reason", metavar="TEXT", help="Why it is paused.")
@click.option("--resume", is_flag=True, help="Let its ticks continue from now on.")
@click.option("--trigger", is_flag=True, help="Enqueue its job now.")
@click.option("--remove", is_flag=True, help="Remove it. Its jobs stay.")
@reaching()
def schedules(queue: str | None, name: str | None, app: Tenure, reason: str | None, **flags: bool) -> Answer:
    """\b
    tenure schedules                       all schedules
    tenure schedules QUEUE                 schedules of a queue
    tenure schedules QUEUE NAME            one schedule with all its facts
    tenure schedules QUEUE NAME --pause --reason "the disk is full"
    tenure schedules QUEUE NAME --resume
    tenure schedules QUEUE NAME --trigger
    tenure schedules QUEUE NAME --remove

    Times are of the local time zone. A schedule in code returns after --remove with the next worker that has it: pause
    it instead.
    """
    given = [action for action in _ACTIONS if flags[action]]
    if len(given) > 1:
        raise click.UsageError(f"--{given[0]} and --{given[1]} cannot both be given.")
    if given and (queue is None or name is None):
        raise click.UsageError(f"--{given[0]} needs a queue and the name of a schedule.")
    if reason is not None and given != ["pause"]:
        raise click.UsageError("--reason goes with --pause.")
    if queue is None or name is None:
        found = app.schedules.list(queue)
        empty = "No schedules." if queue is None else f"No schedules in {queue}."
        document = {"schedules": [schedule_document(one) for one in found]}
        return Answer(document, [_table(found, empty)], unknown(app, queue))
    if given:
        return _act(app, queue, name, given[0], reason or "")
    view = app.schedules.get(queue, name)
    if view is None:
        return _missing(app, queue, name, {"schedules": []})
    return Answer({"schedules": [schedule_document(view)]}, _describe(view))


def _act(app: Tenure, queue: str, name: str, action: str, reason: str) -> Answer:
    label, words = f"Schedule {name!r} of queue {queue!r}", f"tenure schedules {quote(queue)} {quote(name)}"
    document = {"queue": queue, "schedule": name, "action": action, "done": True, "id": None}
    done, text = True, ""
    if action == "pause":
        done = app.schedules.pause(queue, name, reason)
        text = f"{label} is paused. To resume: {words} --resume"
    elif action == "resume":
        done, text = app.schedules.resume(queue, name), f"{label} continues."
    elif action == "remove":
        done, text = app.schedules.remove(queue, name), f"{label} is removed."
    elif app.schedules.get(queue, name) is None:
        done = False
    else:
        job = app.schedules.trigger(queue, name)
        document["id"] = job.id
        text = f"Enqueued: {job.id}. To follow it: tenure job {quote(queue)} {quote(job.id)} --watch"
    return Answer(document, text) if done else _missing(app, queue, name, document | {"done": False})


def _missing(app: Tenure, queue: str, name: str, document: object) -> Answer:
    meant = did_you_mean(name, [one.name for one in app.schedules.list(queue)])
    error = f"Queue {queue!r} has no schedule {name!r}.{meant or ' `tenure schedules` lists all.'}"
    return Answer(document, None, unknown(app, queue), errors=[error])


def _table(found: Sequence[ScheduleView], empty: str) -> Table:
    now_ms = time.time() * limits.SECOND
    rows = tuple(
        {
            "queue": view.queue,
            "name": view.name,
            "task": view.task or "-",
            "when": view.explanation,
            "next": _next(view, now_ms),
            "last": "-" if view.last is None else f"{ago(now_ms - to_ms(view.last))} ago",
            "runs": str(view.runs),
            "skipped": str(view.skipped),
            "missed": str(view.missed),
            "app": view.source or "",
        }
        for view in found
    )
    title = f"{len(rows):,} {'schedule' if len(rows) == 1 else 'schedules'}"
    spare = (("app",), ("skipped", "missed"), ("runs",), ("last",), ("task",))
    table = Table(title, rows, ("next", "last", "runs", "skipped", "missed"), empty, spare)
    return table.without_empty("app")


def _next(view: ScheduleView, now_ms: float) -> str:
    if view.paused is not None:
        return "paused"
    return "over" if view.next is None else distance(to_ms(view.next), now_ms)


def _describe(view: ScheduleView) -> str:
    now_ms = time.time() * limits.SECOND
    paused = time_of(ms_of(view.paused), now_ms)
    return facts(
        [
            ("schedule", view.name),
            ("queue", view.queue),
            ("task", view.task or "(a raw payload)"),
            ("when", view.explanation),
            ("app", view.source or "(added at run time)"),
            ("paused", f"{paused}{f': {view.reason}' if view.reason else ''}" if paused else None),
            ("next", time_of(ms_of(view.next), now_ms) or (None if paused else "(over)")),
            ("last", time_of(ms_of(view.last), now_ms)),
            ("last job", view.last_id),
            ("jobs before", ", ".join(id for _, id in view.recent[1:]) or None),
            ("runs", f"{view.runs:,}"),
            ("skipped", f"{view.skipped:,} (the previous job had not ended)" if view.skipped else None),
            ("missed", f"{view.missed:,} (they came too late)" if view.missed else None),
            ("catch up", view.catch_up),
            ("overlap", view.overlap),
        ]
    )
