"""The rules of schedules: the next tick, missed ticks, jitter; and what is refused where a schedule is written."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenure import Cron, Every, Schedule, Tenure, UnsupportedFeature
from tenure.client.schedule import Policies, schedules_of, spec_of
from tenure.core import limits
from tenure.core.errors import InvalidArgument
from tenure.core.job import NewJob
from tenure.core.rates import LimitRule
from tenure.core.schedules import rules
from tenure.core.schedules.rules import Decision, decide
from tenure.core.schedules.schedule import NO_MORE, CatchUp, Overlap, ScheduleSpec, decode_spec, encode_spec
from tenure.core.shape import Shape
from tenure.protocols.hworker import Hworker
from tests.support.fakes import FakeRunner

MINUTE, HOUR, DAY = limits.MINUTE, limits.HOUR, limits.DAY
NOON = int(datetime(2026, 6, 1, 12, tzinfo=UTC).timestamp()) * 1000


def spec(**changes: Any) -> ScheduleSpec:
    return ScheduleSpec(**{"name": "s", "queue": "q", "every_ms": MINUTE, "window_ms": HOUR, **changes})


def daily(**changes: Any) -> ScheduleSpec:
    return spec(every_ms=0, cron="0 12 * * *", **changes)


def test_a_tick_in_time() -> None:
    assert decide(spec(), NOON, NOON) == Decision(NOON, NOON + MINUTE, 0)
    assert decide(daily(), NOON, NOON + 3_000) == Decision(NOON, NOON + DAY, 0)


@pytest.mark.parametrize(
    ("catch_up", "late_ms", "run", "next_", "missed"),
    [
        (CatchUp.ONE, 10 * MINUTE + 5, 10, 11, 10),
        (CatchUp.ONE, 3 * DAY, 3 * 24 * 60, 3 * 24 * 60 + 1, 3 * 24 * 60),
        (CatchUp.ALL, 10 * MINUTE + 5, 0, 1, 0),
        (CatchUp.ALL, 2 * HOUR, None, 60, 60),
        (CatchUp.SKIP, 10 * MINUTE + 5, 10, 11, 10),
    ],
)
def test_missed_ticks(catch_up: CatchUp, late_ms: int, run: int | None, next_: int, missed: int) -> None:
    run_ms = None if run is None else NOON + run * MINUTE
    assert decide(spec(catch_up=catch_up), NOON, NOON + late_ms) == Decision(run_ms, NOON + next_ * MINUTE, missed)


@pytest.mark.parametrize("catch_up", [CatchUp.ONE, CatchUp.ALL])
def test_a_tick_later_than_the_window_is_left_out(catch_up: CatchUp) -> None:
    assert decide(daily(catch_up=catch_up), NOON, NOON + HOUR) == Decision(NOON, NOON + DAY, 0)
    assert decide(daily(catch_up=catch_up), NOON, NOON + HOUR + 1) == Decision(None, NOON + DAY, 1)


def test_skip_allows_a_minute() -> None:
    assert decide(daily(catch_up=CatchUp.SKIP), NOON, NOON + MINUTE).run_ms == NOON
    assert decide(daily(catch_up=CatchUp.SKIP), NOON, NOON + MINUTE + 1) == Decision(None, NOON + DAY, 1)


def test_after_the_end_there_is_no_tick() -> None:
    ending = spec(end_ms=NOON + MINUTE)
    assert decide(ending, NOON, NOON) == Decision(NOON, NOON + MINUTE, 0)
    assert decide(ending, NOON + MINUTE, NOON + MINUTE) == Decision(NOON + MINUTE, NO_MORE, 0)
    late = decide(spec(end_ms=NOON + MINUTE, catch_up=CatchUp.ALL), NOON, NOON + 3 * HOUR)
    assert late == Decision(None, NO_MORE, 2)


def test_the_first_tick() -> None:
    assert rules.first(spec(), NOON) == NOON + MINUTE
    assert rules.first(spec(start_ms=NOON + 90_000), NOON) == NOON + 90_000
    # A tick of the replaced definition that is due and has not run belongs to the new one, if that has it.
    assert rules.first(daily(), NOON + 5, planned_ms=NOON) == NOON
    assert rules.first(spec(every_ms=0, cron="0 13 * * *"), NOON + 5, planned_ms=NOON) == NOON + HOUR
    # What has run does not run again.
    assert rules.first(daily(), NOON - 1, last_planned_ms=NOON) == NOON + DAY


def test_jitter_is_the_same_everywhere_and_below_its_limit() -> None:
    one = spec(jitter_ms=30_000)
    fires = [rules.fire_of(one, NOON + n * MINUTE) - NOON - n * MINUTE for n in range(200)]
    assert fires == [rules.fire_of(one, NOON + n * MINUTE) - NOON - n * MINUTE for n in range(200)]
    assert all(0 <= delay < 30_000 for delay in fires)
    assert len(set(fires)) > 150
    assert rules.fire_of(spec(jitter_ms=30_000, name="t"), NOON) != rules.fire_of(one, NOON)
    early, late = sorted("st", key=lambda name: rules.fire_of(spec(jitter_ms=30_000, name=name), NOON))
    now = rules.fire_of(spec(jitter_ms=30_000, name=early), NOON)
    assert decide(spec(jitter_ms=30_000, name=early), NOON - MINUTE, now).run_ms == NOON
    assert decide(spec(jitter_ms=30_000, name=late), NOON - MINUTE, now).run_ms == NOON - MINUTE
    assert rules.fire_of(one, NO_MORE) == NO_MORE


@pytest.mark.parametrize("seed", range(30))
def test_no_tick_is_lost_or_doubled_over_days_of_absences(seed: int) -> None:
    """A worker decides at random times. Each tick runs once, or is counted as left out."""
    rand = random.Random(seed)
    cron = rand.choice(["*/7 * * * *", "30 2 * * *", "0 9-17 * * mon-fri", "15,45 1,2,3 * * *"])
    one = spec(
        every_ms=0,
        cron=cron,
        tz=rand.choice(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
        catch_up=rand.choice(list(CatchUp)),
        window_ms=rand.choice([10 * MINUTE, HOUR, DAY]),
        jitter_ms=rand.choice([0, 0, 45_000]),
    )
    begin = int(datetime(2026, rand.choice([3, 10]), 20, tzinfo=UTC).timestamp()) * 1000
    planned, now, ran, missed = rules.first(one, begin), begin, [], 0
    window_ms = rules.SKIP_WINDOW_MS if one.catch_up is CatchUp.SKIP else one.window_ms
    while now < begin + 14 * DAY:
        now += rand.choice([1_000, MINUTE, 20 * MINUTE, 3 * HOUR])
        while planned and rules.fire_of(one, planned) <= now:
            chosen = decide(one, planned, now)
            assert chosen.next_ms > planned
            missed += chosen.missed
            if chosen.run_ms is not None:
                assert now - rules.fire_of(one, chosen.run_ms) <= window_ms
                ran.append(chosen.run_ms)
            planned = chosen.next_ms
    total = rules.count(one, begin, planned - 1)
    assert ran == sorted(set(ran))
    assert len(ran) + missed == total
    if one.catch_up is CatchUp.ALL and one.window_ms == DAY:
        assert missed == 0


def test_the_work_of_one_decision_is_bounded() -> None:
    each_second = spec(every_ms=0, cron="* * * * * *", window_ms=365 * DAY)
    chosen = decide(each_second, NOON, NOON + 300 * DAY)
    assert chosen.run_ms is not None
    assert chosen.missed <= rules.LOOK_MOST


def test_definitions_are_read_back() -> None:
    one = spec(payload=b"\x00\xff", shape=Shape(lane="l", lane_limit=2), headers={"a": "b"}, overlap=Overlap.CANCEL)
    assert decode_spec(encode_spec(one)) == one
    assert decode_spec(b'{"name":"s","queue":"q","every_ms":1000,"later":1}') == ScheduleSpec(
        name="s", queue="q", every_ms=1000
    )
    assert decode_spec(b"foreign") is None
    assert decode_spec(b'{"name":"s","queue":"q","overlap":"new"}') is None


def test_the_json_of_a_definition_has_its_fields_in_the_order_that_older_releases_digest() -> None:
    one = spec(source="shop:app", payload=b"[[],{}]", task="t", timeout_ms=5, retries=2, headers={"a": "b"})
    assert encode_spec(one) == (
        b'{"name":"s","queue":"q","every_ms":60000,"window_ms":3600000,"source":"shop:app","payload":"W1tdLHt9XQ==",'
        b'"task":"t","timeout_ms":5,"retries":2,"headers":{"a":"b"}}'
    )


# Where a schedule is written.

JOB = NewJob("q", "i", b"p")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"catch_up": "some"}, "catch_up must be one of one, all, skip"),
        ({"overlap": "no"}, "overlap must be one of skip, allow, queue, cancel"),
        ({"window": 0}, "window must be"),
        ({"jitter": -1}, "jitter must be"),
        ({"start": datetime(2026, 1, 1)}, "start must be a datetime with a time zone"),
        (
            {"start": datetime(2026, 1, 2, tzinfo=UTC), "end": datetime(2026, 1, 1, tzinfo=UTC)},
            "end must not be before",
        ),
        ({"name": ""}, "schedule name must be"),
        ({"name": "x" * 151}, "schedule name must be 1 to 150 characters"),
        ({"args": "abc"}, "args must be a tuple"),
        ({"using": {"delay": 5}}, "option must be one of"),
        ({"using": {"prio": 5}}, "option must be one of"),
    ],
)
def test_bad_schedules_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        Schedule(Every(minutes=5), **given)


def test_what_is_no_schedule_is_refused() -> None:
    for value in ("0 9 * * *", 5, Every, [Every(minutes=1), "x"]):
        with pytest.raises(InvalidArgument, match=r"schedule must be Cron"):
            schedules_of(value)
    with pytest.raises(InvalidArgument, match="several schedules of a task need different names"):
        schedules_of([Every(minutes=1), Every(minutes=2)])
    assert schedules_of(None) == ()
    assert schedules_of(Every(minutes=1)) == (Schedule(Every(minutes=1)),)


def test_a_schedule_that_is_never_due_is_refused() -> None:
    end = datetime(2026, 6, 1, 11, tzinfo=UTC)
    policies = Policies.of({"start": end - timedelta(hours=1), "end": end})
    with pytest.raises(InvalidArgument, match="never due between its start and its end"):
        spec_of("s", Cron("0 12 * * *"), policies, JOB)


def test_an_interval_that_counts_from_1970_may_have_an_end() -> None:
    end = datetime(2026, 6, 1, 12, tzinfo=UTC)
    one = spec_of("s", Every(minutes=5), Policies.of({"end": end}), JOB)
    assert (one.start_ms, one.end_ms) == (None, NOON)
    assert list(rules.ticks(one, NOON - 5 * MINUTE - 1)) == [NOON - 5 * MINUTE, NOON]


def test_ticks_of_an_interval_do_not_pass_each_other() -> None:
    """With a jitter above the interval a later tick could be due before an earlier one."""
    with pytest.raises(InvalidArgument, match="jitter must be at most the interval"):
        spec_of("s", Every(minutes=5), Policies.of({"jitter": 301}), JOB)
    assert spec_of("s", Every(minutes=5), Policies.of({"jitter": 300}), JOB).jitter_ms == 5 * MINUTE


def test_overlap_queue_is_a_lane() -> None:
    queued = Policies.of({"overlap": "queue"})
    assert spec_of("s", Every(minutes=1), queued, JOB).shape == Shape(lane="schedule:s")
    limited = Shape(limits=(LimitRule("x", concurrency=1),), share="a")
    job = NewJob("q", "i", b"p", shape=limited)
    assert spec_of("s", Every(minutes=1), queued, job).shape == replace(limited, lane="schedule:s")
    assert spec_of("s", Every(minutes=1), Policies(), job).shape == limited
    own = NewJob("q", "i", b"p", shape=Shape(lane="l"))
    assert spec_of("s", Every(minutes=1), queued, own).shape == Shape(lane="l")
    for shape in (Shape(priority=1), Shape(lane="l", lane_limit=2)):
        with pytest.raises(InvalidArgument, match='overlap="queue" cannot go with'):
            spec_of("s", Every(minutes=1), queued, NewJob("q", "i", b"p", shape=shape))


def test_jobs_with_a_delay_or_an_id_are_refused() -> None:
    for job in (
        NewJob("q", "i", b"", delay_ms=5),
        NewJob("q", "i", b"", own_id=True),
        NewJob("q", "i", b"", run_at_ms=5),
    ):
        with pytest.raises(InvalidArgument, match="its jobs cannot have"):
            spec_of("s", Every(minutes=1), Policies(), job)


def test_persistent_jobs_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="its jobs cannot be persistent"):
        spec_of("s", Every(minutes=1), Policies(), NewJob("q", "i", b"", shape=Shape(persistent=True)))


class TestApp:
    @pytest.fixture
    def app(self) -> Tenure:
        return Tenure("redis://nowhere.invalid", runner=FakeRunner())

    def test_schedules_of_tasks(self, app: Tenure) -> None:
        @app.task(name="sync", queue="feeds", priority=1, schedule=[
            Schedule(Every(minutes=5), name="eu", args=("eu",), overlap="cancel"),
            Schedule(Cron("@daily"), name="as", kwargs={"region": "as"}, using={"priority": 5, "headers": {"a": "b"}}),
        ])  # fmt: skip
        def sync(region: str) -> None: ...

        @app.task(name="tidy", schedule=Every(hours=1))
        def tidy() -> None: ...

        eu, asia = app.scheduled("m:app", ["feeds"])
        assert (eu.name, eu.queue, eu.task, eu.source, eu.overlap) == ("eu", "feeds", "sync", "m:app", Overlap.CANCEL)
        assert (eu.payload, eu.shape.priority, eu.every_ms) == (b'[["eu"],{}]', 1, 300_000)
        assert (asia.payload, asia.shape.priority, asia.headers) == (b'[[],{"region":"as"}]', 5, {"a": "b"})
        assert [one.name for one in app.scheduled("m:app", ["default"])] == ["tidy"]

    def test_arguments_are_checked_where_the_task_is_defined(self, app: Tenure) -> None:
        with pytest.raises(InvalidArgument, match="tidy"):

            @app.task(name="tidy", schedule=Schedule(Every(hours=1), args=(1, 2)))
            def tidy() -> None: ...

        with pytest.raises(InvalidArgument, match="schedule must be Cron"):

            @app.task(name="report", schedule="0 9 * * *")  # type: ignore[arg-type]
            def report() -> None: ...

    def test_two_schedules_of_a_queue_need_different_names(self, app: Tenure) -> None:
        @app.task(name="a", schedule=Schedule(Every(hours=1), name="x"))
        def a() -> None: ...

        @app.task(name="b", schedule=Schedule(Every(hours=1), name="x"))
        def b() -> None: ...

        with pytest.raises(InvalidArgument, match="Two schedules of queue 'default' are called 'x'"):
            app.scheduled("m:app", ["default"])

    def test_a_schedule_has_the_earlier_names_of_its_task_unless_it_has_a_name_of_its_own(self, app: Tenure) -> None:
        @app.task(name="a", schedule=Every(hours=1), accepts=["a1", "a2", "nightly"])
        def a() -> None: ...

        @app.task(name="c", schedule=Schedule(Every(hours=1), name="own"), accepts=["c1"])
        def c() -> None: ...

        @app.task(name="b", schedule=Schedule(Every(hours=1), name="nightly"))
        def b() -> None: ...

        found = {one.name: one.earlier for one in app.scheduled("m:app", ["default"])}
        assert found == {"a": ("a1", "a2"), "own": (), "nightly": ()}

    def test_other_wire_formats_refuse_schedules_where_they_are_written(self) -> None:
        app = Tenure("redis://nowhere.invalid", protocol=Hworker("h"), runner=FakeRunner())
        with pytest.raises(UnsupportedFeature, match="does not support schedules"):
            app.task(schedule=Every(hours=1))
        with pytest.raises(UnsupportedFeature, match="does not support schedules"):
            app.schedules.add("s", b"p", Every(hours=1), queue="q")

    def test_enqueue_middleware_does_not_see_the_jobs_of_schedules(self, app: Tenure) -> None:
        @app.enqueue_middleware
        def fail(job: object) -> None:
            raise AssertionError

        @app.task(name="tidy", schedule=Every(hours=1))
        def tidy() -> None: ...

        assert len(app.scheduled("m:app", ["default"])) == 1
