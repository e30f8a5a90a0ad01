"""Text that fits a record: bounded, and always UTF-8."""

from __future__ import annotations


def cut(text: str, limit: int) -> str:
    """At most `limit` bytes of UTF-8, without halves of characters; lone surrogates become visible.

    >>> cut("aé", 2), cut("\\ud800", 10)
    ('a', '\\\\ud800')
    """
    return text[:limit].encode("utf-8", "backslashreplace")[:limit].decode("utf-8", "ignore")
