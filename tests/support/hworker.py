"""What the tests know of the keys of hworker: time can be shifted in them, every key must have an owner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from tenure.core.engine import Feature
from tenure.core.values import replace
from tenure.core.waiting import Lead, Poll
from tenure.engines.hworker import HworkerEngine
from tenure.engines.kit.acl import AclRules
from tenure.testing.server import RedisServer
from tests.support import keyspace
from tests.support.shapes import Key

Dump = dict[bytes, Any]

# Everything that was written as a time moves back by ARGV[1] ms, as if that much time had passed since.
_SHIFT: Final = """
redis.call('DEL', 'nothing') -- so that it runs at the memory limit as well
local prefix, ms = KEYS[1], tonumber(ARGV[1])
local function key(suffix) return prefix .. ':' .. suffix end
for _, zset in ipairs({ 'holders', 'suspects', 'scheduled', 'failed', 'broken', 'cancelled' }) do
  for _, member in ipairs(redis.call('ZRANGE', key(zset), 0, -1)) do redis.call('ZINCRBY', key(zset), -ms, member) end
end
for _, field in ipairs({ 'seen', 'amnesty', 'before', 'asked', 'idle_originals' }) do
  if redis.call('HEXISTS', key('meta'), field) == 1 then redis.call('HINCRBY', key('meta'), field, -ms) end
end
local jobs = redis.call('HGETALL', key('jobs'))
for i = 1, #jobs, 2 do
  local job = cmsgpack.unpack(jobs[i + 1])
  for _, field in ipairs({ 't', 'ended', 'expires' }) do job[field] = job[field] and job[field] - ms end
  redis.call('HSET', key('jobs'), jobs[i], cmsgpack.pack(job))
end
for _, place in ipairs({ 'observed', 'observing' }) do
  local seen = redis.call('HGETALL', key(place))
  for i = 1, #seen, 2 do
    local since, rest = string.match(seen[i + 1], '^(%d+)( .*)$')
    redis.call('HSET', key(place), seen[i], string.format('%.0f', since - ms) .. rest)
  end
end
for _, place in ipairs(redis.call('SCAN', 0, 'MATCH', key('passing:*'), 'COUNT', 10000)[2]) do
  if redis.call('HEXISTS', place, 'due') == 1 then redis.call('HINCRBY', place, 'due', -ms) end
end
return 1
"""
SLICE_MS: Final = 100
"""How long a worker of several pools waits for one of them. (Outside tests it has one.)"""
_THEIRS: Final = ("jobs", "progress", "broken", "failed")
_ASIDE: Final = (b"scheduled", b"failed", b"broken", b"cancelled")
_OURS: Final = {
    "meta", "jobs", "held", "holders", "suspects", "unroutable", "attempts", "observed", "observing", "call", "taken",
    "passing", "moving", *(state.decode() for state in _ASIDE),
}  # fmt: skip


class Pools(HworkerEngine):
    """The engine for tests of all engines: each queue is a pool. Payloads that are no JSON travel in the envelope."""

    features = HworkerEngine.features | {Feature.BYTES, Feature.TEXT}

    def pool_of(self, queue: str) -> str:
        return f"{self.pool}/{quote(queue, safe='', errors='surrogateescape')}"

    def wait(self, worker: str, queues: Sequence[str], timeout_ms: int) -> Lead | Poll:
        return super().wait(worker, queues, timeout_ms if len(queues) == 1 else min(timeout_ms, SLICE_MS))

    def rules(self) -> AclRules:
        rules = super().rules()
        own = [place for place in rules.places if not place.pattern.endswith(":*")]
        more = [
            replace(place, pattern=f"{place.pattern}/*", probe=f"{place.probe}/x", channels=not place.used)
            for place in own
        ]
        return replace(rules, places=(*rules.places, *more))


def pool_of(namespace: str, queue: str) -> str:
    return f"{namespace}/{quote(queue, safe='', errors='surrogateescape')}"


def pass_time(server: RedisServer, namespace: str, queue: str, ms: int) -> None:
    """Let `ms` pass for a queue without waiting (below zero: set the clock back)."""
    server.command("EVAL", _SHIFT, 1, f"hworker-tenure-{pool_of(namespace, queue)}", ms)


def dump(server: RedisServer) -> Dump:
    """All values but the remembered answers: what must stay the same when nothing may change."""
    return {name: key.value for name, key in keyspace.keys(server).items() if b":call:" not in name}


def timeless(found: Dump) -> Dump:
    """A dump without its times: what must stay the same when the same call arrives twice."""
    masked: Dump = {}
    for name, value in found.items():
        suffix = name.rpartition(b":")[2]
        if suffix == b"meta":
            value = {field: text for field, text in value.items() if field not in (b"seen", b"amnesty", b"before")}
        elif suffix in (b"jobs", b"attempts"):
            value = {id: _timeless(msgspec.msgpack.decode(text)) for id, text in value.items()}
        elif isinstance(value, dict):
            value = set(value)
        masked[name] = value
    return {name: value for name, value in masked.items() if value}


def _timeless(job: dict[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in job.items() if field not in ("t", "v", "ended", "expires")}


def audit(server: RedisServer, namespace: str) -> list[str]:
    """What is wrong with the keys: a job in two places, a record without a place, a key without an owner."""
    found, ours = keyspace.keys(server), b"hworker-tenure-"
    shared, begin = ours + f"{namespace}:".encode(), ours + f"{namespace}/".encode()
    wrong: list[str] = []
    pools: dict[bytes, dict[bytes, Key]] = {}
    for name, key in found.items():
        kind = name.removeprefix(b"hworker-").partition(b"-")[0].decode()
        if name.startswith(begin):
            pool, _, suffix = name[len(begin) :].partition(b":")
            pools.setdefault(pool, {})[suffix] = key
        elif name.startswith(shared):
            if key.ttl_ms < 0:
                wrong.append(f"{name!r} has no time to live")
        elif kind not in _THEIRS or not name.startswith(f"hworker-{kind}-{namespace}/".encode()):
            wrong.append(f"{name!r} is no key of the layout")
        else:
            pools.setdefault(name.partition(b"/")[2], {})
    for pool, keys in pools.items():
        wire = {kind: found.get(f"hworker-{kind}-{namespace}/".encode() + pool) for kind in _THEIRS}
        wrong += [f"{pool.decode()}: {what}" for what in _faults(keys, wire)]
    return wrong


def _faults(keys: dict[bytes, Key], wire: dict[str, Key | None]) -> list[str]:
    def value(suffix: bytes, empty: Any) -> Any:
        return keys[suffix].value if suffix in keys else empty

    def on_wire(kind: str) -> set[bytes]:
        key = wire[kind]
        return set(key.value) if key is not None else set()

    wrong = [f"{suffix!r} is no key of the layout" for suffix in keys if suffix.split(b":")[0].decode() not in _OURS]
    for suffix, key in keys.items():
        if suffix.split(b":")[0] in (b"call", b"passing", b"attempts", b"observed") and key.ttl_ms < 0:
            wrong.append(f"{suffix!r} has no time to live")
    records = value(b"jobs", {}).items()
    jobs = {id: msgspec.msgpack.decode(text) for id, text in records}
    places = []
    for suffix in keys:
        if suffix in _ASIDE or suffix.startswith((b"unroutable:", b"held:")):
            places += [(suffix, id) for id in keys[suffix].value]
    wrong += [f"{id!r} is in two states" for id in jobs if [one for _, one in places].count(id) != 1]
    for suffix, id in places:
        state = "active" if suffix.startswith(b"held:") else suffix.split(b":")[0].decode()
        if id not in jobs or jobs[id]["s"] != state:
            wrong.append(f"{id!r} is in {suffix!r} by mistake")
    kinds = (("progress", ("active", "scheduled")), ("failed", ("failed",)), ("broken", ("broken",)))
    for kind, states in kinds:
        ours = {_bytes(job["d"]) for job in jobs.values() if job["s"] in states}
        wrong += [f"{data!r} is in {kind} or in our records only" for data in ours ^ on_wire(kind)]
    everywhere = {_bytes(job["d"]) for job in jobs.values()}
    wrong += [f"{data!r} waits and is elsewhere" for data in on_wire("jobs") & everywhere]
    workers = {suffix[len(b"held:") :] for suffix in keys if suffix.startswith(b"held:")}
    wrong += [f"{worker!r} is a holder of nothing, or not listed" for worker in workers ^ set(value(b"holders", {}))]
    wrong += [f"{worker!r} is suspected, holding nothing" for worker in set(value(b"suspects", {})) - workers]
    parked = {suffix[len(b"unroutable:") :] for suffix in keys if suffix.startswith(b"unroutable:")}
    return wrong + [f"{task!r} is parked and not listed, or so" for task in parked ^ set(value(b"unroutable", []))]


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def spoil(server: RedisServer, namespace: str, queue: str) -> None:
    """Write another program's data where the queue keeps its own, so that the engine refuses it."""
    server.command("SET", f"hworker-jobs-{pool_of(namespace, queue)}", "x")


def set_layout(server: RedisServer, namespace: str, queue: str, version: int | None) -> None:
    """Write to the queue which version its layout has; None: it says none."""
    meta = f"hworker-tenure-{pool_of(namespace, queue)}:meta"
    if version is None:
        server.command("HDEL", meta, "layout")
    else:
        server.command("HSET", meta, "layout", version)
