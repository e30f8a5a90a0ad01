"""What the tests know of the keys of worqr: time can be shifted in them, every key must have an owner."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

import msgspec

from tenure.testing.server import RedisServer
from tests.support import keyspace
from tests.support.shapes import Key

Dump = dict[bytes, Any]

# Everything that was written as a time moves back by ARGV[1] ms, as if that much time had passed since.
_SHIFT: Final = """
redis.call('DEL', 'nothing') -- so that it runs at the memory limit as well
local prefix, ms = KEYS[1], tonumber(ARGV[1])
local function key(suffix) return prefix .. ':' .. suffix end
for _, zset in ipairs({ 'holders', 'suspects', 'scheduled', 'failed', 'broken', 'cancelled', 'foreign', 'silent' }) do
  for _, member in ipairs(redis.call('ZRANGE', key(zset), 0, -1)) do redis.call('ZINCRBY', key(zset), -ms, member) end
end
for _, field in ipairs({ 'seen', 'amnesty', 'before', 'asked' }) do
  if redis.call('HEXISTS', key('meta'), field) == 1 then redis.call('HINCRBY', key('meta'), field, -ms) end
end
local jobs = redis.call('HGETALL', key('jobs'))
for i = 1, #jobs, 2 do
  local job = cmsgpack.unpack(jobs[i + 1])
  for _, field in ipairs({ 't', 'ended', 'expires' }) do job[field] = job[field] and job[field] - ms end
  redis.call('HSET', key('jobs'), jobs[i], cmsgpack.pack(job))
end
for _, place in ipairs(redis.call('SCAN', 0, 'MATCH', key('passing:*'), 'COUNT', 10000)[2]) do
  if redis.call('HEXISTS', place, 'due') == 1 then redis.call('HINCRBY', place, 'due', -ms) end
end
return 1
"""
_ASIDE: Final = (b"scheduled", b"failed", b"broken", b"cancelled")
_BRIEF: Final = (b"call", b"foreign", b"silent", b"passing", b"attempts", b"removed")
_OURS: Final = {
    "meta", "jobs", "held", "holders", "suspects", "unroutable", "attempts", "names", "foreign", "silent", "call",
    "passing", "moving", "removed", *(state.decode() for state in _ASIDE),
}  # fmt: skip


def prefix_of(namespace: str, queue: str) -> str:
    return f"{namespace}:tenure:q:{quote(queue, safe='', errors='surrogateescape')}"


def pass_time(server: RedisServer, namespace: str, queue: str, ms: int) -> None:
    """Let `ms` pass for a queue without waiting (below zero: set the clock back)."""
    server.command("EVAL", _SHIFT, 1, prefix_of(namespace, queue), ms)


def dump(server: RedisServer) -> Dump:
    """All values but the remembered answers, and the times of our workers: what must stay the same when nothing may
    change."""
    hidden = (b":call:", b":tenure:wire", b":tenure:sweep")
    return {name: key.value for name, key in keyspace.keys(server).items() if not any(part in name for part in hidden)}


def timeless(found: Dump) -> Dump:
    """A dump without its times: what must stay the same when the same call arrives twice."""
    masked: Dump = {}
    for name, value in found.items():
        suffix = name.rpartition(b":")[2]
        if suffix == b"meta":
            value = {field: text for field, text in value.items() if field not in (b"seen", b"amnesty", b"before")}
        elif suffix == b"jobs":
            value = {id: _timeless(msgspec.msgpack.decode(text)) for id, text in value.items()}
        elif suffix == b"attempts":
            value = {id: [_timeless(one) for one in msgspec.msgpack.decode(text)] for id, text in value.items()}
        elif isinstance(value, dict):
            value = set(value)
        masked[name] = value
    return {name: value for name, value in masked.items() if value}


def _timeless(job: dict[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in job.items() if field not in ("t", "at", "ended", "expires")}


def audit(server: RedisServer, namespace: str) -> list[str]:
    """What is wrong with the keys: a process without a record, a record in two states, a key without an owner."""
    found = keyspace.keys(server)
    theirs, shared = f"{namespace}:".encode(), f"{namespace}:tenure:".encode()
    wrong: list[str] = []
    queues: dict[bytes, dict[bytes, Key]] = {}
    for name, key in found.items():
        if name.startswith(shared + b"q:"):
            queue, _, suffix = name[len(shared) + 2 :].partition(b":")
            queues.setdefault(queue, {})[suffix] = key
        elif name.startswith(shared) and key.ttl_ms < 0:
            wrong.append(f"{name!r} has no time to live")
        elif not name.startswith(theirs):
            wrong.append(f"{name!r} is no key of the prefix")
    words = (b"queues", b"uniqueTasks", b"processes", b"workingProcesses", b"workers", b"expiringWorkers")
    for name in found:
        word = name[len(theirs) :].split(b":")[0]
        if word not in (*words, b"workerTimers", b"workingQueues", b"tenure"):
            wrong.append(f"{name!r} is no key of the layout")
    held = set()
    for queue, keys in queues.items():
        held |= _active(keys)
        wrong += [f"{queue.decode()}: {what}" for what in _faults(keys)]
    processes = {name[len(theirs) + 10 :] for name in found if name.startswith(theirs + b"processes:")}
    working = {pid for name in found if name.startswith(theirs + b"workingProcesses:") for pid in found[name].value}
    wrong += [f"{pid!r} has no list, or no owner" for pid in processes ^ held]
    wrong += [f"{pid!r} is in one of its two places" for pid in processes ^ working]
    return wrong


def _jobs(keys: dict[bytes, Key]) -> dict[bytes, dict[str, Any]]:
    return {pid: msgspec.msgpack.decode(text) for pid, text in keys[b"jobs"].value.items()} if b"jobs" in keys else {}


def _active(keys: dict[bytes, Key]) -> set[bytes]:
    return {pid for pid, job in _jobs(keys).items() if job["s"] == "active"}


def _faults(keys: dict[bytes, Key]) -> list[str]:
    def value(suffix: bytes, empty: Any) -> Any:
        return keys[suffix].value if suffix in keys else empty

    wrong = [f"{suffix!r} is no key of the layout" for suffix in keys if suffix.split(b":")[0].decode() not in _OURS]
    for suffix, key in keys.items():
        if (
            suffix.split(b":")[0] in (b"call", b"foreign", b"silent", b"passing", b"attempts", b"removed")
            and key.ttl_ms < 0
        ):
            wrong.append(f"{suffix!r} has no time to live")
    jobs, places = _jobs(keys), []
    for suffix in keys:
        if suffix in _ASIDE or suffix.startswith((b"unroutable:", b"held:")):
            places += [(suffix, pid) for pid in keys[suffix].value]
    wrong += [f"{pid!r} is in two states" for pid in jobs if [one for _, one in places].count(pid) != 1]
    for suffix, pid in places:
        state = "active" if suffix.startswith(b"held:") else suffix.split(b":")[0].decode()
        if pid not in jobs or jobs[pid]["s"] != state:
            wrong.append(f"{pid!r} is in {suffix!r} by mistake")
    workers = {suffix[len(b"held:") :] for suffix in keys if suffix.startswith(b"held:")}
    wrong += [f"{worker!r} is a holder of nothing, or not listed" for worker in workers ^ set(value(b"holders", {}))]
    wrong += [f"{worker!r} is suspected, holding nothing" for worker in set(value(b"suspects", {})) - workers]
    parked = {suffix[len(b"unroutable:") :] for suffix in keys if suffix.startswith(b"unroutable:")}
    wrong += [f"{task!r} is parked and not listed, or the other way" for task in parked ^ set(value(b"unroutable", []))]
    wrong += [f"{name!r} names no job" for name, pid in value(b"names", {}).items() if pid not in jobs]
    return wrong


def spoil(server: RedisServer, namespace: str, queue: str) -> None:
    """Write another program's data where the queue keeps its own, so that the engine refuses it."""
    server.command("SET", f"{namespace}:queues:{queue}", "x")
    server.command("SET", f"{prefix_of(namespace, queue)}:meta", "x")


def set_layout(server: RedisServer, namespace: str, queue: str, version: int | None) -> None:
    """Write to the queue which version its layout has; None: it says none."""
    meta = f"{prefix_of(namespace, queue)}:meta"
    if version is None:
        server.command("HDEL", meta, "layout")
    else:
        server.command("HSET", meta, "layout", version)
