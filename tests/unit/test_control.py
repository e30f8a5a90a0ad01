"""Looking at queues and acting on them from outside: what the engine is asked, and what is refused before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tenure import CancelAnswer, CancelCount, LaneFailure, LaneState, Page, QueueSettings, State, Tenure, Worqr
from tenure.core import limits
from tenure.core.engine import Feature
from tenure.core.errors import InvalidArgument, UnsupportedFeature
from tenure.core.minutes import Minutes
from tests.support.fakes import FakeEngine, FakeRunner, recorder

CALLS = {
    "cancel": (("q", "x", "why"), ("cancel", "q", "x", "why"), CancelAnswer.REQUESTED),
    "cancel_lane": (("q", "user:42", "why"), ("cancel_all", "q", "user:42", "why"), CancelCount(2, 1)),
    "cancel_all": (("q", "why"), ("cancel_all", "q", None, "why"), CancelCount(2, 1)),
    "pause": (("q",), ("configure", "q", {"paused": True}), QueueSettings(paused=True)),
    "resume": (("q",), ("configure", "q", {"paused": False}), QueueSettings()),
    "park_lane": (("q", "user:42"), ("park_lane", "q", "user:42"), True),
    "resume_lane": (("q", "user:42"), ("resume_lane", "q", "user:42"), False),
    "quiet": (("w",), ("quiet", "w", True), True),
    "unquiet": (("w",), ("quiet", "w", False), True),
}
LOOKS = {
    "lane": (("q", "user:42"), ("lane", "q", "user:42"), "a lane"),
    "lanes": (("q", "parked", 7, 5), ("lanes", "q", LaneState.PARKED, 7, 5), "lanes"),
    "settings": (("q",), ("settings", "q"), QueueSettings()),
    "minutes": (("q",), ("minutes", "q"), Minutes()),
    "page": (("q", "ready", 2, 3), ("page", "q", State.READY, 2, 3, None, None), Page((), 0)),
}


@pytest.fixture
def engine() -> FakeEngine:
    return recorder()


@pytest.fixture
def app(engine: FakeEngine) -> Tenure:
    return Tenure("redis://nowhere.invalid", protocol=engine, runner=FakeRunner())


class TestAsked:
    @pytest.mark.parametrize("name", [*CALLS, *LOOKS])
    async def test_both_twins(self, app, engine, name):
        arguments, asked, answer = (CALLS | LOOKS)[name]
        room = app.control if name in CALLS else app.inspect
        assert getattr(room, name)(*arguments) == answer
        assert await getattr(room, f"a{name}")(*arguments) == answer
        assert engine.asked == [asked, asked]

    def test_nothing_to_cancel_is_false(self):
        assert not CancelAnswer.NOTHING
        assert CancelAnswer.CANCELLED
        assert CancelAnswer.REQUESTED

    @pytest.mark.parametrize(
        ("given", "asked"),
        [
            ({}, {}),
            ({"max_length": 0}, {"max_length": 0}),
            ({"max_length": 10, "lane_failure": "park"}, {"max_length": 10, "lane_failure": LaneFailure.PARK}),
            ({"lane_failure": LaneFailure.BLOCK}, {"lane_failure": LaneFailure.BLOCK}),
        ],
    )
    async def test_configure(self, app, engine, given, asked):
        assert app.control.configure("q", **given) == QueueSettings(**asked)
        assert await app.control.aconfigure("q", **given) == QueueSettings(**asked)
        assert engine.asked == [("configure", "q", asked)] * 2

    @pytest.mark.parametrize(
        ("given", "asked"),
        [
            ({"delay": 0}, (0, None, None)),
            ({"delay": timedelta(minutes=1), "priority": -5}, (60_000, None, -5)),
            ({"run_after": datetime(2026, 3, 1, tzinfo=UTC)}, (None, 1_772_323_200_000, None)),
            ({"priority": 0}, (None, None, 0)),
        ],
    )
    async def test_reschedule(self, app, engine, given, asked):
        assert app.control.reschedule("q", "x", **given)
        assert await app.control.areschedule("q", "x", **given)
        change = dict(zip(("delay_ms", "run_at_ms", "priority"), asked, strict=True))
        assert engine.asked == [("reschedule", "q", "x", change)] * 2

    async def test_lanes_that_a_failed_job_blocks(self, app, engine):
        assert app.inspect.lanes("q", "blocked") == "lanes"
        assert engine.asked == [("lanes", "q", LaneState.BLOCKED, 0, limits.PAGE_MAX)]

    async def test_a_page_of_a_lane(self, app, engine):
        app.inspect.page("q", State.READY, lane="user:42")
        await app.inspect.apage("q", "ready", limit=1, lane="user:42", after="cursor")
        assert engine.asked == [
            ("page", "q", State.READY, 0, limits.PAGE_MAX, "user:42", None),
            ("page", "q", State.READY, 0, 1, "user:42", "cursor"),
        ]

    def test_reasons_are_cut(self, app, engine):
        for act in (app.control.cancel_all, lambda *given: app.control.cancel_lane("q", "a", given[1])):
            act("q", "ä" * limits.MAX_ERROR_TEXT)
            assert len(engine.asked[-1][-1].encode()) <= limits.MAX_ERROR_TEXT

    async def test_a_handle_cancels_its_job(self, app, engine):
        job = app.queue("q").job("x")
        assert job.cancel() is CancelAnswer.REQUESTED
        assert await job.acancel("why") is CancelAnswer.REQUESTED
        assert engine.asked == [("cancel", "q", "x", ""), ("cancel", "q", "x", "why")]


class TestRefused:
    @pytest.mark.parametrize(
        ("given", "why"),
        [
            ({}, "reschedule needs"),
            ({"delay": 1, "run_after": datetime(2026, 3, 1, tzinfo=UTC)}, "cannot both"),
            ({"delay": -1}, "delay"),
            ({"run_after": datetime(2026, 3, 1)}, "time zone"),
            ({"priority": 101}, "priority"),
        ],
    )
    def test_reschedule(self, app, engine, given, why):
        with pytest.raises(InvalidArgument, match=why):
            app.control.reschedule("q", "x", **given)
        assert engine.asked == []

    @pytest.mark.parametrize("given", [{"delay": 1}, {"priority": 1}])
    def test_reschedule_on_other_wire_formats(self, given):
        with pytest.raises(UnsupportedFeature, match="worqr"):
            Tenure("redis://nowhere.invalid", protocol=Worqr("w")).control.reschedule("q", "x", **given)

    @pytest.mark.parametrize("name", [*CALLS, *LOOKS])
    @pytest.mark.parametrize("wrong", [5, None, "\ud800"])
    async def test_names(self, app, engine, name, wrong):
        (_, *others), _, _ = (CALLS | LOOKS)[name]
        room = app.control if name in CALLS else app.inspect
        with pytest.raises(InvalidArgument, match=r"queue|worker"):
            getattr(room, name)(wrong, *others)
        with pytest.raises(InvalidArgument, match=r"queue|worker"):
            await getattr(room, f"a{name}")(wrong, *others)
        assert engine.asked == []

    @pytest.mark.parametrize(
        ("field", "act"),
        [
            ("lane", lambda app: app.control.cancel_lane("q", "")),
            ("lane", lambda app: app.control.park_lane("q", "a\n")),
            ("lane", lambda app: app.control.resume_lane("q", None)),
            ("lane", lambda app: app.inspect.lane("q", "x" * 201)),
            ("lane", lambda app: app.inspect.page("q", State.READY, lane="")),
            ("state", lambda app: app.inspect.page("q", State.FAILED, lane="a")),
            ("state", lambda app: app.inspect.lanes("q", "idle")),
            ("state", lambda app: app.inspect.lanes("q", 5)),
            ("cursor", lambda app: app.inspect.lanes("q", "parked", -1)),
            ("cursor", lambda app: app.inspect.lanes("q", "parked", 2**64)),
            ("limit", lambda app: app.inspect.lanes("q", "parked", limit=0)),
            ("limit", lambda app: app.inspect.lanes("q", "parked", limit=101)),
            ("reason", lambda app: app.control.cancel_lane("q", "a", 5)),
            ("reason", lambda app: app.control.cancel_all("q", None)),
            ("reason", lambda app: app.queue("q").job("x").cancel(5)),
            ("max_length", lambda app: app.control.configure("q", max_length=-1)),
            ("max_length", lambda app: app.control.configure("q", max_length=limits.MAX_QUEUE_LENGTH + 1)),
            ("lane_failure", lambda app: app.control.configure("q", lane_failure="stop")),
            ("lane_failure", lambda app: app.control.configure("q", lane_failure=5)),
        ],
    )
    def test_values(self, app, engine, field, act):
        with pytest.raises(InvalidArgument, match=field):
            act(app)
        assert engine.asked == []

    @pytest.mark.parametrize(
        ("feature", "act"),
        [
            (Feature.LANES, lambda app: app.control.cancel_lane("q", "a")),
            (Feature.LANES, lambda app: app.control.park_lane("q", "a")),
            (Feature.LANES, lambda app: app.control.resume_lane("q", "a")),
            (Feature.LANES, lambda app: app.control.configure("q", lane_failure="skip")),
            (Feature.LANES, lambda app: app.inspect.lane("q", "a")),
            (Feature.LANES, lambda app: app.inspect.lanes("q", "parked")),
            (Feature.LANES, lambda app: app.inspect.page("q", "ready", lane="a")),
            (Feature.HISTORY, lambda app: app.inspect.minutes("q")),
            (Feature.MAX_LENGTH, lambda app: app.control.configure("q", max_length=5)),
            (Feature.PAUSE, lambda app: app.control.pause("q")),
            (Feature.PAUSE, lambda app: app.control.resume("q")),
            (Feature.QUIET, lambda app: app.control.quiet("w")),
            (Feature.QUIET, lambda app: app.control.unquiet("w")),
            (Feature.STACKS, lambda app: app.inspect.stacks("w")),
        ],
    )
    def test_what_the_protocol_cannot_hold(self, app, engine, feature, act):
        engine.features -= {feature}
        with pytest.raises(UnsupportedFeature, match=f"'fake'.*'{feature.value}'"):
            act(app)
        assert engine.asked == []
