"""Follows one job until it has ended: a line for each change in a pipe, a live view on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from tenure.app.app import Tenure
from tenure.cli.errors import Exit, safe
from tenure.cli.output import jobs
from tenure.cli.output.text import amount
from tenure.core import limits
from tenure.core.errors import JobNotFound
from tenure.core.job import JobView, State
from tenure.core.values import replace
from tenure.manage.documents import JobDetail, encoded, job_document

if TYPE_CHECKING:
    from rich.console import Group


def watch(app: Tenure, queue: str, job_id: str, *, parts: JobDetail, as_json: bool) -> Exit:
    """Show a job until it has ended. Returns OK if it completed, FAILED otherwise.

    Raises `JobNotFound`, also if the job is gone and has no record.
    """
    views = app.queue(queue).job(job_id).watch()
    live = sys.stdout.isatty() and not as_json
    last: JobView | None = None
    for last in _drawn(views) if live else views:
        if as_json:
            click.echo(encoded(job_document(last, parts), lines=False))
        elif not live:
            click.echo(_line(last))
    if last is None:
        raise JobNotFound(f"There is no job {job_id!r} in queue {queue!r}, or its record has expired.")
    if live:
        click.echo(jobs.describe(last, _now_ms(), parts))
    if not last.state.ended:
        raise JobNotFound(f"Job {job_id!r} is no longer in queue {queue!r}, and no record says how it ended.")
    return Exit.OK if last.state is State.COMPLETED else Exit.FAILED


def _line(view: JobView) -> str:
    """Format the changes of a job in one line."""
    parts = [time.strftime("%H:%M:%S"), view.state.value]
    if view.progress is not None:
        parts += [amount(view.progress.current, view.progress.total), view.progress.text]
    if view.cancelling is not None:
        parts.append(f"(asked to end: {view.cancelling})" if view.cancelling else "(asked to end)")
    if view.error is not None:
        parts.append(jobs.error_text(view.error))
    return safe(" ".join(" ".join(parts).split()))


def _drawn(views: Iterator[JobView]) -> Iterator[JobView]:
    """Show a live view of the job; it leaves the screen when the job has ended."""
    from rich.live import Live

    last: JobView | None = None
    with Live(get_renderable=lambda: "" if last is None else _picture(last), transient=True) as screen:
        for last in views:
            screen.refresh()
            yield last


def _picture(view: JobView) -> Group:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    if view.error is not None:
        # The traceback of an earlier attempt would push the news off the screen.
        view = replace(view, error=replace(view.error, traceback=""))
    # Text, not markup: names and texts of jobs may contain brackets.
    text = Text(jobs.describe(view, _now_ms()))
    progress = view.progress
    if progress is None or not progress.total or not 0 <= progress.current <= progress.total:
        return Group(text)
    return Group(text, ProgressBar(total=progress.total, completed=progress.current, width=60))


def _now_ms() -> float:
    return time.time() * limits.SECOND
