"""Hash slots of a cluster: which slot a call belongs to, and which node serves each slot.

>>> slot_of_key("{tenure:images}:jobs") == slot_of_key("{tenure:images}")
True
"""

from __future__ import annotations

import re
from binascii import crc_hqx
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from tenure.core.errors import InvalidArgument
from tenure.core.steps import Arg, Command, Invoke
from tenure.redis.url import Address

SLOTS: Final = 16_384

_ANY_NODE: Final = frozenset({"PING", "INFO", "CONFIG", "TIME", "PUBLISH", "CLIENT"})
"""Commands without a key. A message of PUBLISH reaches the subscribers of all nodes."""
_EACH_NODE: Final = frozenset({"SCAN", "KEYS", "DBSIZE", "FLUSHALL", "FLUSHDB", "SCRIPT"})
"""Commands with an answer that is about one node only."""
_KEYS: Final = {"BLPOP": (1, -1)}
"""Commands with several keys: the places of the keys among the words. Else the first argument is the key."""
_ESCAPED: Final = re.compile(r"\\(.)")
"""A character of a pattern that stands for itself."""


class SlotMap(Struct, frozen=True):
    """The reply of CLUSTER SLOTS: ranges of slots as (first, last, master), and the replicas."""

    ranges: tuple[tuple[int, int, Address], ...]
    replicas: tuple[Address, ...]

    def owners(self) -> list[Address | None]:
        """The master of each slot; None: no node serves it."""
        owners: list[Address | None] = [None] * SLOTS
        for first, last, master in self.ranges:
            owners[first : last + 1] = [master] * (last + 1 - first)
        return owners


def slot_of_key(key: Arg) -> int:
    """The hash slot of a key, or of its hash tag (the text in its first braces) if it has one."""
    whole = key if isinstance(key, bytes) else str(key).encode()
    tag, brace, _ = whole.partition(b"{")[2].partition(b"}")
    return crc_hqx(tag if tag and brace else whole, 0) % SLOTS


def hash_tag(key: str) -> str:
    """The hash tag of a key. Empty: it has none, so the whole key decides its slot.

    >>> hash_tag("{jobs}:queue"), hash_tag("jobs:{}")
    ('jobs', '')
    """
    tag, brace, _ = key.partition("{")[2].partition("}")
    return tag if brace else ""


def tagged(prefix: str) -> str:
    """A prefix like this one that is a hash tag.

    >>> tagged("jobs")
    '{jobs}'
    """
    return "{" + (re.sub("[{}]", "", prefix) or "jobs") + "}"


def keys_of(call: Command | Invoke) -> tuple[Arg, ...]:
    """The keys that a call names, for its slot. None: any node can run it.

    A SCAN for keys with one hash tag goes to the node that has them. Raises `InvalidArgument` for other commands about
    one node: a driver of a cluster cannot choose it.
    """
    if isinstance(call, Invoke):
        return call.keys[:1]
    name = str(call.args[0]).upper()
    if name == "SCAN" and hash_tag(pattern := _pattern_of(call)):
        return (pattern,)
    if name in _EACH_NODE:
        raise InvalidArgument(f"{name} is about one node; on a cluster, send it to each node.")
    if name in _ANY_NODE:
        return ()
    places = _KEYS.get(name)
    return call.args[1:2] if places is None else call.args[places[0] : places[1]]


def _pattern_of(scan: Command) -> str:
    """The names that a SCAN looks for, as far as they have no wildcards."""
    options = iter(scan.args)
    return next((_ESCAPED.sub(r"\1", str(next(options, ""))) for word in options if word == "MATCH"), "")


def split_wait(call: Command) -> list[Command]:
    """Split a BLPOP into one for each hash slot: a node refuses keys of several slots, even if it has all of them."""
    name, *keys, timeout = call.args
    slots: dict[int, list[Arg]] = {}
    for key in keys:
        slots.setdefault(slot_of_key(key), []).append(key)
    return [Command((name, *mine, timeout), block_ms=call.block_ms) for mine in slots.values()]


def read_slots(reply: list[Any], asked: Address) -> SlotMap:
    """Read the reply of CLUSTER SLOTS. `asked`: the node that replied; it names itself without a host before it has
    met another node."""
    ranges: list[tuple[int, int, Address]] = []
    replicas: dict[Address, None] = {}
    for first, last, *nodes in reply:
        master, *others = [_address(node, asked) for node in nodes]
        if master is not None:
            ranges.append((int(first), int(last), master))
        replicas.update((other, None) for other in others if other is not None)
    return SlotMap(tuple(ranges), tuple(replicas))


def read_state(reply: bytes) -> Mapping[str, str]:
    """Read the reply of CLUSTER INFO."""
    lines = (line.partition(":") for line in reply.decode(errors="replace").splitlines())
    return {name: value for name, colon, value in lines if colon}


def _address(node: list[Any], asked: Address) -> Address | None:
    """The address of a node; None: its operator hides it (`cluster-preferred-endpoint-type unknown-endpoint` names no
    host, which means that of the node that replied)."""
    host = (node[0] or b"").decode()
    if host == "?":
        return None
    return host or asked[0], int(node[1])
