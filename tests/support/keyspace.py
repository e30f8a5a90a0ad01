"""All keys of a server with their types, values and times to live, whatever their layout."""

from __future__ import annotations

from typing import Final

from tenure.testing.server import RedisServer
from tests.support.shapes import Key

_DUMP: Final = """
local found = {}
for _, name in ipairs(redis.call('KEYS', '*')) do
  local kind, value = redis.call('TYPE', name).ok, nil
  if kind == 'string' then value = redis.call('GET', name)
  elseif kind == 'list' then value = redis.call('LRANGE', name, 0, -1)
  elseif kind == 'hash' then value = redis.call('HGETALL', name)
  elseif kind == 'set' then value = redis.call('SMEMBERS', name)
  else value = redis.call('ZRANGE', name, 0, -1, 'WITHSCORES') end
  found[#found + 1] = { name, kind, redis.call('PTTL', name), value }
end
return found
"""


def keys(server: RedisServer) -> dict[bytes, Key]:
    """All keys of the server with their values."""
    found = {}
    for name, kind, ttl, value in server.command("EVAL", _DUMP, 0):
        if kind in (b"hash", b"zset"):
            value = dict(zip(value[::2], value[1::2], strict=True))
        elif kind == b"set":
            value = set(value)
        found[name] = Key(kind.decode(), ttl, value)
    return found
