"""The rights that this engine needs of a user of Redis."""

from __future__ import annotations

from typing import Final

from tenure.engines.hworker.keys import BROKEN, FAILED, JOBS, OURS, PROGRESS
from tenure.engines.kit.acl import AclRules, KeyPlace
from tenure.engines.kit.encoding import escaped

NEEDED: Final = (
    "DEL", "EXISTS", "GET", "HDEL 1", "HEXISTS 1", "HGET 1", "HGETALL", "HINCRBY 1 1", "HLEN", "HMGET 1", "HRANDFIELD",
    "HSCAN 0", "HSET 1 1", "LINDEX 0", "LLEN", "LMOVE KEY RIGHT LEFT", "LPOS 1", "LPUSH 1", "LRANGE 0 0", "LREM 0 1",
    "LTRIM 0 0", "PEXPIRE 1", "RENAME KEY", "RPOP", "RPUSH 1", "SADD 1", "SET 1", "SMEMBERS", "SREM 1", "ZADD 0 1",
    "ZCARD", "ZCOUNT 0 0", "ZINCRBY 1 1", "ZRANGE 0 0", "ZRANGEBYSCORE 0 0", "ZREM 1", "ZREMRANGEBYSCORE 0 0",
    "ZREVRANGE 0 0", "ZSCORE 1", "BLMOVE KEY RIGHT LEFT 0.001",
)  # fmt: skip
"""The commands of the engine with a key as first argument, with examples of the others."""
NO_KEY: Final = ("TIME", "EVALSHA - 0")


def rules_of(pool: str) -> AclRules:
    """The rights for one pool. The key of the scripts is the prefix itself; they make the others of it."""
    name = escaped(pool)
    places = [KeyPlace(f"{OURS}{name}", f"{OURS}{pool}")]
    places.append(KeyPlace(f"{OURS}{name}:*", f"{OURS}{pool}:tenure:probe", channels=True))
    places += [KeyPlace(f"{begin}{name}", f"{begin}{pool}", used=True) for begin in (JOBS, PROGRESS, BROKEN, FAILED)]
    return AclRules(tuple(places), NEEDED, NO_KEY)
