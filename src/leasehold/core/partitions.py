"""Queues in several partitions: which partition a job belongs to, and the names of partitions inside an engine.

A partition is a queue of its own in Redis. Partition 0 has the keys that the queue would have without partitions.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final
from zlib import crc32

from leasehold.core.shape import Shape

MAX_PARTITIONS: Final = 256
"""More than this would make each look at the whole queue long. A cluster of 100 masters needs about 200."""
_MARK: Final = "/"
"""Stands between a queue's name and the partition's number. No name of a queue has it."""
_STEP: Final = 2862933555777941757
_WORD: Final = (1 << 64) - 1


@lru_cache(maxsize=4096)
def place_of(queue: str, partition: int) -> str:
    """The name of a partition inside the engine: that of the queue for partition 0.

    >>> place_of("orders", 0), place_of("orders", 3)
    ('orders', 'orders/3')
    """
    return f"{queue}{_MARK}{partition}" if partition else queue


def split_place(place: str) -> tuple[str, int]:
    """The queue and the partition of such a name.

    >>> split_place("orders/3")
    ('orders', 3)
    """
    queue, _, partition = place.partition(_MARK)
    return queue, int(partition or 0)


def home_of(key: str, partitions: int) -> int:
    """The partition of a key. With another number of partitions, as few keys as possible have another home.

    The jump consistent hash of Lamping and Veach (2014), of the CRC-32 of the key.

    It must never change: jobs of a lane would lie in two partitions.

    >>> [home_of(f"customer:{n}", 16) for n in range(6)]
    [3, 11, 6, 14, 15, 5]
    """
    state = crc32(key.encode("utf-8", "surrogateescape")) * 0x9E3779B97F4A7C15 & _WORD
    home, following = -1, 0
    while following < partitions:
        home = following
        state = (state * _STEP + 1) & _WORD
        following = int((home + 1) * ((1 << 31) / ((state >> 33) + 1)))
    return home


def key_of(id: str, shape: Shape) -> str:
    """What decides a job's partition: its lane, else its unique key, else its id."""
    if shape.lane is not None:
        return f"lane {shape.lane}"
    if shape.unique is not None:
        return f"key {shape.unique.key}"
    return id
