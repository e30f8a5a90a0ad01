"""Unions of types that JSON distinguishes and msgspec refuses: of types with distinct texts, with a path, or of models
with a discriminator."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

import msgspec

_DISTINCT: Final = (date, datetime, time, timedelta, UUID)
"""Types that are text in JSON. No text of one type is a valid text of another."""
_UNIONS: Final = (typing.Union, types.UnionType)


class Choice(type):
    """The type of a stand-in for such a union. The only one of `alternatives` that fits a value rebuilds it."""

    alternatives: tuple[Any, ...]

    def __instancecheck__(cls, instance: object) -> bool:
        return True  # msgspec asks this of a value that an alternative has rebuilt


def rebuildable(annotation: Any) -> Any:
    """Return the annotation with a stand-in for each of these unions, and any other annotation unchanged.

    >>> rebuildable(date | int) == date | int
    True
    >>> rebuildable(date | datetime).alternatives == (date, datetime)
    True
    """
    if _is_usable(annotation):
        return annotation
    origin, arms = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in _UNIONS:
        inside: Any = typing.Union[tuple(map(rebuildable, arms))]  # noqa: UP007 (there is no operator for many)
        return inside if _is_usable(inside) else _stand_in(annotation, arms)
    if origin is typing.Annotated:
        if any(getattr(about, "discriminator", None) for about in arms[1:]) and typing.get_origin(arms[0]) in _UNIONS:
            return _models_of(arms[0])
        return typing.Annotated[(rebuildable(arms[0]), *arms[1:])]
    generic: Any = origin
    if isinstance(origin, type):
        keys = 1 if issubclass(origin, Mapping) else 0  # msgspec reads the keys of a mapping by itself
        return generic[(*arms[:keys], *map(rebuildable, arms[keys:]))]
    return annotation


def _is_usable(annotation: Any) -> bool:
    """Return whether msgspec can decode to this annotation."""
    try:
        msgspec.json.Decoder(annotation)
    except Exception:  # TypeError, and any error that a user's class raises when it is inspected
        return False
    return True


def written(annotation: Any) -> str:
    """Return the annotation as messages show it.

    >>> written(int), written(str | None)
    ('int', 'str | None')
    """
    return annotation.__name__ if isinstance(annotation, type) and not typing.get_args(annotation) else str(annotation)


def _stand_in(union: Any, arms: tuple[Any, ...]) -> Any:
    texts = tuple(arm for arm in arms if arm in _DISTINCT or _is_path(arm))
    others = tuple(rebuildable(arm) for arm in arms if arm not in texts)
    # Any text is a path, so a union cannot have a path and another text. msgspec itself allows one text type (`date`).
    apart = len(texts) == 1 or not any(map(_is_path, texts))
    if not texts or not apart or not _is_usable(typing.Union[(*others, date)]):
        return union
    alternatives = (typing.Union[others], *texts) if others else texts  # noqa: UP007 (there is no operator for many)
    return Choice(written(union), (), {"alternatives": alternatives})


def _models_of(union: Any) -> Any:
    """Return a stand-in for a union of models of pydantic with a discriminator: a value fits one of them."""
    return Choice(written(union), (), {"alternatives": tuple(map(rebuildable, typing.get_args(union)))})


def _is_path(arm: Any) -> bool:
    return isinstance(arm, type) and issubclass(arm, PurePath)
