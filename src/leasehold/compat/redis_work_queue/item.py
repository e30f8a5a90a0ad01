"""The values of the interface: items, which are bytes with an id, and prefixes of keys."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any, Self

from leasehold.core.errors import invalid


class Item(dict[str, Any]):
    """A dict of `data` (bytes) and `id` (str), with the methods of the original package.

    >>> item = Item("hello", id="1")
    >>> item.data(), item.id(), item["id"]
    (b'hello', '1', '1')

    Text becomes UTF-8. Without an id the item gets a random one. Raises `InvalidArgument` for data that is neither
    bytes nor text. Items that `WorkQueue.lease` returns have a `token`, which names the lease.
    """

    __slots__ = ("_leased", "token")

    def __init__(self, data: bytes | bytearray | memoryview | str, id: object = None) -> None:
        super().__init__(data=_bytes(data), id=uuid.uuid4().hex if id is None else str(id))
        self.token: str | None = None
        self._leased: bytes | None = None

    @classmethod
    def from_dict(cls, loaded: Mapping[str, Any]) -> Self:
        """Make an item from a dict with `data` and perhaps `id`. Raises `KeyError` without data."""
        return cls(loaded["data"], loaded.get("id"))

    @classmethod
    def parse(cls, s: str | bytes) -> Self:
        """Make an item from the JSON of such a dict."""
        return cls.from_dict(json.loads(s))

    @classmethod
    def from_json_data(cls, data: object, id: object = None) -> Self:
        """Make an item with this value as JSON for its data."""
        return cls(json.dumps(data, separators=(",", ":")), id)

    def data(self) -> bytes:
        data: bytes = self["data"]
        return data

    def data_json(self) -> Any:
        """Decode the data as JSON. Raises what `json.loads` raises."""
        return json.loads(self.data())

    def id(self) -> str:
        id: str = self["id"]
        return id


def _bytes(data: object) -> bytes:
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    raise invalid("data", "bytes or a str", type(data).__name__, "Use Item.from_json_data for other values.")


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
