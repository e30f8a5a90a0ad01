"""Payloads and results as JSON. Only values that survive a round trip are accepted.

A task's payload is `[[positional...], {named...}]`. A value without an annotation may be None, bool, int, finite float,
str, list, tuple (decoded as a list) or dict with str keys. Other types (bytes, set, datetime, UUID, Enum, Path,
dataclass, ...) need an annotation that rebuilds them. When an object has a key twice, the last one counts: finding
duplicates would cost a second parser.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re
from datetime import datetime
from itertools import accumulate
from pathlib import PurePath
from typing import Any, Final

import msgspec

from leasehold.core.errors import PayloadInvalid
from leasehold.core.unions import Choice

_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder()
_decode_raw = msgspec.json.Decoder(msgspec.Raw).decode

MAX_JSON_DEPTH: Final = 64
"""The deepest nesting of a JSON payload or result."""

NOTE_KEY: Final = "leasehold_note"
"""The only key of a result that a worker writes when it cannot store the real one: its `type` and `message`."""


class Misfit(Exception):
    """A value cannot be encoded or rebuilt. Internal: callers raise `PayloadInvalid`, which names the argument."""


def encode_json(value: object) -> bytes:
    """Encode plain data as compact JSON in UTF-8. Raises `PayloadInvalid`.

    >>> encode_json({"a": 1})
    b'{"a":1}'
    """
    try:
        check_plain(value)
        return write(value)
    except Misfit as exc:
        raise PayloadInvalid(f"The payload cannot be encoded as JSON: {exc}.") from None


def decode_json(data: bytes) -> Any:
    """Decode JSON to plain data. Raises `PayloadInvalid`."""
    try:
        return read(data)
    except Misfit as exc:
        raise PayloadInvalid(f"The bytes cannot be decoded: {exc}.") from None


def write(plain: object) -> bytes:
    """Encode a value that `check_plain` has accepted."""
    try:
        return _ENCODER.encode(plain)
    except UnicodeEncodeError:
        raise Misfit("it has text that is not Unicode (lone surrogates)") from None
    except (TypeError, ValueError, OverflowError, RecursionError) as exc:
        raise Misfit(_reason(exc)) from None


def read(data: bytes) -> Any:
    check_depth(data)
    # Always `from None`: the parser's errors may contain the payload.
    try:
        return _DECODER.decode(data)
    except UnicodeDecodeError:
        raise Misfit("it is not UTF-8") from None
    except (msgspec.MsgspecError, ValueError, OverflowError) as exc:
        raise Misfit(_reason(exc)) from None


def encode_raw(payload: object) -> bytes:
    """Encode the payload of a raw handler: bytes as they are, str as UTF-8, any other value as JSON.

    Raises `PayloadInvalid`.
    """
    if isinstance(payload, (bytes, bytearray, memoryview)):
        return bytes(payload)
    if isinstance(payload, str):
        try:
            return payload.encode()
        except UnicodeEncodeError:
            raise PayloadInvalid("The payload has text that is not Unicode (lone surrogates).") from None
    return encode_json(payload)


def note_of(result: object) -> str | None:
    """Return why there is no result if this decoded result is a worker's note, else None."""
    if not isinstance(result, dict) or len(result) != 1 or not isinstance(result.get(NOTE_KEY), dict):
        return None
    note = result[NOTE_KEY]
    return f"{note.get('type', '')}: {note.get('message', '')}"


def check_depth(data: bytes) -> None:
    """Refuse JSON that nests too deeply, before parsing: the parser's own limit depends on the Python version."""
    # With few brackets the nesting cannot be too deep. Counting them is a hundred times faster than measuring it.
    if data.count(b"[") + data.count(b"{") <= MAX_JSON_DEPTH:
        return
    steps = _STRINGS.sub(b"", data).translate(_STEPS, _NO_BRACKETS)
    if max(accumulate(memoryview(steps).cast("b")), default=0) > MAX_JSON_DEPTH:
        raise Misfit(_TOO_DEEP)


def is_json(data: bytes) -> bool:
    """Return whether these bytes are one JSON value."""
    try:
        data.decode()
        _decode_raw(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True


def check_plain(value: Any, depth: int = MAX_JSON_DEPTH) -> None:
    """Refuse values that plain JSON would change or lose. Only exact types: a subclass would decode as its base."""
    kind = type(value)
    if value is None or kind is bool or kind is str or kind is int:
        return
    if kind is float:
        if not math.isfinite(value):
            raise Misfit("JSON has no NaN and no infinities")
        return
    if kind is not list and kind is not tuple and kind is not dict:
        raise Misfit(f"a {kind.__name__} survives the round trip only with an annotation")
    if depth == 0:
        raise Misfit(_TOO_DEEP)
    if kind is dict:
        for key in value:
            if type(key) is not str:
                raise Misfit(f"a key is a {type(key).__name__}, JSON has only str keys")
        value = value.values()
    for item in value:
        check_plain(item, depth - 1)


def flatten(value: object) -> Any:
    """Convert typed values (dataclass, datetime, ...) to plain data."""
    try:
        plain = msgspec.to_builtins(value, str_keys=True, enc_hook=_flatten_other)
    except RecursionError:
        raise Misfit(_TOO_DEEP) from None
    except (TypeError, ValueError, OverflowError, NotImplementedError) as exc:
        raise Misfit(_reason(exc)) from None
    check_plain(plain)
    return plain


def rebuild(plain: object, annotation: Any) -> Any:
    """Convert plain data to the type of the annotation."""
    try:
        return msgspec.convert(plain, annotation, str_keys=True, dec_hook=_rebuild_other)
    except RecursionError:
        raise Misfit(_TOO_DEEP) from None
    except Exception as exc:
        # Any error that a class of the user raises in its constructor is a misfit too.
        raise Misfit(_reason(exc)) from None


def alike(before: object, after: object) -> bool:
    """Return whether a decoded value equals the original. A list equals a tuple; containers are compared inside."""
    if isinstance(before, (list, tuple)) and isinstance(after, (list, tuple)):
        return len(before) == len(after) and all(map(alike, before, after))
    if isinstance(before, dict) and isinstance(after, dict):
        # In order, as JSON keeps it. Looking keys up would need `==`, see `_same_moment`.
        return alike(list(before.items()), list(after.items()))
    if isinstance(before, (set, frozenset)) and isinstance(after, (set, frozenset)):
        return before == after or alike(sorted(before, key=str), sorted(after, key=str))
    if isinstance(before, datetime) and isinstance(after, datetime):
        return _same_moment(before, after)
    if type(after) is type(before):
        if type(before).__eq__ is object.__eq__:
            return True
        names = _fields(before)
        if names and all(alike(getattr(before, name), getattr(after, name)) for name in names):
            return True
    return bool(before == after)


def _same_moment(before: datetime, after: datetime) -> bool:
    # Not `==`: it is never true between two zones if the time is skipped or repeated in one of them.
    zone, other = before.utcoffset(), after.utcoffset()
    return zone == other and before.replace(tzinfo=None) == after.replace(tzinfo=None)


def _fields(value: object) -> tuple[str, ...]:
    """Return the field names of a struct or a dataclass; no names for any other value."""
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    return tuple(field.name for field in dataclasses.fields(value)) if dataclasses.is_dataclass(value) else ()


def _flatten_other(value: object) -> object:
    if isinstance(value, PurePath):
        return str(value)
    raise Misfit(f"a {type(value).__name__} cannot be written as JSON")


def _rebuild_other(kind: type, plain: object) -> object:
    if isinstance(kind, Choice):
        for alternative in kind.alternatives:
            with contextlib.suppress(Misfit):
                return rebuild(plain, alternative)
    elif issubclass(kind, PurePath) and isinstance(plain, str):
        return kind(plain)
    raise Misfit(f"Expected `{kind.__name__}`, got `{type(plain).__name__}`")


_TOO_DEEP = f"it nests deeper than {MAX_JSON_DEPTH} levels"
_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.?)*+"?', re.DOTALL)
"""JSON strings, including an unterminated one: the pattern always matches, so it never reads a byte twice."""
_STEPS = bytes.maketrans(b"[{]}", b"\1\1\xff\xff")
"""Brackets as signed numbers: one level down, or up."""
_NO_BRACKETS = bytes(set(range(256)) - set(b"[{]}"))
_PLACE = re.compile(r"(?P<what>.*?)(?P<place> - at `[^`]{1,200}`(?: in `[^`]{1,200}`)?)?", re.DOTALL)
_TELLS_NO_VALUE = (
    "Expected `",
    "Object missing required field `",
    "Integer value out of range",
    "Number out of range",
    "Invalid RFC3339",
    "Invalid base64",
    "Invalid UUID",
    "Invalid decimal",
    "JSON is malformed",
    "Input data was truncated",
    "Encoding objects of type",
)


def _reason(exc: Exception) -> str:
    """Return the library's reason and place without any value of the payload: `Invalid enum value 'x'` has one."""
    if isinstance(exc, Misfit):
        return str(exc)
    match = _PLACE.fullmatch(str(exc))
    what, place = (match["what"], match["place"] or "") if match else ("", "")
    if what.startswith("Invalid enum value"):
        what = "it is none of the values allowed"
    elif what.startswith("Exceeds the limit"):
        what = "it has a whole number of too many digits"
    elif not what.startswith(_TELLS_NO_VALUE):
        what = f"it does not fit ({type(exc).__name__})"
    return f"{what[:200]}{place}"
