"""Messages between a worker process and the process that keeps its leases: JSON, one line each, on one socket.

The worker sends `Orders` first, then `Holdings`, `StatusReport` and with metrics `Measured`, and `Goodbye` at its end.
Its parent sends `StopOrder`; the parent, or the worker's own keeper process, sends a `BeatReport` for every heartbeat,
and `CredentialsWanted`, to which the worker replies with `Credentials`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Final, Self

import msgspec
from msgspec import Struct

from tenure.core.engine import HeartbeatReply
from tenure.core.job import LeaseRef
from tenure.core.outcome import Cancelled, Failed, Retried
from tenure.metrics.counts import Measured
from tenure.processes.overdue import Timeouts
from tenure.processes.system import ProcessGroup
from tenure.protocols.spec import EngineSpec
from tenure.runtime.ports import Exclusive

LINE_MAX: Final = 32 * 1024 * 1024
"""Bytes of one message: every lease that a worker may hold on many queues, with the longest names."""
READ_BYTES: Final = 8 * 1024
"""Bytes of one read from the socket."""
UNSENT_MAX: Final = 1024 * 1024
"""Bytes that the other process has not read yet. Above this, messages that a later one replaces are left out."""


class WorkerState(StrEnum):
    """What a worker process is doing."""

    STARTING = "starting"
    RUNNING = "running"
    RETIRING = "retiring"
    """It will be recycled: it finishes its running jobs and starts no new ones."""
    STOPPING = "stopping"


class Orders(Struct, frozen=True, tag=True):
    """Which leases to keep: all of `worker` on `queues`. `pid`: the worker's process."""

    url: str
    spec: EngineSpec
    worker: str
    queues: tuple[str, ...]
    pid: int
    timeouts: Timeouts = msgspec.field(default_factory=Timeouts)
    has_credentials: bool = False
    """Whether the worker must be asked for the user and the password of each connection."""


class CredentialsWanted(Struct, frozen=True, tag=True):
    """The keeper makes a new connection, and asks for the user and the password."""


class Credentials(Struct, frozen=True, tag=True):
    """The reply: the user and the password, or the password alone."""

    login: tuple[str, ...]

    def __repr__(self) -> str:
        return "Credentials(***)"


class Holdings(Struct, frozen=True, tag=True):
    """What the worker may hold. A field that is None has not changed.

    `leases`: the leases to ask about, and when each is to be given up, by the monotonic clock that all processes of a
    machine share. `kept`: the queues on which the worker may hold a job. When it is empty, no heartbeats are sent; the
    worker announces a queue before it claims there. `groups`: the process groups of the worker's job processes.
    `exclusive`: which of them do not outlive the lease of their job.
    """

    leases: tuple[tuple[LeaseRef, float], ...] | None = None
    kept: frozenset[str] | None = None
    groups: tuple[ProcessGroup, ...] | None = None
    exclusive: tuple[Exclusive, ...] = ()


class StatusReport(Struct, frozen=True, tag=True):
    """How a worker process is.

    `good_at`: when Redis last gave it a good reply, or when the process began, by the monotonic clock. `active`: how
    many jobs run, of `slots` that may. `reason`: what is wrong, or why the worker retires; empty: nothing is.
    """

    pid: int
    state: WorkerState
    good_at: float
    active: int = 0
    worker: str = ""
    reason: str = ""
    slots: int = 0


class Goodbye(Struct, frozen=True, tag=True):
    """The worker has stopped. `left`: it still holds jobs, which are released when its process has ended. `crashed`:
    whether that counts as a crash of these jobs. `outcomes`: of those that timed out, which are settled."""

    left: bool = False
    crashed: bool = False
    outcomes: tuple[tuple[LeaseRef, Failed | Retried | Cancelled], ...] = ()


class StopOrder(Struct, frozen=True, tag=True):
    """Stop the worker. `hard`: without waiting for running jobs. `retires`: with the time that they need, see
    `Worker.retire`."""

    hard: bool = False
    retires: bool = False


class BeatReport(Struct, frozen=True, tag=True):
    """One heartbeat, or None while Redis does not answer; `trouble`: what is wrong, if anything is.

    `kept_at`: for each queue on which a job may be held, when its last good heartbeat was sent, by `lease_clock`; 0
    before the first. The worker may read a report late, so the time of reading means nothing.
    """

    beat: HeartbeatReply | None = None
    trouble: str = ""
    kept_at: Mapping[str, float] = msgspec.field(default_factory=dict)


Message = (
    Orders | Holdings | StatusReport | Goodbye | StopOrder | BeatReport | CredentialsWanted | Credentials | Measured
)


def encode(message: Message) -> bytes:
    if isinstance(message, Holdings) and message.leases is None:
        return _encode_again(message)  # a worker of short jobs sends the same queues before and after each of them
    return _encode(message)


def _encode(message: Message) -> bytes:
    # The JSON of the standard library: ids that are not UTF-8 are lone surrogates here, which msgspec refuses.
    return json.dumps(msgspec.to_builtins(message), separators=(",", ":")).encode() + b"\n"


_encode_again: Final = lru_cache(maxsize=16)(_encode)


def decode(line: bytes) -> Message:
    """Raises `ValueError` for a line that is not a message."""
    try:
        message: Message = msgspec.convert(json.loads(line), Message, str_keys=True)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    return message


class MessageSocket:
    """One end of the socket, on the running event loop.

    here = await MessageSocket.open(one_of_a_pair)
    here.send(StopOrder())
    message = await here.receive()
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._pid = os.getpid()

    @classmethod
    async def open(cls, end: socket.socket) -> Self:
        reader, writer = await asyncio.open_unix_connection(sock=end, limit=LINE_MAX)
        # While a handler has used up the memory limit of the process, asyncio's own 256 KiB for a read may not be
        # available. It would close the socket. (uvloop has made its memory for reads at the start.)
        with contextlib.suppress(AttributeError):
            writer.transport.max_size = READ_BYTES  # type: ignore[attr-defined]
        return cls(reader, writer)

    @property
    def is_closed(self) -> bool:
        return self._writer.is_closing()

    @property
    def has_room(self) -> bool:
        """Whether the other process reads what was sent."""
        return not self.is_closed and self._writer.transport.get_write_buffer_size() <= UNSENT_MAX

    def send(self, message: Message, *, is_replaced: bool = False) -> None:
        """Send without waiting. `is_replaced`: a later message replaces this one, so it is left out when the other
        process does not read."""
        if self.is_closed or os.getpid() != self._pid:
            return
        if is_replaced and not self.has_room:
            return
        self._writer.write(encode(message))

    async def receive(self) -> Message | None:
        """The next message; None: the other process has closed its end. Raises `ValueError` for anything else."""
        try:
            line = await self._reader.readline()
        except (OSError, MemoryError):  # the socket closes after any error of its reads
            return None
        return decode(line) if line.endswith(b"\n") else None

    def close(self) -> None:
        self._writer.close()
