"""What the tests know of the native layout: time can be shifted in it, and every key must have an owner."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from leasehold.core.job import State
from leasehold.engines.native.keys import namespace_prefix, queue_prefix
from leasehold.testing.server import RedisServer

Dump = dict[bytes, Any]
"""Every key and its value: bytes, list of bytes, set of bytes, or dict."""

ENDS: Final = (b"completed", b"failed", b"broken", b"cancelled")
FIXED: Final = frozenset({b"meta"})
"""What a drained queue may leave behind without an end in time of its own: its counters."""
CLOCKS: Final = frozenset({b"seen", b"amnesty", b"before"})
"""Fields of `meta` that only say when somebody came by."""

_DUMP: Final = """
local found = {}
for _, name in ipairs(redis.call('KEYS', '*')) do
  local kind, value = redis.call('TYPE', name).ok, nil
  if kind == 'string' then value = redis.call('GET', name)
  elseif kind == 'list' then value = redis.call('LRANGE', name, 0, -1)
  elseif kind == 'hash' then value = redis.call('HGETALL', name)
  elseif kind == 'set' then value = redis.call('SMEMBERS', name)
  else value = redis.call('ZRANGE', name, 0, -1, 'WITHSCORES') end
  found[#found + 1] = { name, kind, redis.call('PTTL', name), value }
end
return found
"""

# Everything that was written as a time moves back by ARGV[1] ms, as if that much time had passed since.
_SHIFT: Final = """
redis.call('DEL', 'nothing') -- so that it runs at the memory limit as well
local prefix, ms = KEYS[1], tonumber(ARGV[1])
local function text(number) return string.format('%.0f', number) end
for _, zset in ipairs({ 'holders', 'scheduled', 'suspects', 'completed', 'failed', 'broken', 'cancelled' }) do
  local entries = redis.call('ZRANGE', prefix .. ':' .. zset, 0, -1)
  for _, member in ipairs(entries) do redis.call('ZINCRBY', prefix .. ':' .. zset, -ms, member) end
  if zset == 'holders' then
    for _, worker in ipairs(entries) do
      local held = redis.call('HGETALL', prefix .. ':held:' .. worker)
      for i = 1, #held, 2 do
        local token, deadline, claimed, rest = string.match(held[i + 1], '^(%d+) (%d+) (%d+)(.*)$')
        if token then
          deadline = deadline == '0' and '0' or text(deadline - ms)
          local claim = token .. ' ' .. deadline .. ' ' .. text(claimed - ms) .. rest
          redis.call('HSET', prefix .. ':held:' .. worker, held[i], claim)
        end
      end
    end
  end
end
for _, field in ipairs({ 'seen', 'amnesty', 'before' }) do
  if redis.call('HEXISTS', prefix .. ':meta', field) == 1 then redis.call('HINCRBY', prefix .. ':meta', field, -ms) end
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


@dataclass(frozen=True, slots=True)
class Key:
    """One key as it was found."""

    kind: str
    ttl_ms: int
    value: Any


def pass_time(server: RedisServer, namespace: str, queue: str, ms: int) -> None:
    """Let `ms` pass for a queue without waiting (below zero: set the clock back)."""
    server.command("EVAL", _SHIFT, 1, queue_prefix(namespace, queue), ms)


def keys(server: RedisServer) -> dict[bytes, Key]:
    """All keys of the server with their values."""
    found = {}
    for name, kind, ttl, value in server.command("EVAL", _DUMP, 0):
        if kind in (b"hash", b"zset"):
            value = dict(zip(value[::2], value[1::2], strict=True))
        elif kind == b"set":
            value = set(value)
        found[name] = Key(kind.decode(), ttl, value)
    return found


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
        elif suffix in (b"holders", b"suspects", b"scheduled", b"queues", b"workers", *ENDS):
            value = set(value)
        masked[name] = value
    return {name: value for name, value in masked.items() if value}


def audit(server: RedisServer, namespace: str) -> list[str]:
    """What is wrong with the keys: a job in two places or in none, a key without owner or time to live."""
    wrong: list[str] = []
    queues: dict[bytes, dict[bytes, Key]] = {}
    shared = namespace_prefix(namespace).encode() + b":"
    start = namespace_prefix(namespace).encode()[:-1] + b":"
    for name, key in keys(server).items():
        if name.startswith(shared):
            if key.ttl_ms < 0:
                wrong.append(f"{name!r} of the namespace has no time to live")
        elif name.startswith(start):
            prefix, _, suffix = name.partition(b"}:")
            queues.setdefault(prefix + b"}", {})[suffix] = key
        else:
            wrong.append(f"{name!r} is no key of ours")
    for prefix, found in queues.items():
        wrong += [f"{prefix.decode()}: {what}" for what in _Audit(found).run()]
    return wrong


def places(server: RedisServer, namespace: str, queue: str) -> dict[bytes, list[str]]:
    """Where each job of a queue is: more than one place, or none, is a fault."""
    prefix = queue_prefix(namespace, queue).encode() + b":"
    found = {name.removeprefix(prefix): key for name, key in keys(server).items() if name.startswith(prefix)}
    return _Audit(found).places()


class _Audit:
    """One queue's keys by suffix."""

    def __init__(self, found: dict[bytes, Key]) -> None:
        self.found = found

    def run(self) -> list[str]:
        return [*self._unknown(), *self._jobs(), *self._ghosts(), *self._held(), *self._parked(), *self._ended()]

    def value(self, suffix: bytes, empty: Any) -> Any:
        return self.found[suffix].value if suffix in self.found else empty

    def waiting(self) -> list[bytes]:
        return [*self.value(b"isolated", []), *self.value(b"ready", [])]

    def places(self) -> dict[bytes, list[str]]:
        where: dict[bytes, list[str]] = {id: [] for id in self.value(b"jobs", {})}
        ghosts = Counter({id: int(count) for id, count in self.value(b"ghosts", {}).items()})
        for id in self.waiting():
            if ghosts[id] > 0:
                ghosts[id] -= 1
            else:
                where.setdefault(id, []).append(State.READY)
        for id in self.value(b"scheduled", {}):
            where.setdefault(id, []).append(State.SCHEDULED)
        for suffix in self.found:
            if suffix.startswith((b"held:", b"unroutable:")):
                for id in self.found[suffix].value:
                    where.setdefault(id, []).append(suffix.decode(errors="replace"))
        for state in ENDS:
            for id in self.value(state, {}):
                where.setdefault(id, []).append(state.decode())
        return where

    def _unknown(self) -> list[str]:
        plain = {
            b"jobs",
            b"ready",
            b"isolated",
            b"scheduled",
            b"holders",
            b"suspects",
            b"tries",
            b"ghosts",
            b"wake",
            b"unroutable",
        }
        plain |= {b"ended", b"kept", *ENDS, *FIXED}
        wrong = []
        for suffix, key in self.found.items():
            if suffix == b"watched" or suffix.startswith(b"call:"):
                if key.ttl_ms < 0:
                    wrong.append(f"{suffix!r} has no time to live")
            elif suffix not in plain and not suffix.startswith((b"held:", b"unroutable:")):
                wrong.append(f"{suffix!r} is no key of the layout")
        return wrong

    def _jobs(self) -> list[str]:
        jobs, where = self.value(b"jobs", {}), self.places()
        wrong = [f"{id!r} is in {found or 'no place'}" for id, found in where.items() if len(found) != 1]
        for id, found in where.items():
            ended = any(State(place).ended for place in found if place in set(State))
            if ended == (id in jobs):
                wrong.append(f"{id!r} is in {found}, its record is {'there' if id in jobs else 'gone'}")
        wrong += [f"{id!r} has tries and no job" for id in self.value(b"tries", {}) if id not in jobs]
        return wrong

    def _ghosts(self) -> list[str]:
        ghosts = {id: int(count) for id, count in self.value(b"ghosts", {}).items()}
        listed = Counter(self.waiting())
        wrong = [
            f"{count} ghosts of {id!r}, {listed[id]} entries" for id, count in ghosts.items() if count > listed[id]
        ]
        total = int(self.value(b"meta", {}).get(b"ghosts", 0))
        if total != sum(ghosts.values()):
            wrong.append(f"meta counts {total} ghosts, there are {sum(ghosts.values())}")
        if len(self.value(b"wake", [])) > 1:
            wrong.append("more than one wake-up is waiting")
        return wrong

    def _held(self) -> list[str]:
        holders = set(self.value(b"holders", {}))
        held = {suffix.removeprefix(b"held:") for suffix in self.found if suffix.startswith(b"held:")}
        wrong = [f"{worker!r} holds jobs and is no holder" for worker in held - holders]
        wrong += [f"{worker!r} is a holder of nothing" for worker in holders - held]
        return wrong + [
            f"{worker!r} is suspected, holding nothing" for worker in set(self.value(b"suspects", {})) - holders
        ]

    def _parked(self) -> list[str]:
        tasks = {suffix.removeprefix(b"unroutable:") for suffix in self.found if suffix.startswith(b"unroutable:")}
        listed = self.value(b"unroutable", set())
        return [f"task {task!r} is parked or listed, not both" for task in tasks ^ listed]

    def _ended(self) -> list[str]:
        ended = {id for state in ENDS for id in self.value(state, {})}
        kept = {id for state in ENDS[1:] for id in self.value(state, {})}
        wrong = [f"{id!r} has an end and no state, or the other way" for id in ended ^ set(self.value(b"ended", {}))]
        return wrong + [f"{id!r} is kept for nothing, or not kept" for id in kept ^ set(self.value(b"kept", {}))]
