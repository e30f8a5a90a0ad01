"""A wire protocol as text: its name, its argument and its options, as in `hworker:printer?timeout=600`.

The protocol is a dataclass. Its first field is the argument; each further number, bool or dict of names is an option.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, quote

from tenure.core import names
from tenure.core.errors import InvalidArgument, invalid
from tenure.core.values import replace

P = TypeVar("P")
OPTIONS_MOST: Final = 1_000
"""Options of one text; each entry of a dict counts."""
_QUESTION_MARK: Final = "%3F"
"""How the text writes a question mark of the argument; a percent sign is %25."""
_ERRORS: Final = "surrogateescape"
_BOOLS: Final = {"true": True, "false": False}
_READERS: Final[dict[str, Callable[[str], Any]]] = {
    "bool": _BOOLS.__getitem__,
    "float": float,
    "int": int,
    "Mapping[str, str]": str,
}
_FORMS: Final = {"bool": "=true|false", "float": "=NUMBER", "int": "=NUMBER", "Mapping[str, str]": ".NAME=VALUE"}


def with_timeout(protocol: Any, seconds: float) -> Any:
    """Return the protocol with another timeout. Raises `InvalidArgument`, also for a protocol without one."""
    if not is_dataclass(protocol) or not any(field.name == "timeout" for field, _ in _options(type(protocol))):
        raise InvalidArgument(f"{type(protocol).__name__} has no timeout for the jobs of other clients. Leave it out.")
    return replace(protocol, timeout=seconds)


def options_of(kind: type[Any]) -> tuple[str, ...]:
    """Return the options of a protocol as its text writes them: `timeout=NUMBER`."""
    return tuple(f"{field.name}{_FORMS[kind_of]}" for field, kind_of in _options(kind))


def read_protocol(kind: type[P], protocol: str, argument: str | None) -> P | None:
    """Return the protocol of the text behind its name and a colon; None for no text. Raises `InvalidArgument`."""
    if not argument:
        return None
    first, mark, query = argument.partition("?")
    try:
        given = _read(kind, query) if mark else {}
    except (KeyError, ValueError):
        options = options_of(kind)
        form = f" or {protocol}:ARGUMENT?{'&'.join(options)}" if options else ", without options"
        raise invalid("protocol", f"{protocol}:ARGUMENT{form}", names.shown(f"{protocol}:{argument}")) from None
    make: Callable[..., P] = kind
    return make(first.replace(_QUESTION_MARK, "?").replace("%25", "%"), **given)


def write_protocol(protocol: str, value: Any) -> str:
    """Return the text of a protocol, with the options that are not the default."""
    first, parts = str(getattr(value, fields(value)[0].name)), []
    for field, kind in _options(type(value)):
        given = getattr(value, field.name)
        if given is None or given == field.default:
            continue
        if kind == "bool":
            parts.append(f"{field.name}={str(given).lower()}")
        elif kind in ("float", "int"):
            parts.append(f"{field.name}={str(given).removesuffix('.0')}")
        else:
            parts += (
                f"{field.name}.{quote(name, ':', errors=_ERRORS)}={quote(one, ':', errors=_ERRORS)}"
                for name, one in given.items()
            )
    escaped = first.replace("%", "%25").replace("?", _QUESTION_MARK)
    return f"{protocol}:{escaped}{'?' * bool(parts)}{'&'.join(parts)}"


def _options(kind: type[Any]) -> Iterator[tuple[Field[Any], str]]:
    for field in fields(kind)[1:]:
        kind_of = str(field.type).removesuffix(" | None")
        if kind_of in _READERS and field.default is not MISSING:
            yield field, kind_of


def _read(kind: type[Any], query: str) -> dict[str, Any]:
    """Raises `KeyError` and `ValueError`."""
    kinds = {field.name: kind_of for field, kind_of in _options(kind)}
    given: dict[str, Any] = {}
    for option, text in parse_qsl(query or "=", True, strict_parsing=True, errors=_ERRORS, max_num_fields=OPTIONS_MOST):
        name, dot, key = option.partition(".")
        into, at = (given.setdefault(name, {}), key) if kinds[name].startswith("Mapping") else (given, option)
        if at in into or (into is given) == bool(dot):
            raise ValueError(option)
        into[at] = _READERS[kinds[name]](text)
    return given
