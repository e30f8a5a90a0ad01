"""What the tests know of the keys of queue-farm: time can be shifted in them, every key must have an owner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

from msgspec import structs

from tenure.core.engine import Feature
from tenure.core.job import Enqueued, NewJob
from tenure.core.steps import Steps
from tenure.core.values import replace
from tenure.engines.kit.engine import AddAll
from tenure.engines.queue_farm import QueueFarmEngine
from tenure.testing.server import RedisServer
from tests.support import keyspace

Dump = dict[bytes, Any]

# Everything that was written as a time moves back by ARGV[1] ms, as if that much time had passed since.
_SHIFT: Final = """
redis.call('DEL', 'nothing') -- so that it runs at the memory limit as well
local prefix, ms = KEYS[1], tonumber(ARGV[1])
local function key(suffix) return prefix .. ':' .. suffix end
local function text(number) return string.format('%.0f', number) end
for _, zset in ipairs({ 'holders', 'suspects', 'failed', 'broken', 'cancelled', 'dropped' }) do
  for _, member in ipairs(redis.call('ZRANGE', key(zset), 0, -1)) do redis.call('ZINCRBY', key(zset), -ms, member) end
end
for _, field in ipairs({ 'seen', 'amnesty', 'before', 'asked', 'found', 'hold' }) do
  if redis.call('HEXISTS', key('meta'), field) == 1 then redis.call('HINCRBY', key('meta'), field, -ms) end
end
local kept = redis.call('HGETALL', key('kept'))
for i = 1, #kept, 2 do
  local job = cmsgpack.unpack(kept[i + 1])
  job[13], job[14] = text(job[13] - ms), text(job[14] - ms)
  redis.call('HSET', key('kept'), kept[i], cmsgpack.pack(job))
end
local foreign = redis.call('HGETALL', key('foreign'))
for i = 1, #foreign, 2 do
  local seen, rest = string.match(foreign[i + 1], '^(%d+)( .*)$')
  redis.call('HSET', key('foreign'), foreign[i], text(seen - ms) .. rest)
end
for i = 2, #ARGV do
  local held = redis.call('HGETALL', ARGV[i])
  for n = 1, #held, 2 do
    local token, claimed, rest = string.match(held[n + 1], '^(%d+) (%d+)( .*)$')
    redis.call('HSET', ARGV[i], held[n], token .. ' ' .. text(claimed - ms) .. rest)
  end
end
return 1
"""


class Farms(QueueFarmEngine):
    """The engine for tests of all engines: each queue is a namespace, and a job without a lane has one of its own, so
    that such jobs run in the order of their enqueue. Payloads that are no JSON travel in the envelope."""

    features = QueueFarmEngine.features | {Feature.BYTES, Feature.TEXT}

    def prefix(self, queue: str) -> str:
        return f"{self.namespace}:{quote(queue, safe='', errors='surrogateescape')}:tenure"

    def enqueue(self, jobs: Sequence[NewJob], add_all: AddAll | None = None) -> Steps[list[Enqueued]]:
        laned = [job if job.shape.lane is not None else _own_lane(job) for job in jobs]
        return (yield from super().enqueue(laned, add_all))


def _own_lane(job: NewJob) -> NewJob:
    return structs.replace(job, shape=replace(job.shape, lane=f"of {job.id}"))


def pass_time(server: RedisServer, namespace: str, queue: str, ms: int) -> None:
    """Let `ms` pass for a queue without waiting (below zero: set the clock back)."""
    prefix = Farms(namespace).prefix(queue)
    held = [name for name in keyspace.keys(server) if name.startswith(f"{prefix}:held:".encode())]
    server.command("EVAL", _SHIFT, 1, prefix, ms, *held)


def dump(server: RedisServer) -> Dump:
    """All values but the remembered answers: what must stay the same when nothing may change."""
    return {name: key.value for name, key in keyspace.keys(server).items() if b":done:" not in name}


_CLOCKS: Final = frozenset({b"seen", b"amnesty", b"before", b"found", b"originals", b"cursor"})


def timeless(found: Dump) -> Dump:
    """A dump without its times: what must stay the same when the same call arrives twice."""
    masked: Dump = {}
    for name, value in found.items():
        if name.endswith((b":holders", b":suspects")):
            value = set(value)
        elif name.endswith(b":meta"):
            value = {field: text for field, text in value.items() if field not in _CLOCKS}
        elif name.endswith(b":fetchAt"):
            value = b"<ms>"
        elif name.endswith(b":claims"):
            value = {lane: text.split(b" ")[0] for lane, text in value.items()}
        masked[name] = value
    return {name: value for name, value in masked.items() if value}


_OURS: Final = frozenset(
    {b"ready", b"known", b"claims", b"held", b"foreign", b"parked", b"holders", b"suspects", b"meta", b"done", b"kept"}
    | {b"failed", b"broken", b"cancelled", b"wake", b"moving", b"dropped"}
)


def audit(server: RedisServer, namespace: str) -> list[str]:
    """What is wrong with the keys: a job in two places or in none, a lane without a turn, a key without owner."""
    wrong: list[str] = []
    shared = f"{namespace}:tenure:".encode()
    farms: dict[bytes, dict[bytes, Any]] = {}
    for name, key in keyspace.keys(server).items():
        if name.startswith(shared):
            wrong += [] if key.ttl_ms >= 0 else [f"{name!r} has no time to live"]
        else:
            _, farm, suffix = name.split(b":", 2)
            farms.setdefault(farm, {})[suffix] = key.value
    for farm, keys in farms.items():
        wrong += [f"{farm!r}: {fault}" for fault in _faults(keys)]
    return wrong


def _faults(keys: dict[bytes, Any]) -> list[str]:
    wrong = [
        f"{name!r} is no key of ours"
        for name in keys
        if name.startswith(b"tenure:") and name.split(b":")[1] not in _OURS
    ]
    queued = {name[6:]: value for name, value in keys.items() if name.startswith(b"queue:")}
    active = {
        name[7:]: value
        for name, value in keys.items()
        if name.startswith(b"active:") and not name.endswith(b":fetchAt")
    }
    fetched = {name[7:-8] for name in keys if name.startswith(b"active:") and name.endswith(b":fetchAt")}
    ends = {b"finishAt", b"deleteAt", b"maxAttemptsAt", b"dataDeletedErrorAt", b"dataInvalidErrorAt"}
    jobs = {name[4:] for name, job in keys.items() if name.startswith(b"job:") and not ends & set(job)}
    listed = [id for ids in (*queued.values(), *active.values()) for id in ids]
    lanes = set(queued) | set(active)
    ours = {name.removeprefix(b"tenure:"): value for name, value in keys.items() if name.startswith(b"tenure:")}
    held = {name[5:]: value for name, value in ours.items() if name.startswith(b"held:")}
    claims = set(ours.get(b"claims", ()))
    parked, turns = set(ours.get(b"parked", ())), set(ours.get(b"ready", ()))
    kept = [id for state in (b"failed", b"broken", b"cancelled") for id in ours.get(state, ())]
    checks = {
        "a job is once in a lane": sorted(listed) == sorted(jobs),
        "the lanes are in `active`": set(keys.get(b"active", ())) == lanes,
        "the lanes are known": set(ours.get(b"known", ())) == lanes,
        "a lane without active jobs has its turn": lanes - set(active) - parked == turns,
        "active lanes are held": set(active) == claims | set(ours.get(b"foreign", ())),
        "held jobs are active": sorted(id for ids in held.values() for id in ids)
        == sorted(id for lane in claims for id in active.get(lane, ())),
        "who holds a job is a holder": set(held) == set(ours.get(b"holders", ())),
        "no time of a lane is left": fetched <= lanes,
        "records have a state": sorted(kept) == sorted(ours.get(b"kept", ())),
    }
    return wrong + [f"not so: {rule}" for rule, is_kept in checks.items() if not is_kept]


def spoil(server: RedisServer, namespace: str, queue: str) -> None:
    """Another program's data in the place of keys: the engine refuses the queue."""
    prefix = Farms(namespace).prefix(queue)
    for suffix in ("ready", "meta"):
        server.command("SET", f"{prefix}:{suffix}", "x")


def set_layout(server: RedisServer, namespace: str, queue: str, version: int | None) -> None:
    meta = f"{Farms(namespace).prefix(queue)}:meta"
    if version is None:
        server.command("HDEL", meta, "layout")
    else:
        server.command("HSET", meta, "layout", version)
