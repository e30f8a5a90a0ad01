"""Confirmation of changes to many jobs: a person answers yes, a program passes `--yes`."""

from __future__ import annotations

import sys

import click

from leasehold.cli.errors import NotDone, UserError, safe


def sure(question: str, *, yes: bool, why: str, undone: str) -> None:
    """Continue only after a confirmation.

        sure("Remove 7 failed jobs of queue 'emails'?", yes=yes, why="It removes jobs for good", undone="...")

    `yes`: given on the command line. `why`: the reason in the error for a program without `--yes`. `undone`: the
    message after a no. The question is empty if there is nothing to change; a program without `--yes` fails even then,
    so that it does not work only sometimes. Raises `UserError` without a terminal, `NotDone` after a no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UserError(f"{why}. Without a terminal to ask at, pass --yes.")
    if question and not click.confirm(safe(question), err=True):
        raise NotDone(undone)


def jobs_text(count: int) -> str:
    """Format a number of jobs.

    >>> jobs_text(1), jobs_text(1_200)
    ('1 job', '1,200 jobs')
    """
    return "1 job" if count == 1 else f"{count:,} jobs"
