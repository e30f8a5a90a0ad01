"""Converts values of any type to plain data and back: types that msgspec knows, paths, and those that have a codec."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import PurePath
from typing import Any, Final

import msgspec
import msgspec.inspect

from tenure.core.encoding.codec import TOO_DEEP, Misfit, check_plain, reason_of, write
from tenure.core.encoding.unions import Choice, written
from tenure.core.errors import invalid
from tenure.core.hints import a

MAX_CODECS: Final = 100
"""The most codecs of an app."""


@dataclass(frozen=True, slots=True)
class Codec:
    """How values of a class travel as JSON, for `Tenure(codecs=[...])`.

        money = Codec(Money, encode=str, decode=lambda kind, text: kind.parse(text))
        app = Tenure(codecs=[money])

    `kind`: the class. Subclasses have the codec too, unless an earlier one fits them. `encode`: returns plain data
    (None, bool, numbers, text, lists, dicts with text keys). `decode`: gets the class of the annotation and that data,
    and returns the value; any error means that the data does not fit. The value must come back equal. Raises
    `InvalidArgument`, also for a class that needs no codec.
    """

    kind: type
    encode: Callable[[Any], object]
    decode: Callable[[Any, Any], object]

    def __post_init__(self) -> None:
        if not isinstance(self.kind, type):
            raise invalid("codec: kind", "a class", type(self.kind).__name__)
        for name in ("encode", "decode"):
            if not callable(getattr(self, name)):
                raise invalid(
                    f"codec of {self.kind.__name__}: {name}", "a function", type(getattr(self, name)).__name__
                )
        if self.kind is object or not isinstance(msgspec.inspect.type_info(self.kind), msgspec.inspect.CustomType):
            raise invalid("codec: kind", "a class that cannot be encoded without one", self.kind.__name__)


class Conversion:
    """The conversion of an app. `codecs`: the first that fits a class is used; models of pydantic need none."""

    def __init__(self, codecs: Sequence[Codec] = ()) -> None:
        self._codecs = _checked(codecs)

    def flatten(self, value: object, *, is_whole: bool = False) -> Any:
        """Convert typed values (dataclass, datetime, ...) to plain data. Raises `Misfit`.

        `is_whole`: a model of pydantic in the field of another one keeps the fields that the field's class lacks.
        """
        hook = self._encode_whole if is_whole else self._encode
        try:
            plain = msgspec.to_builtins(value, str_keys=True, enc_hook=hook)
        except RecursionError:
            raise Misfit(TOO_DEEP) from None
        except Exception as exc:  # also any error of a codec
            raise Misfit(reason_of(exc)) from None
        check_plain(plain)
        return plain

    def rebuild(self, plain: object, annotation: Any) -> Any:
        """Convert plain data to the type of the annotation. Raises `Misfit`."""
        try:
            return msgspec.convert(plain, annotation, str_keys=True, dec_hook=self._decode)
        except RecursionError:
            raise Misfit(TOO_DEEP) from None
        except Exception as exc:
            # Any error that a class of the user raises in its constructor is a misfit too.
            raise Misfit(reason_of(exc)) from None

    def unknown(self, annotation: Any) -> Any:
        """Return the first class in the annotation that nothing here can encode, or None."""
        for kind in _custom_types(annotation):
            if isinstance(kind, Choice):
                for alternative in kind.alternatives:
                    found = self.unknown(alternative)
                    if found is not None:
                        return found
            elif kind is not object and not issubclass(kind, PurePath) and self._codec_of(kind) is None:
                return kind
        return None

    def check_plain(self, value: object) -> None:
        """Refuse a value without an annotation that plain JSON would change. Raises `Misfit`, with what to do."""
        try:
            check_plain(value)
        except Misfit as exc:
            if exc.kind is None or not self._lacks(exc.kind):
                raise
            raise Misfit(nothing_encodes(exc.kind).removesuffix(".")) from None

    def _lacks(self, kind: type) -> bool:
        """Return whether no annotation with this class can be used."""
        try:
            return self.unknown(kind) is not None
        except Exception:  # of a class that cannot be inspected
            return False

    def _codec_of(self, kind: type) -> Codec | None:
        for codec in self._codecs:
            if issubclass(kind, codec.kind):
                return codec
        return _codec_of_model(kind)

    def _encode(self, value: object) -> object:
        codec = self._codec_of(type(value))
        if codec is not None:
            return _called(type(value), lambda: codec.encode(value))
        if isinstance(value, PurePath):
            return str(value)
        raise Misfit(f"{a(type(value).__name__)} cannot be written as JSON")

    def _encode_whole(self, value: object) -> object:
        codec = self._codec_of(type(value))
        return self._encode(value) if codec is None or codec.encode is not _dump_model else _dump_whole_model(value)

    def _decode(self, kind: Any, plain: object) -> object:
        if isinstance(kind, Choice):
            for alternative in kind.alternatives:
                with contextlib.suppress(Misfit):
                    return self.rebuild(plain, alternative)
            raise Misfit(f"Expected `{kind.__name__}`, got `{type(plain).__name__}`")
        cls = typing.get_origin(kind) or kind
        codec = self._codec_of(cls)
        if codec is not None:
            return _called(cls, lambda: codec.decode(kind, plain))
        if cls is object:
            return plain
        if issubclass(cls, PurePath) and isinstance(plain, str):
            return cls(plain)
        raise Misfit(f"Expected `{written(kind)}`, got `{type(plain).__name__}`")


def nothing_encodes(kind: Any, verb: str = "Enqueue") -> str:
    """Return the reason why a class is refused, with what to do. `verb`: what the user does with the values."""
    name = written(kind)
    return (
        f"Nothing encodes {a(name)}. {verb} what rebuilds it, such as an id or a path, or give the app a codec: "
        f"Tenure(codecs=[Codec({name}, encode=..., decode=...)])."
    )


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
    try:
        return bool(before == after)
    except Exception:  # `==` of arrays is an array: their codec is trusted
        return type(after) is type(before)


def _same_moment(before: datetime, after: datetime) -> bool:
    # Not `==`: it is never true between two zones if the time is skipped or repeated in one of them.
    zone, other = before.utcoffset(), after.utcoffset()
    return zone == other and before.replace(tzinfo=None) == after.replace(tzinfo=None)


def _fields(value: object) -> tuple[str, ...]:
    """Return the field names of a struct or a dataclass; no names for any other value."""
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    return tuple(field.name for field in dataclasses.fields(value)) if dataclasses.is_dataclass(value) else ()


def _called(kind: type, convert: Callable[[], object]) -> object:
    """Call a codec. Its error may quote the data: only its class is shown."""
    try:
        return convert()
    except Misfit:
        raise
    except Exception as exc:
        raise Misfit(f"it does not fit {kind.__name__} ({type(exc).__name__})") from None


def _checked(codecs: object) -> tuple[Codec, ...]:
    if not isinstance(codecs, Sequence) or isinstance(codecs, str):
        raise invalid("codecs", "a list of Codec(...)", type(codecs).__name__)
    for codec in codecs:
        if not isinstance(codec, Codec):
            raise invalid("codecs", "a list of Codec(...)", f"one with a {type(codec).__name__}")
    if len(codecs) > MAX_CODECS:
        raise invalid("codecs", f"at most {MAX_CODECS}", str(len(codecs)))
    return tuple(codecs)


def _custom_types(annotation: Any) -> Iterator[Any]:
    """The classes in an annotation that msgspec does not know."""
    seen: set[int] = set()
    left: list[Any] = [msgspec.inspect.type_info(annotation)]
    while left:
        node = left.pop()
        if isinstance(node, msgspec.inspect.CustomType):
            yield node.cls
        elif isinstance(node, tuple):
            left += node
        elif isinstance(node, (msgspec.inspect.Type, msgspec.inspect.Field)) and id(node) not in seen:
            seen.add(id(node))
            left += [getattr(node, name) for name in node.__struct_fields__]


# ------------------------------------------------------------------------------------------------ models of pydantic


def _codec_of_model(kind: type) -> Codec | None:
    """The codec of a model of pydantic 2; None for another class. A program that has a model has imported pydantic."""
    pydantic = sys.modules.get("pydantic")
    model = getattr(pydantic, "BaseModel", None)
    if not isinstance(model, type) or not hasattr(model, "model_validate_json") or not issubclass(kind, model):
        return None
    return _models(model)


@lru_cache(maxsize=1)
def _models(model: type) -> Codec:
    return Codec(model, _dump_model, _validate_model)


def _dump_model(model: Any) -> object:
    return model.model_dump(mode="json", by_alias=True, round_trip=True)


def _dump_whole_model(model: Any) -> object:
    return _called(type(model), lambda: model.model_dump(mode="json", by_alias=True, serialize_as_any=True))


def _validate_model(kind: Any, plain: object) -> object:
    # As JSON: a strict model takes a date as text there, and a set as a list.
    try:
        return kind.model_validate_json(write(plain))
    except sys.modules["pydantic"].ValidationError as error:
        # The error quotes the data; its kind and the field of the model do not.
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        known = {*kind.model_fields, *(field.alias for field in kind.model_fields.values())}
        place = f" - at `{first['loc'][0]}`" if first["loc"] and first["loc"][0] in known else ""
        raise Misfit(f"Expected `{kind.__name__}`, {first['type']}{place}") from None


BUILT_IN: Final = Conversion()
"""The conversion of an app without codecs."""
