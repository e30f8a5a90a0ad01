"""The `retry` command: one job, optionally with another payload, or all jobs of a queue in one state."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

import click

from leasehold.app.app import Leasehold
from leasehold.cli.completion import queue_names
from leasehold.cli.errors import NotDone, note
from leasehold.cli.input import edited, given, sure
from leasehold.cli.output.jobs import job_table
from leasehold.cli.output.tables import answer
from leasehold.cli.output.text import jobs_text
from leasehold.cli.reach import known_job, note_unknown, queue_of, reaching
from leasehold.cli.selection import LOOK_NOTE, Selection, queues_meant, selected, selecting
from leasehold.core import limits
from leasehold.core.engine import Feature
from leasehold.core.errors import InvalidArgument
from leasehold.core.job import JobView, State

MANY_MAX: Final = 10_000
"""The most jobs that one `leasehold retry --all` retries."""
EDIT_ROUNDS: Final = 10
"""How often the user may edit an invalid payload again."""

STATES: Final = (State.FAILED, State.BROKEN, State.CANCELLED, State.SCHEDULED, State.UNROUTABLE)
"""The states from which a job can be retried."""
_OTHERS: Final = {
    State.READY: "waits for a worker already",
    State.ACTIVE: "is held by a worker; cancel it first, or wait for its end",
    State.COMPLETED: "has completed; enqueue it anew",
}


@click.command()
@click.argument("queue", required=False, shell_complete=queue_names)
@click.argument("job_id", required=False)
@click.option("--payload", metavar="TEXT", help="The job's new payload. `-`: read it from stdin.")
@click.option("edit", "--edit", is_flag=True, help="Edit the payload in $VISUAL or $EDITOR.")
@click.option("everything", "--all", is_flag=True, help="Retry all jobs in the state of --state.")
@click.option("--state", type=click.Choice([state.value for state in STATES]), help="Goes with --all.")
@click.option(
    "--limit", type=click.IntRange(1, MANY_MAX), default=MANY_MAX, metavar="N", show_default=True,
    help="With --all: at most N jobs; of ended jobs those that ended first.",
)  # fmt: skip
@selecting
@click.option("--dry-run", is_flag=True, help="With --all: only show the jobs.")
@click.option("--yes", is_flag=True, help="With --all: do not ask for confirmation.")
@reaching()
def retry(
    queue: str | None,
    job_id: str | None,
    payload: str | None,
    edit: bool,
    everything: bool,
    state: str | None,
    limit: int,
    selection: Selection,
    dry_run: bool,
    yes: bool,
    app: Leasehold,
    as_json: bool,
) -> None:
    """Retry a job now, with its attempt counters reset; optionally with another payload.

    \b
    leasehold retry JOB_ID
    leasehold retry QUEUE JOB_ID --edit --app shop:app
    leasehold retry QUEUE JOB_ID --payload '[["dog.png"], {"size": 64}]'
    leasehold retry QUEUE --all --state failed
    leasehold retry --all --state failed --error ConnectionError --dry-run

    Without QUEUE it is searched for, and --all means all queues. A selection (--task, --error, --older-than,
    --newer-than) looks through 10,000 jobs of each queue.

    For jobs that are failed, broken, cancelled, scheduled or unroutable. The payload of a task's job is JSON,
    [[positional...], {named...}], as `leasehold job --payload` shows it; with --app the task's signature and type
    hints check it.

    Exit status: 0 done; 1 there was nothing to retry, some jobs could not be retried, or Redis could not be reached; 2
    the command line, the payload or a setting is wrong.
    """
    if job_id is None and not everything:
        queue, job_id = None, queue
    if everything == (job_id is not None):
        raise click.UsageError("Expected one of JOB_ID and --all.")
    if not everything and (selection or dry_run):
        raise click.UsageError("--task, --error, --older-than, --newer-than and --dry-run go with --all.")
    if everything != (state is not None):
        raise click.UsageError("--all and --state go together, as in `leasehold retry QUEUE --all --state failed`.")
    if payload is not None and edit:
        raise click.UsageError("--payload and --edit do not go together; expected one of them.")
    if everything and (payload is not None or edit):
        raise click.UsageError("A new payload goes with JOB_ID, not with --all.")
    if state is not None:
        _retry_all(app, queue, _found(app, queue, State(state), limit, selection), dry_run, yes, as_json)
    elif job_id is not None:
        if queue is None:
            nothing = {"queue": None, "job": job_id, "retried": False, "payload_changed": False}
            queue = queue_of(app, job_id, nothing if as_json else None)
        _retry_one(app, queue, job_id, payload, edit, as_json)


def _retry_one(app: Leasehold, queue: str, job_id: str, payload: str | None, edit: bool, as_json: bool) -> None:
    document = {"queue": queue, "job": job_id, "retried": False, "payload_changed": False}
    before = known_job(app, queue, job_id, document if as_json else None)
    is_changed = edit or payload is not None
    if edit:
        _check_state(before)
        done = _edit(app, before)
    else:
        data = None if payload is None else given(payload, app.settings.payload_limit)
        done = app.control.retry(queue, job_id, payload=data)
    what = " with the new payload" if is_changed else ""
    text = f"Job {job_id!r} of queue {queue!r} waits for a worker{what}; it was {before.state.value}."
    answer(as_json, {**document, "retried": done, "payload_changed": done and is_changed}, text if done else None)
    if not done:
        _check_state(known_job(app, queue, job_id))
        key = "its unique key now" if Feature.UNIQUE in app.engine.features else "its id now, and waits or is held"
        raise NotDone(f"Job {job_id!r} of queue {queue!r} was not retried: another job has {key}.")


def _edit(app: Leasehold, view: JobView) -> bool:
    """Let the user edit the payload until it is valid, or until they give up."""
    data, why = view.payload or b"", ""
    for _ in range(EDIT_ROUNDS):
        try:
            data = edited(data, is_json=view.task is not None, why=why)
            return app.control.retry(view.queue, view.id, payload=data)
        except InvalidArgument as error:
            why = str(error)
            note(why)
            if not click.confirm("Edit it again?", default=True, err=True):
                break
    raise NotDone("The payload was not right; nothing was changed.")


def _check_state(view: JobView) -> None:
    """Refuse a job in a state without retries: raise `NotDone`."""
    if view.state in _OTHERS:
        raise NotDone(f"Job {view.id!r} of queue {view.queue!r} {_OTHERS[view.state]}. Nothing was changed.")


@dataclass(frozen=True, slots=True)
class _Found:
    """Jobs to retry, in their order. `total`: how many there are with those beyond `--limit`. `is_whole`: no jobs were
    left out of the search."""

    state: State
    jobs: tuple[JobView, ...]
    total: int
    what: str
    is_whole: bool = True


def _retry_all(app: Leasehold, queue: str | None, found: _Found, dry_run: bool, yes: bool, as_json: bool) -> None:
    # Listed before the first retry, so that a job that fails again at once is not retried twice.
    count, where = len(found.jobs), "all queues" if queue is None else f"queue {queue!r}"
    if not dry_run:
        question = f"Retry {count:,} of the {found.total:,} {found.what} of {where}?"
        why = f"--all retries every {found.what.removesuffix('s')} of {where}, {found.total:,} at present"
        sure(question if count else "", yes=yes, why=why, undone="Nothing was retried.")
    done = 0 if dry_run else sum(app.control.retry(view.queue, view.id) for view in found.jobs)
    document = {"queue": queue, "state": found.state.value, "found": count, "retried": done, "left": found.total - done}
    start = "All queues" if queue is None else f"Queue {queue!r}"
    text = f"{start}: {jobs_text(done)} retried."
    title = f"{where}: {jobs_text(count)} would be retried"
    table = job_table(found.jobs, time.time() * limits.SECOND, title, "", queues=queue is None)
    answer(as_json, document, ([table.without("state")] if dry_run else text) if count else None)
    if not found.is_whole:
        note(LOOK_NOTE)
    if not count:
        if queue is not None:
            note_unknown(app, queue)
        none = "No queue has a" if queue is None else f"{start} has no"
        raise NotDone(f"{none} {found.what.removesuffix('s')}; there is nothing to retry.")
    if count < found.total:
        note(f"There were {found.total:,}. Run it again for the others.")
    if not dry_run and done < count:
        raise NotDone(
            f"{jobs_text(count - done)} of {where} could not be retried: no longer {found.state.value}, or another job "
            "has the unique key, or the id, now."
        )


def _found(app: Leasehold, queue: str | None, state: State, limit: int, selection: Selection) -> _Found:
    """Find the jobs to retry: of ended ones those that ended first."""
    jobs: list[JobView] = []
    total, is_whole = 0, True
    for name in queues_meant(app, queue):
        if selection:
            views, has_all = selected(app, name, state, selection)
            views = views[::-1] if state.ended else views
            count, is_whole = len(views), is_whole and has_all
        else:
            views, count = _first(app, name, state, limit - len(jobs))
        jobs += views
        total += count
    what = f"selected {state.value} jobs" if selection else f"{state.value} jobs"
    return _Found(state, tuple(jobs[:limit]), total, what, is_whole)


def _total(app: Leasehold, queue: str, state: State) -> int:
    return app.inspect.page(queue, state, 0, 1).total


def _first(app: Leasehold, queue: str, state: State, limit: int) -> tuple[list[JobView], int]:
    """Return the jobs to retry in their run order; ended jobs are listed newest first, so these are reversed."""
    total = _total(app, queue, state)
    count = max(0, min(total, limit))
    start = total - count if state.ended else 0
    jobs: list[JobView] = []
    after: str | None = None
    while len(jobs) < count:
        page = app.inspect.page(queue, state, start, min(limits.PAGE_MAX, count - len(jobs)), after=after)
        jobs += page.jobs
        start, after = 0, page.next
        if after is None:
            break
    return (jobs[::-1] if state.ended else jobs), total
