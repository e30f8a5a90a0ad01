"""Large payloads in a store of the user: what a store must do, and how a job names its payload there."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final, Protocol, runtime_checkable
from urllib.parse import quote, unquote

from tenure.core.errors import InvalidArgument

PAYLOAD_HEADER: Final = "tenure-payload"
"""The header of a job whose payload is in the store: its key there."""


@runtime_checkable
class PayloadStore(Protocol):
    """Keeps payloads that are too large for Redis: for `Tenure(large=...)`. Four methods, which may block.

    class Bucket:
        def put(self, key: str, data: bytes) -> None: s3.put_object(Bucket="jobs", Key=key, Body=data)
        def get(self, key: str) -> bytes: ...      # raises KeyError if there is none
        def delete(self, key: str) -> None: ...    # no error if there is none
        def old(self, before: datetime) -> Iterable[str]: ...

    Threads call them, also several at once; in async programs never the one of the event loop. `put` returns when the
    data is safe. A key has letters, digits, and `_.-~%/`, at most 2,000 characters. `old`: the keys that were put
    before a time (UTC), for `tenure clean --payloads`.
    """

    def put(self, key: str, data: bytes, /) -> None: ...
    def get(self, key: str, /) -> bytes: ...
    def delete(self, key: str, /) -> None: ...
    def old(self, before: datetime, /) -> Iterable[str]: ...


def data_of(store: PayloadStore, key: str) -> bytes:
    """Return a payload. Raises `LookupError` if there is none, and `InvalidArgument` for anything but bytes."""
    data: object = store.get(key)
    if not isinstance(data, bytes):
        kind = type(data).__name__
        raise InvalidArgument(f"get of the store must return bytes, and raise KeyError for an unknown key, got {kind}.")
    return data


def new_key(owner: str, queue: str, id: str) -> str:
    """Return a key that no other payload has: a repeated id does not replace the payload of the first job.

    `owner`: the prefix of the queue's keys in Redis, which differs between namespaces and wire formats.
    """
    return "/".join(quote(part, safe="") for part in (owner, queue, id, secrets.token_hex(8)))


def job_of(key: str) -> tuple[str, str, str] | None:
    """Return the owner, the queue and the id in a key; None: it is no key of Tenure."""
    parts = [unquote(part) for part in key.split("/")]
    return (parts[0], parts[1], parts[2]) if len(parts) == 4 else None


def key_of(headers: Mapping[str, str] | None) -> str | None:
    """Return where the payload of a job with these headers is; None: in Redis."""
    return None if headers is None else headers.get(PAYLOAD_HEADER)


def is_own(key: str, id: str) -> bool:
    """Return whether a key was made for this job. One of another job, which another program has written into a record,
    is neither read nor deleted. A move between queues keeps the id."""
    found = job_of(key)
    return found is not None and found[2] == id


def visible(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return the headers that the producer has set."""
    return {name: text for name, text in (headers or {}).items() if name != PAYLOAD_HEADER}
