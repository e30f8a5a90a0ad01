"""Waiting for what a Redis shows of its clients."""

from __future__ import annotations

from tenure.testing.server import RedisServer
from tests.support.waiting import until


def until_blocked(server: RedisServer) -> None:
    """Until one client waits in a blocking command."""
    until(lambda: b"blocked_clients:1" in server.command("INFO", "clients"))
