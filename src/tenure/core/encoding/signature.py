"""A task's signature: checks a call at the enqueue, and rebuilds its arguments in the worker."""

from __future__ import annotations

import inspect
import json
import math
import sys
import typing
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from tenure.core import limits, names
from tenure.core.encoding.codec import Misfit, is_plain, read, write
from tenure.core.encoding.conversion import BUILT_IN, Conversion, alike, nothing_encodes
from tenure.core.encoding.unions import rebuildable, written
from tenure.core.errors import InvalidArgument, PayloadInvalid, invalid
from tenure.core.hints import CONTEXTS, OPTIONS, a, did_you_mean
from tenure.core.task import Arguments

_ANYTHING: tuple[Any, ...] = (Any, object, inspect.Parameter.empty)
_SAME: tuple[type, ...] = (str, int, bool, type(None))
"""A value of exactly such a type needs no conversion if the annotation is that type."""

_CONTAINERS: tuple[Any, ...] = (dict, list, dict[str, Any], list[Any], dict[str, object], list[object])
"""A plain value of such a type needs no conversion: it is decoded as it was."""

_UNION = "Type unions"
"""How msgspec begins its error for a union with types that JSON does not distinguish."""
_AS_PLAIN = b" "
"""Before a result that is read as plain data. For other readers it is the same JSON."""
_TIMES = frozenset({"delay", "run_after", "timeout", "retries"})
_OPTIONS = _TIMES | {
    "id",
    "queue",
    "lane",
    "lane_limit",
    "priority",
    "unique",
    "persistent",
    "headers",
    "limits",
    "share",
}
"""The options of `Task.using`."""


class Parameter(Struct, frozen=True):
    """One parameter (or `*args`, or `**kwargs`) and the values that it takes."""

    name: str
    annotation: Any
    written: str
    conversion: Conversion
    container: type | None = None
    """The class of a dict or list of anything: a plain one needs no conversion."""

    @property
    def kind(self) -> type | None:
        """The type if its values need no conversion, else None."""
        return self.annotation if self.annotation in _SAME or self.annotation is float else None

    def dump(self, value: Any) -> Any:
        """Convert the value to plain data. Raises `Misfit` if it would not survive the round trip."""
        kind = self.annotation
        if type(value) is kind and (kind in _SAME or (kind is float and math.isfinite(value))):
            return value
        if kind in _ANYTHING:
            self.conversion.check_plain(value)
            return value
        if self.container is not None and type(value) is self.container and is_plain(value):
            return value
        plain = self.conversion.flatten(value)
        if not alike(value, self.conversion.rebuild(plain, kind)):
            raise Misfit(f"{a(type(value).__name__)} would decode to a different value through {self.written}")
        return plain

    def load(self, plain: Any) -> Any:
        kind = self.annotation
        if kind in _ANYTHING or type(plain) is self.container or (type(plain) is kind and kind in _SAME):
            return plain  # a plain container is not copied
        return self.conversion.rebuild(plain, kind)


class Signature:
    """The parameters of a task, built once.

        signature = Signature("thumbnail", thumbnail)
        payload = signature.encode(("cat.png",), {"size": 64})
        args, kwargs = signature.decode(payload)

    Raises `InvalidArgument` if an annotation of the function cannot be resolved or used.
    """

    def __init__(self, task: str, function: Callable[..., Any], conversion: Conversion = BUILT_IN) -> None:
        self.task = task
        self.conversion = conversion
        self._signature = inspect.signature(function)
        hints = _hints(task, function)
        self.returns: Any = hints.get("return", inspect.Parameter.empty)
        self._positional: list[Parameter] = []
        self._named: dict[str, Parameter] = {}
        self._more: Parameter | None = None
        self._more_named: Parameter | None = None
        self._least = self._most = 0
        for name, parameter in self._signature.parameters.items():
            slot = _slot(task, name, hints.get(name, Any), conversion, is_needed=parameter.default is parameter.empty)
            self._place(parameter.kind, slot)
        self._count_positional()
        self._kinds = tuple(slot.kind for slot in self._positional)
        counts = range(self._least, min(self._most, len(self._kinds)) + 1)
        self._plain = frozenset(self._kinds[:count] for count in counts)
        self._has_floats = float in self._kinds
        self._decode_typed = self._typed_decoder()
        self._defaults = dict(self._plain_defaults())

    @property
    def takes(self) -> Any:
        """The type hint of its only or first argument."""
        return self._positional[0].annotation if self._positional else Any

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        """Encode one call. Raises `PayloadInvalid`, which names the task and the parameter."""
        call: tuple[Sequence[Any], dict[str, Any]] = args, kwargs
        if kwargs or not self._fit(args):
            self.check_call(args, kwargs, self._hint)
            call = (
                [self._apply(Parameter.dump, self._nth(n), value) for n, value in enumerate(args)],
                {name: self._apply(Parameter.dump, self._by_name(name), value) for name, value in kwargs.items()},
            )
        try:
            return write(call)
        except Misfit as exc:
            raise PayloadInvalid(f"Task {self.task}: the arguments cannot be encoded: {exc}.") from None

    def decode(self, payload: bytes) -> Arguments:
        """Decode the arguments of a payload. Raises `PayloadInvalid`; its reason contains none of the values."""
        if self._decode_typed is not None:
            try:
                args, named = self._decode_typed(payload)
                if not named:
                    return args, named
            except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
                pass  # what does not fit is decoded again, to word the error
        return self._decode_plain(payload)

    def _typed_decoder(self) -> Callable[[bytes], Arguments] | None:
        """A decoder of calls that give every argument by position. None: a type needs a conversion of its own, or plain
        data whose depth must be checked first."""
        kinds = self._kinds
        if None in kinds or self._more is not None or not self._least <= len(kinds) <= self._most:
            return None
        return msgspec.json.Decoder(tuple[tuple[kinds], dict[str, Any]]).decode  # type: ignore[valid-type]

    def _decode_plain(self, payload: bytes) -> Arguments:
        try:
            content = read(payload)
        except Misfit as exc:
            raise PayloadInvalid(f"Task {self.task}: the payload cannot be decoded: {exc}.") from None
        match content:
            case [list() as args, dict() as kwargs]:
                pass
            case _:
                raise PayloadInvalid(f"Task {self.task}: the payload is not [[positional...], {{named...}}].")
        return self.rebuild(args, kwargs, _changed)

    def rebuild(
        self, args: Sequence[Any], kwargs: dict[str, Any], hint: Callable[[dict[str, Any]], str] | None = None
    ) -> Arguments:
        """Convert the plain arguments of a call to the types of the parameters. Raises `PayloadInvalid`."""
        self.check_call(args, kwargs, hint or self._hint)
        if not self._fit(args):
            args = [self._apply(Parameter.load, self._nth(n), value) for n, value in enumerate(args)]
        if kwargs:
            kwargs = {name: self._apply(Parameter.load, self._by_name(name), value) for name, value in kwargs.items()}
        return tuple(args), kwargs

    def identity(self, payload: bytes) -> bytes:
        """Return the arguments of an encoded payload as canonical bytes: the same however the call was written, by
        position or by name, with defaults or without."""
        args, kwargs = read(payload)
        bound = self._signature.bind(*args, **kwargs).arguments
        return json.dumps(self._defaults | bound, sort_keys=True).encode()

    def _plain_defaults(self) -> Iterator[tuple[str, Any]]:
        for name, parameter in self._signature.parameters.items():
            if parameter.default is not parameter.empty:
                slot = next(slot for slot in (*self._positional, *self._named.values()) if slot.name == name)
                with suppress(Misfit):  # then a call cannot give this value either
                    yield name, slot.dump(parameter.default)

    def _fit(self, args: Sequence[Any]) -> bool:
        """Return whether these arguments alone make a valid call, and every value has exactly its parameter's type, so
        that none needs conversion."""
        if tuple(map(type, args)) not in self._plain:
            return False
        return not self._has_floats or all(math.isfinite(value) for value in args if type(value) is float)

    def _place(self, kind: inspect._ParameterKind, slot: Parameter) -> None:
        match kind:
            case inspect.Parameter.POSITIONAL_ONLY:
                self._positional.append(slot)
            case inspect.Parameter.POSITIONAL_OR_KEYWORD:
                self._positional.append(slot)
                self._named[slot.name] = slot
            case inspect.Parameter.KEYWORD_ONLY:
                self._named[slot.name] = slot
            case inspect.Parameter.VAR_POSITIONAL:
                self._more = slot
            case _:
                self._more_named = slot

    def _count_positional(self) -> None:
        """Set how many positional arguments alone make a valid call: none, if a keyword-only one is required."""
        parameters = self._signature.parameters.values()
        needed = [each for each in parameters if each.default is each.empty]
        if any(each.kind is each.KEYWORD_ONLY for each in needed):
            self._least, self._most = 1, 0
            return
        self._least = sum(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in needed)
        self._most = len(self._positional) if self._more is None else sys.maxsize

    def check_call(
        self, args: Sequence[Any], kwargs: dict[str, Any], hint: Callable[[dict[str, Any]], str] = lambda _: ""
    ) -> None:
        """Raise `PayloadInvalid` if the parameters do not take such a call. `hint`: advice, by the named arguments."""
        if not kwargs and self._least <= len(args) <= self._most:
            return  # the same answer as bind(), at a tenth of the cost
        try:
            self._signature.bind(*args, **kwargs)
        except TypeError as exc:
            text, unknown = str(exc)[:200], self._unknown(kwargs)
            if unknown and repr(unknown[0]) not in text:  # Python names the missing one alone
                text += f", and got an unexpected one, {names.shown(unknown[0])}"
            raise PayloadInvalid(f"Task {self.task}: {text}.{hint(kwargs)}") from None

    def check_named(self, kwargs: dict[str, Any]) -> None:
        """Raise `PayloadInvalid` if no call with these arguments could be enqueued."""
        self.check_call((), kwargs)
        for name, value in kwargs.items():
            self._apply(Parameter.dump, self._by_name(name), value)

    def _hint(self, kwargs: dict[str, Any]) -> str:
        """Advise a caller whose arguments do not fit: they may be options of the job, misspelled, or those of a task
        that gets the job from another work queue."""
        contexts = [slot.name for slot in self._positional[:1] if slot.name in CONTEXTS]
        if contexts:
            return f" {contexts[0]!r} is an argument here: remove it, and call tenure.current_job() in the task."
        unknown = self._unknown(kwargs)
        for name in unknown:
            if name in _OPTIONS:
                return f" Pass options of the job to using: .using({name}=...).enqueue(...)."
            if name in OPTIONS:
                return f" {OPTIONS[name]}. Options of the job go to using: .using(...).enqueue(...)."
        return did_you_mean(unknown[0], self._named) if unknown else ""

    def _unknown(self, kwargs: dict[str, Any]) -> list[str]:
        return [name for name in kwargs if name not in self._named and self._more_named is None]

    def _nth(self, position: int) -> Parameter:
        slot = self._positional[position] if position < len(self._positional) else self._more
        assert slot is not None, "bind() refuses more positional arguments than there are parameters"
        return slot

    def _by_name(self, name: str) -> Parameter:
        slot = self._named.get(name, self._more_named)
        assert slot is not None, "bind() refuses unknown names"
        return slot

    def _apply(self, convert: Callable[[Parameter, Any], Any], slot: Parameter, value: Any) -> Any:
        try:
            return convert(slot, value)
        except Misfit as exc:
            raise PayloadInvalid(f"Task {self.task}: argument {slot.name!r}: {exc}.") from None


class Results:
    """Encodes and decodes the results of a task. The return annotation is used where it fits, and never enforced.

    Raises `InvalidArgument` if nothing encodes values of the annotation, or if it has a union with types that JSON does
    not distinguish.
    """

    def __init__(self, task: str, annotation: Any = inspect.Parameter.empty, conversion: Conversion = BUILT_IN) -> None:
        self.task = task
        self._conversion = conversion
        self.annotation = rebuildable(annotation)
        self._is_plain = self.annotation in _ANYTHING or self.annotation is None or self.annotation in _CONTAINERS
        self._check_annotation()

    def _check_annotation(self) -> None:
        if self._is_plain:
            return
        try:
            msgspec.json.Decoder(self.annotation)
            unknown = self._conversion.unknown(self.annotation)
        except Exception as exc:
            if str(exc).startswith(_UNION):
                advice = f"{_without_end(exc)}. Return one of the types, or an object with a field for each."
                raise _refused(f"The result of {self.task}", self.annotation, advice) from None
            return  # an annotation that cannot be inspected, such as NoReturn
        if unknown is not None and not inspect.isabstract(unknown):  # a list may be returned as an Iterable
            raise _refused(f"The result of {self.task}", self.annotation, nothing_encodes(unknown, "Return"))

    def encode(self, value: Any) -> bytes:
        """Encode a result. Raises `PayloadInvalid` if JSON cannot hold it, or if it is too large.

        A value that the annotation would rebuild as another one, as it would an instance of a subclass, is stored as
        plain data, with a space before it.
        """
        try:
            plain = self._conversion.flatten(value)
            if self._fits(value, plain):
                data = write(plain)
            else:
                data = _AS_PLAIN + write(self._conversion.flatten(value, is_whole=True))
        except Misfit as exc:
            raise PayloadInvalid(f"The result of {self.task} cannot be encoded: {exc}.") from None
        if len(data) > limits.MAX_RESULT:
            error = PayloadInvalid(
                f"The result of {self.task} has {len(data):,} bytes, the limit is {limits.MAX_RESULT:,}. Store it "
                "elsewhere and return a reference to it."
            )
            error.size = len(data)
            raise error
        return data

    def decode(self, data: bytes | None) -> Any:
        """Decode a result to the annotation's type if it is equal then, else to plain data. Raises `PayloadInvalid`."""
        if not data:
            return None
        try:
            plain = read(data)
        except Misfit as exc:
            raise PayloadInvalid(f"The result of {self.task} cannot be decoded: {exc}.") from None
        if self._is_plain or data.startswith(_AS_PLAIN):
            return plain
        try:
            return self._conversion.rebuild(plain, self.annotation)
        except Misfit:
            return plain

    def _fits(self, value: Any, plain: object) -> bool:
        """Return whether a reader gets an equal value: through the annotation, or because the annotation refuses it."""
        if self._is_plain or (type(value) is self.annotation and type(value) in (*_SAME, float)):
            return True
        try:
            return alike(value, self._conversion.rebuild(plain, self.annotation))
        except Misfit:
            return True


def _changed(_: dict[str, Any]) -> str:
    return " If the task has changed since the job was enqueued, see accepts= of @app.task, and retry the job."


def _hints(task: str, function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception as exc:
        raise InvalidArgument(
            f"Task {task}: its annotations cannot be resolved ({type(exc).__name__}: {exc}). Names in annotations must "
            "exist in the module at run time: not only under TYPE_CHECKING, and not local to a function."
        ) from exc


def _slot(task: str, name: str, annotation: Any, conversion: Conversion, *, is_needed: bool) -> Parameter:
    if annotation in _ANYTHING:
        return Parameter(name, annotation, written(annotation), conversion)
    kind = rebuildable(annotation)
    try:
        msgspec.json.Decoder(kind)
    except Exception as exc:
        raise _refused(
            f"Task {task}: parameter {name!r}",
            annotation,
            f"{_without_end(exc)}. Use one of the types, or a parameter or a field for each. (In JSON str, bytes, UUID "
            "and Path are all text.)",
        ) from None
    # With a default, calls may leave it out: a session that only tests pass.
    unknown = conversion.unknown(kind) if is_needed else None
    if unknown is not None:
        raise _refused(f"Task {task}: parameter {name!r}", annotation, nothing_encodes(unknown))
    container = (typing.get_origin(kind) or kind) if kind in _CONTAINERS else None
    return Parameter(name, kind, written(annotation), conversion, container)


def _without_end(error: Exception) -> str:
    return str(error).removesuffix(" is not supported")


def _refused(field: str, annotation: Any, why: str) -> InvalidArgument:
    return invalid(field, "of a type that JSON can hold without ambiguity", written(annotation), why)
