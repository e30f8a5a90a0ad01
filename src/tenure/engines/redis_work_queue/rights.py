"""The rights that this engine needs of a user of Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tenure.engines.kit.acl import AclRules, KeyPlace
from tenure.engines.kit.encoding import escaped

NEEDED: Final = (
    "DEL", "EXISTS", "GET", "GETRANGE 0 0", "HDEL 1", "HEXISTS 1", "HGET 1", "HGETALL", "HINCRBY 1 1", "HLEN",
    "HMGET 1", "HSCAN 0", "HSET 1 1", "HSETNX 1 1", "LINDEX 0", "LLEN", "LMOVE KEY RIGHT LEFT", "LPOS 1", "LPUSH 1",
    "LRANGE 0 0", "LREM 0 1", "LSET 0 1", "MGET", "PEXPIRE 1", "PTTL", "RPOP", "RPUSH 1", "SADD 1", "SCARD", "SET 1",
    "SETNX 1", "SETRANGE 0 1", "SMEMBERS", "SRANDMEMBER", "SREM 1", "STRLEN", "TYPE", "ZADD 0 1", "ZCARD", "ZCOUNT 0 0",
    "ZINCRBY 1 1", "ZRANGE 0 0", "ZRANGEBYSCORE 0 0", "ZREM 1", "ZREMRANGEBYSCORE 0 0", "ZREVRANGE 0 0", "ZSCORE 1",
    "BLMOVE KEY RIGHT LEFT 0.001",
)  # fmt: skip
"""The commands of the engine with a key as first argument, with examples of the others."""
NO_KEY: Final = ("TIME", "EVALSHA - 0", "SCAN 0")
ONE_WORD: Final = ("OBJECT IDLETIME KEY",)


def rules_of(prefixes: Sequence[str]) -> AclRules:
    """The rights for queues with these prefixes, and for nothing else."""
    places: list[KeyPlace] = []
    for prefix in dict.fromkeys(prefixes):
        pattern = escaped(prefix)
        # The scripts name the prefix as their key, and make the others of it.
        places += (KeyPlace(pattern, prefix), KeyPlace(f"{pattern}:*", f"{prefix}:tenure:probe"))
    return AclRules(tuple(places), NEEDED, NO_KEY, ONE_WORD)
