"""The rights that the native engine needs of a user of Redis."""

from __future__ import annotations

from typing import Final

from tenure.engines.kit.acl import AclRules, KeyPlace
from tenure.engines.native.keys import namespace_prefix, queue_prefix

PROBE: Final = "tenure-check"
"""An unused queue, whose keys stand for those of all queues."""

NEEDED: Final = (
    "BITFIELD GET u8 0", "DEL", "EXISTS", "GET", "HGET 1", "HGETALL", "HDEL 1", "HEXISTS 1", "HINCRBY 1 1", "HKEYS",
    "HLEN", "HMGET 1", "HSCAN 0", "HSET 1 1", "HSETNX 1 1", "HSTRLEN 1", "HVALS", "LINDEX 0", "LINSERT BEFORE 1 1",
    "LLEN", "LPOP", "LPOS 1", "LPUSH 1", "LRANGE 0 0", "LREM 0 1", "LTRIM 0 0", "PERSIST", "PEXPIRE 1", "RPUSH 1",
    "SADD 1", "SCARD", "SET 1", "SETBIT 0 1", "SETRANGE 0 1", "SMEMBERS", "SRANDMEMBER", "SREM 1", "ZADD 0 1",
    "ZCARD", "ZCOUNT 0 0", "ZINCRBY 1 1", "ZMSCORE 1", "ZRANGE 0 0", "ZRANGEBYSCORE 0 0", "ZRANK 1", "ZREM 1",
    "ZREMRANGEBYSCORE 0 0", "ZREVRANGE 0 0", "ZSCORE 1", "BLPOP 1",
)  # fmt: skip
"""The commands of the engine whose first argument is a key, with examples of the others."""
NO_KEY: Final = ("TIME", "ZINTER 1 KEY", "EVALSHA - 0")


def rules_of(namespace: str) -> AclRules:
    """The rights for the queues of a namespace, and for what belongs to no queue.

    No name has a character that is special in a pattern, and none of another namespace begins like this.
    """
    common = namespace_prefix(namespace)
    queues = KeyPlace(f"{common.removesuffix('}')}:*", f"{queue_prefix(namespace, PROBE)}:probe", channels=True)
    # The scripts of what belongs to no queue name its prefix as their key.
    others = (KeyPlace(common, common), KeyPlace(f"{common}:*", f"{common}:probe", channels=True))
    return AclRules((queues, *others), NEEDED, NO_KEY)
