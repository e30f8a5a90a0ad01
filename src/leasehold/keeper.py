"""The keeper: a process that keeps one worker's leases and runs no user code. `python -m leasehold.keeper`.

Its first line on stdin says what to keep (`Orders`; the URL with its password goes this way, never by argument); every
later line is a `Snapshot` of the leases that the worker holds. On stdout it writes a line for every beat. It
ends when stdin does, or when its parent is another process than the one that it was started for.

A worker that is stopped (SIGSTOP, Ctrl-Z) is not kept: it does no work, so its jobs should go to others.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any, Final

from leasehold.core import limits
from leasehold.core.engine import Engine, Heartbeat, Timing
from leasehold.core.errors import RedisError, Unreachable
from leasehold.core.job import JobRecord, Lease, LeaseRef
from leasehold.engines.native import NativeEngine
from leasehold.engines.native.engine import NativeConfig
from leasehold.redis.sync import SyncDriver

STDIN: Final = 0
STDOUT: Final = 1
RETRY_MS: Final = 300
"""Between two tries while Redis does not answer."""
TRY_MS: Final = 1_000
"""One try: a reply that takes longer is given up and asked for again."""
OUTBOX_MAX: Final = 1024 * 1024
"""Reports that a busy worker has not read yet. Beyond that they are left out; what is lost is said again."""


@dataclass(frozen=True, slots=True)
class Orders:
    """What to keep, for whom, and where."""

    url: str
    namespace: str
    config: NativeConfig
    worker: str
    queues: tuple[str, ...]
    parent: int

    def to_line(self) -> bytes:
        return _line(asdict(self))

    @classmethod
    def from_line(cls, line: bytes) -> Orders:
        fields = json.loads(line)
        config = fields["config"]
        config["timing"] = Timing(**config["timing"])
        fields["config"] = NativeConfig(**config)
        fields["queues"] = tuple(fields["queues"])
        return cls(**fields)


@dataclass(frozen=True, slots=True)
class Report:
    """One line of the keeper's: a beat (None when nothing came back), and what is wrong, if anything is."""

    beat: Heartbeat | None
    trouble: str = ""

    def to_line(self) -> bytes:
        fields: dict[str, Any] = {"trouble": self.trouble}
        if self.beat is not None:
            fields["lost"] = [_ref_row(ref) for ref in self.beat.lost]
            fields["strays"] = [[*_ref_row(lease.ref), lease.worker] for lease in self.beat.strays]
        return _line(fields)

    @classmethod
    def from_line(cls, line: bytes) -> Report:
        fields = json.loads(line)
        if "lost" not in fields:
            return cls(None, fields["trouble"])
        lost = frozenset(LeaseRef(*row) for row in fields["lost"])
        return cls(Heartbeat(lost, tuple(_stray(*row) for row in fields["strays"])), fields["trouble"])


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One line of the worker's: the leases to ask about; `resting`: it holds nothing and will tell before it claims."""

    leases: tuple[LeaseRef, ...] = ()
    resting: bool = False

    def to_line(self) -> bytes:
        return _line([self.resting, [_ref_row(ref) for ref in self.leases]])

    @classmethod
    def from_line(cls, line: bytes) -> Snapshot:
        resting, rows = json.loads(line)
        return cls(tuple(LeaseRef(*row) for row in rows), resting)


def _ref_row(ref: LeaseRef) -> list[str | int]:
    return [ref.queue, ref.id, ref.token]


def _stray(queue: str, id: str, token: int | str, worker: str) -> Lease:
    """Enough of a lease to hand it back."""
    return Lease(worker, token, JobRecord(id, queue, None, b"", 0), 0, 0)


def _line(value: object) -> bytes:
    # The standard library's JSON: ids that are not UTF-8 are lone surrogates here, which others refuse.
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


class Pipe:
    """Both directions to the worker. Nothing here blocks, but for `pause`, which waits for stdin or the time."""

    def __init__(self) -> None:
        os.set_blocking(STDIN, False)
        os.set_blocking(STDOUT, False)
        self._inbox = b""
        self._outbox = b""
        self.closed = False

    def pause(self, seconds: float) -> bytes | None:
        """Wait so long, or less when something comes in. The newest whole line, if there is a new one."""
        writers = [STDOUT] if self._outbox else []
        readable, writable, _ = select.select([STDIN], writers, [], max(0.0, seconds))
        if writable:
            self.send(b"")
        if not readable:
            return None
        try:
            chunk = os.read(STDIN, 1 << 20)
        except BlockingIOError:
            return None
        if not chunk:
            self.closed = True
        *lines, self._inbox = (self._inbox + chunk).split(b"\n")
        return lines[-1] if lines else None

    def send(self, line: bytes) -> None:
        if len(self._outbox) < OUTBOX_MAX:
            self._outbox += line
        try:
            self._outbox = self._outbox[os.write(STDOUT, self._outbox) :]
        except BlockingIOError:
            pass
        except OSError:
            self.closed = True


class KeeperProcess:
    """The loop: while the worker is there and not stopped, beat."""

    def __init__(self, orders: Orders, pipe: Pipe, engine: Engine, driver: SyncDriver) -> None:
        self._orders = orders
        self._pipe = pipe
        self._engine = engine
        self._driver = driver
        self._latest = Snapshot()

    def run(self) -> None:
        beat_s = self._engine.timing.beat_ms / limits.SECOND
        while not self._orphaned():
            began = time.monotonic()
            if is_stopped(self._orders.parent):
                self._wait(began + beat_s / 2)
            elif self._latest.resting:
                self._pipe.send(Report(Heartbeat()).to_line())
                if self._wait(began + limits.KEEPER_REST_MS / limits.SECOND):
                    # The claim that comes now begins the lease by itself: the first beat is due one beat later.
                    self._wait(time.monotonic() + beat_s)
            else:
                report = self._beat()
                self._pipe.send(report.to_line())
                missed = time.monotonic() + min(beat_s, RETRY_MS / limits.SECOND)
                self._wait(began + beat_s if report.beat is not None else missed)

    def _orphaned(self) -> bool:
        # Beside the end of stdin: a child that the worker forked may hold the other end open after its death.
        return self._pipe.closed or os.getppid() != self._orders.parent

    def _wait(self, until: float) -> bool:
        """Hear what the worker says, until then or until (True) it goes to rest or comes from it."""
        resting = self._latest.resting
        while not self._orphaned():
            line = self._pipe.pause(until - time.monotonic())
            if line is not None:
                self._latest = Snapshot.from_line(line)
            if self._latest.resting != resting:
                return True
            if time.monotonic() >= until:
                break
        return False

    def _beat(self) -> Report:
        """Queue by queue: a refusal on one (a foreign key in its place) must not cost the leases on the others."""
        lost: set[LeaseRef] = set()
        strays: list[Lease] = []
        done, trouble = False, ""
        for queue in self._orders.queues:
            asked = [ref for ref in self._latest.leases if ref.queue == queue]
            try:
                beat = self._driver.run(self._engine.heartbeat(self._orders.worker, (queue,), asked))
            except RedisError as error:
                trouble = f"{type(error).__name__}: {error}"
                if isinstance(error, Unreachable):
                    break
                continue
            done = True
            lost |= beat.lost
            strays += beat.strays
        return Report(Heartbeat(frozenset(lost), tuple(strays)) if done else None, trouble)


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped or dead, where the system tells (/proc)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            fields = stat.read()
    except OSError:
        return False
    # "pid (name) state ...": the name may hold anything, also brackets.
    return fields[fields.rindex(b")") + 2 : fields.rindex(b")") + 3] in (b"T", b"t", b"Z", b"X")


def main() -> int:
    # Ctrl-C and `kill` go to the whole group: the worker decides when to stop, and tells us by closing stdin.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with open(STDIN, "rb", buffering=0, closefd=False) as stdin:
        first = stdin.readline()
    if not first.endswith(b"\n"):
        return 0
    pipe = Pipe()
    try:
        orders = Orders.from_line(first)
        driver = SyncDriver(
            orders.url, patience_ms=RETRY_MS, connect_timeout_ms=TRY_MS, reply_timeout_ms=TRY_MS, max_idle=1
        )
        KeeperProcess(orders, pipe, NativeEngine(orders.namespace, orders.config), driver).run()
    except Exception as error:
        pipe.send(Report(None, f"{type(error).__name__}: {error}").to_line())
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
