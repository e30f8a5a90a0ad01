"""The `migrate` command: moves what waits in a queue of redis-work-queue to a queue of the native protocol."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Final

import click

from leasehold.app import Leasehold
from leasehold.cli.asking import jobs_text, sure
from leasehold.cli.clean import redis_work_queue
from leasehold.cli.completion import queue_names
from leasehold.cli.errors import NotDone, note, safe
from leasehold.cli.jobs import dump
from leasehold.cli.reach import Where, note_unknown, reach, reaching
from leasehold.connections import Connections
from leasehold.core import limits, names
from leasehold.core.errors import QueueFull
from leasehold.core.job import State
from leasehold.engines.native import NativeEngine
from leasehold.engines.redis_work_queue.migrate import Moved, migrate_page

_STAYING: Final = {
    State.READY: "waiting",
    State.SCHEDULED: "waiting for a retry",
    State.ACTIVE: "held by workers",
    State.UNROUTABLE: "unroutable",
    State.FAILED: "failed",
    State.BROKEN: "broken",
}
"""What stays where it is, and how it is called here."""


@click.command()
@click.argument("queue", shell_complete=queue_names)
@click.option("--to", metavar="QUEUE", help="The queue that they move to. [default: one of the same name]")
@click.option("--yes", is_flag=True, help="Do not ask whether it is meant.")
@reaching
def migrate(queue: str, to: str | None, yes: bool, where: Where, as_json: bool) -> None:
    """Move what waits in a queue of redis-work-queue to a queue of the native protocol.

    \b
    leasehold migrate default --to images --protocol redis-work-queue:jobs

    Both are on the same Redis; --namespace is that of the native queue. Nothing has to stop: let producers enqueue to
    the native queue first, keep a worker on each, and migrate. A job keeps its id, its place in the order, its timeout
    and its retries. What is held is left to its holder; run it again when that is through. It may be stopped, or die,
    at any time: nothing is lost or there twice, and the next run goes on from there.

    Exit status: 0 done, also when nothing waited; 1 it was not meant, ids of some jobs are taken in the native queue,
    or Redis could not be reached; 2 the command line or a setting is wrong.
    """
    target = queue if to is None else names.queue_name(to)
    with reach(where, any_namespace=True) as app:
        redis_work_queue(app, "leasehold migrate")
        namespace = app.settings.namespace
        there = f"queue {target!r} of the native protocol, namespace {namespace!r}"
        count = app.inspect.queue(queue).counts.get(State.READY, 0)
        why = f"It moves every job of the queue that waits, {count:,} at present"
        question = f"Move {jobs_text(count)} of queue {queue!r} to {there}?"
        sure(question if count else "", yes=yes, why=why, undone="Nothing was moved.")
        moved = move(app, queue, target)
        left = {state: n for state, n in app.inspect.queue(queue).counts.items() if n and state in _STAYING}
        if as_json:
            shown = {"queue": queue, "to": target, "namespace": namespace, "moved": moved.count}
            stay = {state.value: n for state, n in left.items()}
            click.echo(dump({**shown, "left": stay, "refused": [*moved.refused, *moved.stay]}))
        else:
            click.echo(safe(f"Queue {queue!r}: {jobs_text(moved.count)} moved to {there}."))
            if left:
                note("Left: " + ", ".join(f"{n:,} {_STAYING[state]}" for state, n in left.items()) + ".")
        if not moved.count:
            note_unknown(app, queue)
    if moved.refused or moved.stay:
        raise NotDone(" ".join(_not_moved(moved, queue, target)))


def _not_moved(moved: Moved, queue: str, target: str) -> Iterator[str]:
    if moved.refused:
        yield (
            f"Of {jobs_text(len(moved.refused))} the id is taken in queue {target!r}, by another job: the first is "
            f"{moved.refused[0]!r}. They are set aside; migrate again when that job has ended and its record is gone."
        )
    if moved.stay:
        yield (
            f"Of {jobs_text(len(moved.stay))} the id is taken in queue {queue!r} itself, by another job that is set "
            f"aside there: the first is {moved.stay[0]!r}. They stay in the queue; migrate again when the other job is "
            "gone, or discard it (`leasehold discard`)."
        )


def move(app: Leasehold, queue: str, to: str) -> Moved:
    """Move page by page until nothing is left that could be moved."""
    source, target = redis_work_queue(app, "leasehold migrate"), NativeEngine(app.settings.namespace)
    count = 0
    refused: tuple[str, ...] = ()
    stay: tuple[str, ...] = ()
    with closing(Connections(app.settings)) as connections:
        for _ in range(limits.PURGE_ROUNDS):
            try:
                page = connections.run(migrate_page(source, queue, target, to))
            except QueueFull as error:
                raise NotDone(_full(error, count)) from None
            count, refused, stay = count + page.count, page.refused, page.stay
            if not page.count:
                break
    return Moved(count, refused, stay)


def _full(error: QueueFull, count: int) -> str:
    """The error says that nothing was changed, which is true of the one call."""
    return (
        f"{error} {jobs_text(count)} moved before that. Some others may be set aside on their way: they are counted "
        "among those that wait, no worker takes them, and the next migrate goes on with them."
    )
