"""What both drivers share about one call: its bytes and how long its reply may take."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from tenure.core import limits
from tenure.core.steps import Command, Durable, Invoke, Reply, Script, Work
from tenure.redis import replies
from tenure.redis.link import pack

BLOCK_LATE_MS: Final = 1_500
"""How late the reply to a blocking command may come before the connection counts as lost."""
SLOW_BYTES_PER_S: Final = 1024 * 1024
"""The slowest network for which the timeout of a large call is extended."""

_LARGE: Final = 256 * 1024
KEY_FOUND: Final = "TNKEY"
_NAMING_KEYS: Final = f"""
local redis = setmetatable({{ call = function(...)
  local reply = redis.pcall(...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  if not string.find(reply.err, 'WRONGTYPE', 1, true) then error(reply.err) end
  local first, second = select(2, ...)
  error('{KEY_FOUND} ' .. (tonumber(first) and second or first)) -- a number of keys comes before these
end }}, {{ __index = redis }})
"""
NO_SCRIPT: Final = Invoke(Script("", ""), (), ())
"""Stands for the script of a plain command."""


def packed(call: Command | Invoke) -> bytes:
    """The call for the wire. A script goes by its SHA-1."""
    if isinstance(call, Command):
        return pack(call.args)
    lead = b"" if call.lead is None else pack(call.lead.args)
    return lead + pack(("EVALSHA", call.script.sha, len(call.keys), *call.keys, *call.args))


def packed_text(call: Invoke) -> bytes:
    """The call with the script's text, for a server that does not know the script."""
    return pack(("EVAL", call.script.text, len(call.keys), *call.keys, *call.args))


@lru_cache(maxsize=128)
def naming_keys(script: Script) -> Script:
    """A copy of a script. Its error names the key of the wrong type, as `KEY_FOUND` and the key."""
    return Script(script.name, _NAMING_KEYS + script.text)


def only_key(call: Command | Invoke | Work) -> str:
    """The key of a plain command, if it has one and no other."""
    words = call.args if isinstance(call, Command) else ()
    return str(words[1]) if len(words) > 1 and (words[0] != "BLPOP" or len(words) == 3) else ""


def wait_in(call: Command | Invoke) -> Command | None:
    """The blocking command of a call, if it has one: Redis may hold the reply back. See `WaitLost`."""
    wait = call if isinstance(call, Command) else call.lead
    return wait if wait is not None and wait.block_ms > 0 else None


def needs_own_connection(invoke: Invoke, data: bytes) -> bool:
    """Whether a call must not hold up the calls of others: it is large, or waits for replicas, and is not a wait."""
    return invoke.replicas > 0 or len(data) > _LARGE


def has_own_connection(call: Command | Invoke, data: bytes) -> bool:
    """Whether no other call may use the connection until this one has its reply."""
    return wait_in(call) is not None or needs_own_connection(call if isinstance(call, Invoke) else NO_SCRIPT, data)


def time_for(call: Command | Invoke, data: bytes, reply_timeout_s: float) -> float:
    """How long the first byte of the reply may take: what blocks, and what is large, gets its own time on top."""
    sending = len(data) / SLOW_BYTES_PER_S if len(data) > _LARGE else 0.0
    if (wait := wait_in(call)) is not None:
        return sending + wait.block_ms / limits.SECOND + min(reply_timeout_s, BLOCK_LATE_MS / limits.SECOND)
    return sending + reply_timeout_s


def packed_wait(replicas: int) -> bytes:
    """Wait until this many replicas have what was written before, on this connection or on any other."""
    return pack(("WAIT", replicas, limits.WAIT_MS))


def acknowledged(reply: Reply, waited: Reply | Exception) -> Durable[Reply]:
    """The reply with what came of the waiting: a number, or why it was refused. The script has run in any case.

    What a new attempt would mend is raised: the call, with its nonce, can be sent again.
    """
    if not isinstance(waited, Exception):
        return Durable(reply, int(waited))
    if not replies.is_reply(waited) or replies.is_passing(waited):
        raise waited
    return Durable(reply, 0, replies.read(replies.text_of(waited))[1])


def first_key(call: Command | Invoke) -> str:
    """The first key of a script's call, to be named in an error; empty for a plain command."""
    return call.keys[0] if isinstance(call, Invoke) and call.keys else ""
