"""The `quiet` command: asks a worker to start no jobs, or to continue."""

from __future__ import annotations

from shlex import quote

import click

from tenure.app.app import Tenure
from tenure.cli.completion import worker_names
from tenure.cli.errors import NotDone
from tenure.cli.output.tables import answer
from tenure.cli.reach import reaching
from tenure.core.hints import did_you_mean


@click.command()
@click.argument("worker", shell_complete=worker_names)
@click.option("--undo", is_flag=True, help="Let a quiet worker start jobs again.")
@reaching()
def quiet(worker: str, undo: bool, app: Tenure, as_json: bool) -> None:
    """Let a worker finish its running jobs and start no others.

    WORKER is a name as `tenure info` shows it. The process stays, so you can inspect it, until you stop it with
    SIGTERM.

    Exit status: 0 the worker was notified; 1 there is no such worker, or Redis could not be reached; 2 the command
    line or a setting is wrong.
    """
    text = f"Worker {worker!r} starts no more jobs. To undo: tenure quiet {quote(worker)} --undo"
    if undo:
        text = f"Worker {worker!r} starts jobs again."
    done = app.control.unquiet(worker) if undo else app.control.quiet(worker)
    answer(as_json, {"worker": worker, "quiet": not undo if done else None}, text if done else None)
    if not done:
        meant = did_you_mean(worker, [view.id for view in app.inspect.workers()])
        raise NotDone(f"There is no worker {worker!r}.{meant or ' `tenure info` lists the workers.'}")
