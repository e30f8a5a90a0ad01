"""The `quiet` command: asks a worker to start no jobs, or to continue."""

from __future__ import annotations

from shlex import quote

import click

from leasehold.app.app import Leasehold
from leasehold.cli.completion import worker_names
from leasehold.cli.errors import NotDone, did_you_mean
from leasehold.cli.output.tables import answer
from leasehold.cli.reach import reaching


@click.command()
@click.argument("worker", shell_complete=worker_names)
@click.option("--undo", is_flag=True, help="Let a quiet worker start jobs again.")
@reaching()
def quiet(worker: str, undo: bool, app: Leasehold, as_json: bool) -> None:
    """Let a worker finish its running jobs and start no others.

    WORKER is a name as `leasehold info` shows it. The process stays, so you can inspect it, until you stop it with
    SIGTERM.

    Exit status: 0 the worker was notified; 1 there is no such worker, or Redis could not be reached; 2 the command
    line or a setting is wrong.
    """
    text = f"Worker {worker!r} starts no more jobs. To undo: leasehold quiet {quote(worker)} --undo"
    if undo:
        text = f"Worker {worker!r} starts jobs again."
    done = app.control.unquiet(worker) if undo else app.control.quiet(worker)
    answer(as_json, {"worker": worker, "quiet": not undo if done else None}, text if done else None)
    if not done:
        meant = did_you_mean(worker, [view.id for view in app.inspect.workers()])
        raise NotDone(f"There is no worker {worker!r}.{meant or ' `leasehold info` lists the workers.'}")
