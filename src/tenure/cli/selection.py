"""Options that select jobs by task, error and age."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import click

from tenure.cli.units import Age
from tenure.manage.search import Selection

F = TypeVar("F", bound=Callable[..., Any])


def selecting(command: F) -> F:
    """Add the options to a command, which gets `selection`."""

    @click.option("--lane", metavar="NAME", help="Only jobs of this lane; `jobs` lists ready ones in its order.")
    @click.option("--task", metavar="NAME", help="Only jobs of this task.")
    @click.option("--error", metavar="TYPE", help="Only jobs with a last error of this type, as in ConnectionError.")
    @click.option(
        "--older-than", type=Age(), metavar="AGE",
        help="Only jobs that ended, or else were enqueued, longer ago than AGE: 90s, 15m, 2h, 7d.",
    )  # fmt: skip
    @click.option("--newer-than", type=Age(), metavar="AGE", help="The same, for jobs less long ago.")
    @wraps(command)
    def run(
        *args: Any,
        task: str | None,
        error: str | None,
        older_than: float | None,
        newer_than: float | None,
        lane: str | None,
        **others: Any,
    ) -> Any:
        return command(*args, selection=Selection(task, error, older_than, newer_than, lane), **others)

    return run  # type: ignore[return-value]
