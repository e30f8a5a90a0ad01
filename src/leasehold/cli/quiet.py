"""The `quiet` command: asks a worker to start no jobs, or to continue."""

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
    """Let a worker finish its running jobs and start no others.

    WORKER is a name as `leasehold info` shows it. The process stays, so you can inspect it, until you stop it with
    SIGTERM.

    Exit status: 0 the worker was notified; 1 there is no such worker, or Redis could not be reached; 2 the command
    line or a setting is wrong.
    """
    with reach(where) as app:
        done = app.control.unquiet(worker) if undo else app.control.quiet(worker)
        if not done:
            if as_json:
                click.echo(dump({"worker": worker, "quiet": None}))
            near = difflib.get_close_matches(worker, [view.id for view in app.inspect.workers()], 1)
            meant = f"Did you mean {near[0]!r}?" if near else "`leasehold info` lists the workers."
            raise NotDone(f"There is no worker {worker!r}. {meant}")
    if as_json:
        click.echo(dump({"worker": worker, "quiet": not undo}))
    elif undo:
        click.echo(safe(f"Worker {worker!r} starts jobs again."))
    else:
        undone = f"leasehold quiet {shlex.quote(worker)} --undo"
        click.echo(safe(f"Worker {worker!r} starts no more jobs. To undo: {undone}"))
