"""The `migrate` command: moves waiting jobs from a queue of redis-work-queue to the native protocol."""

from __future__ import annotations

from contextlib import closing
from typing import Final

import click

from leasehold.app.app import Leasehold
from leasehold.cli.clean import lacking
from leasehold.cli.completion import queue_names
from leasehold.cli.confirmation import jobs_text, sure
from leasehold.cli.errors import NotDone, note, safe
from leasehold.cli.output.jobs import dump
from leasehold.cli.reach import Where, note_unknown, reach, reaching
from leasehold.client.connections import Connections
from leasehold.core import limits, names
from leasehold.core.engine import FullEngine
from leasehold.core.errors import QueueFull
from leasehold.core.job import State
from leasehold.engines.kit.extras import Moved
from leasehold.protocols.registry import DEFAULT, ENTRIES, entry_of, parse_protocol, rights_of
from leasehold.protocols.spec import Migration

_STAYING: Final = {
    State.READY: "waiting",
    State.SCHEDULED: "waiting for a retry",
    State.ACTIVE: "held by workers",
    State.UNROUTABLE: "unroutable",
    State.FAILED: "failed",
    State.BROKEN: "broken",
}
"""The states of jobs that stay, and their names in messages."""


@click.command()
@click.argument("queue", shell_complete=queue_names)
@click.option("--to", metavar="QUEUE", help="The queue to move them to. [default: the queue of the same name]")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@reaching
def migrate(queue: str, to: str | None, yes: bool, where: Where, as_json: bool) -> None:
    """Move waiting jobs from a queue of redis-work-queue to the native protocol.

    \b
    leasehold migrate default --to images --protocol redis-work-queue:jobs

    Both queues are on the same Redis; --namespace is that of the native queue. To migrate without stopping, let
    producers enqueue to the native queue first, keep a worker on each queue, and run this command. A job keeps its id,
    its place in the order, its timeout and its retries. Held jobs stay with their holders; run the command again later.
    You can stop it at any time: no job is lost or doubled, and the next run continues from there.

    Exit status: 0 done, also if no job waited; 1 not confirmed, ids of some jobs are taken in the native queue or
    invalid there, the native queue is full, this user may not write to both, or Redis could not be reached; 2 the
    command line or a setting is wrong.
    """
    target = queue if to is None else names.queue_name(to)
    with reach(where, any_namespace=True) as app:
        migration = _migration(app)
        _check_rights(app, migration, queue)
        namespace = app.settings.namespace
        there = f"queue {target!r} of the {DEFAULT} protocol, namespace {namespace!r}"
        count = app.inspect.queue(queue).counts.get(State.READY, 0)
        why = f"It moves every waiting job of the queue, {count:,} at present"
        question = f"Move {jobs_text(count)} of queue {queue!r} to {there}?"
        sure(question if count else "", yes=yes, why=why, undone="Nothing was moved.")
        moved = move(app, migration, queue, target)
        left = {state: n for state, n in app.inspect.queue(queue).counts.items() if n and state in _STAYING}
        if as_json:
            shown = {"queue": queue, "to": target, "namespace": namespace, "moved": moved.count}
            stay = {state.value: n for state, n in left.items()}
            click.echo(dump({**shown, "left": stay, "refused": [*moved.refused, *moved.unfit]}))
        else:
            click.echo(safe(f"Queue {queue!r}: {jobs_text(moved.count)} moved to {there}."))
            if left:
                note("Left: " + ", ".join(f"{n:,} {_STAYING[state]}" for state, n in left.items()) + ".")
        if not moved.count:
            note_unknown(app, queue)
    if moved.refused or moved.unfit:
        raise NotDone(_refusal(moved, queue, target))


def _refusal(moved: Moved, queue: str, target: str) -> str:
    words = []
    if moved.refused:
        words.append(
            f"Of {jobs_text(len(moved.refused))} the id is taken in queue {target!r}, by another job or its record: "
            f"the first is {moved.refused[0]!r}. They wait in queue {queue!r}, at its end, for its workers; migrate "
            f"again when the other job has ended and its record is gone (`leasehold discard {target} ID`)."
        )
    if moved.unfit:
        words.append(
            f"Of {jobs_text(len(moved.unfit))} the id cannot be used in the {DEFAULT} protocol (it is empty, has more "
            f"than {limits.MAX_ID} bytes, or begins with '@'): the first is {names.shown(moved.unfit[0])}. They wait "
            f"in queue {queue!r}, at its end, for its workers."
        )
    return " ".join(words)


def _migration(app: Leasehold) -> Migration:
    entry = entry_of(app.engine)
    if entry.migration is None:
        raise lacking(app, "leasehold migrate", [one for one in ENTRIES if one.migration is not None])
    return entry.migration(app.engine)


def _target(app: Leasehold) -> FullEngine:
    return parse_protocol(DEFAULT).engine(app.settings)


def _check_rights(app: Leasehold, migration: Migration, queue: str) -> None:
    """A script that is refused half-way is not undone. Raises `NotDone` for a user who may not write both queues."""
    with closing(Connections(app.settings)) as connections:
        missing = connections.run(migration.missing(queue))
        missing += connections.run(rights_of(_target(app)).missing())
    if missing:
        raise NotDone(
            f"This user of Redis lacks rights that are needed: {' '.join(dict.fromkeys(missing))}. Nothing was moved. "
            "`leasehold check --acl USER` prints the line that grants those of one protocol; add those of the other."
        )


def move(app: Leasehold, migration: Migration, queue: str, to: str) -> Moved:
    """Move page by page until nothing is left that could be moved. Where a page has no room, smaller ones may."""
    target = _target(app)
    count, size = 0, limits.MAX_BATCH
    refused: dict[str, None] = {}
    unfit: dict[str, None] = {}
    with closing(Connections(app.settings)) as connections:
        for _ in range(limits.PURGE_ROUNDS):
            try:
                page = connections.run(migration.page(queue, target, to, size))
            except QueueFull as error:
                if size > 1:
                    size //= 2
                    continue
                left = _refusal(Moved(0, count, tuple(refused), tuple(unfit)), queue, to)
                raise NotDone(
                    f"{error} {jobs_text(count)} moved before that; the others wait where they were. {left}".strip()
                ) from None
            count, known = count + page.count, len(refused) + len(unfit)
            refused |= dict.fromkeys(page.refused)
            unfit |= dict.fromkeys(page.unfit)
            # What is refused goes to the end of the queue. Where nothing but that comes again, all has been seen.
            stays = page.refused or page.unfit
            if not page.looked or (stays and not page.count and len(refused) + len(unfit) == known):
                break
    return Moved(0, count, tuple(refused), tuple(unfit))
