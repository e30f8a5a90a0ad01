"""Text that fits a record: bounded, and valid UTF-8."""

from __future__ import annotations


def cut(text: str, limit: int) -> str:
    """Cut the text to at most `limit` bytes of UTF-8, between characters; lone surrogates become visible.

    >>> cut("aé", 2), cut("\\ud800", 10)
    ('a', '\\\\ud800')
    """
    return text[:limit].encode("utf-8", "backslashreplace")[:limit].decode("utf-8", "ignore")
