"""The rights that this engine needs of a user of Redis."""

from __future__ import annotations

from typing import Final

from tenure.engines.kit.acl import AclRules, KeyPlace

NEEDED: Final = (
    "DEL", "EXISTS", "GET", "HDEL 1", "HEXISTS 1", "HGET 1", "HGETALL", "HINCRBY 1 1", "HLEN", "HMGET 1", "HRANDFIELD",
    "HSCAN 0", "HSET 1 1", "LINDEX 0", "LLEN", "LMOVE KEY RIGHT LEFT", "LPOS 1", "LPUSH 1", "LRANGE 0 0", "LREM 0 1",
    "PEXPIRE 1", "PTTL", "RPOP", "RPUSH 1", "SADD 1", "SCARD", "SET 1", "SISMEMBER 1", "SMEMBERS", "SREM 1", "SSCAN 0",
    "ZADD 0 1", "ZCARD", "ZCOUNT 0 0", "ZINCRBY 1 1", "ZRANGE 0 0", "ZRANGEBYSCORE 0 0", "ZREM 1",
    "ZREMRANGEBYSCORE 0 0", "ZREVRANGE 0 0", "ZSCORE 1",
)  # fmt: skip
"""The commands of the engine with a key as first argument, with examples of the others."""
NO_KEY: Final = ("TIME", "EVALSHA - 0", "SCAN 0")


def rules_of(prefix: str) -> AclRules:
    """The rights for all queues of a prefix. A worker's timer and sets belong to no queue."""
    keys = KeyPlace(f"{prefix}:*", f"{prefix}:tenure:probe", channels=True)
    channels = KeyPlace(f"{prefix}_*", f"{prefix}_tenure_probe", channels=True)
    return AclRules((keys, channels), NEEDED, NO_KEY)
