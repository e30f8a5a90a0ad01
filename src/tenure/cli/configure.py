"""The `configure` command: what is set for a queue as a whole."""

from __future__ import annotations

import click

from tenure.app.app import Tenure
from tenure.cli.completion import queue_names
from tenure.cli.output.overview import settings_table
from tenure.cli.output.tables import answer
from tenure.cli.reach import note_unknown, reaching
from tenure.core import limits
from tenure.core.partitions import MAX_PARTITIONS
from tenure.core.shape import LaneFailure
from tenure.manage.documents import settings_document


@click.command()
@click.argument("queue", shell_complete=queue_names)
@click.option(
    "--max-length", type=click.IntRange(0, limits.MAX_QUEUE_LENGTH), metavar="N",
    help="The most jobs that have not ended; the queue refuses further ones. 0: no limit.",
)  # fmt: skip
@click.option(
    "--lane-failure", type=click.Choice([rule.value for rule in LaneFailure]),
    help="What happens to a lane when one of its jobs fails for good. skip: it continues; block: it waits until you "
    "retry or discard the job; park: it is parked until `tenure resume QUEUE --lane NAME`.",
)  # fmt: skip
@click.option(
    "--partitions", type=click.IntRange(1, MAX_PARTITIONS), metavar="N",
    help="Spread the queue over N slots of a cluster. Workers move what has to move while work continues; `tenure "
    "info QUEUE` shows what is left.",
)  # fmt: skip
@reaching()
def configure(
    queue: str, max_length: int | None, lane_failure: str | None, partitions: int | None, app: Tenure, as_json: bool
) -> None:
    """Set the maximum length of a queue, its number of partitions, and what a failed job does to its lane.

    Without options it only shows the settings. They are stored in Redis and apply to every worker and client.

    Exit status: 0 done; 1 Redis could not be reached; 2 the command line or a setting is wrong.
    """
    note_unknown(app, queue)  # before a change, which adds the queue to the list
    if max_length is not None or lane_failure is not None or partitions is not None:
        app.control.configure(queue, max_length=max_length, lane_failure=lane_failure, partitions=partitions)
    view = app.inspect.queue(queue)
    answer(as_json, settings_document(view), [settings_table(view)])
