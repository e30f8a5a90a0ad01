"""Before a worker starts, and for `leasehold check`: can this Redis keep jobs, and how is it put right?"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from leasehold.core import limits
from leasehold.core.errors import AccessDenied, LeaseholdError, QueueFull, RedisError, ReplyError, Unreachable
from leasehold.core.steps import Command, Steps
from leasehold.protocols.spec import Rights
from leasehold.runtime.log import log_event

if TYPE_CHECKING:
    from leasehold.core.engine import FullEngine

PINGS: Final = 10
"""Pings that measure the round trip to Redis."""
SLOW_PING_MS: Final = 20
"""A median round trip longer than this is worth a warning: each job needs several round trips."""
CLOCKS_APART_MS: Final = 2 * limits.SECOND
"""A difference between the clocks of Redis and of this machine that is worth a warning."""
ALMOST_FULL: Final = 0.9
"""The used share of the memory, or of the connections, that is worth a warning."""

OLDEST: Final = (6, 2)
NEWEST: Final = 8
"""The newest major version that is known here."""
LAYOUTS_CHECKED: Final = 1_000
"""Queues whose layout version `leasehold check` reads."""


class Level(StrEnum):
    """How grave a finding is.

    ok       as it should be
    unknown  it could not be looked at
    warning  jobs may be lost or late; it may be used by somebody who knows
    error    it must not be used like this
    """

    OK = "ok"
    UNKNOWN = "unknown"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one thing, and how to put it right (empty where it is right)."""

    name: str
    level: Level
    found: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.found} {self.remedy}".rstrip()


@dataclass(frozen=True, slots=True)
class Inspection:
    """All that was found. `errors`: it must not be used like this. `warnings`: it may be, by somebody who knows."""

    findings: tuple[Finding, ...] = ()

    @property
    def errors(self) -> tuple[str, ...]:
        return tuple(str(one) for one in self.findings if one.level is Level.ERROR)

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(str(one) for one in self.findings if one.level in (Level.WARNING, Level.UNKNOWN))

    def refusals(self, allow_eviction: bool = False) -> tuple[str, ...]:
        """Why a worker must not start. `allow_eviction`: somebody knows that jobs may be thrown away.

        A Redis that refuses writes is waited for: a worker that runs waits, too.
        """
        borne = {WRITES, EVICTION} if allow_eviction else {WRITES}
        return tuple(str(one) for one in self.findings if one.level is Level.ERROR and one.name not in borne)


EVICTION: Final = "eviction"
WRITES: Final = "writes"
_UNITS: Final = (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10))
_KEEPS_NOTHING: Final = frozenset({"role", "mode"})
"""Where these are wrong, another server is the one to ask more of."""


def inspection(
    rights: Rights,
    *,
    wall: Callable[[], float] = time.time,
    clock: Callable[[], float] = time.monotonic,
) -> Steps[Inspection]:
    """Ask Redis about itself. What this user may not ask is not known, and said so.

    `rights`: what the engine in use needs. `wall`: seconds since 1970 here;
    `clock`: seconds that only grow. Raises `AccessDenied` for who may do nothing.
    """
    writes = yield from _writes()
    info = yield from _info()
    if info is None:
        found = [Finding("server", Level.UNKNOWN, "INFO is not allowed for this user, so the server was not checked.")]
    else:
        found = [*judge(info).findings, _persistence(info, (yield from _config()))]
    found += writes
    if not any(one.level is Level.ERROR and one.name in _KEEPS_NOTHING for one in found):
        found.append(_rights((yield from rights.missing())))
        found += yield from _measured(wall, clock)
    return Inspection(tuple(found))


def layouts(engine: FullEngine) -> Steps[Finding]:
    """Find the queues that a newer release has written to: workers of this one claim nothing there."""
    newer: list[str] = []
    try:
        queues = (yield from engine.queues())[:LAYOUTS_CHECKED]
        for queue in queues:
            version = yield from engine.layout_of(queue)
            if version > engine.layout:
                newer.append(f"{queue} (version {version})")
    except RedisError as error:
        return Finding("layout", Level.UNKNOWN, f"The layout versions of the queues could not be read: {error}")
    if not newer:
        return Finding("layout", Level.OK, f"Layout version {engine.layout} or older in {len(queues):,} queues.")
    shown = ", ".join(newer[:5]) + (f" and {len(newer) - 5:,} more" if len(newer) > 5 else "")
    text = f"A newer release has written to {shown}; this one reads layout versions up to {engine.layout}."
    return Finding("layout", Level.ERROR, text, "Update Leasehold here: workers of this release wait until then.")


def failed(error: LeaseholdError) -> Inspection:
    """What is known of a Redis that could not be looked at: why.

    >>> failed(Unreachable("There was no connection.")).errors
    ('There was no connection.',)
    """
    name = "connection" if isinstance(error, Unreachable) else "rights" if isinstance(error, AccessDenied) else "server"
    # What its message says besides is of a call that was to do something.
    if isinstance(error, RedisError) and error.found:
        return Inspection((Finding(name, Level.ERROR, error.found, error.remedy),))
    return Inspection((Finding(name, Level.ERROR, str(error)),))


def log(found: Inspection) -> None:
    """Log, one event each, what is not as it should be. For a worker that starts all the same."""
    for one in found.findings:
        if one.level is not Level.OK:
            log_event(logging.WARNING, "redis_unfit", about=one.name, found=one.found, remedy=one.remedy or None)


def fields_of(reply: bytes) -> dict[str, str]:
    """The reply of INFO as names and values."""
    lines = (line.partition(":") for line in reply.decode(errors="replace").splitlines() if not line.startswith("#"))
    return {name: value for name, colon, value in lines if colon}


def judge(info: Mapping[str, str]) -> Inspection:
    """What INFO tells of this Redis. A field that is not there says nothing.

    >>> judge({"redis_version": "5.0.7"}).errors
    ('Redis is 5.0.7; expected 6.2 or newer, or Valkey. Update the server.',)
    """
    return Inspection((_version(info), _role(info), _mode(info), _eviction(info), _memory(info), _clients(info)))


def _writes() -> Steps[list[Finding]]:
    """Whether it refuses all writes at present (MISCONF). Then it refuses PING, too, and answers what only looks."""
    try:
        yield Command(("PING",))
    except QueueFull as error:
        return [Finding(WRITES, Level.ERROR, error.found, error.remedy)]
    return []


def _info() -> Steps[dict[str, str] | None]:
    try:
        return fields_of((yield Command(("INFO",))))
    except (AccessDenied, ReplyError) as error:
        # A user who may do everything but INFO can work well; any other refusal would meet the worker too.
        if "info" not in str(error).lower():
            raise
        return None


def _config() -> Steps[dict[str, str]]:
    """Settings that INFO does not tell. Servers that are hosted by others, and many users, do not tell them."""
    try:
        reply = yield Command(("CONFIG", "GET", "*save*"))
        more = yield Command(("CONFIG", "GET", "appendfsync"))
    except (AccessDenied, ReplyError):
        return {}
    words = [word.decode(errors="replace") for word in (*reply, *more)]
    return dict(zip(words[::2], words[1::2], strict=False))


def _version(info: Mapping[str, str]) -> Finding:
    version = info.get("redis_version", "")
    name = info.get("server_name", "redis").capitalize()
    numbers = version.split(".")[:2]
    # A version that cannot be read says nothing: better to try than to refuse.
    known = tuple(map(int, numbers)) if all(number.isdigit() for number in numbers) else OLDEST
    if known < OLDEST:
        text = f"Redis is {version}; expected {'.'.join(map(str, OLDEST))} or newer, or Valkey."
        return Finding("version", Level.ERROR, text, "Update the server.")
    if known[0] > NEWEST:
        text = f"Redis is {version}, which is newer than what this version of Leasehold knows ({NEWEST})."
        return Finding("version", Level.WARNING, text, "Look for a newer Leasehold.")
    valkey = info.get("valkey_version")
    return Finding("version", Level.OK, f"{name} {valkey or version or '(version not told)'}.")


def _role(info: Mapping[str, str]) -> Finding:
    if info.get("role", "master") != "master":
        text = "This Redis is a replica: nothing can be written to it."
        return Finding("role", Level.ERROR, text, "Use the URL of its master, or that of the sentinels.")
    replicas = info.get("connected_slaves", "0")
    return Finding("role", Level.OK, f"A master with {replicas} replica{'' if replicas == '1' else 's'}.")


def _mode(info: Mapping[str, str]) -> Finding:
    mode = info.get("redis_mode", "standalone")
    if info.get("cluster_enabled", "0") == "1" or mode == "cluster":
        text = "This Redis is part of a cluster, which is not supported yet."
        return Finding("mode", Level.ERROR, text, "Use a Redis of its own.")
    if mode == "sentinel":
        text = "This is a sentinel, which keeps no data."
        return Finding("mode", Level.ERROR, text, "Use a URL that begins with redis+sentinel:// and names the service.")
    return Finding("mode", Level.OK, f"{mode.capitalize()}.")


def _eviction(info: Mapping[str, str]) -> Finding:
    policy = info.get("maxmemory_policy", "noeviction")
    if policy == "noeviction":
        return Finding(EVICTION, Level.OK, "Nothing is thrown away when the memory is full (noeviction).")
    when = "when its memory is full"
    if info.get("maxmemory", "0") == "0":
        when = "as soon as somebody sets a limit to its memory"
    text = f"Redis may throw away jobs {when}: its maxmemory-policy is {policy}; expected noeviction."
    return Finding(EVICTION, Level.ERROR, text, "Set `maxmemory-policy noeviction`; caches need a Redis of their own.")


def _memory(info: Mapping[str, str]) -> Finding:
    used, limit = _number(info, "used_memory"), _number(info, "maxmemory")
    if not limit:
        return Finding("memory", Level.OK, f"{_size(used)} in use, without a limit.")
    text = f"{_size(used)} of {_size(limit)} in use."
    if used < ALMOST_FULL * limit:
        return Finding("memory", Level.OK, text)
    remedy = "When it is full, nothing can be enqueued: raise `maxmemory`, or let workers catch up."
    return Finding("memory", Level.WARNING, text, remedy)


def _clients(info: Mapping[str, str]) -> Finding:
    used, limit = _number(info, "connected_clients"), _number(info, "maxclients")
    text = f"{used:,} of {limit:,} in use." if limit else f"{used:,} in use."
    if not limit or used < ALMOST_FULL * limit:
        return Finding("connections", Level.OK, text)
    return Finding("connections", Level.WARNING, text, "Raise `maxclients`, or look for who holds so many.")


def _persistence(info: Mapping[str, str], config: Mapping[str, str]) -> Finding:
    """Whether acknowledged jobs survive a crash of Redis."""
    name = "persistence"
    for field, what in (("aof_last_write_status", "the append-only file"), ("rdb_last_bgsave_status", "a snapshot")):
        if info.get(field, "ok") != "ok":
            text = f"Redis could not write {what} the last time."
            return Finding(name, Level.WARNING, text, "Look at its log, its disk, and the rights of its directory.")
    snapshots = bool(config.get("save"))
    if info.get("aof_enabled", "1") == "0":
        text = "Redis keeps no append-only file: a crash of Redis loses jobs."
        if snapshots:
            text = "Redis keeps no append-only file, only snapshots: a crash of Redis loses what came after the last."
        return Finding(name, Level.WARNING, text, "Set `appendonly yes`.")
    fsync = config.get("appendfsync", "")
    if fsync == "no":
        text = "Redis leaves it to the system when its append-only file reaches the disk: a power cut loses jobs."
        return Finding(name, Level.WARNING, text, "Set `appendfsync everysec`, or `always`.")
    return Finding(name, Level.OK, f"An append-only file{f', synced: {fsync}' if fsync else ''}.")


def _rights(missing: tuple[str, ...]) -> Finding:
    if not missing:
        return Finding("rights", Level.OK, "This user may do all that is needed.")
    text = f"This user of Redis lacks rights that are needed: {' '.join(missing)}."
    return Finding("rights", Level.ERROR, text, "`leasehold check --acl USER` prints the line that grants all of them.")


def _measured(wall: Callable[[], float], clock: Callable[[], float]) -> Steps[list[Finding]]:
    """How far the clocks are apart, and how long a round trip takes."""
    rounds: list[tuple[float, float]] = []
    for _ in range(PINGS):
        began = clock()
        try:
            seconds, micros = yield Command(("TIME",))
        except AccessDenied:  # among the rights that are missing, so it is said there that it is needed
            return [Finding("clock", Level.UNKNOWN, "TIME is not allowed for this user, so no time was measured.")]
        took = clock() - began
        # Redis looked at its clock about half a round trip ago.
        rounds.append((took, int(seconds) + int(micros) / 1_000_000 - (wall() - took / 2)))
    return [_apart(min(rounds)[1] * limits.SECOND), _slow([took * limits.SECOND for took, _ in rounds])]


def _apart(ms: float) -> Finding:
    way = "ahead of" if ms > 0 else "behind"
    text = f"The clock of Redis is {_time(abs(ms))} {way} that of this machine."
    if abs(ms) < CLOCKS_APART_MS:
        return Finding("clock", Level.OK, text)
    remedy = "Leases do not mind, `run_after` and the times that are shown do: let both follow one time server."
    return Finding("clock", Level.WARNING, text, remedy)


def _slow(took_ms: list[float]) -> Finding:
    middle = sorted(took_ms)[len(took_ms) // 2]
    text = f"A round trip takes {_time(middle)}, the longest of {len(took_ms)} took {_time(max(took_ms))}."
    if middle < SLOW_PING_MS:
        return Finding("latency", Level.OK, text)
    return Finding("latency", Level.WARNING, text, "Each job needs some: move workers and Redis closer to each other.")


def _number(info: Mapping[str, str], name: str) -> int:
    text = info.get(name, "0")
    return int(text) if text.isdigit() else 0


def _size(size: int) -> str:
    for unit, of in _UNITS:
        if size >= of:
            return f"{size / of:,.1f} {unit}"
    return f"{size:,} B"


def _time(ms: float) -> str:
    return f"{ms / limits.SECOND:,.1f} s" if ms >= limits.SECOND else f"{ms:.1f} ms"
