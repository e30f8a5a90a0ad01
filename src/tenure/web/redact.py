"""Payloads and results as text: laid out, bounded, with the values of named fields hidden."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from tenure.core.errors import invalid

HIDDEN: Final = "•••"
SHOWN_MAX: Final = 65_536
"""Characters of a payload on a page."""
PARSED_MAX: Final = 250_000
"""Bytes of a payload that is laid out. A larger one is shown as it is, or where fields are hidden, not at all."""
_DEPTH_MAX: Final = 100


class _Exact(str):
    """A number as it is written."""


class Redactor:
    """Hides fields by name, as `("password", "card.number", "*.token")`.

    A name means the field at any depth, a pattern with a dot the path from the top; `*` stands for any part of it.
    """

    def __init__(self, patterns: Sequence[str] = ()) -> None:
        if isinstance(patterns, str) or not all(patterns):
            raise invalid("redact", 'names of fields, as in redact=("password", "*.token")', repr(patterns)[:80])
        self._patterns = tuple(one.lower() for one in patterns)

    def hides(self, path: str) -> bool:
        """Whether a field is hidden. `path`: names from the top, each after a dot."""
        path = path.lower()
        name, from_top = path.rpartition(".")[2], path.removeprefix(".")
        return any(
            fnmatchcase(path, one) or fnmatchcase(from_top, one) if "." in one else fnmatchcase(name, one)
            for one in self._patterns
        )

    def fields(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return fields with the hidden ones hidden."""
        return {name: HIDDEN if self.hides(f".{name}") else value for name, value in values.items()}

    def text(self, data: bytes | None) -> tuple[str | None, bool]:
        """Return JSON laid out and other bytes as text, and whether every value is shown, so that it can be edited."""
        if data is None:
            return None, False
        why = "too large"
        if len(data) <= PARSED_MAX:
            try:
                is_whole = True

                def read(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
                    nonlocal is_whole
                    fields = dict(pairs)
                    is_whole = is_whole and len(fields) == len(pairs)  # else a name is there twice
                    return fields

                value = json.loads(
                    data, object_pairs_hook=read, parse_int=_Exact, parse_float=_Exact, parse_constant=_Exact
                )
                text = _laid_out(value, self)
                return text, is_whole and HIDDEN not in text
            except (ValueError, RecursionError):
                why = "no JSON"
        if self._patterns:
            return f"({len(data):,} bytes, {why} to hide fields in)", False
        text = data.decode("utf-8", "backslashreplace")
        return text, text.encode("utf-8") == data


def _laid_out(value: Any, hide: Redactor, path: str = "", indent: str = "\n") -> str:
    if len(indent) > 2 * _DEPTH_MAX:
        raise RecursionError
    deeper = indent + "  "
    if isinstance(value, dict) and value:
        parts = []
        for name, one in value.items():
            place = f"{path}.{name}"
            text = json.dumps(HIDDEN, ensure_ascii=False) if hide.hides(place) else _laid_out(one, hide, place, deeper)
            parts.append(f"{json.dumps(name, ensure_ascii=False)}: {text}")
        return "{" + deeper + f",{deeper}".join(parts) + indent + "}"
    if isinstance(value, list) and value:
        items = [_laid_out(one, hide, path, deeper) for one in value]
        if all(not isinstance(one, dict | list) for one in value) and sum(map(len, items)) < 80:
            return f"[{', '.join(items)}]"
        return "[" + deeper + f",{deeper}".join(items) + indent + "]"
    return str(value) if isinstance(value, _Exact) else json.dumps(value, ensure_ascii=False)
