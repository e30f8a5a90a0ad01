"""The commands for queues with clients of other programs: `clean` and `monitor`."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Final

import click

from tenure.app.app import Tenure
from tenure.cli.completion import queue_names
from tenure.cli.errors import UserError, note, safe
from tenure.cli.output.tables import Answer
from tenure.cli.output.text import jobs_text
from tenure.cli.reach import ANY_QUEUE, reaching, unknown
from tenure.cli.stop import stopped_by_signals
from tenure.cli.units import Duration
from tenure.client.connections import Connections
from tenure.core import limits, names
from tenure.core.engine import FullEngine, Maintained
from tenure.core.errors import Unreachable
from tenure.core.job import State
from tenure.core.values import as_dict
from tenure.manage.cleaning import clean as clean_queue
from tenure.protocols.registry import ENTRIES, engine_for, entry_of, parse_protocol
from tenure.protocols.spec import ProtocolEntry
from tenure.protocols.text import with_timeout

ROUNDS_MAX: Final = 100
"""Calls of one round on a queue. The next round continues."""


@ANY_QUEUE
@click.option("--deep", is_flag=True, help="Also check all items for those that are in no list.")
@click.option(
    "--grace", type=Duration(0, limits.DAY / limits.SECOND), metavar="DURATION",
    help="How long an item must be without a lease; 0: return it at first sight. [default: 5, or the protocol's]",
)  # fmt: skip
@click.option("--payloads", is_flag=True, help="Instead delete large payloads that no job names, after a day.")
@reaching(streams=True)
def clean(queue: str | None, deep: bool, grace: float | None, payloads: bool, app: Tenure, as_json: bool) -> Answer:
    """\b
    tenure clean default --protocol redis-work-queue:jobs
    tenure clean default --deep --protocol redis-work-queue:jobs
    tenure clean --payloads --app shop:app

    For queues without a Tenure worker; Tenure workers do this by themselves. Run it about every minute, and with
    --deep every ten. If there are items without a lease, the command waits for the grace and looks again: those that
    still have none return to the queue. So no item is taken from a client that is about to lease it. Ids without an
    item are dropped. The steps are short and do not block Redis, however long the lists are. Several runs at a time are
    safe.

    With --payloads: for an app with Tenure(large=...). A job deletes its payload when it completes. This command
    deletes those that crashes, discarded and expired jobs left, a day after they were stored. Run it once a day.
    Payloads of queues that this Redis does not know stay.
    """
    if payloads:
        return _clean_payloads(app)
    if queue is None:
        raise click.UsageError("Missing argument 'QUEUE', or the option --payloads.")
    make = entry_of(app.engine).cleaning
    if make is None:
        raise lacking(app, "tenure clean", [one for one in ENTRIES if one.cleaning is not None])
    again_ms = None if grace is None else names.duration_ms(grace, "--grace", least_ms=0, most_ms=limits.DAY)
    cleaning = make(app.engine, again_ms)

    def waits(count: int) -> None:
        if not as_json:
            again_s = cleaning.again_ms / limits.SECOND
            note(f"Without a lease, or in no list: {jobs_text(count)}. Looking again in {again_s:g} s.")

    with closing(Connections(app.settings)) as connections:
        done = connections.run(clean_queue(cleaning, queue, deep, waits))
    text = f"Queue {queue!r}: {done.looked:,} checked, {done.requeued:,} returned, {done.dropped:,} dropped."
    left = app.inspect.queue(queue).counts.get(State.ACTIVE, 0)
    hints = [f"Leased, or without a lease only since the last look: {jobs_text(left)}."] if left else []
    document = {"queue": queue, "deep": deep, **as_dict(done)}
    return Answer(document, text, hints=[*hints, *unknown(app, queue)])


def _clean_payloads(app: Tenure) -> Answer:
    counts = app.clean_payloads()
    text = f"Payloads: {counts['deleted']:,} deleted, {counts['used']:,} in use."
    stay = f"{counts['unknown']:,} belong to queues that this Redis does not know. They stay."
    return Answer(counts, text, hints=[stay] if counts["unknown"] else [])


def lacking(app: Tenure, command: str, entries: list[ProtocolEntry]) -> UserError:
    """Return the error for a command that the protocol in use lacks, and these protocols have."""
    known = " or ".join(entry.name for entry in entries)
    return UserError(
        f"{command} needs a queue of {known}, got the protocol {app.engine.name!r}. Set it, as in --protocol "
        f"{entries[0].words.example}."
    )


@click.argument("queues", metavar="QUEUE...", nargs=-1, required=True, shell_complete=queue_names)
@click.option(
    "--timeout",
    type=Duration(),
    metavar="DURATION",
    help="How long a job of another client may run, as their workers set it. [default: the protocol's]",
)
@click.option("--once", is_flag=True, help="Run one round, and end.")
@reaching(streams=True)
def monitor(queues: tuple[str, ...], timeout: float | None, once: bool, app: Tenure, as_json: bool) -> None:
    """\b
    tenure monitor default --protocol hworker:printer --timeout 600

    For queues that only workers of other languages serve. Every Tenure worker does this by itself. Any number of
    monitors may run. Give each the timeout of the workers: with a shorter one it returns jobs that still run. While
    Redis does not respond, the monitor waits. It prints a line for each round in which a job came back.

    Exit status: 0 stopped by a signal, or --once is done; 1 Redis could not be reached (--once); 2 the command line or
    a setting is wrong.
    """
    engine = app.engine
    if timeout is not None:
        protocol = parse_protocol(app.protocol) if isinstance(app.protocol, str) else app.protocol
        engine = engine_for(with_timeout(protocol, timeout), app.settings)
    if not entry_of(engine).has_foreign_clients:
        raise UserError(
            f"The protocol {engine.name!r} needs no monitor: its workers return the jobs of dead workers themselves. "
            "Start one with `tenure worker MODULE:APP`."
        )
    with stopped_by_signals() as stopped, closing(Connections(app.settings)) as connections:
        while not stopped.is_set():
            try:
                _round(engine, connections, queues, once, as_json)
            except Unreachable as error:
                if once:
                    raise
                note(str(error))
            if once:
                break
            stopped.wait(engine.timing.maintain_ms / limits.SECOND)


def _round(engine: FullEngine, connections: Connections, queues: tuple[str, ...], once: bool, as_json: bool) -> None:
    for queue in queues:
        done = _maintained(engine, connections, queue)
        if once or done.reclaimed or done.promoted:
            text = f"Queue {safe(queue)!r}: {jobs_text(done.reclaimed)} returned, {done.promoted:,} retries due."
            shown = {"queue": queue, "reclaimed": done.reclaimed, "promoted": done.promoted}
            Answer(shown, f"{time.strftime('%H:%M:%S')} {text}").print(as_json)


def _maintained(engine: FullEngine, connections: Connections, queue: str) -> Maintained:
    reclaimed = promoted = 0
    done = Maintained()
    for _ in range(ROUNDS_MAX):
        done = connections.run(engine.maintain((queue,), ()))
        reclaimed, promoted = reclaimed + done.reclaimed, promoted + done.promoted
        if not done.more:
            break
    return Maintained(promoted=promoted, reclaimed=reclaimed, more=done.more)
