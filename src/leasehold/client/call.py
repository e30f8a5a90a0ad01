"""A call of a task that is not yet enqueued, and the arguments in a payload."""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct

from leasehold.client.options import Options
from leasehold.core.codec import JsonCodec
from leasehold.core.errors import InvalidArgument, PayloadInvalid
from leasehold.core.task import Arguments

R = TypeVar("R")


class TaskCall(Struct, Generic[R], frozen=True, gc=False):
    """One call of a task that is yet to be enqueued, made by `Task.call`. Its arguments are checked and encoded."""

    task: str
    payload: bytes
    options: Options

    def __repr__(self) -> str:
        return f"TaskCall(task={self.task!r}, options={self.options!r})"

    def payload_for(self, task: str) -> bytes:
        """The arguments, for a job of this task that is there already. Raises `InvalidArgument`."""
        if self.task != task:
            raise InvalidArgument(f"That is a call of task {self.task}, and the job is one of task {task}.")
        if self.options != Options():
            raise InvalidArgument("The call has options of its own (`using`), and the job has its place already.")
        return self.payload


def as_arguments(payload: bytes) -> Arguments:
    """The arguments in a payload whose task is not known here: plain data. Raises `PayloadInvalid`."""
    expected = "Expected JSON, [[positional...], {named...}], for the job of a task."
    try:
        content = JsonCodec().decode(payload)
    except PayloadInvalid as error:
        raise PayloadInvalid(f"The payload does not fit. {error} {expected}") from None
    match content:
        case [list() as args, dict() as kwargs]:
            return tuple(args), kwargs
        case _:
            raise PayloadInvalid(f"The payload does not fit. {expected}")
