"""Both drivers behind one blocking face, so that what they promise alike is tested once for both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

import pytest

from tenure.core import limits
from tenure.core.steps import Steps
from tenure.redis.aio import AsyncDriver
from tenure.redis.sync import SyncDriver

T = TypeVar("T")


@pytest.fixture
def waits_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replicas have ten seconds: where they are to have it in time, also on a busy machine."""
    monkeypatch.setattr(limits, "WAIT_MS", 10 * limits.SECOND)


class Drive(Protocol):
    """A driver that blocks."""

    @property
    def driver(self) -> SyncDriver | AsyncDriver: ...

    def run(self, steps: Steps[T]) -> T: ...
    def close_driver(self) -> None: ...
    def close(self) -> None: ...


class BlockingDrive:
    def __init__(self, url: str, **options: Any) -> None:
        self.driver: SyncDriver = SyncDriver(url, **options)

    def run(self, steps: Steps[T]) -> T:
        return self.driver.run(steps)

    def close_driver(self) -> None:
        self.driver.close()

    def close(self) -> None:
        self.close_driver()


class AsyncioDrive:
    """Runs the asyncio driver on a loop of its own, one call at a time."""

    def __init__(self, url: str, **options: Any) -> None:
        self.driver = AsyncDriver(url, **options)
        self._runner = asyncio.Runner()

    def run(self, steps: Steps[T]) -> T:
        return self._runner.run(self.driver.run(steps))

    def close_driver(self) -> None:
        self._runner.run(self.driver.close())

    def close(self) -> None:
        self.close_driver()
        self._runner.close()


@pytest.fixture(params=["sync", "asyncio"])
def drive(request: pytest.FixtureRequest) -> Iterator[Callable[..., Drive]]:
    """Makes a drive: `drive(url, patience_ms=...)`. It is closed after the test."""
    made: list[Drive] = []

    def make(url: str, **options: Any) -> Drive:
        made.append(BlockingDrive(url, **options) if request.param == "sync" else AsyncioDrive(url, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()
