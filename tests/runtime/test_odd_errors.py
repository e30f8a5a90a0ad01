"""Errors of handlers and listeners whose own attributes raise. They end the attempt, no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tenure.core import events
from tenure.core.outcome import Completed, Failed
from tenure.core.signals import JobCancelled, Retry
from tenure.core.task import BatchRule
from tenure.runtime.shutdown import ExitStatus
from tests.runtime.fakes import Rig, task


class Trap(BaseException):
    """What looking at such an error raises: nothing that `except Exception` would catch."""


def odd(attribute: str, base: type[BaseException] = Exception) -> type[BaseException]:
    """A kind of error with an attribute that raises."""

    def get(self: object) -> Any:
        raise Trap(attribute)

    def put(self: object, value: object) -> None: ...

    return type("Odd", (base,), {attribute: property(get, put)})


class Nameless(type):
    def __getattribute__(cls, name: str) -> Any:
        if name in ("__name__", "__qualname__", "__module__"):
            raise Trap(name)
        return super().__getattribute__(name)


class OfNoName(Exception, metaclass=Nameless):
    pass


class Unprintable(Exception):
    def __str__(self) -> str:
        raise Trap("__str__")

    __repr__ = __str__


class BadNumber(float):
    def __float__(self) -> float:
        raise Trap("__float__")

    def __lt__(self, other: float) -> bool:
        raise Trap("__lt__")


def late() -> Retry:
    error = Retry()
    error.delay = BadNumber(3)
    return error


ERRORS: dict[str, Callable[[], BaseException]] = {
    **{
        f"a property {name}": odd(name)
        for name in (
            "__class__",
            "__traceback__",
            "__cause__",
            "__context__",
            "__suppress_context__",
            "__notes__",
            "__dict__",
            "args",
        )
    },
    "a Retry without a delay": odd("delay", Retry),
    "a Retry with a bad delay": late,
    "a JobCancelled without a reason": odd("reason", JobCancelled),
    "a kind without a name": OfNoName,
    "unprintable": Unprintable,
}


@pytest.mark.parametrize("kind", ["async", "sync", "batch"])
@pytest.mark.parametrize("name", ERRORS)
async def test_an_error_that_cannot_be_looked_at_ends_its_attempt_and_costs_no_slot(name: str, kind: str):
    raised: list[str] = []

    def fail(*_: object) -> None:
        if len(raised) < 1:
            raised.append(name)
            raise ERRORS[name]()

    async def afail() -> None:
        fail()

    if kind == "batch":
        spec = task(fail, name=None, decode=None, retries=0, batch=BatchRule(1))
    else:
        spec = task(afail if kind == "async" else fail, retries=0)
    async with Rig(spec, concurrency=1, burst=True) as rig:
        rig.engine.add("a", "b", task=spec.name)
        assert await rig.ended() is ExitStatus.OK
    (end,) = rig.engine.outcomes("a")
    assert not isinstance(end, Completed)
    if isinstance(end, Failed):
        assert end.error.type
    assert [type(one) for one in rig.engine.outcomes("b")] == [Completed]


@pytest.mark.parametrize("name", ERRORS)
async def test_a_listener_that_raises_one_hears_on(name: str):
    heard: list[events.Event] = []

    def listen(event: events.Event) -> None:
        heard.append(event)
        raise ERRORS[name]()

    listener = events.Listener((events.Completed,), listen)
    async with Rig(lambda: None, listeners=[listener], burst=True) as rig:
        rig.engine.add(*map(str, range(20)))
        assert await rig.ended() is ExitStatus.OK
    assert len(heard) == 20
