"""What an engine needs of a user of Redis, and whether Redis grants it. Nothing that is a queue's is touched."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from leasehold.core.errors import AccessDenied
from leasehold.core.steps import Invoke, Script, Steps

_KEYS_DENIED: Final = re.compile("one of the keys|access a key")
_ALWAYS: Final = ("client|setname", "eval", "evalsha", "info", "ping", "select", "time", "wait")
"""Commands of every client: connecting, scripts, `leasehold check`, and waiting for replicas."""
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


def granted(keys: Sequence[str], commands: Sequence[str], channels: Sequence[str] = ()) -> tuple[str, ...]:
    """The rules of an ACL for these patterns and commands, and for what every client needs.

    >>> granted(["jobs:*"], ["HSET 1 1"])[:3]
    ('~jobs:*', '+client|setname', '+eval')
    """
    names = {*_ALWAYS, *(words.split()[0].lower() for words in commands)}
    patterns = (*(f"~{pattern}" for pattern in keys), *(f"&{pattern}" for pattern in channels))
    return (*patterns, *(f"+{name}" for name in sorted(names)))


def denied(key: str, words: Sequence[str]) -> Steps[list[str]]:
    """Of these commands, those that this user may not run, in small letters. `KEY` in them stands for `key`."""
    reply = yield Invoke(_SCRIPT, (key,), tuple(words))
    return [(name.decode(errors="replace") if isinstance(name, bytes) else name).lower() for name in reply]


@dataclass(frozen=True, slots=True)
class Place:
    """Keys of an engine: the pattern that an ACL grants, and one key of it that no queue has.

    `channels`: pub/sub channels have such names, too.
    """

    pattern: str
    probe: str
    channels: bool = False


@dataclass(frozen=True, slots=True)
class Rules:
    """What an engine needs of a user of Redis: places, commands whose first argument is a key, and other commands."""

    places: tuple[Place, ...]
    commands: tuple[str, ...]
    no_key: tuple[str, ...]

    def needed(self) -> tuple[str, ...]:
        """The rules of an ACL that grant this, and nothing else."""
        channels = tuple(place.pattern for place in self.places if place.channels)
        listening = ("PUBLISH", "SUBSCRIBE", "UNSUBSCRIBE") if channels else ()
        keys = dict.fromkeys(place.pattern for place in self.places)
        return granted(tuple(keys), (*self.commands, *self.no_key, *listening), channels)

    def missing(self) -> Steps[tuple[str, ...]]:
        """What this user lacks: commands as `+hset`, keys as `~jobs:*`, channels as `+publish &jobs:*`.

        Before Redis 7 a user who lacks DEL may lack more than is found.
        """
        refused: list[str] = []
        own: Place | None = None
        for place in self.places:
            try:
                yield from denied(place.probe, ())
            except AccessDenied as error:
                if not _KEYS_DENIED.search(str(error)):
                    return ("+eval", "+evalsha")
                refused.append(f"~{place.pattern}")
            else:
                own = own or place
        if own is None:
            return tuple(refused)
        found = [*(yield from lacking(own.probe, own.pattern, self.commands, self.no_key)), *refused]
        for name, rest in (("PUBLISH", " 1"), ("SUBSCRIBE", "")):
            for place in self.places:
                if place.channels and (yield from denied(own.probe, (f"{name} {place.probe}{rest}",))):
                    found.append(f"+{name.lower()} &{place.pattern}")
        return tuple(found)


def lacking(key: str, keys: str, needed: Sequence[str], no_key: Sequence[str]) -> Steps[list[str]]:
    """What this user lacks, as an ACL grants it: commands as `+hset`, or the right to `keys` (a pattern), as `~jobs:*`.

    `needed`: commands whose first argument is a key, with examples of the others; `no_key`: as `denied` takes them. One
    who may run no script, or not on this key, can be asked for nothing else. Before Redis 7 a user who lacks DEL may
    lack more than is found, and commands that block are not tried.
    """
    try:
        found = yield from denied(key, (*map(_with_key, needed), *no_key))
    except AccessDenied as error:
        # A user without a right to this key is refused at once, as one who may run no scripts is.
        return [f"~{keys}"] if _KEYS_DENIED.search(str(error)) else ["+eval", "+evalsha"]
    return [f"~{keys}"] if len(found) >= len(needed) else [f"+{name}" for name in found]


def _with_key(words: str) -> str:
    name, _, rest = words.partition(" ")
    return f"{name} KEY {rest}".rstrip()
