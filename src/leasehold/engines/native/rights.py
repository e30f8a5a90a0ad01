"""Whether Redis lets this user do all that the native engine does. Nothing that is a queue's is touched."""

from __future__ import annotations

import re
from typing import Final

from leasehold.core.errors import AccessDenied
from leasehold.core.steps import Invoke, Script, Steps
from leasehold.engines.native.keys import namespace_prefix, queue_prefix

PROBE: Final = "leasehold-check"
"""A queue that nobody uses: the names of its keys are those that are asked for."""

NEEDED: Final = (
    "DEL", "EXISTS", "GET", "HGET 1", "HGETALL", "HDEL 1", "HEXISTS 1", "HINCRBY 1 1", "HKEYS", "HLEN", "HMGET 1",
    "HSCAN 0", "HSET 1 1", "HSETNX 1 1", "HVALS", "LINDEX 0", "LINSERT BEFORE 1 1", "LLEN", "LPOP", "LPOS 1", "LPUSH 1",
    "LRANGE 0 0", "LREM 0 1", "PEXPIRE 1", "RPUSH 1", "SADD 1", "SCARD", "SET 1", "SMEMBERS", "SRANDMEMBER", "SREM 1",
    "ZADD 0 1", "ZCARD", "ZCOUNT 0 0", "ZINCRBY 1 1", "ZRANGE 0 0", "ZRANGEBYSCORE 0 0", "ZRANK 1", "ZREM 1",
    "ZREMRANGEBYSCORE 0 0", "ZREVRANGE 0 0", "ZSCORE 1", "BLPOP 1",
)  # fmt: skip
"""The commands of the engine whose first argument is a key, with examples of the others."""
NO_KEY: Final = ("TIME", "ZINTER 1 KEY", "EVALSHA - 0")

_KEYS_DENIED: Final = re.compile("one of the keys|access a key")
_SCRIPT: Final = Script(
    "rights",
    """
-- KEYS[1] a key that is not there
-- ARGV the words of commands, spaces between; `KEY` stands for the key
-- Returns: the first words of those that this user may not run.
local denied = {}
-- Before Redis 7 nothing but trying tells. What is refused for another reason would be allowed.
local function refused(words)
  local reply = redis.pcall(unpack(words))
  local text = type(reply) == 'table' and reply.err or ''
  return string.find(text, 'NOPERM', 1, true) or string.find(text, "executing the script can't", 1, true)
end
for i = 1, #ARGV do
  local words = {}
  for word in string.gmatch(ARGV[i], '%S+') do
    words[#words + 1] = word == 'KEY' and KEYS[1] or word
  end
  local asks = redis.acl_check_cmd
  if (asks and not asks(unpack(words))) or (not asks and refused(words)) then
    denied[#denied + 1] = words[1]
    if words[1] == 'DEL' and not asks then
      return denied -- nothing may be tried that could not be removed again
    end
  end
end
if not redis.acl_check_cmd then
  redis.pcall('DEL', KEYS[1])
end
return denied
""".strip(),
)


def missing_rights(namespace: str) -> Steps[tuple[str, ...]]:
    """What this user lacks, as an ACL grants it: commands as `+hset`, keys as `~{leasehold:*`, channels as `&...`.

    Empty: nothing. Before Redis 7 a user who lacks DEL may lack more than is found.
    """
    queue, common = f"{queue_prefix(namespace, PROBE)}:probe", f"{namespace_prefix(namespace)}:probe"
    try:
        denied = yield Invoke(_SCRIPT, (queue,), (*map(_with_key, NEEDED), *NO_KEY))
    except AccessDenied as error:
        # A user without a right to this key is refused at once, as one who may run no scripts is.
        return (_keys(namespace),) if _KEYS_DENIED.search(str(error)) else ("+eval", "+evalsha")
    found = [f"+{_text(name)}" for name in denied]
    if len(found) >= len(NEEDED) or (not found and (yield Invoke(_SCRIPT, (queue,), (f"EXISTS {common}",)))):
        found = [_keys(namespace)]
    for name, rest in (("PUBLISH", " 1"), ("SUBSCRIBE", "")):
        channels = (f"{name} {queue}{rest}", f"{name} {common}{rest}")
        if (yield Invoke(_SCRIPT, (queue,), channels)):
            found.append(f"+{name.lower()} &{{{namespace}*")
    return tuple(found)


def _with_key(words: str) -> str:
    name, _, rest = words.partition(" ")
    return f"{name} KEY {rest}".rstrip()


def _keys(namespace: str) -> str:
    return f"~{{{namespace}*"


def _text(name: bytes | str) -> str:
    return (name.decode(errors="replace") if isinstance(name, bytes) else name).lower()
