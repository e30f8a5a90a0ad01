"""What a worker and its keeper tell each other: JSON, a line each.

The worker's first line is `Orders`, every later one a `Snapshot`; the last is a goodbye or a bequest. The keeper's are
`KeeperReport`s.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from leasehold.core.engine import CancelAsked, HeartbeatReply
from leasehold.core.job import JobRecord, Lease, LeaseRef
from leasehold.core.text import cut
from leasehold.processes.keeper.overdue import Timeouts
from leasehold.processes.system import ProcessGroup
from leasehold.protocols.spec import EngineSpec

GOODBYE: Final = b'"bye"'
"""The last line of a worker that ends in order: nothing is to be given back."""
BEQUESTS: Final = {False: b'"bequest"', True: b'"bequest of crashed"'}
"""Or this: handlers go on until its process ends. What it holds is kept as long, and given back then."""

REASON_MAX: Final = 300
"""Bytes of the reason for a cancellation that the worker is told, so that a line of many of them stays bounded."""


@dataclass(frozen=True, slots=True)
class Orders:
    """What to keep, for whom, and where."""

    url: str
    recipe: EngineSpec
    worker: str
    queues: tuple[str, ...]
    parent: int
    timeouts: Timeouts = field(default_factory=Timeouts)

    def to_line(self) -> bytes:
        return _line(asdict(self))

    @classmethod
    def from_line(cls, line: bytes) -> Orders:
        fields = json.loads(line)
        fields["queues"] = tuple(fields["queues"])
        fields["timeouts"] = Timeouts(**fields["timeouts"])
        return cls(**fields)


@dataclass(frozen=True, slots=True)
class KeeperReport:
    """One line of the keeper's: a beat (None when nothing came back), and what is wrong, if anything is.

    `kept_at`: when the last good beat of each queue was sent, by `lease_clock`, of those queues of which something may
    be held; 0 when there was none. To a reader that was stopped meanwhile, an old report must not look new.
    """

    beat: HeartbeatReply | None
    trouble: str = ""
    kept_at: Mapping[str, float] = field(default_factory=dict)

    def to_line(self) -> bytes:
        fields: dict[str, Any] = {"trouble": self.trouble, "kept_at": self.kept_at}
        if self.beat is not None:
            fields["lost"] = [_ref_row(ref) for ref in self.beat.lost]
            fields["strays"] = [[*_ref_row(lease.ref), lease.worker] for lease in self.beat.strays]
            fields["paused"] = sorted(self.beat.paused)
            fields["cancelled"] = [[*_ref_row(one.ref), cut(one.reason, REASON_MAX)] for one in self.beat.cancelled]
        return _line(fields)

    @classmethod
    def from_line(cls, line: bytes) -> KeeperReport:
        fields = json.loads(line)
        if "lost" not in fields:
            return cls(None, fields["trouble"], fields["kept_at"])
        lost = frozenset(LeaseRef(*row) for row in fields["lost"])
        cancelled = tuple(CancelAsked(LeaseRef(*row), reason) for *row, reason in fields["cancelled"])
        strays = tuple(_stray(*row) for row in fields["strays"])
        beat = HeartbeatReply(lost, strays, cancelled=cancelled, paused=frozenset(fields["paused"]))
        return cls(beat, fields["trouble"], fields["kept_at"])


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One line of the worker's: its leases and when each is to be given up (by the monotonic clock, which all processes
    of a machine share), the queues of which something may be held, its job processes.

    What is None is as it was. `keep` empty: nothing is held, and the worker will tell before it claims.
    """

    leases: Mapping[LeaseRef, float] | None = None
    keep: frozenset[str] | None = None
    groups: tuple[ProcessGroup, ...] | None = None

    def to_line(self) -> bytes:
        rows = None
        if self.leases is not None:
            rows = [[*_ref_row(ref), None if math.isinf(at) else at] for ref, at in self.leases.items()]
        groups = None if self.groups is None else [(group.pid, group.began) for group in self.groups]
        return _line([rows, None if self.keep is None else sorted(self.keep), groups])

    @classmethod
    def from_line(cls, line: bytes) -> Snapshot:
        rows, keep, pairs = json.loads(line)
        leases = None
        if rows is not None:
            leases = {LeaseRef(*row): math.inf if at is None else at for *row, at in rows}
        groups = None if pairs is None else tuple(ProcessGroup(*pair) for pair in pairs)
        return cls(leases, None if keep is None else frozenset(keep), groups)


def _ref_row(ref: LeaseRef) -> list[str | int]:
    return [ref.queue, ref.id, ref.token]


def _stray(queue: str, id: str, token: int | str, worker: str) -> Lease:
    """Enough of a lease to hand it back."""
    return Lease(worker, token, JobRecord(id, queue, None, b"", 0), 0, 0)


def _line(value: object) -> bytes:
    # The standard library's JSON: ids that are not UTF-8 are lone surrogates here, which others refuse.
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"
