"""What a worker and a job process say to each other: frames of msgpack. No I/O.

A frame is one byte for its kind, one for how it is written, its length, and its fields. Names and ids that are not
UTF-8 are lone surrogates here, which msgpack cannot hold: such a frame is written as JSON. Nothing in it is ever run.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, TypeAlias, cast

import msgspec

from leasehold.core import limits
from leasehold.core.job import Lease
from leasehold.core.outcome import Broken, Cancelled, Completed, Failed, Outcome, Released, Retried, Unroutable
from leasehold.core.shape import Progress

PROCESS_BYE_MS: Final = 2 * limits.SECOND
"""How long a job process that is done has for its exit handlers."""

_HEAD: Final = struct.Struct("!BBI")


class _Writing(IntEnum):
    MSGPACK = 0
    JSON = 1


class NoFrame(ValueError):
    """Bytes that are none of ours: whoever wrote them cannot be trusted."""


# ------------------------------------------------------------------------------------------------- to the job process


@dataclass(frozen=True, slots=True)
class Setup:
    """The first word: where the worker finds its modules, and whose end is the end of the job process."""

    path: tuple[str, ...]
    parent: int


@dataclass(frozen=True, slots=True)
class RunJob:
    """A job to run. `number` counts the jobs of this process. `left_s`: the time until its timeout; None: no limit."""

    number: int
    lease: Lease
    left_s: float | None = None
    cancelled: str | None = None


@dataclass(frozen=True, slots=True)
class Cancel:
    """Somebody wants the job to be cancelled."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Extended:
    """The answer to an `Extend`. `ours` False: the job is ours no longer, or, with `trouble`, it is not known.

    `away`: Redis did not answer.
    """

    ask: int
    ours: bool
    trouble: str = ""
    away: bool = False


@dataclass(frozen=True, slots=True)
class Bye:
    """Nothing more comes: end."""


# ----------------------------------------------------------------------------------------------- from the job process


@dataclass(frozen=True, slots=True)
class Ready:
    """The app is loaded."""


@dataclass(frozen=True, slots=True)
class Told:
    """How far the job says it is."""

    number: int
    progress: Progress


@dataclass(frozen=True, slots=True)
class Extend:
    """The job wants to go on for so long from now. `ask` counts the questions of this process."""

    number: int
    ask: int
    ms: int


@dataclass(frozen=True, slots=True)
class Done:
    """The handler has ended, and this is what it means."""

    number: int
    outcome: Outcome


Order: TypeAlias = Setup | RunJob | Cancel | Extended | Bye
Answer: TypeAlias = Ready | Told | Extend | Done
Said: TypeAlias = Completed | Retried | Failed | Broken | Released | Unroutable | Cancelled
"""The outcomes that a job process may name. That it crashed it cannot say."""


@dataclass(frozen=True, slots=True)
class _Done:
    """`Done` as it is written: of several dataclasses msgspec cannot tell which one it is."""

    number: int
    said: int
    outcome: msgspec.Raw


_SAID: Final = (Completed, Retried, Failed, Broken, Released, Unroutable, Cancelled)
_KINDS: Final = (Setup, RunJob, Cancel, Extended, Bye, Ready, Told, Extend, _Done)
_NUMBERS: Final[Mapping[type[Any], int]] = {kind: number for number, kind in enumerate(_KINDS)}
ORDERS: Final = frozenset(_NUMBERS[kind] for kind in (Setup, RunJob, Cancel, Extended, Bye))
ANSWERS: Final = frozenset(_NUMBERS[kind] for kind in (Ready, Told, Extend, _Done))

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODERS: Final = tuple(msgspec.msgpack.Decoder(kind) for kind in _KINDS)
_OF_OUTCOMES: Final = tuple(msgspec.msgpack.Decoder(kind) for kind in _SAID)


def pack(frame: Order | Answer) -> bytes:
    """The frame as bytes."""
    words: Order | Answer | _Done = frame
    if type(frame) is Done:
        outcome = frame.outcome
        words = _Done(frame.number, _SAID.index(type(outcome)), msgspec.Raw(_ENCODER.encode(outcome)))
    writing = _Writing.MSGPACK
    try:
        text = _ENCODER.encode(words)
    except UnicodeEncodeError:
        writing, text = _Writing.JSON, json.dumps(msgspec.to_builtins(words)).encode()
    return _HEAD.pack(_NUMBERS[type(words)], writing, len(text)) + text


class Unpacker:
    """Cuts what comes in into frames of the kinds that are expected (`ORDERS` or `ANSWERS`).

        unpacker = Unpacker(ANSWERS, PROCESS_ANSWER_MAX)
        for frame in unpacker.feed(data): ...

    Raises `NoFrame`, also for one with more than `most` bytes.
    """

    def __init__(self, kinds: frozenset[int], most: int) -> None:
        self._kinds = kinds
        self._most = most
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[Any]:
        self._data += data
        while len(self._data) >= _HEAD.size:
            number, writing, size = _HEAD.unpack_from(self._data)
            if size > self._most or number not in self._kinds:
                raise NoFrame(f"a frame of kind {number} with {size:,} bytes")
            end = _HEAD.size + size
            if len(self._data) < end:
                return
            text = bytes(self._data[_HEAD.size : end])
            del self._data[:end]
            try:
                frame = _read(number, writing, text)
            except (ValueError, TypeError, IndexError, RecursionError) as error:
                raise NoFrame(f"a frame that cannot be read ({type(error).__name__})") from None
            yield frame


def _read(number: int, writing: int, text: bytes) -> Any:
    if writing == _Writing.JSON:
        return msgspec.convert(json.loads(text), _KINDS[number])
    frame = _DECODERS[number].decode(text)
    if type(frame) is _Done:
        return Done(frame.number, cast(Outcome, _OF_OUTCOMES[frame.said].decode(frame.outcome)))
    return frame
