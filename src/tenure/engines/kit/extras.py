"""The answers of operations that some engines offer to the command line: cleaning a queue."""

from __future__ import annotations

from msgspec import Struct


class Cleaned(Struct, frozen=True):
    """What a clean did. `looked`: ids, or items. `dropped`: ids that had no item. `noted`: may be requeued later."""

    looked: int = 0
    requeued: int = 0
    dropped: int = 0
    noted: int = 0

    def __add__(self, other: Cleaned) -> Cleaned:
        return Cleaned(
            self.looked + other.looked,
            self.requeued + other.requeued,
            self.dropped + other.dropped,
            self.noted + other.noted,
        )
