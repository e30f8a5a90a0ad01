"""Texts that a user or a peer controls take linear time: each of these would take minutes otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tenure.cli.errors import visible
from tenure.core.encoding.codec import reason_of
from tenure.core.text import masked
from tenure.engines.kit import envelope
from tenure.redis import replies
from tenure.runtime.log import source_location

SIZE = 1024 * 1024
PIECES = (
    "://",
    "://a ",
    "@",
    " ",
    "\n",
    "a",
    "1",
    '"',
    "`",
    "{",
    " - at `",
    "script: 0, on a:1",
    '", line 1',
)
STARTS = ("", "x://", "://@", '  File "a', '{"tenure":')


@pytest.mark.parametrize(
    "reads",
    [
        masked,
        visible,
        replies.read,
        source_location,
        lambda text: reason_of(ValueError(text)),
        lambda text: envelope._BEGINNING.match(text.encode()),
    ],
    ids=["masked", "visible", "error replies", "tracebacks", "reasons", "envelopes"],
)
def test_a_long_text_is_read_once(reads: Callable[[str], Any]) -> None:
    for start in STARTS:
        for piece in PIECES:
            reads(f"{start}{piece * (SIZE // len(piece) // 16)}\0")
    for piece in ("://", " ", "\n"):
        reads(piece * (SIZE // len(piece)))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("redis://me:secret@host/0", "redis://***@host/0"),
        ("redis://:p@ss://word@host/0 and more", "redis://***@host/0 and more"),
        ("a://b c@d", "a://b c@d"),
        ("mail@host for x://y", "mail@host for x://y"),
        ("me@a://b", "me@a://b"),
        ("(redis://u:p@h/0,redis://v:q@i/0)", "(redis://***@i/0)"),
        ("one redis://u:p@h\ntwo\tredis://v:q@i", "one redis://***@h\ntwo\tredis://***@i"),
        ("redis://@host", "redis://***@host"),
        ("Write redis://[user:password@]host:6379/0, or", "Write redis://[user:password@]host:6379/0, or"),
        (
            "redis://[user:password@]host:6379/0,redis://u:p@h",
            "redis://[user:password@]host:6379/0,redis://***@h",
        ),
        ("redis://[user:password@]host:6379/01", "redis://***@]host:6379/01"),
    ],
)
def test_credentials_are_masked(text: str, shown: str) -> None:
    assert masked(text) == shown
