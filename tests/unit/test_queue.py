"""Queues by hand, over an engine that only remembers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tenure.core import limits
from tenure.core.engine import Feature
from tenure.core.errors import InvalidArgument, LeaseLost, Unreachable, UnsupportedFeature
from tenure.core.job import ErrorInfo
from tenure.core.outcome import Completed, Failed, Released, Retried
from tenure.core.shape import MAX_PROGRESS_TEXT, Progress
from tenure.runtime.jobs.job import Job
from tests.support.fakes import held


class TestByHand:
    def test_nothing_there(self, app, engine):
        job = app.queue("q").lease()
        assert not job
        with job as nothing:
            assert nothing is None
        ((_, worker, queues, limit, lease_ms),) = engine.asked
        assert worker.startswith("hand-")
        assert (queues, limit, lease_ms) == (("q",), 1, 30_000)

    def test_completes_on_success(self, app, engine):
        engine.leases = [held("a", b"data")]
        with app.queue("q").lease(seconds=5) as job:
            assert (job.id, job.payload, job.attempt, job.token, job.task) == ("a", b"data", 3, 7, None)
        assert engine.settled == [(held("a", b"data"), Completed(b"null"))]

    def test_releases_on_error(self, app, engine):
        engine.leases = [held("a")]
        with pytest.raises(KeyError), app.queue("q").lease():
            raise KeyError
        assert engine.settled == [(held("a"), Released())]

    def test_what_was_settled_inside_stays(self, app, engine):
        engine.leases = [held("a")]
        queue = app.queue("q")
        with queue.lease() as job:
            assert queue.fail(job, "no")
        assert engine.settled == [(held("a"), Failed(ErrorInfo("Fail", "no")))]

    def test_lost_meanwhile(self, app, engine):
        engine.leases, engine.holds = [held("a"), held("b")], False
        with pytest.raises(LeaseLost, match="'a'"), app.queue("q").lease():
            pass
        assert app.queue("q").complete(app.queue("q").lease()) is False

    def test_an_error_while_releasing_does_not_hide_the_first(self, app, engine, monkeypatch):
        engine.leases = [held("a")]

        def fails(*_: Any) -> Any:
            raise Unreachable("away")

        monkeypatch.setattr(engine, "settle", fails)
        with pytest.raises(KeyError), app.queue("q").lease():
            raise KeyError

    def test_settling(self, app, engine):
        engine.leases = [held("a"), held("b"), held("c")]
        queue = app.queue("q")
        assert queue.complete(queue.lease(), {"n": 1})
        assert queue.retry(queue.lease(), delay=2, reason="busy")
        job = queue.lease()
        assert queue.extend(job, 60)
        assert queue.release(job)
        assert [outcome for _, outcome in engine.settled] == [
            Completed(b'{"n":1}'),
            Retried(ErrorInfo("Retry", "busy"), 2_000),
            Released(),
        ]
        assert engine.asked[-1] == ("extend", "c", 60_000)

    async def test_progress(self, app, engine):
        engine.leases = [held("a")]
        queue = app.queue("q")
        job = queue.lease()
        assert queue.progress(job, 3)
        assert await queue.aprogress(job, 0.5, 10, "ä" * MAX_PROGRESS_TEXT)
        engine.holds = False
        assert not queue.progress(job, -1, total=0.5, text="x")
        assert engine.asked[1:] == [
            ("progress", "a", Progress(3.0)),
            ("progress", "a", Progress(0.5, 10.0, "ä" * (MAX_PROGRESS_TEXT // 2))),
            ("progress", "a", Progress(-1.0, 0.5, "x")),
        ]
        assert engine.settled == []

    @pytest.mark.parametrize(
        ("field", "progress"),
        [
            ("current", ("3",)),
            ("current", (None,)),
            ("current", (True,)),
            ("current", (float("nan"),)),
            ("current", (10**400,)),
            ("total", (3, float("inf"))),
            ("total", (3, "10")),
            ("total", (3, 0)),
            ("total", (3, -1.5)),
            ("text", (3, 10, None)),
        ],
    )
    def test_wrong_progress_is_refused_as_a_handlers_is(self, app, engine, field, progress):
        engine.leases = [held("a")]
        with pytest.raises(InvalidArgument, match=field) as by_hand:
            app.queue("q").progress(app.queue("q").lease(), *progress)
        told: list[Progress] = []
        reach: Any = SimpleNamespace(progress=lambda held, progress: told.append(progress))
        with pytest.raises(InvalidArgument) as in_handler:
            Job(SimpleNamespace(), reach).progress(*progress)  # type: ignore[arg-type]
        assert str(by_hand.value) == str(in_handler.value)
        assert told == []

    def test_progress_that_the_protocol_cannot_hold(self, app, engine):
        engine.features -= {Feature.PROGRESS}
        engine.leases = [held("a")]
        with pytest.raises(UnsupportedFeature, match="progress"):
            app.queue("q").progress(app.queue("q").lease(), 3)

    def test_a_job_of_another_queue(self, app, engine):
        engine.leases = [held("a")]
        with pytest.raises(InvalidArgument, match="'q'"):
            app.queue("other").complete(app.queue("q").lease())

    @pytest.mark.parametrize("seconds", [0, -1, 0.05, float("nan"), 10**12, None])
    def test_wrong_seconds(self, app, seconds):
        with pytest.raises(InvalidArgument, match="seconds"):
            app.queue("q").lease(seconds=seconds)

    def test_blocking_waits_in_short_steps(self, app, engine):
        job = app.queue("q").lease(block=True)
        assert job.id == "late"
        assert engine.asked[1] == ("wait", limits.IDLE_WAIT_MS)
        assert engine.asked[0][1] == engine.asked[2][1]

    def test_blocking_ends_in_time(self, app, engine):
        assert not app.queue("q").lease(block=True, timeout=0)
        with pytest.raises(InvalidArgument, match="timeout"):
            app.queue("q").lease(block=True, timeout=-1)
        with pytest.raises(InvalidArgument, match="block must be True or False, got 'no'"):
            app.queue("q").lease(block="no", timeout=0)

    async def test_async(self, app, engine):
        queue = app.queue("q")
        engine.leases = [held("a"), held("b"), held("c")]
        async with queue.alease() as job:
            assert job is not None
            assert job.id == "a"
        with pytest.raises(KeyError):
            async with queue.alease():
                raise KeyError
        job = await queue.alease()
        assert await queue.afail(job, "no")
        async with queue.alease() as job:
            assert job is None
        assert (await queue.alease(block=True, timeout=5)).id == "late"
        kinds = [type(outcome) for _, outcome in engine.settled]
        assert kinds == [Completed, Released, Failed]
