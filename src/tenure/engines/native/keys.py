"""Names of Redis keys: `{namespace:queue}` and a suffix. The braces put all keys of a queue into one cluster slot."""

from __future__ import annotations

from binascii import crc_hqx
from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote

from tenure.core.partitions import MAX_PARTITIONS, split_place

SLOTS: Final = 16_384
"""Hash slots of a Redis Cluster."""
_CELL: Final = SLOTS // MAX_PARTITIONS
"""Slots of a cell. Of a queue with 256 partitions, one is in each cell."""
TRIES: Final = 500
"""Numbers that are tried for the tag of a partition. The first 478 reach every cell, for all names."""
_NUMBERS: Final = [str(number).encode() for number in range(TRIES)]


@lru_cache(maxsize=16_384)
def queue_prefix(namespace: str, place: str) -> str:
    """The prefix of the keys of a queue, or of one of its partitions. Different names never share one: what could be
    mistaken is percent-encoded.

    >>> queue_prefix("tenure", "images")
    '{tenure:images}'
    >>> queue_prefix("tenure", "a:b")
    '{tenure:a%3Ab}'
    >>> queue_prefix("tenure", "orders/3")  # a partition
    '{tenure:orders/3-11}'
    """
    queue, partition = split_place(place)
    tag = f"{quote(namespace, safe='')}:{quote(queue, safe='')}"
    return f"{{{_tag_of_partition(tag, partition) if partition else tag}}}"


def _tag_of_partition(tag: str, partition: int) -> str:
    """The tag whose number, the smallest that does it, puts the partition into its cell.

    Partitions are spread evenly, however many there are: the number of a partition with its bits reversed is the
    distance to the cell of partition 0 (the sequence of van der Corput). Nodes have ranges of slots, so each node has
    about as many partitions.
    """
    cell = (_cell_of(crc_hqx(tag.encode(), 0)) + int(f"{partition:08b}"[::-1], 2)) % MAX_PARTITIONS
    begun = f"{tag}/{partition}-"
    crc = crc_hqx(begun.encode(), 0)
    number = next(number for number, text in enumerate(_NUMBERS) if _cell_of(crc_hqx(text, crc)) == cell)
    return f"{begun}{number}"


def _cell_of(crc: int) -> int:
    return crc % SLOTS // _CELL


def queue_of(prefix: str) -> str:
    """The queue of a prefix, also of that of a partition.

    >>> queue_of("{tenure:a%3Ab}")
    'a:b'
    """
    return unquote(prefix.strip("{}").partition(":")[2].partition("/")[0])


def encoded(name: str) -> str:
    """A lane or a unique key as it stands in keys and records: without spaces, separators and braces."""
    return quote(name, safe="")


def namespace_prefix(namespace: str) -> str:
    """The prefix of the few keys that belong to no queue: which queues and workers there are."""
    return f"{{{quote(namespace, safe='')}}}"


def decoded(name: str) -> str:
    """The name again."""
    return unquote(name)
