"""Names of Redis keys: the prefix of a queue, as all clients of this wire format know it, and what we add to it.

<prefix>:queue  <prefix>:processing  <prefix>:item:<id>  <prefix>:lease:<id>       every client
<prefix>:leased, :held:<worker>, :attempts, :kept, ...                             Tenure alone, see the docs
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tenure.core import names
from tenure.core.errors import InvalidArgument, invalid
from tenure.engines.kit.encoding import escaped

OURS: Final = (
    "leased", "held", "holders", "suspects", "due", "later", "attempts", "kept", "ended", "failed", "broken",
    "cancelled", "unroutable", "unleased", "others", "stray", "passing", "taken", "meta", "done", "full",
)  # fmt: skip
"""The suffixes that only Tenure uses. None of them begins as the names of items and leases do, which others list."""
SHARED: Final = "tenure"
"""Under the prefix of the protocol: which queues and workers there are."""

DEFAULT_QUEUE: Final = "default"
"""The queue with keys that begin with the prefix itself."""

_ITEMS: Final = ("item", "lease", "leased_by_session")
_TAKEN: Final = frozenset({"queue", "processing", "cleaning", SHARED, *_ITEMS, *OURS})


def check_prefix(prefix: object, field: str = "prefix") -> str:
    """Return a prefix as it is, if UTF-8 can encode it. Raises `InvalidArgument`."""
    if not isinstance(prefix, str):
        raise invalid(field, "a str", type(prefix).__name__)
    try:
        prefix.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise invalid(field, "text that UTF-8 can encode", names.shown(prefix)) from None
    return prefix


def check_queues(base: str, queues: Mapping[str, str] | None) -> dict[str, str]:
    """The prefixes of queues that have their own, by name. Raises `InvalidArgument` when two queues would have the
    same: each of them would take the other's leases for its own and run its jobs again; and when one would lie where
    another has its keys."""
    if queues is not None and not isinstance(queues, Mapping):
        raise invalid("queues", "a dict of names and prefixes", type(queues).__name__)
    named = {
        names.queue_name(name): check_prefix(own, f"the prefix of {name!r}") for name, own in (queues or {}).items()
    }
    seen: dict[str, str] = {}
    for name, own in {DEFAULT_QUEUE: base, **named}.items():
        if own in seen:
            raise shared_prefix(name, seen[own], own)
        seen[own] = name
    for own, name in seen.items():
        for other in seen:
            if own.startswith(f"{other}:"):
                _check_beneath(name, own, other)
    return named


def _check_beneath(name: str, prefix: str, other: str) -> None:
    """A queue may lie under another one, where no key of that one is."""
    bad = _taken(prefix[len(other) + 1 :])
    if bad is not None:
        raise InvalidArgument(
            f"The prefix of {name!r}, {prefix!r}, lies under {other!r}, where {bad!r} is the name of a key of that "
            "queue. Give it another prefix."
        )


def shared_prefix(name: str, other: str, prefix: str) -> InvalidArgument:
    """The error for two queues that would be one in Redis."""
    return InvalidArgument(
        f"The queues {other!r} and {name!r} have the same prefix, {prefix!r}: in Redis they would be one queue, and "
        "its jobs would run twice. Give each a prefix of its own (`queues=`), or use one name for both."
    )


def check_suffix(name: str) -> str:
    """Return the name of a queue that is to follow the prefix. Raises `InvalidArgument` if other keys have it."""
    bad = _taken(name)
    if bad is not None:
        raise InvalidArgument(
            f"The queue {name!r} cannot lie under this prefix: {bad!r} is the name of a key of the queue there. "
            "Give it another name, or a prefix of its own (`queues=`)."
        )
    return name


def _taken(suffix: str) -> str | None:
    return next((word for word in suffix.split(":") if word in _TAKEN), None)


def item_pattern(prefix: str) -> str:
    """Matches the names of all items of a queue."""
    return f"{escaped(prefix)}:item:*"
