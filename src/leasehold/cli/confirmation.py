"""Asks before many jobs are changed at once: a person has to say yes, a program has to have said `--yes`."""

from __future__ import annotations

import sys

import click

from leasehold.cli.errors import NotDone, UserError, safe


def sure(question: str, *, yes: bool, why: str, undone: str) -> None:
    """Go on only if it is meant.

        sure("Remove 7 failed jobs of queue 'emails'?", yes=yes, why="It removes jobs for good", undone="...")

    `yes`: it was said on the command line. `why` is for a program that did not say so, `undone` for who says no. Where
    there is nothing to change, the question is empty: a program is told all the same, lest it works only at times.
    Raises `UserError` without a terminal, `NotDone` when the answer is no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UserError(f"{why}; expected --yes, as there is no terminal to ask at.")
    if question and not click.confirm(safe(question), err=True):
        raise NotDone(undone)


def jobs_text(count: int) -> str:
    """A number of jobs in words.

    >>> jobs_text(1), jobs_text(1_200)
    ('1 job', '1,200 jobs')
    """
    return "1 job" if count == 1 else f"{count:,} jobs"
