"""What the tests know of the keys of redis-work-queue: time can be shifted in them, every key must have an owner."""

from __future__ import annotations

from typing import Any, Final

from tenure.engines.redis_work_queue.keys import OURS, SHARED
from tenure.testing.server import RedisServer
from tests.support import keyspace
from tests.support.shapes import Key

Dump = dict[bytes, Any]

# Everything that was written as a time moves back by ARGV[1] ms, as if that much time had passed since.
_SHIFT: Final = """
redis.call('DEL', 'nothing') -- so that it runs at the memory limit as well
local prefix, ms = KEYS[1], tonumber(ARGV[1])
local function key(suffix) return prefix .. ':' .. suffix end
local function text(number) return string.format('%.0f', number) end
local zsets = { 'holders', 'suspects', 'due', 'later', 'unleased', 'others', 'stray', 'failed', 'broken', 'cancelled' }
for _, zset in ipairs(zsets) do
  for _, member in ipairs(redis.call('ZRANGE', key(zset), 0, -1)) do redis.call('ZINCRBY', key(zset), -ms, member) end
end
local leased = redis.call('HGETALL', key('leased'))
for i = 1, #leased, 2 do
  local token, deadline, claimed, rest = string.match(leased[i + 1], '^(%d+) (%d+) (%d+) (.*)$')
  if token then
    deadline = deadline == '0' and '0' or text(deadline - ms)
    redis.call('HSET', key('leased'), leased[i], token .. ' ' .. deadline .. ' ' .. text(claimed - ms) .. ' ' .. rest)
  end
end
for _, field in ipairs({ 'seen', 'amnesty', 'before', 'asked', 'deep_at', 'light_began' }) do
  if redis.call('HEXISTS', key('meta'), field) == 1 then redis.call('HINCRBY', key('meta'), field, -ms) end
end
local ids = redis.call('LRANGE', key('processing'), 0, -1)
for _, id in ipairs(ids) do
  for _, lease in ipairs({ key('lease:' .. id), key('leased_by_session:' .. id) }) do
    local left = redis.call('PTTL', lease)
    if left >= 0 and left - ms <= 0 then redis.call('DEL', lease)
    elseif left >= 0 then redis.call('PEXPIRE', lease, left - ms) end
  end
end
return 1
"""


def prefix_of(namespace: str, queue: str) -> str:
    return namespace if queue == "default" else f"{namespace}:{queue}"


def pass_time(server: RedisServer, namespace: str, queue: str, ms: int) -> None:
    """Let `ms` pass for a queue without waiting (below zero: set the clock back)."""
    server.command("EVAL", _SHIFT, 1, prefix_of(namespace, queue), ms)


def dump(server: RedisServer) -> Dump:
    """All values but the remembered answers: what must stay the same when nothing may change."""
    # An id that was added again is noted: it is looked for when it comes once more.
    hidden = (b":done:", b":stray")
    return {name: key.value for name, key in keyspace.keys(server).items() if not any(part in name for part in hidden)}


CLOCKS: Final = frozenset(
    {b"seen", b"amnesty", b"before", b"deep_at", b"light_began", b"light_cursor", b"attempts_cursor", b"leased_cursor"}
)


def timeless(found: Dump) -> Dump:
    """A dump without its times: what must stay the same when the same call arrives twice."""
    masked: Dump = {}
    for name, value in found.items():
        suffix = name.rpartition(b":")[2]
        if suffix == b"meta":
            value = {field: text for field, text in value.items() if field not in CLOCKS}
        elif suffix == b"leased":
            value = {id: text.split(b" ")[0] for id, text in value.items()}
        elif isinstance(value, dict) and suffix not in (b"attempts", b"kept", b"ended"):
            value = set(value)
        elif suffix == b"ended":
            value = {id: text.split(b" ", 3)[3] for id, text in value.items()}
        masked[name] = value
    return {name: value for name, value in masked.items() if value}


def audit(server: RedisServer, namespace: str) -> list[str]:
    """What is wrong with the keys: an item in two places or in none, a key without owner or time to live."""
    wrong: list[str] = []
    shared = f"{namespace}:{SHARED}:".encode()
    found = keyspace.keys(server)
    prefixes = {name[: -len(b":meta")] for name in found if name.endswith(b":meta")}
    # Without a worker there is no `meta`.
    for suffix in (b":queue", b":processing", b":leased", b":taken"):
        prefixes |= {name[: -len(suffix)] for name in found if name.endswith(suffix) and b":item:" not in name}
    for name, key in found.items():
        if name.startswith(shared):
            if key.ttl_ms < 0:
                wrong.append(f"{name!r} has no time to live")
        elif b":done:" not in name and not any(name.startswith(prefix + b":") for prefix in prefixes):
            wrong.append(f"{name!r} is no key of ours")
    for prefix in sorted(prefixes):
        mine = {name[len(prefix) + 1 :]: key for name, key in found.items() if name.startswith(prefix + b":")}
        others = [other for other in prefixes if other.startswith(prefix + b":")]
        mine = {
            suffix: key
            for suffix, key in mine.items()
            if not any((prefix + b":" + suffix).startswith(other + b":") for other in others)
            and not (prefix + b":" + suffix).startswith(shared)
        }
        wrong += [f"{prefix.decode(errors='replace')}: {what}" for what in _faults(mine)]
    return wrong


def _faults(keys: dict[bytes, Key]) -> list[str]:
    def value(suffix: bytes, empty: Any) -> Any:
        return keys[suffix].value if suffix in keys else empty

    wrong = []
    for suffix, key in keys.items():
        word = suffix.split(b":")[0].decode(errors="replace")
        if word not in {"queue", "processing", "item", "lease", "leased_by_session", *OURS}:
            wrong.append(f"{suffix!r} is no key of the layout")
        if word in ("lease", "leased_by_session", "done", "passing") and key.ttl_ms < 0:
            wrong.append(f"{suffix!r} has no time to live")
    items = {suffix[len(b"item:") :] for suffix in keys if suffix.startswith(b"item:")}
    leases = {suffix[len(b"lease:") :] for suffix in keys if suffix.startswith(b"lease:")}
    others = {suffix.split(b":", 1)[1] for suffix in keys if suffix.startswith(b"leased_by_session:")}
    wrong += [f"{id!r} has only one of its two leases" for id in leases ^ others]
    queue, processing = [*value(b"queue", []), *value(b"taken", [])], value(b"processing", [])
    listed = [*queue, *processing]
    wrong += [f"{id!r} is {listed.count(id)} times in the lists" for id in items if listed.count(id) != 1]
    wrong += [f"{id!r} is listed and has no item" for id in set(listed) - items]
    wrong += [f"{id!r} has a lease and is not in processing" for id in leases - set(processing)]
    wrong += [f"{id!r} is in processing, and nobody holds it" for id in set(processing) - leases]
    leased, kept, ended = value(b"leased", {}), value(b"kept", {}), value(b"ended", {})
    wrong += [f"{id!r} is leased, and has no lease on the wire" for id in set(leased) - leases]
    for id, text in leased.items():
        fields = text.split(b" ", 5)
        if not fields[3].isalpha() and id not in value(b"held:" + fields[5], {}):
            wrong.append(f"{id!r} is not among what {fields[5]!r} holds")
    held = {id for suffix in keys if suffix.startswith(b"held:") for id in keys[suffix].value}
    wrong += [f"{id!r} is held by somebody and not leased" for id in held - set(leased)]
    workers = {suffix[len(b"held:") :] for suffix in keys if suffix.startswith(b"held:")}
    wrong += [f"{worker!r} is a holder of nothing, or not listed" for worker in workers ^ set(value(b"holders", {}))]
    wrong += [f"{worker!r} is suspected, holding nothing" for worker in set(value(b"suspects", {})) - workers]
    wrong += [f"{id!r} is looked at when it is due, and not leased" for id in set(value(b"due", {})) - set(leased)]
    wrong += [f"{id!r} is to be retried, and not in processing" for id in set(value(b"later", {})) - set(processing)]
    wrong += [f"{id!r} was tried and is no item" for id in set(value(b"attempts", {})) - items]
    places = [id for state in (b"failed", b"broken", b"cancelled") for id in value(state, {})]
    places += [id for suffix in keys if suffix.startswith(b"unroutable:") for id in keys[suffix].value]
    wrong += [f"{id!r} is kept, ended or in a state, not all of them" for id in set(places) ^ set(kept)]
    wrong += [f"{id!r} is kept or ended, not both" for id in set(kept) ^ set(ended)]
    wrong += [f"{id!r} ended more than once" for id in set(places) if places.count(id) > 1]
    return wrong


def spoil(server: RedisServer, namespace: str, queue: str) -> None:
    """Write another program's data where the queue keeps its own, so that the engine refuses it."""
    for suffix in ("queue", "meta"):
        server.command("SET", f"{prefix_of(namespace, queue)}:{suffix}", "x")


def set_layout(server: RedisServer, namespace: str, queue: str, version: int | None) -> None:
    """Write to the queue which version its layout has; None: it says none."""
    meta = f"{prefix_of(namespace, queue)}:meta"
    if version is None:
        server.command("HDEL", meta, "layout")
    else:
        server.command("HSET", meta, "layout", version)
