"""The audit: what operators did, in Redis and in the log."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from tenure.core import limits
from tenure.core.engine import FullEngine
from tenure.core.steps import Steps
from tenure.core.text import cut
from tenure.runtime.log import log_event

TEXT_MAX: Final = 500
"""Bytes of one text of an entry."""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One action: who did it (`user`, from `address`), what, to which jobs or queue, how many, with what result."""

    at_ms: int
    user: str
    address: str
    action: str
    selection: Mapping[str, str]
    count: int
    result: str


_write = msgspec.json.Encoder().encode
_read = msgspec.json.Decoder(AuditEntry).decode


def entry_of(user: str, address: str, action: str, selection: Mapping[str, Any], count: int, result: str) -> AuditEntry:
    """Return an entry with texts of a bounded length. The selection must have no payload."""
    chosen = {name: _short(value) for name, value in list(selection.items())[:20] if value is not None}
    at_ms = round(time.time() * limits.SECOND)
    return AuditEntry(at_ms, _short(user), _short(address), action, chosen, count, _short(result))


def note(engine: FullEngine, entry: AuditEntry) -> Steps[None]:
    """Log an entry, and add it to the audit in Redis where the format has one."""
    selection = " ".join(f"{name}={value}" for name, value in entry.selection.items())
    log_event(
        "audit",
        user=entry.user,
        address=entry.address,
        action=entry.action,
        selection=selection,
        count=entry.count,
        result=entry.result,
    )
    if engine.history is not None:
        yield from engine.history.note_audit(_write(entry))


def entries(engine: FullEngine) -> Steps[list[AuditEntry]]:
    """Read the audit, the newest entry first. What another program has written is left out."""
    found: list[AuditEntry] = []
    for raw in (yield from engine.history.audit()) if engine.history is not None else ():
        try:
            found.append(_read(raw))
        except msgspec.MsgspecError:
            continue
    return found


def _short(value: object) -> str:
    return cut(str(value), TEXT_MAX)
