"""Checks that this Redis is configured safely for jobs, for `tenure check` and before a worker starts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tenure.core import limits
from tenure.core.errors import AccessDenied, QueueFull, RedisError, ReplyError, Unreachable
from tenure.core.steps import Command, Steps
from tenure.core.values import replace
from tenure.protocols.spec import Rights
from tenure.runtime.log import log_event

PINGS: Final = 10
SLOW_PING_MS: Final = 20
"""A longer median round trip causes a warning."""
CLOCKS_APART_MS: Final = 2 * limits.SECOND
"""A larger difference between the clocks of Redis and this machine causes a warning."""
ALMOST_FULL: Final = 0.9
"""A larger used share of the memory, or of the connections, causes a warning."""
OLDEST: Final = (6, 2)
NEWEST: Final = 8
SERVERS_NAMED: Final = 3
"""How many servers of a cluster a finding names."""
EVICTION: Final = "eviction"
WRITES: Final = "writes"
COMMANDS: Final = "commands"
NODES: Final = "nodes"
_OTHER_SERVER: Final = "Workers need Redis or Valkey itself, or a proxy that runs EVALSHA, EVAL and blocking commands."


class Level(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    UNKNOWN = "unknown"  # this user may not read it
    WARNING = "warning"  # jobs may be lost or late
    ERROR = "error"  # workers must not use this Redis


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check, and the fix (empty if none is needed)."""

    name: str
    level: Level
    found: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.found} {self.remedy}".rstrip()


@dataclass(frozen=True, slots=True)
class Inspection:
    """All findings. `errors`: workers must not use this Redis. `warnings`: a user may accept them."""

    findings: tuple[Finding, ...] = ()

    @property
    def errors(self) -> tuple[str, ...]:
        return tuple(str(one) for one in self.findings if one.level is Level.ERROR)

    @property
    def is_usable(self) -> bool:
        """Whether the servers are of the right kind, so that other checks make sense."""
        return not any(one.level is Level.ERROR and one.name in ("role", "mode") for one in self.findings)

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(str(one) for one in self.findings if one.level in (Level.WARNING, Level.UNKNOWN))

    def refusals(self, allow_eviction: bool = False) -> tuple[str, ...]:
        """Return why a worker must not start. `allow_eviction`: the user accepts that Redis may delete jobs.

        A Redis that refuses writes is no reason: a worker waits for it, as a running worker does.
        """
        accepted = {WRITES, EVICTION} if allow_eviction else {WRITES}
        return tuple(str(one) for one in self.findings if one.level is Level.ERROR and one.name not in accepted)


def inspect_server(clustered: bool) -> Steps[Inspection]:
    """Check one server. A check that this user may not run has the level `unknown`.

    `clustered`: the URL names a cluster. Raises `AccessDenied` for a user who may run no command at all.
    """
    writes = yield from _writes()
    info = yield from _info()
    if info is None:
        found = [Finding("server", Level.UNKNOWN, "INFO is refused here, so the server was not checked.")]
    else:
        found = [*judge(info, clustered).findings, _persistence(info, (yield from _config()))]
    return Inspection((*found, *writes))


def inspect_use(
    rights: Rights, *, wall: Callable[[], float] = time.time, clock: Callable[[], float] = time.monotonic
) -> Steps[tuple[Finding, ...]]:
    """Check the rights of this user (`rights`: those that the engine needs), scripts, the clocks and the round trip."""
    found = yield from _usable(rights)
    return *found, *(yield from _measured(wall, clock))


def inspect_wait(rights: Rights) -> Steps[tuple[Finding, ...]]:
    """Try a blocking command: a proxy may refuse what the server behind it has. Raises `WaitLost` if it closes the
    connection instead."""
    if rights.wait is not None:
        try:
            yield rights.wait
        except (AccessDenied, QueueFull):
            pass  # the findings about rights and about writes name it
        except ReplyError as error:
            return (no_waits(str(error)),)
    return ()


def no_waits(why: str) -> Finding:
    """Return the finding about a proxy in front of the server that refuses blocking commands."""
    text = f"A proxy in front of this server refuses blocking commands: {why}."
    return Finding(COMMANDS, Level.ERROR, text, _OTHER_SERVER)


def unheard(error: RedisError) -> Finding:
    """Return the finding about a server, or a proxy in front of it, that refuses SUBSCRIBE."""
    text = f"Messages do not work here: SUBSCRIBE was refused ({error.found or error})."
    remedy = "Results and cancellations arrive up to 2 s later. Connect to Redis itself, or to a proxy with pub/sub."
    return Finding(COMMANDS, Level.WARNING, text, remedy)


def _usable(rights: Rights) -> Steps[list[Finding]]:
    """Check whether scripts run, and what commands in them this user or this server lacks."""
    try:
        missing = yield from rights.missing()
    except ReplyError as error:
        text = f"This server, or a proxy in front of it, runs no scripts in Lua: {error}."
        return [Finding(COMMANDS, Level.ERROR, text, _OTHER_SERVER)]
    found = [_rights(tuple(one for one in missing if one[0] in "+~&"))]
    absent = [one.upper() for one in missing if one[0] not in "+~&"]
    if absent:
        text = f"This server does not have the command{'s' * (len(absent) > 1)} {', '.join(absent)}."
        found.append(
            Finding(COMMANDS, Level.ERROR, text, f"Remove `rename-command` from its settings. {_OTHER_SERVER}")
        )
    return found


def combined(servers: Sequence[tuple[str, Inspection | Unreachable]]) -> Inspection:
    """Return the findings of all servers, by their addresses: each once if all have it, else with the addresses.

    A node of a cluster that is lost is a warning: the queues of the others work.
    """
    by_name: dict[str, dict[Finding, list[str]]] = {}
    lost: list[Finding] = []
    for address, inspection in servers:
        if isinstance(inspection, Unreachable):
            found = f"The node {address} does not respond: its queues wait, the others work."
            lost.append(Finding(NODES, Level.WARNING, found, "Start it again, and give each master a replica."))
            continue
        for one in inspection.findings:
            by_name.setdefault(one.name, {}).setdefault(one, []).append(address)
    return Inspection((*lost, *(one for same in by_name.values() for one in _by_server(same))))


def _by_server(same: dict[Finding, list[str]]) -> Iterator[Finding]:
    """The findings of one check: those that are not ok one by one, the others together."""
    if len(same) == 1:
        yield from same
        return
    for one, addresses in same.items():
        if one.level is not Level.OK:
            more = f" and {len(addresses) - SERVERS_NAMED:,} more" if len(addresses) > SERVERS_NAMED else ""
            yield replace(one, found=f"At {', '.join(addresses[:SERVERS_NAMED])}{more}: {one.found}")
    fine = [(address, one) for one, addresses in same.items() if one.level is Level.OK for address in addresses]
    if fine:
        shown = [f"{address}: {one.found}" for address, one in fine[:SERVERS_NAMED]]
        if len(fine) > SERVERS_NAMED:
            shown.append(f"And {len(fine) - SERVERS_NAMED:,} more.")
        yield replace(fine[0][1], found=" ".join(shown))


def failed(error: RedisError) -> Inspection:
    """Return the inspection of a Redis that could not be checked: one error with the reason."""
    name = "connection" if isinstance(error, Unreachable) else "rights" if isinstance(error, AccessDenied) else "server"
    # The rest of the message is about the call that failed.
    return Inspection((Finding(name, Level.ERROR, error.found or str(error), error.remedy),))


def log(found: Inspection) -> None:
    """Log a warning for every finding that is not ok, when a worker starts nevertheless."""
    for one in found.findings:
        if one.level is not Level.OK:
            log_event("check_failed", about=one.name, found=one.found, remedy=one.remedy or None)


def fields_of(reply: bytes) -> dict[str, str]:
    """Parse the reply of INFO into names and values."""
    lines = (line.partition(":") for line in reply.decode(errors="replace").splitlines() if not line.startswith("#"))
    return {name: value for name, colon, value in lines if colon}


def judge(info: Mapping[str, str], clustered: bool = False) -> Inspection:
    """Check the fields of INFO. A missing field counts as correct. `clustered`: the URL names a cluster."""
    return Inspection(
        (_version(info), _role(info), _mode(info, clustered), _eviction(info), _memory(info), _clients(info))
    )


def _writes() -> Steps[list[Finding]]:
    """Check whether Redis refuses all writes (MISCONF). It then refuses PING too, and still answers reads."""
    try:
        yield Command(("PING",))
    except QueueFull as error:
        return [Finding(WRITES, Level.ERROR, error.found, error.remedy)]
    return []


def _info() -> Steps[dict[str, str] | None]:
    try:
        return fields_of((yield Command(("INFO",))))
    except (AccessDenied, ReplyError) as error:
        # A user without the right to INFO can still work, and so can one behind a proxy that refuses it.
        if isinstance(error, AccessDenied) and "info" not in str(error).lower():
            raise
        return None


def _config() -> Steps[dict[str, str]]:
    """Read settings that INFO lacks. Hosted servers, and many users, may not read them."""
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
    # Accept a version that cannot be parsed.
    known = tuple(map(int, numbers)) if all(number.isdigit() for number in numbers) else OLDEST
    if known < OLDEST:
        text = f"Redis must be {'.'.join(map(str, OLDEST))} or newer, or Valkey, got {version}."
        return Finding("version", Level.ERROR, text, "Update the server.")
    if known[0] > NEWEST:
        text = f"Redis is {version}; this release of Tenure knows versions up to {NEWEST}."
        return Finding("version", Level.WARNING, text, "Check for a newer Tenure.")
    valkey = info.get("valkey_version")
    return Finding("version", Level.OK, f"{name} {valkey or version or '(unknown version)'}.")


def _role(info: Mapping[str, str]) -> Finding:
    if info.get("role", "master") != "master":
        text = "This Redis is a replica, which refuses writes."
        return Finding("role", Level.ERROR, text, "Use the URL of its master, or of the sentinels.")
    replicas = info.get("connected_slaves", "0")
    return Finding("role", Level.OK, f"A master with {replicas} replica{'' if replicas == '1' else 's'}.")


def _mode(info: Mapping[str, str], clustered: bool) -> Finding:
    mode = info.get("redis_mode", "standalone")
    if not clustered and (info.get("cluster_enabled", "0") == "1" or mode == "cluster"):
        text = "This Redis is part of a cluster, and the URL names one server."
        return Finding("mode", Level.ERROR, text, "Use the URL of the cluster: redis+cluster://host:port,host:port/.")
    if mode == "sentinel":
        text = "This is a sentinel, which stores no data."
        return Finding("mode", Level.ERROR, text, "Use a URL that begins with redis+sentinel:// and names the service.")
    return Finding("mode", Level.OK, f"{mode.capitalize()}.")


def _eviction(info: Mapping[str, str]) -> Finding:
    policy = info.get("maxmemory_policy", "noeviction")
    if policy == "noeviction":
        return Finding(EVICTION, Level.OK, "Redis never deletes jobs to free memory (noeviction).")
    has_limit = info.get("maxmemory", "0") != "0"
    when = "when its memory is full" if has_limit else "as soon as its memory has a limit"
    text = f"Redis may delete jobs {when}: maxmemory-policy must be noeviction, got {policy}."
    return Finding(EVICTION, Level.ERROR, text, "Set `maxmemory-policy noeviction`; use another Redis for caches.")


def _memory(info: Mapping[str, str]) -> Finding:
    used, limit = _number(info, "used_memory"), _number(info, "maxmemory")
    if not limit:
        return Finding("memory", Level.OK, f"{_size(used)} in use, without a limit.")
    remedy = "When it is full, no job can be enqueued: raise `maxmemory`, or let workers catch up."
    return _warning("memory", f"{_size(used)} of {_size(limit)} in use.", remedy, used >= ALMOST_FULL * limit)


def _clients(info: Mapping[str, str]) -> Finding:
    used, limit = _number(info, "connected_clients"), _number(info, "maxclients")
    text = f"{used:,} of {limit:,} in use." if limit else f"{used:,} in use."
    remedy = "Raise `maxclients`, or find the client with too many of them."
    return _warning("connections", text, remedy, bool(limit) and used >= ALMOST_FULL * limit)


def _persistence(info: Mapping[str, str], config: Mapping[str, str]) -> Finding:
    """Check whether acknowledged jobs survive a crash of Redis."""
    name = "persistence"
    for field, what in (("aof_last_write_status", "the append-only file"), ("rdb_last_bgsave_status", "a snapshot")):
        if info.get(field, "ok") != "ok":
            text = f"Redis could not write {what} the last time."
            return Finding(name, Level.WARNING, text, "Check its log, its disk, and the rights of its directory.")
    if info.get("aof_enabled", "1") == "0":
        text = "Redis has no append-only file: a crash of Redis loses jobs."
        if config.get("save"):
            text = "Redis has no append-only file, only snapshots: a crash of Redis loses all writes since the last."
        return Finding(name, Level.WARNING, text, "Set `appendonly yes`.")
    fsync = config.get("appendfsync", "")
    if fsync == "no":
        text = "Redis lets the system decide when its append-only file reaches the disk: a power cut loses jobs."
        return Finding(name, Level.WARNING, text, "Set `appendfsync everysec`, or `always`.")
    return Finding(name, Level.OK, f"An append-only file{f', synced: {fsync}' if fsync else ''}.")


def _rights(missing: tuple[str, ...]) -> Finding:
    if not missing:
        return Finding("rights", Level.OK, "This user has all rights that Tenure needs.")
    text = f"This user of Redis lacks rights: {' '.join(missing)}."
    return Finding("rights", Level.ERROR, text, "`tenure check --acl USER` prints the line that grants them.")


def _measured(wall: Callable[[], float], clock: Callable[[], float]) -> Steps[list[Finding]]:
    """Measure the difference of the clocks, and the median round trip."""
    rounds: list[tuple[float, float]] = []
    for _ in range(PINGS):
        began = clock()
        try:
            seconds, micros = yield Command(("TIME",))
        except (AccessDenied, ReplyError):  # the finding about rights names TIME
            return [Finding("clock", Level.UNKNOWN, "TIME is refused here, so no time was measured.")]
        took = clock() - began
        # Redis read its clock about half a round trip ago.
        rounds.append((took, int(seconds) + int(micros) / 1_000_000 - (wall() - took / 2)))
    apart_ms = min(rounds)[1] * limits.SECOND
    took_ms = sorted(took * limits.SECOND for took, _ in rounds)
    middle = took_ms[PINGS // 2]
    way = "ahead of" if apart_ms > 0 else "behind"
    text = f"The clock of Redis is {_time(abs(apart_ms))} {way} the clock of this machine."
    remedy = "Leases are not affected; `run_after` and the times shown are. Let both machines use one time server."
    clocks = _warning("clock", text, remedy, abs(apart_ms) >= CLOCKS_APART_MS)
    text = f"A round trip takes {_time(middle)}, the longest of {PINGS} took {_time(took_ms[-1])}."
    remedy = "Each job needs several: move workers closer to Redis."
    return [clocks, _warning("latency", text, remedy, middle >= SLOW_PING_MS)]


def _warning(name: str, found: str, remedy: str, is_due: bool) -> Finding:
    """Return a warning if it is due; else what was found is correct, and needs no remedy."""
    return Finding(name, Level.WARNING, found, remedy) if is_due else Finding(name, Level.OK, found)


def _number(info: Mapping[str, str], name: str) -> int:
    text = info.get(name, "0")
    return int(text) if text.isdigit() else 0


def _size(size: int) -> str:
    for unit, of in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if size >= of:
            return f"{size / of:,.1f} {unit}"
    return f"{size:,} B"


def _time(ms: float) -> str:
    return f"{ms / limits.SECOND:,.1f} s" if ms >= limits.SECOND else f"{ms:.1f} ms"
