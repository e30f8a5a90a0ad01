"""The options of `leasehold worker` that are about its processes, and the supervisor that they ask for."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource

from leasehold.core import limits
from leasehold.processes.child import another_worker
from leasehold.processes.health import HealthOutputs
from leasehold.processes.link import SupervisorLink
from leasehold.processes.reload import check_reload
from leasehold.processes.slots import SupervisorConfig
from leasehold.processes.supervisor import Supervisor

MAX_PROCESSES: Final = 256
"""Worker processes of one supervisor."""

F = TypeVar("F", bound=Callable[..., Any])
_SUPERVISORS: Final = frozenset({"processes", "reload", "health_file", "health_port", "tether"})
"""Options that are the supervisor's own care, and not of the processes that it starts."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """What was said of the processes. `tether`: this process is one that a supervisor started."""

    processes: int
    reload: bool
    max_jobs: int | None
    max_memory: int | None
    outlets: HealthOutputs
    tether: int | None = None

    @property
    def supervised(self) -> bool:
        """Whether this process is to be a supervisor. Recycling needs one: who else would start the next?"""
        wanted = self.processes > 1 or self.reload or self.max_jobs is not None or self.max_memory is not None
        return wanted and self.tether is None


def fleet_options(command: F) -> F:
    """The options; the command gets them as `fleet`."""

    @functools.wraps(command)
    def with_fleet(
        *args: Any, health_file: str | None, health_port: str | None, tether: int | None, **others: Any
    ) -> Any:
        outlets = HealthOutputs.of(health_file, health_port)
        own = {name: others.pop(name) for name in ("processes", "reload", "max_jobs", "max_memory")}
        return command(*args, fleet=Fleet(**own, outlets=outlets, tether=tether), **others)

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
        "--max-jobs", type=click.IntRange(1, limits.MAX_RECYCLE_JOBS), metavar="N",
        help="Replace a process after about N jobs. It finishes what it runs, while the next one works already.",
    ),
    click.option(
        "--max-memory", type=click.IntRange(1, limits.MAX_RECYCLE_MB), metavar="MB",
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
    click.option("--tether", type=int, hidden=True),
)  # fmt: skip


def link_to_supervisor(fleet: Fleet) -> SupervisorLink | None:
    """The line to the supervisor, if this process is one of its. Orders are heard from now on."""
    if fleet.tether is None:
        return None
    # Closing the terminal is the supervisor's to answer. Not SIG_IGN: what handlers start would inherit it.
    signal.signal(signal.SIGHUP, lambda *_: None)
    tether = SupervisorLink(fleet.tether)
    tether.follow()
    return tether


def supervise(context: click.Context, fleet: Fleet, grace_s: float, burst: bool) -> int:
    """Run this same command in processes, and look after them. Answers the exit status."""
    plan = SupervisorConfig(
        worker_command(arguments_of(context, _SUPERVISORS)), fleet.processes, grace_s, burst, outlets=fleet.outlets
    )
    return run_plan(replace(plan, watched=os.getcwd() if fleet.reload else None))


def run_plan(plan: SupervisorConfig, embedded: Callable[[], None] = lambda: None) -> int:
    """Run a supervisor to its end."""
    if plan.watched is not None:
        check_reload()
        logging.getLogger("watchfiles").setLevel(logging.WARNING)  # it says less than we do
    return asyncio.run(Supervisor(plan, embedded=embedded).run())


def worker_command(arguments: Sequence[str]) -> Callable[[int], Sequence[str]]:
    """The command line of a `leasehold worker` with these arguments, for each tether."""

    def command(descriptor: int) -> Sequence[str]:
        words = ["worker", f"--tether={descriptor}", *arguments]
        return another_worker(words, sys.argv[1:], sys.orig_argv, sys.executable)

    return command


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
