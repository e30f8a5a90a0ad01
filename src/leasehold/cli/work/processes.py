"""The options of `leasehold worker` that are about its processes, and its parent process."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource

from leasehold.bootstrap import command_of
from leasehold.cli.logs import log_in_thread
from leasehold.processes.health import HealthOutputs
from leasehold.processes.parent import Parent
from leasehold.processes.reload import check_reload
from leasehold.processes.slots import ParentConfig

MAX_RECYCLE_JOBS: Final = 1_000_000_000
MAX_RECYCLE_MB: Final = 1_048_576
MAX_PROCESSES: Final = 256
"""Worker processes of one parent."""

F = TypeVar("F", bound=Callable[..., Any])
_OF_PARENT: Final = frozenset({"processes", "reload", "health_file", "health_port", "parent"})
"""Options that the parent does not pass on to its worker processes."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """The options. `parent`: this process is a worker, and this descriptor is its socket to its parent."""

    processes: int
    reload: bool
    max_jobs: int | None
    max_memory: int | None
    outlets: HealthOutputs
    parent: int | None = None


def fleet_options(command: F) -> F:
    """The options; the command gets them as `fleet`."""

    @functools.wraps(command)
    def with_fleet(
        *args: Any, health_file: str | None, health_port: str | None, parent: int | None, **others: Any
    ) -> Any:
        outlets = HealthOutputs.of(health_file, health_port)
        own = {name: others.pop(name) for name in ("processes", "reload", "max_jobs", "max_memory")}
        return command(*args, fleet=Fleet(**own, outlets=outlets, parent=parent), **others)

    wrapped: Any = with_fleet
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[no-any-return]


_OPTIONS: Final = (
    click.option(
        "--processes", type=click.IntRange(1, MAX_PROCESSES), default=1, metavar="N", show_default=True,
        help="Run so many worker processes, each with --concurrency slots. One that dies is replaced at once.",
    ),
    click.option(
        "--max-jobs", type=click.IntRange(1, MAX_RECYCLE_JOBS), metavar="N",
        help="Replace a process after about N jobs. It finishes what it runs, while the next one works already.",
    ),
    click.option(
        "--max-memory", type=click.IntRange(1, MAX_RECYCLE_MB), metavar="MB",
        help="Replace a process that has grown larger than this, in the same way.",
    ),
    click.option(
        "--reload", is_flag=True,
        help="Start anew when *.py files below the current directory change. Needs `pip install 'leasehold[reload]'`.",
    ),
    click.option("--health-file", metavar="PATH", help="Write how the worker is to this file every second, as JSON."),
    click.option(
        "--health-port", metavar="[HOST:]PORT",
        help="Answer GET /live and /ready with 200 or 503. The host is 127.0.0.1 unless it is said.",
    ),
    click.option("--parent", type=int, hidden=True),
)  # fmt: skip


def run_fleet(context: click.Context, fleet: Fleet, grace_s: float, burst: bool) -> int:
    """Run this same command in worker processes, as their parent. Answers the exit status."""
    watched = os.getcwd() if fleet.reload else None
    command = worker_command(arguments_of(context, _OF_PARENT))
    return run_parent(ParentConfig(command, fleet.processes, grace_s, burst, watched, fleet.outlets))


def run_parent(config: ParentConfig) -> int:
    """Run a parent process to its end."""
    if config.watched is not None:
        check_reload()
        logging.getLogger("watchfiles").setLevel(logging.WARNING)  # it says less than we do
    logging.getLogger("leasehold.redis").propagate = False  # the workers log the same of their own connections
    end_log = log_in_thread()
    try:
        status = asyncio.run(Parent(config).run())
    finally:
        is_written = end_log()
    if not is_written:
        os._exit(status)
    return status


def worker_command(arguments: Sequence[str]) -> Callable[[int], Sequence[str]]:
    """The command line of a worker process with these arguments, for each descriptor of a socket to its parent."""
    return lambda descriptor: command_of("leasehold", "worker", f"--parent={descriptor}", *arguments)


def arguments_of(context: click.Context, leave_out: frozenset[str]) -> list[str]:
    """The arguments that were given to a command, spelled anew, but for some."""
    words: list[str] = []
    plain: list[str] = []
    for param in context.command.params:
        name = param.name or ""
        if name in leave_out or context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        value = context.params[name]
        if not isinstance(param, click.Option):
            plain.append(str(value))
        elif param.is_flag:
            words.append(max(param.opts, key=len))
        else:
            words += [f"{max(param.opts, key=len)}={one}" for one in (value if param.multiple else [value])]
    return [*words, "--", *plain]
