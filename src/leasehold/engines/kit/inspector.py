"""What those who look need of an engine whose transitions are scripts, as far as all such engines do the same."""

from __future__ import annotations

from abc import abstractmethod
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from leasehold.core import limits
from leasehold.core.errors import InvalidArgument
from leasehold.core.job import QueueView, State, WorkerView
from leasehold.core.names import shown
from leasehold.core.shape import QueueSettings
from leasehold.core.steps import Command, Invoke, Steps
from leasehold.engines.kit.base import Scripted
from leasehold.engines.kit.config import PRESENCE_TTL_MS
from leasehold.engines.kit.encoding import as_text, number_of

_CURSOR_WORDS = 4
"""place number mark entry, see lua/lib/pages.lua."""
_encode_cursor = msgspec.msgpack.Encoder().encode
_decode_cursor = msgspec.msgpack.Decoder(tuple[State, str, list[bytes]]).decode
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
        rows = yield Invoke(self.scripts["workers"], (self.shared(),), (PRESENCE_TTL_MS,))
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


def write_cursor(words: Sequence[bytes], state: State, lane: str | None) -> str | None:
    """The last entry of a page as text that can be handed on; None when no page follows."""
    return urlsafe_b64encode(_encode_cursor((state, lane or "", list(words)))).decode() if words else None


def read_cursor(after: str | None, state: State, lane: str | None) -> list[bytes]:
    """Raises `InvalidArgument` for one that no page of these jobs has given."""
    if after is None:
        return [b""] * _CURSOR_WORDS
    try:
        of_state, of_lane, words = _decode_cursor(b64decode(after, b"-_", validate=True))
    except (TypeError, ValueError, msgspec.MsgspecError):
        raise InvalidArgument(f"after is {shown(after)}; expected the cursor of a page, whole.") from None
    if (of_state, of_lane) != (state, lane or "") or len(words) != _CURSOR_WORDS:
        of = f"{of_state} jobs" + (f" of lane {shown(of_lane)}" if of_lane else "")
        raise InvalidArgument(f"after is the cursor of a page of {of}; expected one of the same jobs as are asked for.")
    return words


def _read_worker(text: bytes) -> WorkerView | None:
    """What a worker said of itself; None when another version, or somebody else, wrote it."""
    try:
        return _decode_worker(text)
    except msgspec.MsgspecError:
        return None
