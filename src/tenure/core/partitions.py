"""Queues in several partitions: which partition a job belongs to, and the names of partitions inside an engine.

A partition is a queue of its own in Redis. Partition 0 has the keys that the queue would have without partitions.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final
from zlib import crc32

from msgspec import Struct

from tenure.core.shape import Shape

MAX_PARTITIONS: Final = 256
"""More than this would make each look at the whole queue long. A cluster of 100 masters needs about 200."""
_MARK: Final = "/"
"""Stands between a queue's name and the partition's number. No name of a queue has it."""
_MAP: Final = re.compile(r"(\d{1,9})(?::(\d{1,15}):(\d{1,9}))?", re.ASCII)
_NOTE: Final = re.compile(r"(\d{1,15}):(\d{1,9}):(\d{1,9}):\d{1,9}:(\d{1,15})", re.ASCII)
_STEP: Final = 2862933555777941757
_WORD: Final = (1 << 64) - 1


@lru_cache(maxsize=4096)
def place_of(queue: str, partition: int) -> str:
    """The name of a partition inside the engine; partition 0 has the name of the queue.

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


class PartitionMap(Struct, frozen=True):
    """How many partitions a queue has. Its version grows with each change of the number; 0: it never had partitions.

    `before`: the number before, during a change; else 0. `max_length`: the maximum length of the whole queue, which the
    change shares out.
    """

    number: int = 1
    version: int = 0
    before: int = 0
    max_length: int = 0

    @property
    def is_first(self) -> bool:
        """Whether the queue got it when it was first used. The partitions note it after it is written."""
        return self.version == 1 and not self.before

    @property
    def places(self) -> int:
        """How many partitions may have jobs."""
        return max(self.number, self.before)

    @property
    def sources(self) -> range:
        """The partitions that jobs leave during a change. By the jump hash no job moves between others.

        >>> PartitionMap(8, 2, before=4).sources, PartitionMap(4, 3, before=8).sources
        (range(0, 4), range(4, 8))
        """
        if not self.before:
            return range(0)
        return range(self.before) if self.number > self.before else range(self.number, self.before)

    @property
    def order(self) -> list[int]:
        """All partitions that may have jobs: first those that jobs leave."""
        return [*self.sources, *(one for one in range(self.places) if one not in self.sources)]

    @property
    def is_announced(self) -> bool:
        """Whether the queue has one partition, and is searched for what cannot be in one of several."""
        return self.number == self.before == 1

    @property
    def is_parted(self) -> bool:
        """Whether jobs that need two partitions are refused: there are several, or there will be."""
        return self.number > 1 or self.before > 0

    def homes(self, key: str) -> tuple[int, ...]:
        """The partition of a key; while a change moves it, the old one and the new one.

        >>> PartitionMap(8, 2, before=4).homes("customer:0"), PartitionMap(8, 2, before=4).homes("customer:1")
        ((3,), (3, 7))
        """
        home = home_of(key, self.number)
        old = home_of(key, self.before) if self.before else home
        return (home,) if old == home else (old, home)


def write_map(map: PartitionMap) -> str:
    """The map of a queue, as Redis has it for its namespace.

    >>> write_map(PartitionMap(4, 1)), write_map(PartitionMap(8, 2, before=4))
    ('4', '8:2:4')
    """
    return str(map.number) if map.is_first else f"{map.number}:{map.version}:{map.before}"


def read_map(text: str) -> PartitionMap:
    """The map again. Empty: the queue has none. Raises `ValueError` for text that is no map.

    >>> read_map(""), read_map("4") == PartitionMap(4, 1), read_map("8:2:4") == PartitionMap(8, 2, 4)
    (PartitionMap(number=1, version=0, before=0, max_length=0), True, True)
    """
    if not text:
        return PartitionMap()
    found = _MAP.fullmatch(text)
    if found is None:
        raise ValueError(text)
    number, version, before = found.groups()
    return _checked(PartitionMap(int(number), int(version or 1), int(before or 0)))


def read_noted(text: str) -> PartitionMap:
    """The map that a partition has noted: see lib noted of the Lua. Raises `ValueError` for text that is no note.

    >>> read_noted("2:8:4:3:1000") == PartitionMap(8, version=2, before=4, max_length=1000)
    True
    """
    found = _NOTE.fullmatch(text)
    if found is None:
        raise ValueError(text)
    version, number, before, max_length = map(int, found.groups())
    return _checked(PartitionMap(number, version, before, max_length))


def _checked(map: PartitionMap) -> PartitionMap:
    """Return the map. Raises `ValueError` for numbers that no queue can have: processes would make that many names."""
    if not 1 <= map.number <= MAX_PARTITIONS or map.before > MAX_PARTITIONS:
        raise ValueError(write_map(map))
    return map


def share_of(max_length: int, partition: int, partitions: int) -> int:
    """The share of one partition in the maximum length of its queue. At least 1: a share of 0 would be no maximum.

    >>> [share_of(10, partition, 4) for partition in range(4)], [share_of(2, partition, 4) for partition in range(4)]
    ([3, 3, 2, 2], [1, 1, 1, 1])
    """
    return max(1, (max_length + partitions - 1 - partition) // partitions) if max_length else 0


def key_of(id: str, shape: Shape) -> str:
    """What decides a job's partition: its lane, else its unique key, else its id."""
    if shape.lane is not None:
        return f"lane {shape.lane}"
    if shape.unique is not None:
        return f"key {shape.unique.key}"
    return id
