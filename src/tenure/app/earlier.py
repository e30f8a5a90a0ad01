"""Earlier names and signatures of a task: jobs that wait since before a deploy run as the task of today."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from tenure.core import names
from tenure.core.encoding.signature import Signature
from tenure.core.errors import InvalidArgument, PayloadInvalid, invalid
from tenure.core.functions import is_async
from tenure.core.task import Arguments

MAX_ACCEPTED: Final = 20
"""The most earlier names of a task."""

Upgrade: TypeAlias = Callable[..., Mapping[str, Any]]
"""Has the parameters of an earlier signature. Returns the arguments of today by name."""
Accepts: TypeAlias = Sequence[str] | Mapping[str, Upgrade | None]
"""Earlier names of a task, with an `Upgrade` where the signature has changed too."""
Decode: TypeAlias = Callable[[bytes], Arguments]


def accepted_names(accepts: object) -> dict[str, Upgrade | None]:
    """Check the option `accepts` of a task. Raises `InvalidArgument`."""
    if accepts is None:
        return {}
    if isinstance(accepts, (str, bytes)) or not isinstance(accepts, (Sequence, Mapping)):
        raise invalid("accepts", 'names of tasks, as in ["send"], or functions by name', type(accepts).__name__)
    found: dict[str, Upgrade | None] = dict(accepts) if isinstance(accepts, Mapping) else dict.fromkeys(accepts)
    if len(found) > MAX_ACCEPTED:
        raise invalid("accepts", f"at most {MAX_ACCEPTED} names", str(len(found)))
    for name, upgrade in found.items():
        names.task_name(name, "accepts: name")
        is_function = inspect.isfunction(upgrade) or inspect.ismethod(upgrade)
        if upgrade is not None and (not is_function or is_async(upgrade)):
            kind = getattr(upgrade, "__qualname__", type(upgrade).__qualname__)
            raise invalid(f"accepts: {name!r}", "None, or a function that is not async", kind)
    return found


def check_free(task: str, accepts: Mapping[str, object], taken: Mapping[str, Mapping[str, object]]) -> None:
    """Refuse a name that another task has or accepts. `taken`: what each task accepts."""
    for name in (task, *accepts):
        for other, accepted in taken.items():
            if name == other or name in accepted:
                raise InvalidArgument(
                    f"There already is a task {other!r}{'' if name == other else f', which accepts {name!r}'}. Rename "
                    "one of them with name=, or leave the name out of accepts=."
                )


def decoders(current: Signature, accepts: Mapping[str, Upgrade | None]) -> dict[str, Decode]:
    """Return how the payloads of each name are decoded, also of the task's own name.

    An `Upgrade` of the task's own name is called only for payloads that do not fit the signature of today. Raises
    `InvalidArgument` if annotations cannot be resolved or used.
    """
    found: dict[str, Decode] = {current.task: current.decode}
    for name, upgrade in accepts.items():
        if upgrade is None:
            found[name] = current.decode
        else:
            earlier = _upgraded(current, name, upgrade)
            found[name] = _first_fit(current.decode, earlier) if name == current.task else earlier
    return found


def _upgraded(current: Signature, name: str, upgrade: Upgrade) -> Decode:
    signature = Signature(name, upgrade, current.conversion)
    field = f"Task {current.task}: what {getattr(upgrade, '__qualname__', 'the function')} of accepts= returns"

    def decode(payload: bytes) -> Arguments:
        args, kwargs = signature.decode(payload)
        found = upgrade(*args, **kwargs)
        if not isinstance(found, Mapping):
            raise PayloadInvalid(f"{field} must be a dict of arguments by name, got {type(found).__name__}.")
        named = dict(found)
        current.check_named(named)
        return (), named

    return decode


def _first_fit(today: Decode, earlier: Decode) -> Decode:
    def decode(payload: bytes) -> Arguments:
        try:
            return today(payload)
        except PayloadInvalid as error:
            try:
                return earlier(payload)
            except PayloadInvalid:
                raise error from None

    return decode
