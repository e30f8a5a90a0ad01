"""Who has held places of limits, and when: from Redis' append-only file, which has every write, and from samples.

The file has each place that a claim has added and that the end of a lease has removed, in their order, also across
kills of Redis. So no moment is missed at which more places were held than a limit has.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tenure.core.errors import TenureError
from tenure.core.rates import LimitRule
from tenure.core.steps import Command, Steps
from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer

SAMPLE_S: Final = 0.02
JOIN_S: Final = 30.0
SLACK_US: Final = 2_000
"""A token is the time of its claim in microseconds, or one more than the token before it."""
_PLACES: Final = b":places:"
_LOOK: Final = """
redis.call('EXISTS', 'nothing') -- without a write
local found = {}
for _, worker in ipairs(redis.call('ZRANGE', ARGV[1] .. ':holders', 0, -1)) do
  for _, text in ipairs(redis.call('HVALS', ARGV[1] .. ':held:' .. worker)) do
    found[#found + 1] = worker .. ' ' .. string.match(text, '^%d+')
  end
end
return found
"""


@dataclass(slots=True)
class Held:
    """What became of the places of one limit. `most`: the most that were held at one moment."""

    now: set[bytes] = field(default_factory=set)
    most: int = 0
    starts: int = 0
    used_us: int = 0
    early_us: int = 0
    """How much too early a job has started, at the worst."""


class Ledger:
    """Keeps the append-only files of a server: a rewrite deletes their names, and not what is in them."""

    def __init__(self, server: RedisServer, folder: Path) -> None:
        self._server = server
        self._folder = folder
        folder.mkdir()

    def keep(self) -> None:
        """Keep the file that the server writes to now. To be called at the start and after each rewrite."""
        for path in (self._server.directory / "appendonlydir").glob("*.incr.aof"):
            with contextlib.suppress(FileExistsError):
                os.link(path, self._folder / path.name)

    def replay(self, rules: Mapping[str, LimitRule]) -> dict[str, Held]:
        """What was held of these limits, by the numbers of the code and in the order of the writes."""
        found = {name: Held() for name in rules}
        for command in self._commands():
            if command[0].upper() not in (b"SADD", b"SREM") or _PLACES not in command[1]:
                continue
            name = command[1].partition(_PLACES)[2].decode()
            one = found[name]
            if command[0].upper() == b"SREM":
                one.now.difference_update(command[2:])
                continue
            one.now.update(command[2:])
            one.most = max(one.most, len(one.now))
            one.starts += 1
            _count_start(one, rules[name], int(command[2].split(b" ")[1]))
        return found

    def _commands(self) -> Iterator[list[bytes]]:
        paths = sorted(self._folder.glob("*.incr.aof"), key=lambda path: int(path.name.split(".")[-3]))
        assert paths, "the server has written no append-only file of the kind of Redis 7"
        for path in paths:
            yield from _whole(_read(path.read_bytes()))


def _count_start(one: Held, rule: LimitRule, at_us: int) -> None:
    """Use up the rate, as GCRA does."""
    if rule.interval_us is None:
        return
    one.used_us = max(one.used_us, at_us) + rule.cost * rule.interval_us
    one.early_us = max(one.early_us, one.used_us - at_us - rule.burst * rule.interval_us)


def _read(data: bytes) -> Iterator[list[bytes]]:
    """The commands of an append-only file. A torn one at the end is left out, as Redis does."""
    at = 0
    while at < len(data) and (end := data.find(b"\r\n", at)) >= 0:
        if data[at : at + 1] == b"#":
            at = end + 2
            continue
        count, at, words = int(data[at + 1 : end]), end + 2, []
        for _ in range(count):
            end = data.find(b"\r\n", at)
            if end < 0:
                return
            size = int(data[at + 1 : end])
            words.append(data[end + 2 : end + 2 + size])
            at = end + 4 + size
        if at > len(data):
            return
        yield words


def _whole(commands: Iterator[list[bytes]]) -> Iterator[list[bytes]]:
    """The commands without those of a MULTI that has no EXEC."""
    block: list[list[bytes]] | None = None
    for command in commands:
        name = command[0].upper()
        if name == b"MULTI":
            block = []
        elif name == b"EXEC":
            yield from block or ()
            block = None
        elif block is None:
            yield command
        else:
            block.append(command)


class Sampler:
    """Looks all the time at who holds leases of a queue, in a thread: when they have gone after a worker's death."""

    def __init__(self, url: str, prefix: str) -> None:
        self._url = url
        self._prefix = prefix
        self._owner: dict[str, str] = {}
        self._seen: dict[str, tuple[float, float]] = {}
        """Lease -> when it was seen first and last."""
        self._away: list[tuple[float, float]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join(JOIN_S)

    def until_gone(self, pid: int, at_ns: int) -> list[float]:
        """How many seconds after this time each lease that the process held was gone; none while Redis was away."""
        at = at_ns / 1e9
        own = [seen for token, seen in self._seen.items() if re.search(rf"-{pid}-", self._owner[token])]
        gone = [last for first, last in own if first <= at <= last + SAMPLE_S]
        return [max(0.0, last - at) for last in gone if not self._was_away(at - 1, last + 1)]

    def _was_away(self, since: float, until: float) -> bool:
        return any(begin < until and end > since for begin, end in self._away)

    def _run(self) -> None:
        driver = SyncDriver(self._url, patience_ms=100)
        try:
            while not self._over.wait(SAMPLE_S):
                begin = time.monotonic()
                try:
                    rows = driver.run(_look(self._prefix))
                except TenureError:
                    self._away.append((begin, time.monotonic()))
                    continue
                now = time.monotonic()
                for row in rows:
                    worker, _, token = row.decode().rpartition(" ")
                    self._owner[token] = worker
                    self._seen[token] = (self._seen[token][0] if token in self._seen else now, now)
        finally:
            driver.close()


def _look(prefix: str) -> Steps[Any]:
    return (yield Command(("EVAL", _LOOK, 0, prefix)))


def distribution(seconds: list[float]) -> str:
    """The middle and the ends of some times."""
    if not seconds:
        return "none"
    ordered = sorted(seconds)
    at = {part: ordered[min(len(ordered) - 1, int(len(ordered) * part))] for part in (0.5, 0.9, 0.99)}
    return f"{len(ordered)}: p50 {at[0.5]:.2f} s, p90 {at[0.9]:.2f} s, p99 {at[0.99]:.2f} s, most {ordered[-1]:.2f} s"
