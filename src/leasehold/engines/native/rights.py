"""What the native engine needs of a user of Redis, and whether Redis grants it. No key of a queue is touched."""

from __future__ import annotations

from typing import Final

from leasehold.core.steps import Steps
from leasehold.engines.kit.acl import denied, granted, lacking
from leasehold.engines.native.keys import namespace_prefix, queue_prefix

PROBE: Final = "leasehold-check"
"""A queue that nobody uses: the names of its keys are those that are asked for."""

NEEDED: Final = (
    "DEL", "EXISTS", "GET", "HGET 1", "HGETALL", "HDEL 1", "HEXISTS 1", "HINCRBY 1 1", "HKEYS", "HLEN", "HMGET 1",
    "HSCAN 0", "HSET 1 1", "HSETNX 1 1", "HSTRLEN 1", "HVALS", "LINDEX 0", "LINSERT BEFORE 1 1", "LLEN", "LPOP",
    "LPOS 1", "LPUSH 1", "LRANGE 0 0", "LREM 0 1", "LTRIM 0 0", "PEXPIRE 1", "RPUSH 1", "SADD 1", "SCARD", "SET 1",
    "SMEMBERS", "SRANDMEMBER", "SREM 1",
    "ZADD 0 1", "ZCARD", "ZCOUNT 0 0", "ZINCRBY 1 1", "ZRANGE 0 0", "ZRANGEBYSCORE 0 0", "ZRANK 1", "ZREM 1",
    "ZREMRANGEBYSCORE 0 0", "ZREVRANGE 0 0", "ZSCORE 1", "BLPOP 1",
)  # fmt: skip
"""The commands of the engine whose first argument is a key, with examples of the others."""
NO_KEY: Final = ("TIME", "ZINTER 1 KEY", "EVALSHA - 0")


CHANNELS: Final = ("PUBLISH", "SUBSCRIBE", "UNSUBSCRIBE")


def needed_rights(namespace: str) -> tuple[str, ...]:
    """The rules of an ACL that grant what this engine needs, and nothing else."""
    queues, common = _patterns(namespace)
    # The scripts of what belongs to no queue name its prefix as their key.
    keys = (queues, namespace_prefix(namespace), common)
    return granted(keys, (*NEEDED, *NO_KEY, *CHANNELS), (queues, common))


def missing_rights(namespace: str) -> Steps[tuple[str, ...]]:
    """What this user lacks, as an ACL grants it: commands as `+hset`, keys as `~{leasehold:*`, channels as `&...`.

    Empty: nothing. Before Redis 7 a user who lacks DEL may lack more than is found.
    """
    queue, common = f"{queue_prefix(namespace, PROBE)}:probe", f"{namespace_prefix(namespace)}:probe"
    queues, others = _patterns(namespace)
    found = yield from lacking(queue, queues, NEEDED, NO_KEY)
    if f"~{queues}" in found or "+evalsha" in found:
        return tuple(found)
    for key, pattern in ((namespace_prefix(namespace), namespace_prefix(namespace)), (common, others)):
        if (yield from denied(queue, (f"EXISTS {key}",))):
            found.append(f"~{pattern}")
    for name, rest in (("PUBLISH", " 1"), ("SUBSCRIBE", "")):
        for channel, pattern in ((queue, queues), (common, others)):
            if (yield from denied(queue, (f"{name} {channel}{rest}",))):
                found.append(f"+{name.lower()} &{pattern}")
    return tuple(found)


def _patterns(namespace: str) -> tuple[str, str]:
    """Those of the names of a queue's keys and channels, and of the others. No name has a character that is special in
    a pattern, and none of another namespace begins like this."""
    common = namespace_prefix(namespace)
    return f"{common.removesuffix('}')}:*", f"{common}:*"
