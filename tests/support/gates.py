"""What is wrong with limits and shares in the native layout, in sentences: a place without a lease, a shut gate."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from tenure.testing.server import RedisServer
from tests.support.keyspace import keys
from tests.support.shapes import Key

OF_CLUSTERS: Final = b"limiting:"
"""How the keys of limits of a queue begin on a cluster, behind its prefix."""
LIMIT_KEYS: Final = frozenset({b"gated", b"opened", b"moments"})
OF_NAMESPACE: Final = (b"limits", b"shares", b"waiting", b"used", b"reserved", b"homes")
Queues = Mapping[bytes, Mapping[bytes, Key]]
"""The keys of each queue by suffix, by the queue's prefix."""


def is_limit_key(suffix: bytes) -> bool:
    """Whether a key of the namespace is one of limits, which need no time to live: something owns them."""
    return suffix in OF_NAMESPACE or suffix.startswith((b"places:", b"gates:"))


def limit_faults(queues: Queues, shared: Mapping[bytes, Key]) -> list[str]:
    """`shared`: the keys of the namespace by suffix."""
    wrong = [*_places(queues, shared)]
    listed: dict[bytes, set[bytes]] = {}
    for prefix, found in queues.items():
        wrong += [f"{prefix.decode()}: {what}" for what in (*_gates(prefix, found, shared), *_shares(found))]
        for name in _named(found, b"gate:"):
            listed.setdefault(name, set()).add(prefix)
    noted = {
        suffix.removeprefix(b"gates:"): key.value for suffix, key in shared.items() if suffix.startswith(b"gates:")
    }
    if noted != listed:
        wrong.append(f"queues with gates are {listed}, noted are {noted}")
    taken = {suffix[7:] for suffix in shared if suffix.startswith(b"places:")}
    if set(_value(shared, b"used", {})) != taken:
        wrong.append(f"limits with places are {taken}, used has {_value(shared, b'used', {})}")
    if set(_value(shared, b"waiting", {})) != set(listed):
        wrong.append(f"limits with gates are {set(listed)}, waiting has {_value(shared, b'waiting', {})}")
    return wrong


def claims_of(found: Mapping[bytes, Key]) -> dict[bytes, tuple[bytes, list[tuple[bytes, int]]]]:
    """What is held of a queue: id -> its token, and its limits with their costs."""
    claims = {}
    for held in _named(found, b"held:").values():
        for id, text in held.items():
            claims[id] = text.split(b" ")[0], limits_of(text)
    return claims


def limits_of(text: bytes) -> list[tuple[bytes, int]]:
    """The limits in a record's first line or in a claim, with their costs."""
    match = re.search(rb" m=(\S+)", text.partition(b"\n")[0])
    words = match[1].split(b",") if match else []
    return [(word.split(b":")[0], int(word.split(b":")[1])) for word in words]


def _places(queues: Queues, shared: Mapping[bytes, Key]) -> list[str]:
    """Each place is one of a lease, and each lease has at least one place of each of its limits."""
    kept = {
        (suffix[7:], entry) for suffix, key in shared.items() if suffix.startswith(b"places:") for entry in key.value
    }
    leases = {
        (name, prefix + b" " + token + b" "): cost
        for prefix, found in queues.items()
        for token, limits in claims_of(found).values()
        for name, cost in limits
    }
    counts: Counter[tuple[bytes, bytes]] = Counter()
    for name, entry in kept:
        counts[name, entry.rpartition(b" ")[0] + b" "] += 1
    wrong = [f"place {lease!r} of {name!r} has no lease" for name, lease in counts if (name, lease) not in leases]
    return wrong + [
        f"lease {lease!r} has {counts[lease]} places"
        for lease, cost in leases.items()
        if not 1 <= counts[lease] <= cost
    ]


def _gates(prefix: bytes, found: Mapping[bytes, Key], shared: Mapping[bytes, Key]) -> list[str]:
    gates = {name: set(lanes) for name, lanes in _named(found, b"gate:").items()}
    gated, opened = _value(found, b"gated", {}), _value(found, b"opened", {})
    at_gates = Counter((lane, name) for name, lanes in gates.items() for lane in lanes)
    wrong = (
        [] if dict(at_gates) == dict.fromkeys(gated.items(), 1) else [f"gated are {gated}, at gates {dict(at_gates)}"]
    )
    wrong += [f"lane {lane!r} waits at a gate and has no jobs" for lane in gated if not _is_there(found, lane)]
    turns = set(_value(found, b"turns", [])) | {lane for lanes in _named(found, b"share:").values() for lane in lanes}
    wrong += [f"lane {lane!r} was opened and has no turn" for lane in opened if lane not in turns]
    moments = _value(found, b"moments", {})
    wrong += [f"limit {name!r} has a moment and no gate" for name in moments if name not in gates]
    names = {text.split(b" ", 1)[1] for text in opened.values()}
    # With the lanes at the front: a suspect is looked at by every claim.
    return wrong + [
        f"nothing opens the gate of {name!r}"
        for name in gates
        if name not in names and name not in moments and b"places:" + name not in shared
    ]


def _is_there(found: Mapping[bytes, Key], lane: bytes) -> bool:
    return b"lane:" + lane in found or lane.startswith(b"@!")


def _shares(found: Mapping[bytes, Key]) -> list[str]:
    turns = Counter(entry[1:] for entry in _value(found, b"turns", []) if entry.startswith(b"$"))
    shares = _named(found, b"share:")
    wrong = [f"share {share!r} is {count} times among the turns" for share, count in turns.items() if count > 1]
    return wrong + [f"share {share!r} has a turn or lanes, not both" for share in set(turns) ^ set(shares)]


def _value(found: Mapping[bytes, Key], suffix: bytes, empty: Any) -> Any:
    return found[suffix].value if suffix in found else empty


def _named(found: Mapping[bytes, Key], start: bytes) -> dict[bytes, Any]:
    return {suffix.removeprefix(start): key.value for suffix, key in found.items() if suffix.startswith(start)}


def shift_limits(server: RedisServer, shared: str, ms: int) -> None:
    """Let `ms` pass for the limits of a namespace and the lanes at their gates without waiting."""
    for name, key in keys(server).items():
        if name.startswith(shared.removesuffix("}").encode()) and b":gate:" in name:
            for lane, since in key.value.items():
                server.command("ZADD", name, max(0, int(float(since)) - 1000 * ms), lane)
        if name.startswith(shared.removesuffix("}").encode()) and b"}:limit" in name and b":limit:" in name:
            used, rests = key.value.split()
            server.command("SET", name, f"{int(used) - 1000 * ms} {max(0, int(rests) - ms)}", "XX", "KEEPTTL")
