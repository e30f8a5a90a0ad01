"""Prefixes of keys."""

from __future__ import annotations

from typing import Self


class KeyPrefix:
    """A prefix for keys.

    >>> jobs = KeyPrefix("jobs")
    >>> jobs.of(":queue"), KeyPrefix.concat(jobs, ":mail").of(":queue")
    ('jobs:queue', 'jobs:mail:queue')
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def __repr__(self) -> str:
        return f"KeyPrefix({self.prefix!r})"

    def of(self, name: str) -> str:
        """Return the prefix followed by this name."""
        return self.prefix + name

    @classmethod
    def concat(cls, prefix: KeyPrefix, name: str) -> Self:
        """Return a longer prefix: `prefix` followed by this name."""
        return cls(prefix.of(name))
