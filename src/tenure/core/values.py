"""Values are structs, and dataclasses if users see them or a field needs more than a struct has (decision 0015).

These functions take both.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

from msgspec import Struct, structs

V = TypeVar("V")


def replace(value: V, /, **changes: Any) -> V:
    """Return a copy with other values of these fields, as `copy.replace` of Python 3.13 does."""
    if isinstance(value, Struct):
        return structs.replace(value, **changes)
    return dataclasses.replace(value, **changes)  # type: ignore[type-var]


def as_dict(value: Any) -> dict[str, Any]:
    """Return the fields of a value by name; values in them become dicts, too, also in lists and mappings."""
    return {name: _plain(getattr(value, name)) for name in _names(value)}


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, Struct):
        return value.__struct_fields__
    return tuple(field.name for field in dataclasses.fields(value))


def _plain(value: Any) -> Any:
    if isinstance(value, Struct) or dataclasses.is_dataclass(value):
        return as_dict(value)
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return {key: _plain(one) for key, one in value.items()} if isinstance(value, dict) else value
