"""What a Redis server says of its work: commands, processor time, memory; and which commands clients send it."""

from __future__ import annotations

import re
import socket
import time
from collections import Counter
from dataclasses import dataclass
from typing import Final

from tenure.testing.server import RedisServer

OWN: Final = frozenset({"info", "config|resetstat", "flushall", "script|flush"})
"""What the benchmark itself sends between two readings."""
_CALLS: Final = re.compile(r"cmdstat_(\S+?):calls=(\d+),usec=(\d+)")
_LINE: Final = re.compile(rb'^\+?[\d.]+ \[\d+ (?P<who>[^\]]*)\] "(?P<command>[^"]*)"')
_READ_BYTES: Final = 65_536


@dataclass(frozen=True)
class Gauge:
    """One reading. `commands` counts those that scripts call, too."""

    commands: int
    cpu_s: float
    memory: int

    def since(self, before: Gauge) -> Gauge:
        return Gauge(self.commands - before.commands, self.cpu_s - before.cpu_s, self.memory - before.memory)


def read(server: RedisServer) -> Gauge:
    numbers = fields(info(server, "cpu") + info(server, "memory"))
    calls = sum(number for name, (number, _) in commands(server).items() if name not in OWN)
    cpu = float(numbers["used_cpu_sys"]) + float(numbers["used_cpu_user"])
    return Gauge(calls, cpu, int(numbers["used_memory"]))


def commands(server: RedisServer) -> dict[str, tuple[int, int]]:
    """For each command how often it was called, and the microseconds spent in it."""
    found = _CALLS.findall(info(server, "commandstats"))
    return {name: (int(calls), int(usec)) for name, calls, usec in found}


def info(server: RedisServer, section: str) -> str:
    reply = server.command("INFO", section)
    return reply.decode() if isinstance(reply, bytes) else str(reply)


def fields(text: str) -> dict[str, str]:
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def sent(server: RedisServer, seconds: float) -> Counter[str]:
    """The commands that clients send in this time, by name. What their scripts call is not among them."""
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(server.socket_path)
        link.sendall(b"MONITOR\r\n")
        data, until = b"", time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            link.settimeout(left)
            try:
                part = link.recv(_READ_BYTES)
            except TimeoutError:
                break
            if not part:
                raise RuntimeError("Redis closed the connection of MONITOR")
            data += part
    return parsed(data)


def parsed(data: bytes) -> Counter[str]:
    """Lines of MONITOR; those of scripts say `lua` where others have an address."""
    lines = map(_LINE.match, data.split(b"\r\n"))
    return Counter(line["command"].decode().lower() for line in lines if line and line["who"] != b"lua")
