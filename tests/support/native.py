"""What the tests know of the native layout: time can be shifted in it, and every key must have an owner."""

from __future__ import annotations

from typing import Any, Final

from tenure.engines.native.keys import namespace_prefix, queue_prefix
from tenure.testing.server import RedisServer
from tests.support.audit import ENDS, Audit
from tests.support.gates import OF_CLUSTERS, is_limit_key, limit_faults
from tests.support.keyspace import keys
from tests.support.shapes import Key

Dump = dict[bytes, Any]
"""Every key and its value: bytes, list of bytes, set of bytes, or dict."""

CLOCKS: Final = frozenset({b"seen", b"amnesty", b"before"})
"""Fields of `meta` that only say when somebody came by."""

# Everything that was written as a time moves back by ARGV[1] ms, as if that much time had passed since.
_SHIFT: Final = """
redis.call('DEL', 'nothing') -- so that it runs at the memory limit as well
local prefix, ms = KEYS[1], tonumber(ARGV[1])
local function text(number) return string.format('%.0f', number) end
for _, zset in ipairs({
  'holders', 'holds', 'scheduled', 'suspects', 'completed', 'failed', 'broken', 'cancelled', 'moments', 'expires',
}) do
  local entries = redis.call('ZRANGE', prefix .. ':' .. zset, 0, -1)
  for _, member in ipairs(entries) do redis.call('ZINCRBY', prefix .. ':' .. zset, -ms, member) end
  if zset == 'holders' then
    for _, worker in ipairs(entries) do
      local held = redis.call('HGETALL', prefix .. ':held:' .. worker)
      for i = 1, #held, 2 do
        local token, claimed, rest = string.match(held[i + 1], '^(%d+) (%d+)(.*)$')
        if token then
          local claim = token .. ' ' .. text(claimed - ms) .. rest
          redis.call('HSET', prefix .. ':held:' .. worker, held[i], claim)
        end
      end
    end
  end
end
local moved, scheduled = {}, redis.call('ZRANGE', prefix .. ':scheduled', 0, -1, 'WITHSCORES')
for i = 1, #scheduled, 2 do
  local at, mark, id = string.match(scheduled[i], '^(%d+)([/*])(.*)$')
  local record = id and redis.call('HGET', prefix .. ':jobs', id)
  if record then
    moved[id] = true
    at = text(string.sub(at, 1, 13) - ms) .. string.sub(at, 14)
    redis.call('ZREM', prefix .. ':scheduled', scheduled[i])
    redis.call('ZADD', prefix .. ':scheduled', scheduled[i + 1], at .. mark .. id)
    redis.call('HSET', prefix .. ':jobs', id, (string.gsub(record, '^%d+', at, 1)))
  end
end
local jobs = redis.call('HGETALL', prefix .. ':jobs')
for i = 1, #jobs, 2 do
  local at, rest = string.match(jobs[i + 1], '^(%d+)( [^%c]* x=.*)$')
  if at and not moved[jobs[i]] then
    moved[jobs[i]] = true
    redis.call('HSET', prefix .. ':jobs', jobs[i], text(string.sub(at, 1, 13) - ms) .. string.sub(at, 14) .. rest)
  end
end
local keys = redis.call('HGETALL', prefix .. ':unique')
for i = 1, #keys, 2 do
  local lasts, id = string.match(keys[i + 1], '^(%d+) (.*)$')
  if lasts ~= '0' then
    redis.call('HSET', prefix .. ':unique', keys[i], text(lasts - ms) .. ' ' .. id)
    redis.call('ZINCRBY', prefix .. ':windows', -ms, keys[i])
  end
  local at, rest = string.match(redis.call('HGET', prefix .. ':jobs', id) or '', '^(%d+)(.*)$')
  if at and not moved[id] then
    at = text(string.sub(at, 1, 13) - ms) .. string.sub(at, 14)
    redis.call('HSET', prefix .. ':jobs', id, at .. rest)
  end
end
for _, field in ipairs({ 'seen', 'amnesty', 'before', 'asked' }) do
  if redis.call('HEXISTS', prefix .. ':meta', field) == 1 then redis.call('HINCRBY', prefix .. ':meta', field, -ms) end
end
for _, name in ipairs(redis.call('KEYS', prefix .. ':announced:*')) do
  for _, member in ipairs(redis.call('ZRANGE', name, 0, -1)) do redis.call('ZINCRBY', name, -ms, member) end
end
for _, key in ipairs({ ':due', ':moved' }) do
  for _, name in ipairs(redis.call('ZRANGE', prefix .. key, 0, -1)) do
    redis.call('ZINCRBY', prefix .. key, -ms, name)
  end
end
local ticks = redis.call('HGETALL', prefix .. ':ticks')
for i = 1, #ticks, 2 do
  local planned, fire, rest = string.match(ticks[i + 1], '^(%d+) (%d+)(.*)$')
  if planned and planned ~= '0' then
    redis.call('HSET', prefix .. ':ticks', ticks[i], text(planned - ms) .. ' ' .. text(fire - ms) .. rest)
  end
end
local ended = redis.call('HGETALL', prefix .. ':ended')
for i = 1, #ended, 2 do
  local state, at, expires, rest = string.match(ended[i + 1], '^(%S+) (%d+) (%d+)(.*)$')
  if state then
    redis.call('HSET', prefix .. ':ended', ended[i], state .. ' ' .. text(at - ms) .. ' ' .. text(expires - ms) .. rest)
  end
end
return 1
"""


def pass_time(server: RedisServer, namespace: str, queue: str, ms: int) -> None:
    """Let `ms` pass for a queue without waiting (below zero: set the clock back)."""
    server.command("EVAL", _SHIFT, 1, queue_prefix(namespace, queue), ms)


def dump(server: RedisServer) -> Dump:
    """All values but the remembered answers: what must stay the same when nothing may change."""
    return {name: key.value for name, key in keys(server).items() if b":call:" not in name}


def timeless(found: Dump) -> Dump:
    """A dump without its times: what must stay the same when the same call arrives twice."""
    masked: Dump = {}
    for name, value in found.items():
        suffix = name.partition(b"}:")[2]
        if not isinstance(value, dict):
            pass
        elif suffix == b"meta":
            value = {field: text for field, text in value.items() if field not in CLOCKS}
        elif suffix.startswith(b"held:"):
            value = {id: claim.split(b" ")[0] for id, claim in value.items()}
        elif suffix == b"unique":
            value = {key: text.partition(b" ")[2] for key, text in value.items()}
        elif suffix in (b"progress", b"parked"):
            value = {name: text.partition(b" ")[2] for name, text in value.items()}
        elif suffix in (
            b"holders",
            b"holds",
            b"suspects",
            b"scheduled",
            b"queues",
            b"workers",
            b"quiet",
            b"windows",
            b"expires",
            b"resting",
            b"due",
            b"moved",
            *ENDS,
        ) or suffix.startswith(b"announced:"):
            value = set(value)
        masked[name] = value
    return {name: value for name, value in masked.items() if value}


def audit(server: RedisServer, namespace: str) -> list[str]:
    """What is wrong with the keys: a job in two places or in none, a key without owner or time to live."""
    wrong: list[str] = []
    queues: dict[bytes, dict[bytes, Key]] = {}
    common: dict[bytes, Key] = {}
    shared = namespace_prefix(namespace).encode() + b":"
    start = namespace_prefix(namespace).encode()[:-1] + b":"
    for name, key in keys(server).items():
        if name.startswith(shared):
            common[name.removeprefix(shared)] = key
            if key.ttl_ms < 0 and name != shared + b"partitions" and not is_limit_key(name.removeprefix(shared)):
                wrong.append(f"{name!r} of the namespace has no time to live")
        elif name.startswith(start):
            prefix, _, suffix = name.partition(b"}:")
            queues.setdefault(prefix + b"}", {})[suffix] = key
        else:
            wrong.append(f"{name!r} is no key of ours")
    for prefix, found in queues.items():
        own = {
            suffix.removeprefix(OF_CLUSTERS): found.pop(suffix) for suffix in [*found] if suffix.startswith(OF_CLUSTERS)
        }
        wrong += [f"{prefix.decode()}: {what}" for what in Audit(found).run()]
        if own:
            wrong += limit_faults({prefix: found}, own)
    return wrong if b"homes" in common else wrong + limit_faults(queues, common)


def places(server: RedisServer, namespace: str, queue: str) -> dict[bytes, list[str]]:
    """Where each job of a queue is: more than one place, or none, is a fault."""
    prefix = queue_prefix(namespace, queue).encode() + b":"
    found = {name.removeprefix(prefix): key for name, key in keys(server).items() if name.startswith(prefix)}
    return Audit(found).places()


def spoil(server: RedisServer, namespace: str, queue: str) -> None:
    """Write another program's data where the queue keeps its own, so that the engine refuses it."""
    for suffix in ("ready", "meta"):
        server.command("SET", f"{queue_prefix(namespace, queue)}:{suffix}", "x")


def set_layout(server: RedisServer, namespace: str, queue: str, version: int | None) -> None:
    """Write to the queue which version its layout has; None: it says none."""
    meta = f"{queue_prefix(namespace, queue)}:meta"
    if version is None:
        server.command("HDEL", meta, "layout")
    else:
        server.command("HSET", meta, "layout", version)
