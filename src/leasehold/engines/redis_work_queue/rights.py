"""What this engine needs of a user of Redis, and whether Redis grants it. Nothing that is a queue's is touched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from leasehold.core.errors import AccessDenied
from leasehold.core.steps import Command, Steps
from leasehold.engines.kit.acl import granted, lacking
from leasehold.engines.redis_work_queue.keys import escaped

NEEDED: Final = (
    "DEL", "EXISTS", "GET", "GETRANGE 0 0", "HDEL 1", "HEXISTS 1", "HGET 1", "HGETALL", "HINCRBY 1 1", "HLEN",
    "HMGET 1", "HSCAN 0", "HSET 1 1", "HSETNX 1 1", "LINDEX 0", "LLEN", "LMOVE KEY RIGHT RIGHT", "LPOS 1", "LPUSH 1",
    "LRANGE 0 0", "LREM 0 1", "LSET 0 1", "MGET", "PEXPIRE 1", "RPOP", "RPUSH 1", "SADD 1", "SCARD", "SET 1", "SETNX 1",
    "SMEMBERS", "SRANDMEMBER", "SREM 1", "STRLEN", "ZADD 0 1", "ZCARD", "ZCOUNT 0 0", "ZINCRBY 1 1", "ZRANGE 0 0",
    "ZRANGEBYSCORE 0 0", "ZREM 1", "ZREMRANGEBYSCORE 0 0", "ZREVRANGE 0 0", "ZSCORE 1",
    "BLMOVE KEY RIGHT RIGHT 0.001", "BLPOP 0.001",
)  # fmt: skip
"""The commands of the engine whose first argument is a key, with examples of the others."""
NO_KEY: Final = ("TIME", "EVALSHA - 0", "SCAN 0")


def needed_rights(prefixes: Sequence[str]) -> tuple[str, ...]:
    """The rules of an ACL that grant what this engine needs for queues with these prefixes, and nothing else."""
    patterns = (pattern for prefix in prefixes for pattern in _patterns(prefix))
    return granted(tuple(dict.fromkeys(patterns)), (*NEEDED, *NO_KEY))


def missing_rights(prefixes: Sequence[str]) -> Steps[tuple[str, ...]]:
    """What this user lacks for queues with these prefixes: commands as `+hset`, keys as `~jobs:*`. Empty: nothing."""
    found: dict[str, None] = {}
    for prefix in dict.fromkeys(prefixes):
        itself, keys = _patterns(prefix)
        found |= dict.fromkeys((yield from lacking(f"{prefix}:leasehold:probe", keys, NEEDED, NO_KEY)))
        try:
            yield Command(("EXISTS", prefix))
        except AccessDenied:
            found |= {f"~{itself}": None}
    return tuple(found)


def _patterns(prefix: str) -> tuple[str, str]:
    """Those of the prefix, which the scripts name as their key and make the others of, and of the others."""
    return escaped(prefix), f"{escaped(prefix)}:*"
