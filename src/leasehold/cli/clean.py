"""The `clean` command: puts back what workers of other languages left between two lists when they died."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import click

from leasehold.app.app import Leasehold
from leasehold.cli.completion import queue_names
from leasehold.cli.confirmation import jobs_text
from leasehold.cli.errors import UserError, note, safe
from leasehold.cli.output.jobs import dump
from leasehold.cli.reach import Where, note_unknown, reach, reaching
from leasehold.client.connections import Connections
from leasehold.core import limits
from leasehold.core.job import State
from leasehold.protocols.registry import ENTRIES, entry_of
from leasehold.protocols.spec import ProtocolEntry


@click.command()
@click.argument("queue", shell_complete=queue_names)
@click.option("--deep", is_flag=True, help="Look at all items, too, for those that are in no list.")
@reaching
def clean(queue: str, deep: bool, where: Where, as_json: bool) -> None:
    """Put back what workers left in a queue of redis-work-queue when they died.

    \b
    leasehold clean default --protocol redis-work-queue:jobs
    leasehold clean default --deep --protocol redis-work-queue:jobs

    For queues on which only clients of other languages work: workers of Leasehold do this by themselves. Run it every
    minute or so, and with --deep every ten. What nobody holds is put back when it was seen like this twice, a minute
    apart, so that nothing is taken from a client that is about to lease it; ids without an item are dropped. Steps are
    short: Redis is not held up, however long the lists are. Any number of them may run at one time.

    Exit status: 0 done; 1 Redis could not be reached; 2 the command line or a setting is wrong.
    """
    with reach(where) as app:
        entry = entry_of(app.engine)
        if entry.cleaning is None:
            raise lacking(app, "leasehold clean", [one for one in ENTRIES if one.cleaning is not None])
        cleaning = entry.cleaning(app.engine)
        with closing(Connections(app.settings)) as connections:
            done = connections.run(cleaning.run(queue, deep))
        if as_json:
            counts = {"looked": done.looked, "requeued": done.requeued, "dropped": done.dropped, "noted": done.noted}
            click.echo(dump({"queue": queue, "deep": deep, **counts}))
            return
        did = f"{done.looked:,} looked at, {done.requeued:,} put back, {done.dropped:,} dropped"
        click.echo(safe(f"Queue {queue!r}: {did}."))
        left = app.inspect.queue(queue).counts.get(State.ACTIVE, 0) + done.noted
        if left:
            minute = cleaning.again_ms / limits.SECOND
            note(
                f"Still there: {jobs_text(left)}, held or abandoned. What a clean finds without a holder is put "
                f"back by one that comes {minute:g} s later."
            )
        note_unknown(app, queue)


def lacking(app: Leasehold, command: str, entries: Sequence[ProtocolEntry]) -> UserError:
    """The error for a command that the protocol in use does not offer, and these do."""
    known = " or ".join(entry.name for entry in entries)
    return UserError(
        f"{command} is for queues of {known}, and the protocol in use is {app.engine.name!r}. Say which they are, as "
        f"in --protocol {entries[0].words.example}."
    )
