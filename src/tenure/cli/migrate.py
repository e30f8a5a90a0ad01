"""The `migrate` command: moves waiting jobs to the native protocol, or whole queues to another server."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import Any, Final

import click

from tenure.app.app import Tenure
from tenure.cli.errors import Exit, NotDone, UserError, note
from tenure.cli.foreign import lacking
from tenure.cli.input import sure
from tenure.cli.output.tables import Answer
from tenure.cli.output.text import jobs_text
from tenure.cli.reach import ANY_QUEUE, reaching, unknown
from tenure.cli.units import Duration
from tenure.client.connections import Connections
from tenure.core import limits, names
from tenure.core.job import WAITING, State
from tenure.core.text import masked
from tenure.engines.kit.moving import Moved, MoveTarget, move_pages
from tenure.manage.moves import Server, check_servers, move_all
from tenure.manage.transfer import RECORDS, Transfer, Transferred
from tenure.protocols.registry import DEFAULT, ENTRIES, entry_of, parse_protocol, rights_of
from tenure.redis.url import Target

MOST_WAIT_S: Final = 7 * limits.DAY // limits.SECOND
SHOWN: Final = 3
"""How many ids or names a message has."""
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


@ANY_QUEUE
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
) -> Answer:
    """\b
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
    """
    if to_url is None:
        assert queue is not None, "see _check"
        return _between_protocols(app, queue, to, yes)
    return _to_server(app, to_url, queue, to, yes=yes, dry_run=dry_run, wait=wait)


def _between_protocols(app: Tenure, queue: str, to: str | None, yes: bool) -> Answer:
    to = queue if to is None else names.queue_name(to)
    make = entry_of(app.engine).migration
    if make is None:
        error = lacking(app, "tenure migrate", [one for one in ENTRIES if one.migration is not None])
        raise UserError(f"{error.message} To move a queue to another server, add --to-url URL.")
    source, target = make(app.engine), parse_protocol(DEFAULT).engine(app.settings)
    assert isinstance(target, MoveTarget), "the default protocol"
    there = f"queue {to!r} of the {DEFAULT} protocol, namespace {app.settings.namespace!r}"
    with closing(Connections(app.settings)) as connections:
        # Checked first: a script that is refused half-way is not undone.
        missing = connections.run(source.missing(queue)) + connections.run(rights_of(target).missing())
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
        moved, full = connections.run(move_pages(source, queue, target, to))
    if full is not None:
        text = f"{jobs_text(moved.count)} moved; the others wait where they were. {full} "
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
    text = f"Queue {queue!r}: {jobs_text(moved.count)} moved to {there}."
    notes = [] if moved.count else unknown(app, queue)
    hints = ["Left: " + ", ".join(f"{n:,} {_STAYING[state]}" for state, n in left.items()) + "."] if left else []
    return Answer(document, text, notes, hints, [_refusal(moved, queue, to)] if moved.refused or moved.unfit else [])


def _refusal(moved: Moved, queue: str, to: str) -> str:
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


def _to_server(
    app: Tenure, to_url: str, queue: str | None, to: str | None, *, yes: bool, dry_run: bool, wait: float
) -> Answer:
    """Move one queue, or all, to the server of `to_url`."""
    if entry_of(app.engine).transfer is None:
        raise lacking(app, "tenure migrate --to-url", [one for one in ENTRIES if one.transfer is not None])
    settings = app.settings
    here = Server(settings, app.engine, Connections(settings))
    there = Server.at(to_url, settings, limits.START_PATIENCE_MS / limits.SECOND)
    with ExitStack() as stack:
        for server in (here, there):
            stack.enter_context(closing(server.connections))
        queues = [names.queue_name(queue)] if queue is not None else here.connections.run(app.engine.queues())
        if not queues:
            note("The source has no queues, so nothing was moved.")
        pairs = [(name, (to and names.queue_name(to)) or name) for name in queues]
        checked = check_servers(here, there, pairs)
        if checked.problems:
            raise NotDone(f"Nothing was moved. {masked(' '.join(checked.problems))}")
        for warning in checked.warnings:
            note(masked(warning))
        moves = {name: Transfer(here.side(name), there.side(other)) for name, other in pairs}
        for move in moves.values():
            move.check()
        counts = {name: move.left() for name, move in moves.items()}
        place = f"{Target.parse(to_url)!s}, namespace {settings.namespace!r}"
        if not dry_run:
            total = sum(sum(one.get(state, 0) for state in WAITING) for one in counts.values())
            of = f"queue {queues[0]!r}" if len(queues) == 1 else f"{len(queues):,} queues"
            question = f"Move {jobs_text(total)} of {of} to {place}?"
            why = f"It moves every waiting job, {total:,} at present"
            sure(question, yes=yes, why=why, undone="Nothing was moved.")
            move_all(moves, wait)
    texts: list[str] = []
    rows: list[dict[str, Any]] = []
    hints: list[str] = []
    for name, move in moves.items():
        done = move.done
        left = counts[name] if dry_run else done.left
        texts.append(f"Queue {name!r}: {_will(left)}." if dry_run else f"Queue {name!r}: {_did(done)} to {place}.")
        rows.append(_row(name, done, left))
        hints += _rest(done, name, left, dry_run=dry_run)
    is_over = all(move.done.is_over for move in moves.values())
    status = Exit.OK if is_over or not wait else Exit.FAILED
    return Answer({"dry_run": dry_run, "queues": rows}, "\n".join(texts) or None, hints=hints, status=status)


def _row(queue: str, done: Transferred, left: dict[State, int]) -> dict[str, Any]:
    return {
        "queue": queue,
        "moved": done.jobs,
        "left": {state.value: n for state, n in left.items()},
        "there": done.there,
        "schedules": done.schedules,
        "kept_schedules": done.kept_schedules,
    }


def _did(done: Transferred) -> str:
    schedules = f" and {done.schedules:,} schedule{'' if done.schedules == 1 else 's'}" if done.schedules else ""
    return f"{jobs_text(done.jobs)}{schedules} moved"


def _will(left: dict[State, int]) -> str:
    moving = {state: n for state, n in left.items() if state in (*WAITING, *RECORDS)}
    return (
        ", ".join(f"{n:,} {state.value}" for state, n in moving.items()) + " would move"
        if moving
        else "nothing to move"
    )


def _rest(done: Transferred, queue: str, left: dict[State, int], *, dry_run: bool) -> list[str]:
    """Return notes on what stays."""
    notes = []
    if held := left.get(State.ACTIVE, 0):
        notes.append(f"Left: {held:,} held by workers of the source. Run the command again when they have ended.")
    others = ", ".join(f"{n:,} {state.value}" for state, n in left.items() if state is not State.ACTIVE)
    if others and not dry_run:
        notes.append(f"Left: {others}. Run the command again.")
    if done.there:
        notes.append(
            f"Jobs with the ids of {jobs_text(len(done.there))} are there already, so these were not added again: "
            f"{', '.join(map(repr, done.there[:SHOWN]))}{' and others' if len(done.there) > SHOWN else ''}."
        )
    if done.kept_schedules:
        notes.append(
            f"The destination has other definitions of these schedules of queue {queue!r}; the source's stay "
            f"there, paused: {', '.join(map(repr, done.kept_schedules[:SHOWN]))}."
        )
    return notes
