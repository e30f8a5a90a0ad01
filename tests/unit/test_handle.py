"""Waiting for results, over an engine that only remembers."""

from __future__ import annotations

from contextlib import aclosing
from datetime import UTC, datetime

import pytest

from tenure import State
from tenure.client.handle import RESULT_WAIT_MS
from tenure.core.engine import Feature
from tenure.core.errors import (
    InvalidArgument,
    JobFailed,
    JobNotFound,
    ResultError,
    ResultTimeout,
    UnsupportedFeature,
)
from tenure.core.job import ErrorInfo
from tenure.core.shape import Progress
from tenure.core.values import replace
from tests.support.fakes import double, view


class TestResults:
    def test_already_there(self, app, engine, runner):
        engine.views = [view(State.COMPLETED, b"4")]
        assert app.task(double).enqueue(2).result() == 4
        assert runner.log == []

    def test_listens_before_it_asks_again(self, app, engine, runner):
        engine.views = [view(State.READY), view(State.ACTIVE), view(State.COMPLETED, b"4")]
        assert app.queue("q").job("id").result() == 4
        assert runner.log == ["ended:q:id", RESULT_WAIT_MS / 1000, "left"]

    async def test_async(self, app, engine, runner):
        engine.views = [view(State.READY), view(State.ACTIVE), view(State.COMPLETED, b"4")]
        assert await app.queue("q").job("id").aresult(timeout=1) == 4
        channel, waited, left = runner.log
        assert (channel, left) == ("ended:q:id", "left")
        assert 0.9 < waited <= 1

    def test_not_in_time(self, app, engine, runner):
        engine.views = [view(State.ACTIVE)]
        with pytest.raises(ResultTimeout):
            app.queue("q").job("id").result(timeout=0)
        assert runner.log == []
        with pytest.raises(InvalidArgument, match="timeout"):
            app.queue("q").job("id").result(timeout=-1)

    @pytest.mark.parametrize("state", [State.FAILED, State.BROKEN, State.CANCELLED])
    def test_other_ends(self, app, engine, state):
        engine.views = [view(state, error=ErrorInfo("KeyError", "'a'", "trace"))]
        with pytest.raises(JobFailed) as caught:
            app.queue("q").job("id").result()
        error = caught.value
        assert (error.state, error.error_type, error.error_message, error.traceback) == (
            state.value,
            "KeyError",
            "'a'",
            "trace",
        )
        assert (error.id, error.task) == ("id", None)
        assert str(error) == f"Job 'id' ended in {state.value}: KeyError: 'a'"

    def test_an_end_without_an_error(self, app, engine):
        engine.views = [view(State.CANCELLED)]
        with pytest.raises(JobFailed, match=r"Job 'id' .*ended in cancelled\.$"):
            app.queue("q").job("id").result()

    def test_unknown(self, app, engine):
        engine.views = [None]
        with pytest.raises(JobNotFound):
            app.queue("q").job("id").result()

    def test_a_note_is_no_result(self, app, engine):
        engine.views = [view(State.COMPLETED, b'{"tenure_note":{"type":"TypeError","message":"a set"}}')]
        with pytest.raises(ResultError, match="TypeError: a set"):
            app.queue("q").job("id").result()

    def test_the_return_annotation_counts(self, app, engine):
        @app.task(name="when")
        def when() -> datetime:
            raise NotImplementedError

        engine.views = [view(State.COMPLETED, b'"2020-01-01T00:00:00Z"')]
        assert when.job("id").result() == datetime(2020, 1, 1, tzinfo=UTC)

    def test_state_and_refresh(self, app, engine):
        engine.views = [view(State.READY)]
        job = app.queue("q").job("id")
        assert job.state() is State.READY
        assert job.refresh() == view(State.READY)
        engine.views = [None]
        assert job.state() is None


READY, ACTIVE = view(State.READY), view(State.ACTIVE)
THIRD, HALF = replace(ACTIVE, progress=Progress(1, 3)), replace(ACTIVE, progress=Progress(1, 2))
ENDED = view(State.COMPLETED, b"4")


class TestWatching:
    def test_what_changed_is_told_once(self, app, engine, runner):
        engine.views = [READY, READY, ACTIVE, ACTIVE, THIRD, THIRD, HALF, ENDED]
        assert list(app.queue("q").job("id").watch()) == [READY, ACTIVE, THIRD, HALF, ENDED]
        assert runner.log == ["ended:q:id", *[RESULT_WAIT_MS / 1000] * 6, "left"]

    async def test_async(self, app, engine, runner):
        engine.views = [READY, READY, ACTIVE, THIRD, THIRD, ENDED]
        assert [seen async for seen in app.queue("q").job("id").awatch()] == [READY, ACTIVE, THIRD, ENDED]
        assert runner.log == ["ended:q:id", *[RESULT_WAIT_MS / 1000] * 4, "left"]

    def test_the_wish_to_cancel_is_a_change(self, app, engine):
        asked = replace(ACTIVE, cancelling="")
        engine.views = [ACTIVE, asked, view(State.CANCELLED)]
        assert [seen.cancelling for seen in app.queue("q").job("id").watch()] == [None, "", None]

    async def test_already_ended(self, app, engine, runner):
        engine.views = [ENDED, view(State.FAILED)]
        job = app.queue("q").job("id")
        assert list(job.watch(timeout=0)) == [ENDED]
        assert [seen async for seen in job.awatch()] == [view(State.FAILED)]
        assert runner.log == []

    async def test_unknown_at_once_or_later(self, app, engine, runner):
        engine.views = [None, READY, None, None, READY, ACTIVE, None]
        job = app.queue("q").job("id")
        assert list(job.watch()) == []
        assert list(job.watch()) == [READY]
        assert [seen async for seen in job.awatch()] == []
        assert [seen async for seen in job.awatch()] == [READY, ACTIVE]

    async def test_not_in_time(self, app, engine, runner):
        engine.views = [ACTIVE, ACTIVE]
        job = app.queue("q").job("id")
        views, aviews = job.watch(timeout=0), job.awatch(timeout=0)
        assert next(views) == await anext(aviews) == ACTIVE
        with pytest.raises(ResultTimeout):
            next(views)
        with pytest.raises(ResultTimeout):
            await anext(aviews)
        assert runner.log == []

    async def test_wrong_arguments_are_refused_by_the_call_itself(self, app, engine):
        job = app.queue("q").job("id")
        for watch in (job.watch, job.awatch):
            with pytest.raises(InvalidArgument, match="timeout"):
                watch(timeout=-1)
        engine.features -= {Feature.RESULTS}
        for watch in (job.watch, job.awatch):
            with pytest.raises(UnsupportedFeature, match="results"):
                watch()

    def test_leaving_early_ends_the_subscription(self, app, engine, runner):
        engine.views = [READY, ACTIVE]
        for seen in app.queue("q").job("id").watch():
            if seen == ACTIVE:
                break
        assert runner.log == ["ended:q:id", "left"]

    async def test_leaving_early_in_async_code(self, app, engine, runner):
        engine.views = [READY, ACTIVE]
        async with aclosing(app.queue("q").job("id").awatch()) as views:
            async for seen in views:
                if seen == ACTIVE:
                    break
        assert runner.log == ["ended:q:id", "left"]
