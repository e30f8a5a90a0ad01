"""What a kill in the middle of a write leaves at the end of Redis' append-only file, and how it is put right."""

from __future__ import annotations

import time
from typing import Final

from tenure.testing.server import RedisServer

REWRITE_S: Final = 60.0
REWRITING: Final = ("aof_rewrite_in_progress", "aof_rewrite_scheduled")


def forget_torn_end(server: RedisServer) -> None:
    """Write the append-only file anew.

    A kill in the middle of a write leaves half of a script's effects at its end. Redis leaves them out when it loads
    the file, but cuts the file too late: in it stays a MULTI without its EXEC, and the next load takes that half in
    (valkey-io/valkey#4342; the same in Redis 6.2 and 7.0). That is not what is tested here.
    """
    server.command("BGREWRITEAOF")
    until = time.monotonic() + REWRITE_S
    while not all(f"{name}:0".encode() in server.command("INFO", "persistence") for name in REWRITING):
        assert time.monotonic() < until, "the append-only file was not rewritten in time"
        time.sleep(0.005)


def torn_ends(server: RedisServer) -> int:
    """How often the server was killed in the middle of a write."""
    return (server.directory / "log").read_text(errors="replace").count("!!! Truncating the AOF")
