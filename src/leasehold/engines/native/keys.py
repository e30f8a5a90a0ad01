"""Names of Redis keys: `{namespace:queue}` and a suffix. The braces put all keys of a queue into one cluster slot."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import quote, unquote


@lru_cache(maxsize=4096)
def queue_prefix(namespace: str, queue: str) -> str:
    """The prefix of a queue's keys. Different names never share one: what could be mistaken is percent-encoded.

    >>> queue_prefix("leasehold", "images")
    '{leasehold:images}'
    >>> queue_prefix("leasehold", "a:b")
    '{leasehold:a%3Ab}'
    >>> queue_prefix("leasehold", "images/3")  # a partition
    '{leasehold:images/3}'
    """
    return f"{{{quote(namespace, safe='')}:{quote(queue, safe='/')}}}"


def queue_of(prefix: str) -> str:
    """The queue of a prefix, also of that of a partition.

    >>> queue_of("{leasehold:a%3Ab}")
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
