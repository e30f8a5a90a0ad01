"""The part of `migrate` that moves whole queues to another server: checks of both sides, rounds, and what it prints."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from tenure.app.app import Tenure
from tenure.app.preflight import combined, fields_of, inspect_server, inspect_use
from tenure.cli.clean import lacking
from tenure.cli.errors import Exit, NotDone, note
from tenure.cli.input import sure
from tenure.cli.output.tables import answer
from tenure.cli.output.text import jobs_text
from tenure.client.connections import Connections
from tenure.client.transfer import RECORDS, WAITING, Side, Transfer, Transferred
from tenure.core import limits, names
from tenure.core.errors import AccessDenied, QueueFull, ReplyError, Unreachable
from tenure.core.job import State
from tenure.core.steps import Command, Steps
from tenure.core.text import masked
from tenure.protocols.registry import ENTRIES, entry_of, rights_of
from tenure.redis.url import Target, is_cluster

T = TypeVar("T")

MOST_WAIT_S: Final = 7 * limits.DAY // limits.SECOND
ROUND_S: Final = 1.0
"""How long `--wait` waits between two rounds."""
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
    patience = limits.START_PATIENCE_MS / limits.SECOND
    target = Tenure(
        url=to_url,
        namespace=settings.namespace,
        protocol=settings.protocol,
        patience=patience,
        durable=settings.durable,
    )
    with ExitStack() as stack:
        here, there = (stack.enter_context(closing(Connections(one.settings))) for one in (app, target))
        queues = [names.queue_name(queue)] if queue is not None else here.run(app.engine.queues())
        if not queues:
            note("The source has no queues, so nothing was moved.")
        pairs = [(name, (to and names.queue_name(to)) or name) for name in queues]
        _check_both(app, here, target, there, pairs)
        replicas = target.settings.durable
        moves = {name: Transfer(_side(app, here, name), _side(target, there, other), replicas) for name, other in pairs}
        for move in moves.values():
            move.check()
        counts = {name: move.left() for name, move in moves.items()}
        place = f"{Target.parse(to_url)!s}, namespace {settings.namespace!r}"
        if not way.dry_run:
            total = sum(sum(one.get(state, 0) for state in WAITING) for one in counts.values())
            question = f"Move {jobs_text(total)} of {_queues(queues)} to {place}?"
            why = f"It moves every waiting job, {total:,} at present"
            sure(question, yes=way.yes, why=why, undone="Nothing was moved.")
            _move_all(moves, way.wait)
        return _report(moves, counts, place, way)


def _side(app: Tenure, connections: Connections, queue: str) -> Side:
    make = entry_of(app.engine).transfer
    assert make is not None
    return Side(connections.run, app.engine, make(app.engine), queue)


def _queues(queues: list[str]) -> str:
    return f"queue {queues[0]!r}" if len(queues) == 1 else f"{len(queues):,} queues"


def _of_all(answers: list[tuple[str, T | Unreachable]]) -> list[tuple[str, T]]:
    """The answers. Raises `Unreachable` if a node is lost."""
    found: list[tuple[str, T]] = []
    for address, one in answers:
        if isinstance(one, Unreachable):
            raise one
        found.append((address, one))
    return found


def _check_both(
    app: Tenure, here: Connections, target: Tenure, there: Connections, pairs: list[tuple[str, str]]
) -> None:
    """Raise `NotDone` before anything has changed if one side cannot do its part."""
    clustered = is_cluster(target.settings.url)
    found = combined(_of_all(there.run_on_each(lambda: inspect_server(clustered))))
    more = there.run(inspect_use(rights_of(target.engine))) if found.is_usable else ()
    problems = [*found.errors, *(str(one) for one in more if one.level.value == "error")]
    missing = here.run(rights_of(app.engine).missing())
    if missing:
        problems.append(f"The user at the source lacks rights: {' '.join(missing)}.")
    ours, theirs = (dict(_of_all(one.run_on_each(_memory))) for one in (here, there))
    same = _ids(ours) & _ids(theirs) and Target.parse(app.settings.url).db == Target.parse(target.settings.url).db
    for queue, to in pairs:
        if same and app.engine.prefix(queue) == target.engine.prefix(to):
            problems.append("Both URLs are of the same server.")
            break
        for side, connections, name in ((app, here, queue), (target, there, to)):
            if connections.run(side.engine.layout_of(name)) > side.engine.layout:
                problems.append(f"A newer release has written to queue {name!r}: use its `tenure migrate`.")
    if problems:
        raise NotDone(f"Nothing was moved. {masked(' '.join(problems))}")
    _note_memory(ours, theirs)
    for warning in found.warnings:
        note(f"The destination: {masked(warning)}")


def _memory() -> Steps[dict[str, str]]:
    """The fields of INFO; none for a user who may not read it."""
    try:
        return fields_of((yield Command(("INFO",))))
    except (AccessDenied, ReplyError):
        return {}


def _ids(servers: dict[str, dict[str, str]]) -> set[str]:
    return {info["run_id"] for info in servers.values() if "run_id" in info}


def _note_memory(ours: dict[str, dict[str, str]], theirs: dict[str, dict[str, str]]) -> None:
    used = max((int(info.get("used_memory", 0)) for info in ours.values()), default=0)
    limited = [info for info in theirs.values() if info.get("maxmemory", "0") != "0"]
    free = min((int(info["maxmemory"]) - int(info.get("used_memory", 0)) for info in limited), default=used)
    if free < used:
        note(
            f"A server of the destination has {free / 2**20:,.0f} MB of memory left, and the source uses "
            f"{used / 2**20:,.0f} MB. When it is full, the command stops, and the rest stays at the source."
        )


def _move_all(moves: dict[str, Transfer], wait: float) -> None:
    """Move each queue, and those that are not over again until `wait` seconds have passed."""
    until = time.monotonic() + wait
    first = True
    while True:
        left = False
        for queue, move in moves.items():
            try:
                left = not move.run(first=first).is_over or left
            except QueueFull as error:
                raise NotDone(
                    f"Queue {queue!r}: {jobs_text(move.done.jobs)} moved; the others wait where they were, and the "
                    f"queue stays paused at the destination. {error} Then run the command again."
                ) from None
        first = False
        if not left or time.monotonic() >= until:
            return
        time.sleep(ROUND_S)


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
