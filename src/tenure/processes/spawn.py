"""Starts worker processes. It imports little, not even asyncio: the first one starts before its parent is loaded."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from msgspec import Struct

from tenure.processes.config import ParentConfig


class Spawned(Struct, frozen=True):
    """A worker process, and its parent's end of the socket to it."""

    process: subprocess.Popen[bytes]
    socket: socket.socket


@dataclass(slots=True)
class FirstProcess:
    """The first worker process of a parent, and the signals that came until the parent handles them.

    `numbers`: the signals that a parent handles. `spawned` None: the system could not start a process.
    """

    numbers: Sequence[signal.Signals]
    spawned: Spawned | None = None
    received: list[signal.Signals] = field(default_factory=list)


def spawn(command: Callable[[int], Sequence[str]], *, is_alone: bool) -> Spawned:
    """Start a process with the command for this descriptor of its socket. `is_alone`: it gets the stdin of its parent.

    Raises `OSError` when the system cannot start a process.
    """
    ours, theirs = socket.socketpair()
    try:
        stdin = None if is_alone else subprocess.DEVNULL
        process = subprocess.Popen(command(theirs.fileno()), stdin=stdin, pass_fds=(theirs.fileno(),))  # noqa: S603
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return Spawned(process, ours)


def spawn_first(config: ParentConfig) -> FirstProcess:
    """Start the first process of a parent, and note the signals that come before the parent handles them itself."""
    first = FirstProcess(handled_signals())
    for number in first.numbers:
        signal.signal(number, lambda number, _: first.received.append(signal.Signals(number)))
    with suppress(OSError):  # the parent logs it, and tries again
        first.spawned = spawn(config.command, is_alone=config.processes == 1)
    return first


def handled_signals() -> list[signal.Signals]:
    """Return the signals that a parent handles."""
    numbers = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # not with nohup
        numbers.append(signal.SIGHUP)
    return numbers
