"""The rights that this engine needs of a user of Redis."""

from __future__ import annotations

from typing import Final

from tenure.engines.kit.acl import AclRules, KeyPlace
from tenure.engines.kit.encoding import escaped
from tenure.engines.queue_farm.keys import OURS

NEEDED: Final = (
    "BLPOP 0.001", "DEL", "EXISTS", "GET", "HDEL 1", "HEXISTS 1", "HGET 1", "HGETALL", "HINCRBY 1 1", "HKEYS", "HLEN",
    "HMGET 1", "HSCAN 0", "HSET 1 1", "LINDEX 0", "LLEN", "LPOS 1", "LPUSH 1", "LRANGE 0 0", "LREM 0 1", "PERSIST",
    "PEXPIRE 1", "PEXPIREAT 1", "PTTL", "RPOPLPUSH KEY", "RPUSH 1", "SADD 1", "SCARD", "SDIFF KEY", "SET 1",
    "SISMEMBER 1", "SMEMBERS", "SRANDMEMBER 1", "SREM 1", "ZADD 0 1", "ZCARD", "ZCOUNT 0 0", "ZINCRBY 1 1",
    "ZRANGE 0 0", "ZRANGEBYSCORE 0 0", "ZREM 1", "ZREMRANGEBYSCORE 0 0", "ZREVRANGE 0 0", "ZSCORE 1",
)  # fmt: skip
"""The commands of the engine with a key as first argument, with examples of the others."""


def rules_of(namespace: str) -> AclRules:
    """The rights for this namespace, and for nothing else."""
    pattern = f"{escaped(namespace)}:*"
    return AclRules((KeyPlace(pattern, f"{namespace}:{OURS}:probe"),), NEEDED, ("TIME", "EVALSHA - 0"))
