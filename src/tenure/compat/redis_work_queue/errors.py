"""The errors of this interface alone."""

from __future__ import annotations

from datetime import UTC, datetime

from tenure.core.errors import DuplicateJob
from tenure.core.job import State
from tenure.engines.kit.encoding import as_text


class ItemEnded(DuplicateJob):
    """A Tenure worker has ended an item of this id, or parked it, and keeps it. Nothing was added.

    `id`: of the item. `state`: failed, broken, cancelled or unroutable. `expires_ms`: until when the record is kept, as
    milliseconds since 1970; None for an unroutable one, which waits until a worker knows its task.
    """

    def __init__(self, id: str, state: str, expires_ms: int | None, prefix: str = "PREFIX") -> None:
        if expires_ms is None:
            kept = "until a worker knows its task"
        else:
            kept = f"until {datetime.fromtimestamp(expires_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"
        super().__init__(
            f"The item {id!r} was not added: a Tenure worker has ended an item of this id as {state} and keeps it "
            f"{kept}. To add the new item in its place, pass replace=True. To run or remove the old one, use "
            f"`tenure retry` or `tenure discard` with `default ID --protocol redis-work-queue:{prefix}`."
        )
        self.id = id
        self.state = state
        self.expires_ms = expires_ms


def read_end(id: str, ended: bytes | None, prefix: str) -> ItemEnded:
    """Return the error for a record as Redis keeps it: `<state> <ended_ms> <expires_ms> ...`; None: it is gone."""
    state, _, expires, *_ = [*as_text(ended or b"failed 0 0").split(" ", 3), "", "", ""]
    is_dated = state != State.UNROUTABLE.value and expires.isdigit()
    return ItemEnded(id, state, int(expires) if is_dated else None, prefix)
