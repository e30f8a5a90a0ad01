"""The `migrate` command: moves waiting jobs to the native protocol, or whole queues to another server."""

from __future__ import annotations

from contextlib import closing
from typing import Any, Final

import click

from tenure.app.app import Tenure
from tenure.cli.clean import lacking
from tenure.cli.completion import queue_names
from tenure.cli.errors import Exit, NotDone, UserError, note
from tenure.cli.input import sure
from tenure.cli.output.tables import answer
from tenure.cli.output.text import jobs_text
from tenure.cli.reach import note_unknown, reaching
from tenure.cli.transfer import MOST_WAIT_S, Way, transfer
from tenure.cli.units import Duration
from tenure.client.connections import Connections
from tenure.core import limits, names
from tenure.core.job import State
from tenure.manage.migration import Migrated
from tenure.manage.migration import migrate as move_waiting
from tenure.protocols.registry import DEFAULT, ENTRIES, entry_of, parse_protocol, rights_of

_STAYING: Final = {
    State.READY: "waiting",
    State.SCHEDULED: "waiting for a retry",
    State.ACTIVE: "held by workers",
    State.UNROUTABLE: "unroutable",
    State.FAILED: "failed",
    State.BROKEN: "broken",
}
"""The states of jobs that stay, and their names in messages."""


def _check(queue: str | None, to: str | None, to_url: str | None, every: bool, **others: Any) -> None:
    if (queue is None) is not every:
        raise UserError("Expected the name of a queue, or --all.")
    if every and to is not None:
        raise UserError("--to names one queue, so it does not go with --all.")
    if to_url is None and (every or others["dry_run"] or others["wait"]):
        raise UserError("--all, --dry-run and --wait need --to-url.")


@click.command()
@click.argument("queue", required=False, shell_complete=queue_names)
@click.option("--to", metavar="QUEUE", help="The queue to move them to. [default: the queue of the same name]")
@click.option("--to-url", metavar="URL", help="Move to the same protocol on another server or cluster.")
@click.option("every", "--all", is_flag=True, help="With --to-url: move all queues of the namespace.")
@click.option("--dry-run", is_flag=True, help="With --to-url: check both servers, count the jobs, and move nothing.")
@click.option(
    "--wait",
    type=Duration(0, MOST_WAIT_S),
    default=0,
    metavar="DURATION",
    help="With --to-url: follow the jobs that workers hold until none is left, for at most this time.",
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@reaching(any_namespace=True, check=_check)
def migrate(
    queue: str | None,
    to: str | None,
    to_url: str | None,
    every: bool,
    dry_run: bool,
    wait: float,
    yes: bool,
    app: Tenure,
    as_json: bool,
) -> Exit | None:
    """Move waiting jobs to the native protocol, or whole queues to another server or cluster.

    \b
    tenure migrate default --to images --protocol redis-work-queue:jobs
    tenure migrate orders --to-url redis+cluster://10.0.0.1,10.0.0.2/ --wait 600

    Without --to-url: from a queue of another protocol to the native one, on the same Redis; --namespace is the native
    queue's. To migrate without stopping, let producers enqueue to the native queue first, keep a worker on each
    queue, and run this command. A job keeps its id, its place in the order, its timeout and its retries.

    With --to-url: from a native queue to the same one on another server, with all that waits, its history, the records
    of failed, broken and cancelled jobs, the schedules and the settings. Pause the queue there, let producers enqueue
    there, and run this command: it resumes the queue when what waits has arrived. docs/howto/cluster.md has the steps.

    Held jobs stay with their holders; run the command again later. You can stop it at any time: no job is lost or
    doubled, and the next run continues from there.

    Exit status: 0 done, also if no job waited; 1 not confirmed, ids of some jobs are taken in the native queue or
    invalid there, the native queue is full, this user may not write to both, jobs are still held after --wait, or
    Redis could not be reached; 2 the command line or a setting is wrong.
    """
    if to_url is not None:
        return transfer(app, to_url, queue, to, Way(dry_run, wait, yes, as_json))
    assert queue is not None
    _between_protocols(app, queue, to, yes, as_json)
    return None


def _between_protocols(app: Tenure, queue: str, to: str | None, yes: bool, as_json: bool) -> None:
    to = queue if to is None else names.queue_name(to)
    make = entry_of(app.engine).migration
    if make is None:
        error = lacking(app, "tenure migrate", [one for one in ENTRIES if one.migration is not None])
        raise UserError(f"{error.message} To move a queue to another server, add --to-url URL.")
    migration, target = make(app.engine), parse_protocol(DEFAULT).engine(app.settings)
    there = f"queue {to!r} of the {DEFAULT} protocol, namespace {app.settings.namespace!r}"
    with closing(Connections(app.settings)) as connections:
        # Checked first: a script that is refused half-way is not undone.
        missing = connections.run(migration.missing(queue)) + connections.run(rights_of(target).missing())
        if missing:
            raise NotDone(
                f"This user of Redis lacks rights that are needed: {' '.join(dict.fromkeys(missing))}. Nothing was "
                "moved. `tenure check --acl USER` prints the line that grants one protocol's rights; add the words of "
                "the other."
            )
        count = app.inspect.queue(queue).counts.get(State.READY, 0)
        why = f"It moves every waiting job of the queue, {count:,} at present"
        question = f"Move {jobs_text(count)} of queue {queue!r} to {there}?"
        sure(question if count else "", yes=yes, why=why, undone="Nothing was moved.")
        moved = connections.run(move_waiting(migration, target, queue, to))
    if moved.full is not None:
        text = f"{jobs_text(moved.count)} moved; the others wait where they were. {moved.full} "
        raise NotDone((text + _refusal(moved, queue, to)).strip())
    left = {state: n for state, n in app.inspect.queue(queue).counts.items() if n and state in _STAYING}
    document = {
        "queue": queue,
        "to": to,
        "namespace": app.settings.namespace,
        "moved": moved.count,
        "left": {state.value: n for state, n in left.items()},
        "refused": [*moved.refused, *moved.unfit],
    }
    answer(as_json, document, f"Queue {queue!r}: {jobs_text(moved.count)} moved to {there}.")
    if left and not as_json:
        note("Left: " + ", ".join(f"{n:,} {_STAYING[state]}" for state, n in left.items()) + ".")
    if not moved.count:
        note_unknown(app, queue)
    if moved.refused or moved.unfit:
        raise NotDone(_refusal(moved, queue, to))


def _refusal(moved: Migrated, queue: str, to: str) -> str:
    words = []
    if moved.refused:
        words.append(
            f"{jobs_text(len(moved.refused))} stayed: the id is taken in queue {to!r}, by another job or its record: "
            f"the first is {moved.refused[0]!r}. They wait in queue {queue!r}, at its end, for its workers; migrate "
            f"again when the other job has ended and its record is gone (`tenure discard {to} ID`)."
        )
    if moved.unfit:
        words.append(
            f"{jobs_text(len(moved.unfit))} stayed: the id cannot be used in the {DEFAULT} protocol (it is empty, has "
            f"more than {limits.MAX_ID} bytes, or begins with '@'): the first is {names.shown(moved.unfit[0])}. They "
            f"wait in queue {queue!r}, at its end, for its workers."
        )
    return " ".join(words)
