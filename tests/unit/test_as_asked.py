"""Jobs as their users know them: with the unique key that was asked for, wherever a job is looked at."""

from __future__ import annotations

import pytest

from tenure import JobView, Page, Shape, State, Tenure, Unique
from tenure.core.shape import UniqueRule, Until
from tests.support.fakes import FakeEngine, FakeRunner, double, recorder

ASKED = [("welcome:7", "welcome:7"), ("k:7", "k:7"), ("a:7", "a:7"), ("by arguments: x", "by arguments: x")]


@pytest.fixture
def engine() -> FakeEngine:
    return recorder()


@pytest.fixture
def app(engine: FakeEngine) -> Tenure:
    return Tenure("redis://nowhere.invalid", protocol=engine, runner=FakeRunner())


def lies_in_redis(engine: FakeEngine) -> JobView:
    """What the engine answers for the job that was enqueued last."""
    view = JobView("x", "q", State.COMPLETED, shape=engine.enqueued[-1].shape)
    engine.views = [view, view]
    engine.a_page = Page((view, JobView("y", "q", State.READY)), 2)
    return view


def key_of(view: JobView | None) -> str:
    assert view is not None
    assert view.shape.unique is not None
    return view.shape.unique.key


@pytest.mark.parametrize(("asked", "shown"), ASKED)
async def test_an_own_key_everywhere(app: Tenure, engine: FakeEngine, asked: str, shown: str) -> None:
    app.queue("q").enqueue(b"", unique=Unique(asked, until="started"))
    assert key_of(lies_in_redis(engine)) != shown
    job = app.queue("q").job("x")
    views = [
        app.inspect.job("q", "x"),
        await app.inspect.ajob("q", "x"),
        app.inspect.page("q", "ready").jobs[0],
        (await app.inspect.apage("q", "ready", lane="a")).jobs[0],
        job.refresh(),
        await job.arefresh(),
        next(job.watch()),
        await anext(job.awatch()),
    ]
    assert [key_of(view) for view in views] == [shown] * 8
    assert views[0] is not None
    assert views[0].shape == Shape(unique=UniqueRule(shown, Until.STARTED))


def test_by_the_arguments(app: Tenure, engine: FakeEngine) -> None:
    app.task(name="two", queue="q", unique=True)(double).enqueue(1, 2)
    lies_in_redis(engine)
    assert key_of(app.inspect.job("q", "x")) == "by arguments: 8714bf3d06d9f3446872f63fb6b3bbff"


def test_a_job_without_a_key_is_as_it_was(app: Tenure, engine: FakeEngine) -> None:
    app.queue("q").enqueue(b"")
    view = lies_in_redis(engine)
    assert app.inspect.job("q", "x") is view
    assert app.inspect.page("q", "ready").jobs[1].shape.unique is None
