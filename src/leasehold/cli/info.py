"""The `info` command: queues, workers and jobs, as tables for people, as plain columns for a pipe, or as JSON."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import click

from leasehold.app import Leasehold
from leasehold.cli import jobs
from leasehold.cli.errors import UserError
from leasehold.cli.tables import Table, ago, show
from leasehold.core import limits
from leasehold.core.errors import JobNotFound
from leasehold.core.job import QueueView, State, WorkerView
from leasehold.redis.target import Target

_STATES: Final = tuple(State)
_QUEUES: Final = ("queue", *(state.value for state in _STATES))
_WORKERS: Final = ("worker", "host", "pid", "running", "slots", "seen", "up", "queues")


@click.command()
@click.argument("queue", required=False)
@click.argument("job_id", required=False)
@click.option("--url", help="Where Redis is. [default: LEASEHOLD_URL, then REDIS_URL, then localhost]")
@click.option("--namespace", help="The namespace of the app. [default: LEASEHOLD_NAMESPACE, then leasehold]")
@click.option(
    "--state", type=click.Choice([state.value for state in _STATES]),
    help=f"Show the jobs of QUEUE in this state: the first {limits.PAGE_MAX}, of ended ones the newest.",
)  # fmt: skip
@click.option("--payload", is_flag=True, help="Show the payload and the result of the job, too.")
@click.option("as_json", "--json", is_flag=True, help="Print JSON, for programs.")
def info(
    queue: str | None,
    job_id: str | None,
    url: str | None,
    namespace: str | None,
    state: str | None,
    payload: bool,
    as_json: bool,
) -> None:
    """Show queues and workers, or jobs.

    \b
    leasehold info                          all queues and workers
    leasehold info QUEUE                    one queue and its workers
    leasehold info QUEUE --state failed     its failed jobs
    leasehold info QUEUE JOB_ID             one job: state, counts, times, error, traceback

    Nothing is changed.

    Exit status: 0 done; 1 Redis could not be reached, or there is no such job; 2 an option or a setting is wrong.
    """
    if state is not None and (queue is None or job_id is not None):
        raise click.UsageError("--state goes with a queue and no job, as in `leasehold info QUEUE --state failed`.")
    if payload and job_id is None:
        raise click.UsageError("--payload goes with one job, as in `leasehold info QUEUE JOB_ID --payload`.")
    with Leasehold(url, namespace=namespace, patience=limits.START_PATIENCE_MS / limits.SECOND) as app:
        _refuse_new_redis(app.settings.url)
        if queue is not None and job_id is not None:
            _show_job(app, queue, job_id, content=payload, as_json=as_json)
        elif queue is not None and state is not None:
            _show_page(app, queue, State(state), as_json=as_json)
        else:
            _show_all(app, queue, as_json=as_json)


def _refuse_new_redis(url: str) -> None:
    """To look must not make an embedded Redis where none was."""
    target = Target.parse(url)
    if target.scheme == "embedded" and (
        not target.path or not os.path.isdir(target.path) or not os.listdir(target.path)
    ):
        raise UserError(
            f"There is no embedded Redis in {target.path!r}, so there is nothing to show. Expected the path that the "
            "producers and workers use, as in embedded:./leasehold-data."
        )


def _show_job(app: Leasehold, queue: str, job_id: str, *, content: bool, as_json: bool) -> None:
    view = app.inspect.job(queue, job_id)
    if view is None:
        raise JobNotFound(f"There is no job {job_id!r} in queue {queue!r}, or its record is no longer kept.")
    if as_json:
        click.echo(json.dumps(jobs.to_json(view, content=content), indent=2))
    else:
        click.echo(jobs.describe(view, _now_ms(), content=content))


def _show_page(app: Leasehold, queue: str, state: State, *, as_json: bool) -> None:
    page = app.inspect.page(queue, state)
    if as_json:
        click.echo(jobs.page_json(page))
    else:
        show([jobs.page_table(queue, state, page, _now_ms())])


def _show_all(app: Leasehold, queue: str | None, *, as_json: bool) -> None:
    queues = [app.inspect.queue(name) for name in (sorted(app.inspect.queues()) if queue is None else [queue])]
    workers = sorted(app.inspect.workers(), key=lambda view: view.id)
    if queue is not None:
        workers = [view for view in workers if queue in view.queues]
    if as_json:
        click.echo(to_json(queues, workers))
    else:
        show([queue_table(queues), worker_table(workers, _now_ms())])


def to_json(queues: Sequence[QueueView], workers: Sequence[WorkerView]) -> str:
    """Everything, with the names of the fields of the views."""
    return json.dumps(
        {
            "queues": [
                {
                    "name": view.name,
                    "counts": {state.value: view.counts.get(state, 0) for state in _STATES},
                    "totals": view.totals,
                }
                for view in queues
            ],
            "workers": [
                {
                    "id": view.id,
                    "host": view.host,
                    "pid": view.pid,
                    "queues": view.queues,
                    "concurrency": view.concurrency,
                    "active": view.active,
                    "started_ms": view.started_ms,
                    "seen_ms": view.seen_ms,
                }
                for view in workers
            ],
        },
        indent=2,
    )


def queue_table(queues: Sequence[QueueView]) -> Table:
    rows = tuple((view.name, *(str(view.counts.get(state, 0)) for state in _STATES)) for view in queues)
    table = Table("Queues", _QUEUES, rows, frozenset(_QUEUES[1:]), "No queues: nothing was enqueued lately.")
    # What a narrow terminal leaves out is nothing; `ready` stays, so that an empty queue shows that it is.
    return replace(table, spare=(tuple(name for name in table.all_zero() if name != State.READY.value),))


def worker_table(workers: Sequence[WorkerView], now_ms: float) -> Table:
    rows = tuple(
        (
            view.id,
            view.host,
            str(view.pid),
            str(view.active),
            str(view.concurrency),
            f"{ago(now_ms - view.seen_ms)} ago",
            ago(now_ms - view.started_ms),
            ",".join(view.queues),
        )
        for view in workers
    )
    right = frozenset({"pid", "running", "slots", "seen", "up"})
    # The name of a worker begins with its host and its pid.
    return Table("Workers", _WORKERS, rows, right, "No workers.", (("host", "pid"), ("up",), ("seen",)))


def _now_ms() -> float:
    return time.time() * limits.SECOND
