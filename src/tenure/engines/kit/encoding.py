"""Names, numbers and errors as most engines write them, and how they are read back."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from tenure.core.job import ErrorInfo

RAW: Final = "*"
"""What stands for the task of a raw payload."""
_GLOB: Final = re.compile(r"([\\*?\[\]^])")
_encode_json = msgspec.json.Encoder().encode
_decode_error = msgspec.json.Decoder(dict[str, str]).decode


def as_text(raw: bytes) -> str:
    """Text of bytes that are usually UTF-8; others survive the way there and back (`surrogateescape`)."""
    return raw.decode("utf-8", "surrogateescape")


def as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def number_of(raw: bytes) -> int | None:
    """A number as it stands in Redis. None for 0, which means that there is none, and for what is no number."""
    return int(raw) if raw.isdigit() and int(raw) else None


def fields_of(flat: list[bytes]) -> dict[str, bytes]:
    """A hash, which a script answers as one list: field, value, field, value."""
    return {as_text(flat[i]): flat[i + 1] for i in range(0, len(flat), 2)}


def read_error(raw: bytes) -> ErrorInfo | None:
    """None when there is none, or when it cannot be read."""
    try:
        values = _decode_error(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    attempt, at_ms = values.get("attempt", ""), values.get("at", "")
    return ErrorInfo(
        values.get("type", ""),
        values.get("message", ""),
        values.get("traceback", ""),
        int(attempt) if attempt.isdecimal() else None,
        int(at_ms) if at_ms.isdecimal() else None,
    )


def write_error(error: ErrorInfo) -> bytes:
    """JSON: {"type", "message", "traceback"}."""
    return _encode_json({"type": error.type, "message": error.message, "traceback": error.traceback})


def cancelled(reason: str) -> bytes:
    """The error of a job that was cancelled."""
    return write_error(ErrorInfo("Cancelled", reason))


def message_of(error: bytes) -> str:
    """The message of a written error; empty when it cannot be read."""
    read = read_error(error)
    return read.message if read else ""


def escaped(text: str) -> str:
    """Text as a pattern that matches itself alone.

    >>> escaped("jobs[1]*")
    'jobs\\\\[1\\\\]\\\\*'
    """
    return _GLOB.sub(r"\\\1", text)
