"""The messages between a worker and a job process: msgpack, each with its length in front. No I/O."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from tenure.core import limits
from tenure.core.job import Lease
from tenure.core.outcome import Outcome
from tenure.core.shape import PLAIN, Progress
from tenure.core.values import replace

PROCESS_EXIT_MS: Final = 2 * limits.SECOND
"""How long the exit handlers of a job process may take."""

_SIZE: Final = struct.Struct("!I")


class BadMessage(ValueError):
    """Bytes that are no message. A process that sends them is killed."""


# ------------------------------------------------------------------------------------------------- to the job process


class Setup(Struct, frozen=True, tag=True):
    """The first message: where the worker finds its modules, and its pid. The job process ends with the worker."""

    path: tuple[bytes, ...]
    parent: int


class RunJob(Struct, frozen=True, tag=True):
    """Run a job. `number` counts the jobs of this process. `left_s`: time until the timeout; None: no limit.

    Names in `_lease` are Latin-1 text of their bytes: msgpack has no text that is not UTF-8.
    """

    number: int
    _lease: Lease
    left_s: float | None
    cancelled: str | None

    @classmethod
    def of(cls, number: int, lease: Lease, left_s: float | None = None, cancelled: str | None = None) -> RunJob:
        return cls(number, _respelled(lease, _latin_1), left_s, cancelled)

    @property
    def lease(self) -> Lease:
        """The lease, without the parts that only Redis needs."""
        return _respelled(self._lease, _name)


class Cancel(Struct, frozen=True, tag=True):
    """Cancel the job."""

    number: int
    reason: str


class Extended(Struct, frozen=True, tag=True):
    """The answer to `Extend`. `is_held` False: another worker has the job, or, with `error`, Redis gave no answer.

    `is_unreachable`: Redis did not answer.
    """

    request: int
    is_held: bool
    error: str = ""
    is_unreachable: bool = False


class ShowStack(Struct, frozen=True, tag=True):
    """Show where the handler is."""


class ExitOrder(Struct, frozen=True, tag=True):
    """End: no more jobs follow."""


# ----------------------------------------------------------------------------------------------- from the job process


class Ready(Struct, frozen=True, tag=True):
    """The app is loaded."""


class ProgressReport(Struct, frozen=True, tag=True):
    """The progress of the job."""

    number: int
    progress: Progress


class Extend(Struct, frozen=True, tag=True):
    """Let the job run for `ms` from now. `request` counts the requests of this process."""

    number: int
    request: int
    ms: int


class Stack(Struct, frozen=True, tag=True):
    """The answer to `ShowStack`."""

    number: int
    text: str


class Done(Struct, frozen=True, tag=True):
    """The handler has ended with this outcome."""

    number: int
    outcome: Outcome


Order: TypeAlias = Setup | RunJob | Cancel | Extended | ShowStack | ExitOrder
Answer: TypeAlias = Ready | ProgressReport | Extend | Stack | Done
M = TypeVar("M")
ORDERS: Final = msgspec.msgpack.Decoder(Order)
ANSWERS: Final = msgspec.msgpack.Decoder(Answer)
_ENCODER: Final = msgspec.msgpack.Encoder()


def pack(message: Order | Answer) -> bytes:
    """The message as bytes."""
    body = _ENCODER.encode(message)
    return _SIZE.pack(len(body)) + body


class Unpacker(Generic[M]):
    """Cuts received bytes into messages of one direction (`ORDERS` or `ANSWERS`).

        unpacker = Unpacker(ANSWERS, PROCESS_ANSWER_MAX)
        for message in unpacker.feed(data): ...

    Raises `BadMessage`, also for a message of more than `max_bytes`.
    """

    def __init__(self, decoder: msgspec.msgpack.Decoder[M], max_bytes: int) -> None:
        self._decoder = decoder
        self._max_bytes = max_bytes
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[M]:
        self._data += data
        while len(self._data) >= _SIZE.size:
            (size,) = _SIZE.unpack_from(self._data)
            if size > self._max_bytes:
                raise BadMessage(f"a message of {size:,} bytes")
            end = _SIZE.size + size
            if len(self._data) < end:
                return
            body = bytes(self._data[_SIZE.size : end])
            del self._data[:end]
            try:
                message = self._decoder.decode(body)
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                raise BadMessage(f"a message that cannot be decoded ({type(error).__name__})") from None
            yield message


def _respelled(lease: Lease, respell: Callable[[str], str]) -> Lease:
    """The lease with other names, and without its unique key."""
    record, token = lease.record, lease.token
    shape = record.shape
    if shape is not PLAIN:
        lane = None if shape.lane is None else respell(shape.lane)
        shape = replace(shape, lane=lane, unique=None)
    task = None if record.task is None else respell(record.task)
    own = msgspec.structs.replace(record, id=respell(record.id), queue=respell(record.queue), task=task, shape=shape)
    token = respell(token) if isinstance(token, str) else token
    return msgspec.structs.replace(lease, worker=respell(lease.worker), token=token, record=own)


def _latin_1(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("latin-1")


def _name(latin_1: str) -> str:
    return latin_1.encode("latin-1").decode("utf-8", "surrogateescape")
