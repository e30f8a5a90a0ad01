"""Pages of jobs: what a page may ask for, and the cursor that leads to the next one."""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from collections.abc import Sequence

import msgspec

from tenure.core import limits
from tenure.core.errors import InvalidArgument, invalid
from tenure.core.job import State
from tenure.core.names import shown

_CURSOR_WORDS = 4
"""place number mark entry, see lua/lib/pages.lua."""
_encode_cursor = msgspec.msgpack.Encoder().encode
_decode_cursor = msgspec.msgpack.Decoder(tuple[State, str, list[bytes]]).decode


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
        raise invalid("after", "the whole cursor of a page", shown(after)) from None
    if (of_state, of_lane) != (state, lane or "") or len(words) != _CURSOR_WORDS:
        of = f"{of_state} jobs" + (f" of lane {shown(of_lane)}" if of_lane else "")
        raise invalid("after", "the cursor of a page of these jobs", f"one of a page of {of}")
    return words
