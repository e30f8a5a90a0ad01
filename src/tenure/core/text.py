"""Texts: one that fits a record (bounded, valid UTF-8), one without passwords, the end of a process in words."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from typing import Final

_WORDS: Final = re.compile(r"\S+")
_EXAMPLE: Final = re.compile(r"\[user:password@\]host:6379/0(?:,|$)")
"""The URL in Tenure's own texts, which stays unchanged."""


_NUMBER: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s?([A-Za-z]{0,3})")
SECONDS: Final[Mapping[str, float]] = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


def number_with_unit(text: str, units: Mapping[str, float]) -> float | None:
    """Return a number in the unit with the value 1; None for a text that is no number with one of these units.

    >>> number_with_unit("1.5h", SECONDS)
    5400.0
    """
    match = _NUMBER.fullmatch(text)
    if match is None or match[2].lower() not in units:
        return None
    return float(match[1]) * units[match[2].lower()]


def cut(text: str, limit: int) -> str:
    """Cut the text to at most `limit` bytes of UTF-8, between characters; lone surrogates become visible.

    >>> cut("aé", 2), cut("\\ud800", 10)
    ('a', '\\\\ud800')
    """
    return text[:limit].encode("utf-8", "backslashreplace")[:limit].decode("utf-8", "ignore")


def masked(text: str) -> str:
    """Return the text without credentials of URLs. For texts that may quote a URL; names are shown unchanged.

    >>> masked("no answer from redis://me:secret@example.org/0")
    'no answer from redis://***@example.org/0'
    """
    return _WORDS.sub(_without_credentials, text) if "://" in text and "@" in text else text


def _without_credentials(found: re.Match[str]) -> str:
    """Mask from the first `://` to the last @ of a word: a password may contain both. It reads no character twice,
    because the text may be a user's: a pattern for the whole would be quadratic."""
    word = found[0]
    end, start = word.rfind("@"), word.find("://") + 3
    while 3 <= start <= end and _EXAMPLE.match(word, start):
        start = word.find("://", start) + 3
    return f"{word[:start]}***{word[end:]}" if 3 <= start <= end else word


def how_it_ended(status: int) -> str:
    """Describe the end of a process. `status`: as `subprocess` returns it.

    >>> how_it_ended(3), how_it_ended(-9)
    ('status 3', 'SIGKILL')
    """
    if status >= 0:
        return f"status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
