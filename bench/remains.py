"""Where in Redis something of a job is left: the keys whose name or content holds its token.

A job that is nowhere in Redis and in no living process cannot run again: it is lost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from tenure.core.steps import Arg, Reply
from tenure.testing.server import RedisServer, keys_of

MAX_KEYS: Final = 10_000
_READ: Final[dict[bytes, tuple[str, tuple[Arg, ...]]]] = {
    b"string": ("GET", ()),
    b"list": ("LRANGE", (0, -1)),
    b"hash": ("HGETALL", ()),
    b"set": ("SMEMBERS", ()),
    b"zset": ("ZRANGE", (0, -1)),
    b"stream": ("XRANGE", ("-", "+")),
}
"""The command that reads all of a key of each type, and what follows the key in it."""


def holds(reply: Reply, token: bytes) -> bool:
    """Whether the token is anywhere in a reply, however deep."""
    if isinstance(reply, bytes):
        return token in reply
    if isinstance(reply, str):
        return token.decode() in reply
    if isinstance(reply, dict):
        return any(holds(key, token) or holds(value, token) for key, value in reply.items())
    if isinstance(reply, (list, tuple, set, frozenset)):
        return any(holds(part, token) for part in reply)
    return False


def remains(server: RedisServer, token: str) -> list[str]:
    """The keys that hold something of the job, sorted."""
    return sorted(key for key, tokens in _contents(server, [token]) if tokens)


def found(server: RedisServer, tokens: Collection[str]) -> set[str]:
    """Those of the jobs of which something is in Redis."""
    return {token for _, tokens in _contents(server, tokens) for token in tokens}


def _contents(server: RedisServer, tokens: Collection[str]) -> Iterator[tuple[str, list[str]]]:
    """Each key, and the jobs of which it holds something."""
    keys = list(keys_of(server))
    assert len(keys) <= MAX_KEYS, f"{len(keys)} keys, at most {MAX_KEYS} were expected: is this a server of our own?"
    for key in keys:
        kind = server.command("TYPE", key)
        # Of type none: it went away meanwhile.
        if kind in _READ:
            command, rest = _READ[kind]
            reply = (key, server.command(command, key, *rest))
            yield key.decode(errors="replace"), [token for token in tokens if holds(reply, token.encode())]
