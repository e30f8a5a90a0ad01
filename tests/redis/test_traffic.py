"""How a call is written for the wire."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.redis.link import pack


def test_numbers_are_written_like_text():
    assert pack(("SET", b"k", 12, -0.5)) == b"*4\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\n12\r\n$4\r\n-0.5\r\n"


def test_hiredis_never_sees_a_number(monkeypatch: pytest.MonkeyPatch):
    """It would make text of it, which can run a signal handler; when that raised, the process died."""
    seen: list[Any] = []

    def pack_command(args: Any) -> bytes:
        seen.extend(args)
        return b""

    monkeypatch.setattr("tenure.redis.link.hiredis.pack_command", pack_command)
    pack(("SET", b"k", 12, 0.5))
    assert {type(arg) for arg in seen} == {str, bytes}
