"""The beginning of a queue's keys."""

from __future__ import annotations

from typing import Self


class KeyPrefix:
    """A string that others follow.

    >>> jobs = KeyPrefix("jobs")
    >>> jobs.of(":queue"), KeyPrefix.concat(jobs, ":mail").of(":queue")
    ('jobs:queue', 'jobs:mail:queue')
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def __repr__(self) -> str:
        return f"KeyPrefix({self.prefix!r})"

    def of(self, name: str) -> str:
        """The prefix and this name."""
        return self.prefix + name

    @classmethod
    def concat(cls, prefix: KeyPrefix, name: str) -> Self:
        """A longer prefix: this one, and this name after it."""
        return cls(prefix.of(name))
