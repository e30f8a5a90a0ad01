"""The names of keys and channels, and the prefixes that are allowed."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

from tenure.core import names
from tenure.core.errors import InvalidArgument, invalid

_PREFIX: Final = re.compile(r"[A-Za-z0-9.{}-]+")
_TAG: Final = re.compile(r"[^{}]*(?:\{[^{}]+\})?[^{}]*")


def check_prefix(prefix: object) -> str:
    """Return the prefix of all keys.

    Originals read the queue from a channel's name behind the first `_`, split keys at colons, and use the prefix in
    patterns: so these characters are refused.
    """
    if isinstance(prefix, str) and len(prefix) <= 200 and _PREFIX.fullmatch(prefix) and _TAG.fullmatch(prefix):
        return prefix
    rule = "1 to 200 letters, digits, dots or hyphens, with one {hash tag} at most"
    raise invalid("prefix", rule, names.shown(prefix), "Other characters would make workers of the original deaf.")


def quoted(queue: str) -> str:
    """The name of a queue within the keys of Tenure. Raises `InvalidArgument` for an empty one."""
    if not queue:
        raise InvalidArgument("queue must be a name, got ''.")
    return quote(queue, safe="", errors="surrogateescape")


def channel(prefix: str, queue: str, event: str) -> str:
    """A channel of the original: `work`, `done`, `cancel` or `delete`."""
    return f"{prefix}_{queue}_{event}"
