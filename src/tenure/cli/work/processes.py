"""Runs the parent process of `tenure worker` and `tenure dev`, and makes the command line of its workers."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
from collections.abc import Callable, Sequence

import click
from click.core import ParameterSource

from tenure.bootstrap import command_of
from tenure.cli.logs import log_in_thread
from tenure.core.errors import TenureError
from tenure.processes.config import ParentConfig
from tenure.processes.reload import check_reload
from tenure.processes.spawn import spawn_first


def run_parent(config: ParentConfig) -> int:
    """Run a parent process to its end. Returns its exit status."""
    if config.watched is not None:
        check_reload()
        logging.getLogger("watchfiles").setLevel(logging.WARNING)  # restart_started says more
    logging.getLogger("tenure.redis").propagate = False  # the workers log the same of their own connections
    end_log = log_in_thread()
    try:
        # A health port that is in use ends the command before any process starts.
        first = None if config.outlets.address is not None else spawn_first(config)
        # Imported here: the first process starts at the same time.
        import asyncio

        from tenure.processes.parent import Parent
        from tenure.protocols.registry import engine_for
        from tenure.settings import Settings

        with contextlib.suppress(TenureError):  # most apps use the protocol of the settings
            settings = Settings.load()
            engine_for(settings.protocol, settings)
        status = asyncio.run(Parent(config, first).run())
    finally:
        is_written = end_log()
    if not is_written:
        os._exit(status)
    gc.freeze()  # nothing here needs the collector, which would go through all objects at the exit
    return status


def worker_command(arguments: Sequence[str]) -> Callable[[int], Sequence[str]]:
    """Return the command line of a worker process, given the descriptor of the socket to its parent.

    The first process shows the banner.
    """
    first = ["--banner"]

    def command(descriptor: int) -> Sequence[str]:
        return command_of("tenure", "worker", f"--parent={descriptor}", *(first.pop() for _ in first[:]), *arguments)

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
