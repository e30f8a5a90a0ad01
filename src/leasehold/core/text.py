"""Texts: one that fits a record (bounded, and valid UTF-8), and the end of a process in words."""

from __future__ import annotations

import signal


def cut(text: str, limit: int) -> str:
    """Cut the text to at most `limit` bytes of UTF-8, between characters; lone surrogates become visible.

    >>> cut("aé", 2), cut("\\ud800", 10)
    ('a', '\\\\ud800')
    """
    return text[:limit].encode("utf-8", "backslashreplace")[:limit].decode("utf-8", "ignore")


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
