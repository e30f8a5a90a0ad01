"""The `quiet` command: a worker that is to start nothing new, or to go on."""

from __future__ import annotations

import difflib
import shlex

import click

from leasehold.cli.completion import worker_names
from leasehold.cli.errors import NotDone, safe
from leasehold.cli.output.jobs import dump
from leasehold.cli.reach import Where, reach, reaching


@click.command()
@click.argument("worker", shell_complete=worker_names)
@click.option("--undo", is_flag=True, help="Let a quiet worker start jobs again.")
@reaching
def quiet(worker: str, undo: bool, where: Where, as_json: bool) -> None:
    """Let a worker finish what it runs and start nothing new.

    WORKER is a name as `leasehold info` shows it. The process goes on, so it can be looked at, and is ended with
    SIGTERM whenever that suits.

    Exit status: 0 the worker is told; 1 there is no such worker, or Redis could not be reached; 2 the command line or a
    setting is wrong.
    """
    with reach(where) as app:
        done = app.control.unquiet(worker) if undo else app.control.quiet(worker)
        if not done:
            if as_json:
                click.echo(dump({"worker": worker, "quiet": None}))
            near = difflib.get_close_matches(worker, [view.id for view in app.inspect.workers()], 1)
            meant = f"Did you mean {near[0]!r}?" if near else "`leasehold info` shows those that there are."
            raise NotDone(f"There is no worker {worker!r}. {meant}")
    if as_json:
        click.echo(dump({"worker": worker, "quiet": not undo}))
    elif undo:
        click.echo(safe(f"Worker {worker!r} starts jobs again."))
    else:
        undone = f"leasehold quiet {shlex.quote(worker)} --undo"
        click.echo(safe(f"Worker {worker!r} starts nothing new. To undo: {undone}"))
