"""The lifespan of an app: in order, in one task, and with an end for each beginning."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from tenure import InvalidArgument, Tenure
from tenure.runtime import lifespan as module
from tenure.runtime.lifespan import LifespanFailed

told: list[str] = []


@pytest.fixture(autouse=True)
def fresh() -> None:
    told.clear()


@asynccontextmanager
async def opened(app: Any) -> AsyncIterator[None]:
    app.state.task = asyncio.current_task()
    told.append("opened")
    try:
        yield
    finally:
        assert asyncio.current_task() is app.state.task
        told.append("closed")


@contextmanager
def opened_sync(app: Any) -> Iterator[None]:
    told.append("opened")
    yield
    told.append("closed")


@pytest.mark.parametrize("manager", [opened, opened_sync])
async def test_everything_is_called_once_and_in_order(manager: Any) -> None:
    app = Tenure(lifespan=manager)
    app.on_startup(lambda: told.append("first"))

    @app.on_startup
    async def second() -> None:
        await asyncio.sleep(0)
        told.append("second")

    @app.on_shutdown
    async def last() -> None:
        told.append("last")

    lifespan = app.lifespan()
    await lifespan.begin()
    assert told == ["opened", "first", "second"]
    await lifespan.end()
    assert told == ["opened", "first", "second", "last", "closed"]


async def test_an_app_without_one_starts_no_task() -> None:
    before = asyncio.all_tasks()
    lifespan = Tenure().lifespan()
    await lifespan.begin()
    assert asyncio.all_tasks() == before
    await lifespan.end()


async def test_what_was_opened_is_closed_when_the_start_fails() -> None:
    app = Tenure(lifespan=opened)

    @app.on_startup
    def boom() -> None:
        raise RuntimeError("no database")

    app.on_shutdown(lambda: told.append("never"))
    with pytest.raises(LifespanFailed) as failed:
        await app.lifespan().begin()
    assert isinstance(failed.value.__cause__, RuntimeError)
    assert told == ["opened", "closed"]


async def test_an_exit_at_the_start_is_an_error_with_its_message() -> None:
    app = Tenure()

    @app.on_startup
    async def boom() -> None:
        sys.exit("DATABASE_URL is not set")

    with pytest.raises(LifespanFailed) as failed:
        await app.lifespan().begin()
    assert isinstance(failed.value.__cause__, SystemExit)
    assert str(failed.value.__cause__) == "DATABASE_URL is not set"


async def test_an_exit_at_the_end_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    app = Tenure()
    app.on_shutdown(lambda: sys.exit("too late"))
    lifespan = app.lifespan()
    await lifespan.begin()
    await lifespan.end()
    assert "lifespan_failed error=SystemExit error_message='too late'" in caplog.text


async def test_a_start_that_is_cancelled_ends() -> None:
    app = Tenure()
    begun = asyncio.Event()

    @app.on_startup
    async def forever() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            told.append("cancelled")

    starting = asyncio.create_task(app.lifespan().begin())
    await begun.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await asyncio.sleep(0)
    assert told == ["cancelled"]


async def test_an_error_at_the_end_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    app = Tenure()

    @app.on_shutdown
    def boom() -> None:
        raise RuntimeError("cannot close")

    lifespan = app.lifespan()
    await lifespan.begin()
    await lifespan.end()
    assert "lifespan_failed error=RuntimeError error_message='cannot close'" in caplog.text


async def test_an_end_that_hangs_is_cancelled(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "END_S", 0.01)
    app = Tenure()

    @app.on_shutdown
    async def forever() -> None:
        await asyncio.Event().wait()

    lifespan = app.lifespan()
    await lifespan.begin()
    await lifespan.end()
    assert "lifespan_failed error=Timeout" in caplog.text


def test_what_cannot_be_called_so_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="lifespan must be a function that takes the app"):
        Tenure(lifespan=lambda: opened_sync(None))  # type: ignore[arg-type, misc]
    with pytest.raises(InvalidArgument, match="on_startup"):
        Tenure().on_startup(lambda app: None)  # type: ignore[type-var]
