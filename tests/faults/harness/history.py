"""What happened, as every process wrote it down: JSON lines, a file for each process, read by the checker.

Nothing here knows Tenure. The clock is CLOCK_MONOTONIC, which all processes of one machine share.
"""

from __future__ import annotations

import itertools
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Final


class Op(StrEnum):
    """enqueue   a job was offered (invoke), then taken (ok) or refused (fail). `note`: how it is meant to end
    start, end   an attempt, told by its handler; the phase of an end says how: ok, retry, fail, cancelled, lost. A
                 start by hand has the note "hand" and in `ms` for how long the lease was given
    settle       of a lease by hand (invoke, ok). `note`: complete, retry, ...; `n`: 1 it was done, 0 it was refused
    kill, stop, cont, died   of the process `target`; died: nobody had killed it
    restart      of Redis (invoke, ok). `n`: how many jobs were held
    stand        a lane was seen to stand still behind this job, whose failed attempt had this token
    act          what was done about it (invoke, ok). `note`: retry, discard, resume
    final        the job's record when all was over. `note`: its state; `token`: of the attempt that ended it
    total        a counter of the queue when all was over. `note`: its name, `n`: its value; those of servers add up
    fault        a fault of the kind `note` has hit, `n` times
    window       of the last `ms` until now the writes may be gone, although they were answered: a replica that had not
                 got them took over. Phase "durable": but for those that had waited for the replica
    heal         the faults are over: from here on everything must go on by itself
    drained      nothing is left to do
    sample       a look at the keys meanwhile. `n`: how much was wrong with them, `note`: what
    key          a key that was there when all was over. `note`: its name; `n`: its time to live in ms, -1: for ever
    expect       what the scenario itself demands (ok, fail). `note`: what
    """

    ENQUEUE = "enqueue"
    START = "start"
    END = "end"
    KILL = "kill"
    STOP = "stop"
    CONT = "cont"
    DIED = "died"
    RESTART = "restart"
    STAND = "stand"
    ACT = "act"
    FINAL = "final"
    TOTAL = "total"
    SETTLE = "settle"
    FAULT = "fault"
    WINDOW = "window"
    HEAL = "heal"
    DRAINED = "drained"
    SAMPLE = "sample"
    KEY = "key"
    EXPECT = "expect"


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the history. `n`: the job's place in its lane, or a count. `ms`: how long a handler means to take."""

    op: Op
    phase: str = ""
    job: str = ""
    lane: str = ""
    token: int = 0
    n: int = -1
    attempt: int = 0
    ms: int = 0
    target: int = 0
    note: str = ""
    pid: int = 0
    seq: int = 0
    mono_ns: int = 0

    def to_line(self) -> bytes:
        told = {name: value for name, value in asdict(self).items() if value != _DEFAULTS[name]}
        return json.dumps(told, separators=(",", ":")).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Event:
        told = json.loads(line)
        return cls(Op(told.pop("op")), **told)


_DEFAULTS: Final = {field.name: field.default for field in fields(Event)}


class Diary:
    """Where one process writes. A line is one write to a file opened for appending: a kill leaves it whole or not."""

    def __init__(self, folder: Path, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self._pid = os.getpid()
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        path = folder / f"{self._pid}-{clock()}.jsonl"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, event: Event, at_ns: int | None = None) -> None:
        """Write it down, with the time of now."""
        now = self._clock() if at_ns is None else at_ns
        with self._lock:
            os.write(self._file, replace(event, pid=self._pid, seq=next(self._numbers), mono_ns=now).to_line())

    def write_all(self, events: list[Event]) -> None:
        """Many of one moment."""
        now = self._clock()
        with self._lock:
            lines = [replace(one, pid=self._pid, seq=next(self._numbers), mono_ns=now).to_line() for one in events]
            left = b"".join(lines)
            while left:
                left = left[os.write(self._file, left) :]

    def close(self) -> None:
        os.close(self._file)


def read(folder: Path) -> Iterator[Event]:
    """All that was written, file by file."""
    for path in sorted(folder.glob("*.jsonl")):
        with path.open("rb") as file:
            yield from map(Event.from_line, file)


class Tail:
    """Follows the history while it grows: which attempts are running, and in which process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        self.running: dict[int, dict[tuple[str, int], Event]] = {}
        self.starts = 0

    def poll(self) -> None:
        for path in self._folder.glob("*.jsonl"):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                chunk = file.read()
            whole = chunk.rfind(b"\n") + 1
            self._read[path] = self._read.get(path, 0) + whole
            for line in chunk[:whole].splitlines():
                self._take(Event.from_line(line))

    def _take(self, event: Event) -> None:
        if event.op is Op.START:
            self.starts += 1
            self.running.setdefault(event.pid, {})[event.job, event.token] = event
        elif event.op is Op.END:
            self.running.get(event.pid, {}).pop((event.job, event.token), None)
        elif event.op is Op.KILL:
            self.running.pop(event.target, None)
