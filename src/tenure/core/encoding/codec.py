"""Payloads and results as JSON. Only values that survive a round trip are accepted.

A task's payload is `[[positional...], {named...}]`. A value without an annotation may be None, bool, int, finite float,
str, list, tuple (decoded as a list) or dict with str keys. Other types need an annotation that rebuilds them: see
`conversion`. When an object has a key twice, the last one counts: finding
duplicates would cost a second parser.
"""

from __future__ import annotations

import math
import re
from itertools import accumulate
from typing import Any, Final

import msgspec

from tenure.core.errors import PayloadInvalid
from tenure.core.hints import a

_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder()
_decode_raw = msgspec.json.Decoder(msgspec.Raw).decode

MAX_JSON_DEPTH: Final = 64
"""The deepest nesting of a JSON payload or result."""

NOTE_KEY: Final = "tenure_note"
"""The only key of a result that a worker writes when it cannot store the real one: its `type` and `message`."""


class Misfit(Exception):
    """A value cannot be encoded or rebuilt. Internal: callers raise `PayloadInvalid`, which names the argument.

    `kind`: the class of a value that is not plain data, if that is the reason.
    """

    def __init__(self, text: str, kind: type | None = None) -> None:
        super().__init__(text)
        self.kind = kind


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
        raise Misfit(reason_of(exc)) from None


def read(data: bytes) -> Any:
    check_depth(data)
    # Always `from None`: the parser's errors may contain the payload.
    try:
        return _DECODER.decode(data)
    except UnicodeDecodeError:
        raise Misfit("it is not UTF-8") from None
    except (msgspec.MsgspecError, ValueError, OverflowError) as exc:
        raise Misfit(reason_of(exc)) from None


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
        raise Misfit(TOO_DEEP)


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
    if kind in _ATOMS:
        return
    if kind is float:
        if not math.isfinite(value):
            raise Misfit("JSON has no NaN and no infinities")
        return
    if kind is not list and kind is not tuple and kind is not dict:
        raise Misfit(f"{a(kind.__name__)} survives the round trip only with an annotation", kind)
    if depth == 0:
        raise Misfit(TOO_DEEP)
    if kind is dict:
        for key in value:
            if type(key) is not str:
                raise Misfit(f"a key is {a(type(key).__name__)}, JSON has only str keys")
        value = value.values()
    for item in value:
        if type(item) not in _ATOMS:  # most are: the call would cost more than the check
            check_plain(item, depth - 1)


def is_plain(value: Any) -> bool:
    """Return whether plain JSON keeps the value."""
    try:
        check_plain(value)
    except Misfit:
        return False
    return True


_ATOMS: Final = frozenset({str, int, bool, type(None)})
"""All values of exactly these types are plain."""
TOO_DEEP = f"it nests deeper than {MAX_JSON_DEPTH} levels"
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


def reason_of(exc: Exception) -> str:
    """Return the library's reason and place without any value of the payload: `Invalid enum value 'x'` has one."""
    if isinstance(exc, Misfit):
        return str(exc)
    match = _PLACE.fullmatch(str(exc))
    what, place = (match["what"], match["place"] or "") if match else ("", "")
    if what.startswith("Invalid enum value"):
        what = "it is not one of the allowed values"
    elif what.startswith("Exceeds the limit"):
        what = "it has a whole number of too many digits"
    elif not what.startswith(_TELLS_NO_VALUE):
        what = f"it does not fit ({type(exc).__name__})"
    return f"{what[:200]}{place}"
