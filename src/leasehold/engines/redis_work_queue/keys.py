"""Names of Redis keys: the prefix of a queue, as all clients of this wire format know it, and what we add to it.

<prefix>:queue  <prefix>:processing  <prefix>:item:<id>  <prefix>:lease:<id>       every client
<prefix>:leased, :held:<worker>, :attempts, :kept, ...                             ours alone, see the docs
"""

from __future__ import annotations

import re
from typing import Final

from leasehold.core.errors import InvalidArgument

OURS: Final = (
    "leased", "held", "holders", "suspects", "due", "later", "attempts", "kept", "ended", "failed", "broken",
    "cancelled", "unroutable", "unleased", "stray", "moving", "meta", "done", "full",
)  # fmt: skip
"""The suffixes that only Leasehold uses. None of them begins as the names of items and leases do, which others list."""
SHARED: Final = "leasehold"
"""Beneath the prefix of the protocol: which queues and workers there are."""

_ITEMS: Final = ("item", "lease", "leased_by_session")
_TAKEN: Final = frozenset({"queue", "processing", "cleaning", SHARED, *_ITEMS, *OURS})
_GLOB: Final = re.compile(r"([\\*?\[\]^])")


def check_prefix(prefix: object, field: str = "prefix") -> str:
    """A prefix as it is, if the keys of a queue there cannot be those of another one. Raises `InvalidArgument`.

    The keys of a queue `a:item:b` look like items of a queue `a`: a cleaner would queue them, a worker delete them.
    """
    if not isinstance(prefix, str):
        raise InvalidArgument(f"{field} is a {type(prefix).__name__}; expected a str.")
    if not prefix:
        raise InvalidArgument(f"{field} is empty; expected the beginning of the queue's keys.")
    words = prefix.split(":")[1:]
    bad = next((word for word in words if word in _ITEMS), None)
    if bad is not None:
        raise InvalidArgument(
            f"{field} {prefix!r} has the part ':{bad}', so its keys would be taken for the {bad}s of another queue and "
            "deleted with them. Choose a prefix without it."
        )
    return prefix


def check_suffix(name: str) -> str:
    """The name of a queue that is to follow the prefix. Raises `InvalidArgument` for one whose keys others have."""
    bad = next((word for word in name.split(":") if word in _TAKEN), None)
    if bad is not None:
        raise InvalidArgument(
            f"The queue {name!r} cannot lie beneath this prefix: {bad!r} is the name of a key of the queue there. "
            "Give it another name, or a prefix of its own (`queues=`)."
        )
    return name


def escaped(text: str) -> str:
    """Text as a pattern that matches itself alone.

    >>> escaped("jobs[1]*")
    'jobs\\\\[1\\\\]\\\\*'
    """
    return _GLOB.sub(r"\\\1", text)


def item_pattern(prefix: str) -> str:
    """Matches the names of all items of a queue."""
    return f"{escaped(prefix)}:item:*"
