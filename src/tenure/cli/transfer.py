"""The part of `migrate` that moves whole queues to another server: the question, and what it prints."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any, Final

from tenure.app.app import Tenure
from tenure.cli.clean import lacking
from tenure.cli.errors import Exit, NotDone, note
from tenure.cli.input import sure
from tenure.cli.output.tables import answer
from tenure.cli.output.text import jobs_text
from tenure.client.connections import Connections
from tenure.core import limits, names
from tenure.core.job import State
from tenure.core.text import masked
from tenure.manage.moves import Server, check_servers, move_all
from tenure.manage.transfer import RECORDS, WAITING, Transfer, Transferred
from tenure.protocols.registry import ENTRIES, entry_of
from tenure.redis.url import Target

MOST_WAIT_S: Final = 7 * limits.DAY // limits.SECOND
SHOWN: Final = 3
"""How many ids or names a message has."""


@dataclass(frozen=True, slots=True)
class Way:
    """The options of the command. `wait`: in seconds."""

    dry_run: bool
    wait: float
    yes: bool
    as_json: bool


def transfer(app: Tenure, to_url: str, queue: str | None, to: str | None, way: Way) -> Exit:
    """Move one queue, or all, to the server of `to_url`. Raises `NotDone`, and `UserError` for a protocol without."""
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
        moves = {name: Transfer(here.side(name), there.side(other), there.settings.durable) for name, other in pairs}
        for move in moves.values():
            move.check()
        counts = {name: move.left() for name, move in moves.items()}
        place = f"{Target.parse(to_url)!s}, namespace {settings.namespace!r}"
        if not way.dry_run:
            total = sum(sum(one.get(state, 0) for state in WAITING) for one in counts.values())
            of = f"queue {queues[0]!r}" if len(queues) == 1 else f"{len(queues):,} queues"
            question = f"Move {jobs_text(total)} of {of} to {place}?"
            why = f"It moves every waiting job, {total:,} at present"
            sure(question, yes=way.yes, why=why, undone="Nothing was moved.")
            move_all(moves, way.wait)
        return _report(moves, counts, place, way)


def _report(moves: dict[str, Transfer], counts: dict[str, dict[State, int]], place: str, way: Way) -> Exit:
    rows: list[dict[str, Any]] = []
    is_over = True
    for queue, move in moves.items():
        done = move.done
        left = counts[queue] if way.dry_run else done.left
        is_over = is_over and done.is_over
        text = f"Queue {queue!r}: {_will(left)}." if way.dry_run else f"Queue {queue!r}: {_did(done)} to {place}."
        row = {
            "queue": queue,
            "moved": done.jobs,
            "left": {state.value: n for state, n in left.items()},
            "there": done.there,
            "schedules": done.schedules,
            "kept_schedules": done.kept_schedules,
        }
        rows.append(row)
        if not way.as_json:
            answer(False, row, text)
            _note_rest(done, queue, left, way)
    if way.as_json:
        answer(True, {"dry_run": way.dry_run, "queues": rows}, "")
    return Exit.OK if is_over or not way.wait else Exit.FAILED


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


def _note_rest(done: Transferred, queue: str, left: dict[State, int], way: Way) -> None:
    held = left.get(State.ACTIVE, 0)
    if held:
        note(f"Left: {held:,} held by workers of the source. Run the command again when they have ended.")
    others = {state: n for state, n in left.items() if state is not State.ACTIVE}
    if others and not way.dry_run:
        note("Left: " + ", ".join(f"{n:,} {state.value}" for state, n in others.items()) + ". Run the command again.")
    if done.there:
        note(
            f"Jobs with the ids of {jobs_text(len(done.there))} are there already, so these were not added again: "
            f"{', '.join(map(repr, done.there[:SHOWN]))}{' and others' if len(done.there) > SHOWN else ''}."
        )
    if done.kept_schedules:
        note(
            f"The destination has other definitions of these schedules of queue {queue!r}; the source's stay "
            f"there, paused: {', '.join(map(repr, done.kept_schedules[:SHOWN]))}."
        )
