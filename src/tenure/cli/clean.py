"""The `clean` command: returns items of dead workers of other languages to their queue."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict

import click

from tenure.app.app import Tenure
from tenure.cli.completion import queue_names
from tenure.cli.errors import UserError, note
from tenure.cli.output.tables import answer
from tenure.cli.output.text import jobs_text
from tenure.cli.reach import note_unknown, reaching
from tenure.cli.units import Duration
from tenure.client.connections import Connections
from tenure.core import limits, names
from tenure.core.job import State
from tenure.manage.cleaning import clean as clean_queue
from tenure.protocols.registry import ENTRIES, entry_of
from tenure.protocols.spec import ProtocolEntry


@click.command()
@click.argument("queue", required=False, shell_complete=queue_names)
@click.option("--deep", is_flag=True, help="Also check all items for those that are in no list.")
@click.option(
    "--grace", type=Duration(0, limits.DAY / limits.SECOND), metavar="DURATION",
    help="How long an item must be without a lease; 0: return it at first sight. [default: 5, or the protocol's]",
)  # fmt: skip
@click.option("--payloads", is_flag=True, help="Instead delete large payloads that no job names, after a day.")
@reaching()
def clean(queue: str | None, deep: bool, grace: float | None, payloads: bool, app: Tenure, as_json: bool) -> None:
    """Return the items of dead workers to a queue of redis-work-queue, or delete unused large payloads.

    \b
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

    Exit status: 0 done; 1 Redis could not be reached; 2 the command line or a setting is wrong.
    """
    if payloads:
        _clean_payloads(app, as_json)
        return
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
    answer(as_json, {"queue": queue, "deep": deep, **asdict(done)}, text)
    if as_json:
        return
    if left := app.inspect.queue(queue).counts.get(State.ACTIVE, 0):
        note(f"Leased, or without a lease only since the last look: {jobs_text(left)}.")
    note_unknown(app, queue)


def _clean_payloads(app: Tenure, as_json: bool) -> None:
    counts = app.clean_payloads()
    text = f"Payloads: {counts['deleted']:,} deleted, {counts['used']:,} in use."
    answer(as_json, counts, text)
    if counts["unknown"] and not as_json:
        note(f"{counts['unknown']:,} belong to queues that this Redis does not know. They stay.")


def lacking(app: Tenure, command: str, entries: list[ProtocolEntry]) -> UserError:
    """Return the error for a command that the protocol in use lacks, and these protocols have."""
    known = " or ".join(entry.name for entry in entries)
    return UserError(
        f"{command} needs a queue of {known}, got the protocol {app.engine.name!r}. Set it, as in --protocol "
        f"{entries[0].words.example}."
    )
