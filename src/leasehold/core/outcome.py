"""How an attempt ended. A worker settles a lease with exactly one of these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from msgspec import Struct

from leasehold.core.job import ErrorInfo
from leasehold.core.limits import COMPLETED_TTL_MS


class Completed(Struct, frozen=True, gc=False):
    """Done. `result` is encoded; `result_ttl_ms` 0 keeps no record at all."""

    result: bytes = b""
    result_ttl_ms: int = COMPLETED_TTL_MS


@dataclass(frozen=True, slots=True)
class Retried:
    """Failed this time; to run again after `delay_ms`. Counts as a failure."""

    error: ErrorInfo
    delay_ms: int = 0


@dataclass(frozen=True, slots=True)
class Failed:
    """Failed for good."""

    error: ErrorInfo


@dataclass(frozen=True, slots=True)
class Broken:
    """Cannot be handled as it is (bytes that do not decode): kept whole, with the reason."""

    error: ErrorInfo


@dataclass(frozen=True, slots=True)
class Released:
    """Handed back unchanged, to the front of its queue; the attempt does not count."""


@dataclass(frozen=True, slots=True)
class Crashed:
    """It took down the process that ran it, while its worker lives: counted and given back as a worker's death is."""


@dataclass(frozen=True, slots=True)
class Unroutable:
    """No handler here for its task: parked until a worker offers one; the attempt does not count."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Stopped because somebody asked for it."""

    reason: str = ""


Outcome: TypeAlias = Completed | Retried | Failed | Broken | Released | Crashed | Unroutable | Cancelled
