"""Outcomes of an attempt. A worker settles a lease with exactly one of these.

Tagged structs: a job process sends its outcome to the worker in a message.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from leasehold.core.job import ErrorInfo
from leasehold.core.limits import COMPLETED_TTL_MS


class Completed(Struct, frozen=True, gc=False, tag=True):
    """Done. `result` is encoded; `result_ttl_ms` 0 keeps no record at all."""

    result: bytes = b""
    result_ttl_ms: int = COMPLETED_TTL_MS


class Retried(Struct, frozen=True, gc=False, tag=True):
    """Failed this time; to run again after `delay_ms`. Counts as a failure."""

    error: ErrorInfo
    delay_ms: int = 0


class Failed(Struct, frozen=True, gc=False, tag=True):
    """Failed for good."""

    error: ErrorInfo


class Broken(Struct, frozen=True, gc=False, tag=True):
    """Cannot be handled as it is (bytes that do not decode): kept whole, with the reason."""

    error: ErrorInfo


class Released(Struct, frozen=True, gc=False, tag=True):
    """Handed back unchanged, to the front of its queue; the attempt does not count."""


class Crashed(Struct, frozen=True, gc=False, tag=True):
    """It took down the process that ran it, while its worker lives: counted and given back as a worker's death is."""


class Unroutable(Struct, frozen=True, gc=False, tag=True):
    """No handler here for its task: parked until a worker offers one; the attempt does not count."""


class Cancelled(Struct, frozen=True, gc=False, tag=True):
    """Stopped because somebody asked for it."""

    reason: str = ""


Outcome: TypeAlias = Completed | Retried | Failed | Broken | Released | Crashed | Unroutable | Cancelled
