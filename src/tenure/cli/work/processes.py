"""Runs the parent process of `tenure worker` and `tenure dev`, and makes the command line of its workers."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext

import click
from click.core import ParameterSource

from tenure.bootstrap import command_of
from tenure.cli.logs import log_in_thread
from tenure.processes.config import ParentConfig
from tenure.processes.reload import check_reload
from tenure.processes.spawn import FirstProcess, spawn_first


def run_parent(config: ParentConfig, around: AbstractAsyncContextManager[None] | None = None) -> int:
    """Run a parent process to its end. Returns its exit status. `around`: is entered and left on its event loop."""
    if config.metrics is not None:
        from tenure.metrics.exposition import check_prometheus

        check_prometheus()
    if config.watched is not None:
        check_reload()
        logging.getLogger("watchfiles").setLevel(logging.WARNING)  # restart_started has the same and more
    logging.getLogger("tenure.redis").propagate = False  # the workers log the same of their own connections
    end_log = log_in_thread()
    try:
        # A port that is in use ends the command before any process starts; with `steer` none may be wanted.
        has_port = config.outlets.address is not None or config.metrics is not None
        first = None if has_port or config.steer is not None else spawn_first(config)
        # Imported here: the first process starts at the same time.
        import asyncio

        status = asyncio.run(_run(config, first, around or nullcontext()))
    finally:
        is_written = end_log()
    if not is_written:
        os._exit(status)
    gc.freeze()  # nothing here needs the collector, which would go through all objects at the exit
    return status


async def _run(config: ParentConfig, first: FirstProcess | None, around: AbstractAsyncContextManager[None]) -> int:
    from tenure.processes.parent import Parent

    async with around:
        return await Parent(config, first).run()


def worker_command(arguments: Sequence[str], first: Sequence[str] = ("--banner",)) -> Callable[[int], Sequence[str]]:
    """Return the command line of a worker process, given the descriptor of the socket to its parent.

    `first`: options of the first process, which shows the banner.
    """
    left = list(first)

    def command(descriptor: int) -> Sequence[str]:
        return command_of("tenure", "worker", f"--parent={descriptor}", *(left.pop() for _ in left[:]), *arguments)

    return command


def arguments_of(context: click.Context, leave_out: frozenset[str]) -> list[str]:
    """Return the arguments of a command as they were given, without some options."""
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
            words.append(max(param.opts if value else param.secondary_opts, key=len))
        else:
            words += [f"{max(param.opts, key=len)}={one}" for one in (value if param.multiple else [value])]
    return [*words, "--", *plain]
