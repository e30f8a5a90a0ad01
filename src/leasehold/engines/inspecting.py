"""What those who look need of an engine whose transitions are scripts, as far as all such engines do the same."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

import msgspec

from leasehold.core import limits
from leasehold.core.errors import InvalidArgument
from leasehold.core.job import QueueView, WorkerView
from leasehold.core.shape import QueueSettings
from leasehold.core.steps import Command, Invoke, Steps
from leasehold.engines.scripted import Scripted
from leasehold.engines.texts import as_text, number_of

_decode_worker = msgspec.json.Decoder(WorkerView).decode


class ScriptedInspector(Scripted):
    """The reading half of an engine."""

    @abstractmethod
    def queue(self, name: str) -> Steps[QueueView]: ...

    def queues(self) -> Steps[list[str]]:
        reply = yield Command(("ZRANGE", f"{self.shared()}:queues", 0, -1))
        return sorted(as_text(name) for name in reply)

    def settings(self, queue: str) -> Steps[QueueSettings]:
        return (yield from self.queue(queue)).settings

    def _newer_layout(self, meta: dict[str, bytes]) -> int | None:
        """The layout version in this `meta` hash, where this release cannot read it."""
        version = number_of(meta.get("layout", b"")) or 1
        return version if version > self.layout else None

    def _announced(self) -> Steps[list[WorkerView]]:
        """The workers that have shown themselves lately. What they hold is not counted yet."""
        rows = yield Invoke(self.scripts["workers"], (self.shared(),), (limits.PRESENCE_TTL_MS,))
        return [replace(view, seen_ms=int(float(at))) for _, at, text in rows if (view := _read_worker(text))]


def fields_of(flat: list[bytes]) -> dict[str, bytes]:
    """A hash, which a script answers as one list: field, value, field, value."""
    return {as_text(flat[i]): flat[i + 1] for i in range(0, len(flat), 2)}


def check_page(offset: int, limit: int) -> None:
    """Raises `InvalidArgument` for a page that begins too far behind, or is too large."""
    if not 0 <= offset <= limits.PAGE_OFFSET_MAX or not 1 <= limit <= limits.PAGE_MAX:
        raise InvalidArgument(
            f"A page begins at 0 to {limits.PAGE_OFFSET_MAX} and has 1 to {limits.PAGE_MAX} jobs, "
            f"not offset {offset} and limit {limit}."
        )


def _read_worker(text: bytes) -> WorkerView | None:
    """What a worker said of itself; None when another version, or somebody else, wrote it."""
    try:
        return _decode_worker(text)
    except msgspec.MsgspecError:
        return None
