"""A call of a task before its enqueue, and the arguments in a payload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from tenure.client.options import Options
from tenure.core.encoding.codec import Misfit, read
from tenure.core.errors import InvalidArgument, PayloadInvalid, invalid
from tenure.core.task import Arguments

if TYPE_CHECKING:
    from tenure.core.job import NewJob

R = TypeVar("R")

RawPayload: TypeAlias = bytes | bytearray | memoryview | str | dict[str, Any] | list[Any] | tuple[Any, ...] | float
"""A payload for a raw handler: bytes, text, or plain data that becomes JSON."""


class Built(Protocol):
    """A task."""

    def built(self, call: TaskCall[Any]) -> NewJob:
        """Return the job that a call becomes when it is enqueued."""
        ...


class TaskCall(Struct, Generic[R], frozen=True, gc=False):
    """One call of a task, made by `Task.call` and not yet enqueued. Its arguments are checked and encoded."""

    task: str
    payload: bytes
    options: Options
    source: Built | None = None
    """The task."""

    def __repr__(self) -> str:
        return f"TaskCall(task={self.task!r}, options={self.options!r})"

    def payload_for(self, task: str) -> bytes:
        """Return the arguments as the new payload of an existing job. Raises `InvalidArgument`."""
        if self.task != task:
            raise invalid("payload", f"a call of the job's task {task}", f"a call of {self.task}")
        if self.options != Options():
            raise InvalidArgument("payload must be a call without options (`using`): the job keeps its own.")
        return self.payload


def as_arguments(payload: bytes) -> Arguments:
    """Decode the arguments of a task that is not registered here, as plain data. Raises `PayloadInvalid`."""
    rule = "The payload of a task's job must be JSON, [[positional...], {named...}]"
    try:
        content = read(payload)
    except Misfit as error:
        raise PayloadInvalid(f"{rule}: {error}.") from None
    match content:
        case [list() as args, dict() as kwargs]:
            return tuple(args), kwargs
    raise PayloadInvalid(f"{rule}.")
