"""Every method that talks to Redis has a twin for async code: `x` and `ax`, with the same parameters and answers."""

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from tenure.app.app import Tenure
from tenure.app.tasks import Task
from tenure.app.testing import Testing
from tenure.client.control import Control
from tenure.client.handle import JobHandle
from tenure.client.inspect import Inspect
from tenure.client.queue import Queue
from tenure.client.schedules import Schedules
from tenure.manage.control import BulkControl
from tenure.manage.inspect import JobSearch

CLASSES: tuple[type, ...] = (
    Task,
    Queue,
    JobHandle,
    Inspect,
    JobSearch,
    Control,
    BulkControl,
    Schedules,
    Tenure,
    Testing,
)

NO_TRAFFIC = {
    "Task": {"built", "call", "job", "using", "scheduled", "spec", "template", "decode", "rebuild"},
    "Queue": {"job"},
    "JobHandle": set(),
    "Inspect": set(),
    "JobSearch": set(),
    "Control": set(),
    "BulkControl": set(),
    "Testing": {"on_redis"},
    "Schedules": set(),
    "Tenure": {
        "clean_payloads",
        "engine",
        "enqueue_middleware",
        "handler",
        "handlers",
        "include",
        "layers",
        "listeners",
        "middleware",
        "on",
        "queue",
        "queue_defaults",
        "worker",
        "queue_options",
        "scheduled",
        "specs",
        "task",
        "tasks",
        "testing",
    },
}
# An object that can be awaited as well as entered has a type of its own, and so has what `async for` takes.
OTHER_ANSWERS = {"Queue.lease", "JobHandle.watch"}


def twins() -> Iterator[tuple[type, str]]:
    for owner in CLASSES:
        for name, _ in public(owner):
            if not is_twin(owner, name) and name not in NO_TRAFFIC[owner.__name__]:
                yield owner, name


def public(owner: type) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in vars(owner).items() if not name.startswith("_") and callable(value)]


def is_twin(owner: type, name: str) -> bool:
    return name.startswith("a") and name[1:] in vars(owner)


@pytest.mark.parametrize(("owner", "name"), list(twins()), ids=lambda part: getattr(part, "__name__", part))
def test_twins(owner: type, name: str) -> None:
    twin = vars(owner).get(f"a{name}")
    assert twin is not None, f"{owner.__name__}.{name} has no twin for async code"
    ours, theirs = inspect.signature(vars(owner)[name]), inspect.signature(twin)
    assert list(ours.parameters.values()) == list(theirs.parameters.values())
    if f"{owner.__name__}.{name}" not in OTHER_ANSWERS:
        assert ours.return_annotation == theirs.return_annotation == vars(owner)[name].__annotations__["return"]
        assert inspect.iscoroutinefunction(twin)
        assert twin.__qualname__ == f"{owner.__name__}.a{name}"  # what Python says of a coroutine never awaited
    assert not inspect.iscoroutinefunction(vars(owner)[name])


def test_there_are_many() -> None:
    assert len(list(twins())) > 20
