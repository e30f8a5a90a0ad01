"""Checks of arguments: what the original package accepts is accepted, and other values are refused before sending."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any, Final

from tenure.compat.redis_work_queue.cluster import options_of
from tenure.compat.redis_work_queue.item import Item
from tenure.core import limits, names
from tenure.core.errors import invalid
from tenure.engines.kit.encoding import as_bytes

# Scripts write times of Redis as whole milliseconds of at most 14 digits.
_LEASE_MAX_S: Final = 10**10
_SLICE_S: Final = limits.IDLE_WAIT_MS / limits.SECOND


def lease_ms(value: object) -> int:
    """Check the lease before anything is sent. The original client takes the item first and cannot lease it then."""
    # Other clients measure leases in seconds, so a shorter lease cannot be written.
    if type(value) is int and 1 <= value <= _LEASE_MAX_S:  # the usual case
        return value * limits.SECOND
    seconds = _seconds(value, "lease_secs")
    if not 1 <= seconds <= _LEASE_MAX_S:
        raise invalid("lease_secs", f"1 to {_LEASE_MAX_S:,} seconds", f"{seconds:g} s")
    return round(seconds * limits.SECOND)


def timeout_s(value: object) -> float:
    """Return how long to block, in seconds; 0 and None mean no limit."""
    seconds = 0 if value is None else _seconds(value, "timeout")
    if seconds < 0:
        raise invalid("timeout", "0 (no limit) or more seconds", f"{seconds:g} s")
    return seconds or math.inf


def _seconds(value: object, field: str) -> float:
    """Return seconds as a number. They may be text or bytes, which the original sends to Redis as they are."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, (int, float, str, bytes)) and not isinstance(value, bool):
        try:
            seconds = float(value)
        except (ValueError, OverflowError):
            seconds = math.nan
        if math.isfinite(seconds):
            return seconds
        raise invalid(field, "a number of seconds", names.shown(value))
    raise invalid(field, "seconds (a number, text or a timedelta)", type(value).__name__)


def id_of(item: Item) -> bytes:
    """Return the id of an item, as Redis has it."""
    id: object = item.id()
    if type(id) is str and id.isascii():  # the usual case
        return id.encode()
    return as_bytes(names.known_id(id))


def slice_s(db: Any) -> float:
    """Return how long one blocking command may last on this client: less than its timeout for a reply."""
    patience = options_of(db).get("socket_timeout")
    return _SLICE_S if not patience else min(_SLICE_S, patience / 2)
