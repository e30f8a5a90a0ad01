"""The rights that an engine needs of a user of Redis, and whether Redis grants them. No key of a queue is touched."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from leasehold.core.errors import AccessDenied
from leasehold.core.steps import Invoke, Script, Steps

_KEYS_DENIED: Final = re.compile("one of the keys|access a key")
_ALWAYS: Final = ("client|setname", "eval", "evalsha", "info", "ping", "select", "time", "wait")
"""Commands of every client: connecting, scripts, `leasehold check`, and waiting for replicas."""
_ON_CLUSTERS: Final = ("CLUSTER SLOTS", "CLUSTER INFO", "CLIENT ID", "CLIENT UNBLOCK 1")
"""What the driver of a cluster needs, too."""
_SCRIPT: Final = Script(
    "rights",
    """
-- KEYS[1] a key; one that is not there, if there are words: they are tried on it
-- ARGV the words of commands, spaces between; `KEY` stands for the key
-- Returns: the first words of those that this user may not run.
local denied = {}
-- Before Redis 7 only trying shows it. A command that is refused for another reason is allowed.
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
if #ARGV > 0 and not redis.acl_check_cmd then
  redis.pcall('DEL', KEYS[1])
end
return denied
""".strip(),
)


@dataclass(frozen=True, slots=True)
class Place:
    """Keys of an engine: the pattern that an ACL grants, and one key of it that no queue has.

    `channels`: pub/sub channels have such names, too. `used`: the probe is a key of a queue; no command is tried on it.
    """

    pattern: str
    probe: str
    channels: bool = False
    used: bool = False


@dataclass(frozen=True, slots=True)
class Rules:
    """What an engine needs of a user of Redis: places, commands whose first argument is a key, and other commands.

    `subcommands`: those of which only one word is needed, as CLIENT ID.
    """

    places: tuple[Place, ...]
    commands: tuple[str, ...]
    no_key: tuple[str, ...]
    subcommands: tuple[str, ...] = ()

    def of(self, clustered: bool) -> Rules:
        """The rules of one server, or of the nodes of a cluster."""
        return replace(self, subcommands=_ON_CLUSTERS) if clustered else self

    def needed(self) -> tuple[str, ...]:
        """The rules of an ACL that grant this, and nothing else."""
        channels = [f"&{place.pattern}" for place in self.places if place.channels]
        listening = ("PUBLISH", "SUBSCRIBE", "UNSUBSCRIBE") if channels else ()
        own = (words.split()[0].lower() for words in (*self.commands, *self.no_key, *listening))
        keys = dict.fromkeys(f"~{place.pattern}" for place in self.places)
        names = {*_ALWAYS, *own, *map(_subcommand, self.subcommands)}
        return (*keys, *channels, *(f"+{name}" for name in sorted(names)))

    def missing(self) -> Steps[tuple[str, ...]]:
        """What this user lacks: commands as `+hset`, keys as `~jobs:*`, channels as `+publish &jobs:*`.

        Before Redis 7 a user who lacks DEL may lack more than is found, and commands that block are not tried.
        """
        keys: list[str] = []
        own: Place | None = None
        for place in self.places:
            try:
                yield from _denied(place.probe, ())
            except AccessDenied as error:
                # A user without the right to a key is refused at once, as one who may run no scripts is.
                if not _KEYS_DENIED.search(str(error)):
                    return ("+eval", "+evalsha")
                keys.append(f"~{place.pattern}")
            else:
                own = own or (None if place.used else place)
        if own is None:
            return tuple(keys)
        commands = yield from _denied(own.probe, (*map(_with_key, self.commands), *self.no_key))
        found = [f"+{name}" for name in commands] + keys
        for words in self.subcommands:
            if (yield from _denied(own.probe, (words,))):
                found.append(f"+{_subcommand(words)}")
        for name, rest in (("PUBLISH", " 1"), ("SUBSCRIBE", "")):
            for place in self.places:
                if place.channels and (yield from _denied(own.probe, (f"{name} {place.probe}{rest}",))):
                    found.append(f"+{name.lower()} &{place.pattern}")
        return tuple(found)


def _denied(key: str, words: Sequence[str]) -> Steps[list[str]]:
    """Of these commands, those that this user may not run, in small letters. `KEY` in them stands for `key`."""
    reply = yield Invoke(_SCRIPT, (key,), tuple(words))
    return [(name.decode(errors="replace") if isinstance(name, bytes) else name).lower() for name in reply]


def _subcommand(words: str) -> str:
    return "|".join(words.lower().split()[:2])


def _with_key(words: str) -> str:
    name, _, rest = words.partition(" ")
    return f"{name} KEY {rest}".rstrip()
