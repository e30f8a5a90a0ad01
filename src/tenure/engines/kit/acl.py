"""The rights that an engine needs of a user of Redis, and whether Redis grants them. No key of a queue is touched."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tenure.core.errors import AccessDenied
from tenure.core.steps import Command, Invoke, Script, Steps

_WAIT_MS: Final = 10
"""How long the check waits for a reply to a blocking command. Redis 6.2 rounds 1 ms to no limit."""
_KEYS_DENIED: Final = re.compile("one of the keys|access a key")
_ALWAYS: Final = ("client|setname", "eval", "evalsha", "info", "ping", "select", "time", "wait")
"""Commands of every client: connecting (CLIENT SETNAME only names the connections), scripts, `tenure check`, and
waiting for replicas."""
_ON_CLUSTERS: Final = ("CLUSTER SLOTS", "CLUSTER INFO", "CLIENT ID", "CLIENT UNBLOCK 1")
"""What the driver of a cluster needs, too."""
_SCRIPT: Final = Script(
    "rights",
    """
-- KEYS[1] a key; one that is not there, if there are words: they are tried on it
-- ARGV the words of commands, spaces between; `KEY` stands for the key
-- Returns: the first words of those that this user may not run, and of those that this server does not have.
local denied, unknown = {}, {}
-- Before Redis 7 only trying shows it. A command that is refused for another reason is allowed.
local function refused(words)
  local reply = redis.pcall(unpack(words))
  local text = type(reply) == 'table' and reply.err or ''
  if string.find(text, 'Unknown Redis command', 1, true) then
    unknown[#unknown + 1] = words[1]
  end
  return string.find(text, 'NOPERM', 1, true) or string.find(text, "executing the script can't", 1, true)
end
-- It raises an error for a command that was renamed.
local function forbidden(words)
  local is_known, is_allowed = pcall(redis.acl_check_cmd, unpack(words))
  if not is_known then
    unknown[#unknown + 1] = words[1]
  end
  return is_known and not is_allowed
end
for i = 1, #ARGV do
  local words = {}
  for word in string.gmatch(ARGV[i], '%S+') do
    words[#words + 1] = word == 'KEY' and KEYS[1] or word
  end
  local asks = redis.acl_check_cmd
  if (asks and forbidden(words)) or (not asks and refused(words)) then
    denied[#denied + 1] = words[1]
    if words[1] == 'DEL' and not asks then
      return { denied, unknown } -- nothing may be tried that could not be removed again
    end
  end
end
if #ARGV > 0 and not redis.acl_check_cmd then
  redis.pcall('DEL', KEYS[1])
end
return { denied, unknown }
""".strip(),
)


class KeyPlace(Struct, frozen=True):
    """Keys of an engine: the pattern that an ACL grants, and one key of it that no queue has.

    `channels`: pub/sub channels have such names, too. `used`: the probe is a key of a queue; no command is tried on it.
    """

    pattern: str
    probe: str
    channels: bool = False
    used: bool = False


class AclRules(Struct, frozen=True):
    """What an engine needs of a user of Redis: places, commands whose first argument is a key, and other commands.

    `subcommands`: those of which only one word is needed, as CLIENT ID.
    """

    places: tuple[KeyPlace, ...]
    commands: tuple[str, ...]
    no_key: tuple[str, ...]
    subcommands: tuple[str, ...] = ()

    def of(self, clustered: bool) -> AclRules:
        """The rules of one server, or of the nodes of a cluster."""
        return replace(self, subcommands=(*self.subcommands, *_ON_CLUSTERS)) if clustered else self

    def needed(self) -> tuple[str, ...]:
        """The rules of an ACL that grant this, and nothing else."""
        channels = [f"&{place.pattern}" for place in self.places if place.channels]
        listening = ("PUBLISH", "SUBSCRIBE", "UNSUBSCRIBE") if channels else ()
        own = (words.split()[0].lower() for words in (*self.commands, *self.no_key, *listening))
        keys = dict.fromkeys(f"~{place.pattern}" for place in self.places)
        names = {*_ALWAYS, *own, *map(_subcommand, self.subcommands)}
        return (*keys, *channels, *(f"+{name}" for name in sorted(names)))

    def missing(self) -> Steps[tuple[str, ...]]:
        """What this user lacks: commands as `+hset`, keys as `~jobs:*`, channels as `+publish &jobs:*`; and commands
        that the server does not have, as `hset`.

        Before Redis 7 a user who lacks DEL may lack more than is found, and commands that block are not tried.
        """
        keys: list[str] = []
        own: KeyPlace | None = None
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
        commands, absent = yield from _denied(own.probe, (*map(_with_key, self.commands), *self.no_key))
        found = [f"+{name}" for name in commands] + keys
        for words in self.subcommands:
            if (yield from _denied(own.probe, (words,)))[0]:
                found.append(f"+{_subcommand(words)}")
        for name, rest in (("PUBLISH", " 1"), ("SUBSCRIBE", "")):
            for place in self.places:
                if place.channels:
                    denied, unknown = yield from _denied(own.probe, (f"{name} {place.probe}{rest}",))
                    found += [f"+{name.lower()} &{place.pattern}" for _ in denied]
                    absent += unknown
        return (*found, *dict.fromkeys(absent))

    def wait(self) -> Command | None:
        """A blocking command of a worker, on a key that no queue has, as it is sent outside scripts."""
        own = next((place for place in self.places if not place.used), None)
        words = next((words for words in self.commands if words.startswith("BL")), None)
        if own is None or words is None:
            return None
        named = [own.probe if word == "KEY" else word for word in _with_key(words).split()]
        return Command((*named[:-1], f"{_WAIT_MS / 1000:.3f}"), block_ms=_WAIT_MS)

    def channel(self) -> str:
        """A channel on which no message is sent; empty: the engine has none."""
        return next((place.probe for place in self.places if place.channels), "")


def _denied(key: str, words: Sequence[str]) -> Steps[tuple[list[str], list[str]]]:
    """Of these commands, those that this user may not run, and those that the server does not have, in small letters.
    `KEY` in them stands for `key`."""
    denied, unknown = yield Invoke(_SCRIPT, (key,), tuple(words))
    return _lower(denied), _lower(unknown)


def _lower(names: Sequence[bytes | str]) -> list[str]:
    return [(name.decode(errors="replace") if isinstance(name, bytes) else name).lower() for name in names]


def _subcommand(words: str) -> str:
    return "|".join(words.lower().split()[:2])


def _with_key(words: str) -> str:
    name, _, rest = words.partition(" ")
    return f"{name} KEY {rest}".rstrip()
