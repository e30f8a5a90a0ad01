"""What the tests know of the keys: time can be shifted in them, and every key must have an owner."""

from __future__ import annotations

from typing import Any, Final

from tenure.testing.server import RedisServer
from tests.support import keyspace
from tests.support.shapes import Key
from tests.support.sixth.engine import SixthEngine

Dump = dict[bytes, Any]

_SHIFT: Final = """
redis.call('DEL', 'nothing') -- so that it runs at the memory limit as well
local prefix, ms = KEYS[1], tonumber(ARGV[1])
for suffix, by in pairs({ holders = ms, suspects = ms, scheduled = ms * 1000 }) do
  local key = prefix .. ':' .. suffix
  for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do redis.call('ZINCRBY', key, -by, member) end
end
local meta, jobs = prefix .. ':meta', prefix .. ':jobs'
for _, field in ipairs({ 'seen', 'amnesty', 'before' }) do
  if redis.call('HEXISTS', meta, field) == 1 then redis.call('HINCRBY', meta, field, -ms) end
end
local all = redis.call('HGETALL', jobs)
for i = 1, #all, 2 do
  local job = cmsgpack.unpack(all[i + 1])
  for _, time in ipairs({ 'enqueued', 'due', 'started', 'ended', 'expires' }) do
    if job[time] then job[time] = job[time] - ms end
  end
  redis.call('HSET', jobs, all[i], cmsgpack.pack(job))
end
"""
_STATES: Final = (b"ready", b"scheduled", b"active", b"failed", b"broken", b"cancelled")
_SUFFIXES: Final = frozenset({*_STATES, b"jobs", b"meta", b"holders", b"suspects", b"held", b"call"})


def pass_time(server: RedisServer, namespace: str, queue: str, ms: int) -> None:
    server.command("EVAL", _SHIFT, 1, SixthEngine(namespace).prefix(queue), ms)


def dump(server: RedisServer) -> Dump:
    return {name: key.value for name, key in keyspace.keys(server).items() if b":call:" not in name}


def timeless(found: Dump) -> Dump:
    """A dump without the times at which workers came by."""
    masked: Dump = {}
    for name, value in found.items():
        if name.endswith((b":holders", b":suspects")):
            value = set(value)
        elif name.endswith(b":meta"):
            value = {field: text for field, text in value.items() if field not in (b"seen", b"amnesty", b"before")}
        masked[name] = value
    return {name: value for name, value in masked.items() if value}


def audit(server: RedisServer, namespace: str) -> list[str]:
    shared = SixthEngine(namespace).shared().encode() + b":"
    wrong: list[str] = []
    queues: dict[bytes, dict[bytes, Key]] = {}
    for name, key in keyspace.keys(server).items():
        prefix, _, suffix = name.partition(b"}:")
        if name.startswith(shared):
            wrong += [] if key.ttl_ms >= 0 else [f"{name!r} has no time to live"]
        elif suffix.split(b":")[0] not in _SUFFIXES:
            wrong.append(f"{name!r} is no key of ours")
        else:
            queues.setdefault(prefix, {})[suffix] = key
    for prefix, found in queues.items():
        wrong += [f"{prefix!r}: {fault}" for fault in _faults(found)]
    return wrong


def _faults(keys: dict[bytes, Key]) -> list[str]:
    jobs = set(keys[b"jobs"].value) if b"jobs" in keys else set()
    places = [id for state in _STATES if state in keys for id in keys[state].value]
    held = [id for suffix, key in keys.items() if suffix.startswith(b"held:") for id in key.value]
    active = set(keys[b"active"].value) if b"active" in keys else set()
    workers = {suffix.removeprefix(b"held:") for suffix in keys if suffix.startswith(b"held:")}
    holders = set(keys[b"holders"].value) if b"holders" in keys else set()
    checks = {
        "a job is in one state": sorted(places) == sorted(jobs),
        "active jobs are held": sorted(held) == sorted(active),
        "who holds a job is a holder": workers == holders,
    }
    return [f"not so: {rule}" for rule, kept in checks.items() if not kept]


def spoil(server: RedisServer, namespace: str, queue: str) -> None:
    for suffix in ("ready", "meta"):
        server.command("SET", f"{SixthEngine(namespace).prefix(queue)}:{suffix}", "x")


def set_layout(server: RedisServer, namespace: str, queue: str, version: int | None) -> None:
    meta = f"{SixthEngine(namespace).prefix(queue)}:meta"
    if version is None:
        server.command("HDEL", meta, "layout")
    else:
        server.command("HSET", meta, "layout", version)
