"""Items: bytes with an id."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Self, SupportsBytes, SupportsIndex, TypeAlias

from tenure.core.errors import invalid

Data: TypeAlias = str | bytes | bytearray | memoryview | SupportsBytes | Iterable[SupportsIndex]


class Item(dict[str, Any]):
    """A dict of `data` (bytes) and `id` (str), with the methods of the original package.

    >>> item = Item("hello", id="1")
    >>> item.data(), item.id(), item["id"]
    (b'hello', '1', '1')

    Text becomes UTF-8, and other data what `bytes(data)` makes of it. Without an id the item gets a random one. Raises
    `InvalidArgument` for a number. An item may have attributes of the caller's.
    """

    token: str | None = None
    """Names the lease of an item that `WorkQueue.lease` returned."""
    _leased: bytes | None = None

    def __init__(self, data: Data, id: object = None) -> None:
        super().__init__(data=_bytes(data), id=uuid.uuid4().hex if id is None else str(id))

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


def _bytes(data: Any) -> bytes:
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, int):
        # `bytes(5)` is five zero bytes: the number would be lost.
        raise invalid("data", "bytes or text", type(data).__name__, "Use Item.from_json_data for numbers.")
    return data if isinstance(data, bytes) else bytes(data)
