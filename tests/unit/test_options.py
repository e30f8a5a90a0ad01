"""What can be asked for a job: lanes, priorities, unique keys, persistence; over an engine that only remembers."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tenure import Debounce, Every, Limit, NotUnique, Tenure, Throttle, Unique
from tenure.app.handlers import MAX_BATCH_SIZE
from tenure.client.options import ShapeOptions, UsingOptions
from tenure.client.unique import MAX_WINDOW_MS
from tenure.core import limits
from tenure.core.engine import Feature
from tenure.core.errors import DuplicateJob, InvalidArgument, UnsupportedFeature
from tenure.core.job import Enqueued
from tenure.core.names import MAX_UNIQUE_KEY
from tenure.core.shape import PLAIN, Conflict, Shape, UniqueRule, Until
from tenure.core.task import BatchRule
from tenure.engines.native.records import read_record, write_record
from tests.support.fakes import FakeEngine, FakeRunner, double, recorder

YEARS = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def engine() -> FakeEngine:
    return recorder()


@pytest.fixture
def app(engine: FakeEngine) -> Tenure:
    return Tenure("redis://nowhere.invalid", protocol=engine, runner=FakeRunner())


def key_of(engine: FakeEngine, position: int = -1) -> str:
    rule = engine.enqueued[position].shape.unique
    assert rule is not None
    return rule.key


class TestShapes:
    def test_plain(self, app, engine):
        app.task(double).enqueue(1)
        app.queue("q").enqueue(b"x")
        assert [job.shape for job in engine.enqueued] == [PLAIN, PLAIN]

    def test_of_a_task(self, app, engine):
        task = app.task(double)
        task.using(lane="user:42").enqueue(1)
        task.using(lane="user:42", lane_limit=3).enqueue(1)
        task.using(priority=-100).enqueue(1)
        task.using(priority=100).enqueue(1)
        task.using(unique="cat.png").enqueue(1)
        task.using(persistent=True).enqueue(1)
        assert [job.shape for job in engine.enqueued] == [
            Shape(lane="user:42"),
            Shape(lane="user:42", lane_limit=3),
            Shape(priority=-100),
            Shape(priority=100),
            Shape(unique=UniqueRule("k:cat.png")),
            Shape(persistent=True),
        ]

    async def test_of_a_queue(self, app, engine):
        queue = app.queue("q")
        queue.enqueue(b"1", lane="a", id="x", delay=1)
        await queue.aenqueue(b"2", priority=3)
        queue.enqueue_many([b"3", b"4"], lane="b", retries=0)
        await queue.aenqueue_many([b"5"], persistent=True)
        assert [job.shape for job in engine.enqueued] == [
            Shape(lane="a"),
            Shape(priority=3),
            Shape(lane="b"),
            Shape(lane="b"),
            Shape(persistent=True),
        ]
        assert [job.retries for job in engine.enqueued] == [None, None, 0, 0, None]

    def test_defaults_of_a_task(self, app, engine):
        task = app.task(lane="mail", lane_limit=4, unique="one")(double)
        task.enqueue(1)
        task.using(lane="other").enqueue(1)
        task.using(lane_limit=2, unique="two").enqueue(1)
        task.using(lane=None, unique=None, priority=7).enqueue(1)
        task.using(unique=False).enqueue(1)
        rule = UniqueRule("k:one")
        assert [job.shape for job in engine.enqueued] == [
            Shape(lane="mail", lane_limit=4, unique=rule),
            Shape(lane="other", lane_limit=4, unique=rule),
            Shape(lane="mail", lane_limit=2, unique=UniqueRule("k:two")),
            Shape(priority=7),
            Shape(lane="mail", lane_limit=4),
        ]

    def test_what_many_share_is_over_the_task_and_below_the_call(self, app, engine):
        task = app.task(priority=1, unique="one")(double)
        shared = task.using(unique=None, priority=2)
        shared.enqueue_many([task.call(1), task.using(priority=3).call(2), task.using(unique="two").call(3)])
        assert [job.shape for job in engine.enqueued] == [
            Shape(priority=2),
            Shape(priority=3),
            Shape(priority=2, unique=UniqueRule("k:two")),
        ]

    def test_a_later_wish_counts(self, app, engine):
        task = app.task(double)
        task.using(lane="a", lane_limit=5).using(lane=None).using(priority=1).using(priority=0).enqueue(1)
        task.using(persistent=True).using(persistent=False).enqueue(1)
        task.using(lane="a").using(lane_limit=None, priority=None, persistent=None).enqueue(1)
        assert [job.shape for job in engine.enqueued] == [PLAIN, PLAIN, Shape(lane="a")]


class TestRefused:
    @pytest.mark.parametrize(
        "options",
        [
            {"lane": ""},
            {"lane": "x" * 201},
            {"lane": "a\nb"},
            {"lane": 5},
            {"lane_limit": 0, "lane": "a"},
            {"lane_limit": limits.MAX_LANE_LIMIT + 1, "lane": "a"},
            {"lane_limit": True, "lane": "a"},
            {"lane_limit": 2},
            {"priority": 101},
            {"priority": -101},
            {"priority": 1.5},
            {"priority": True},
            {"unique": 5},
            {"unique": ""},
            {"unique": "a\x00"},
            {"unique": Unique},
            {"persistent": 1},
            {"dealy": 5},
            {"lane": "a", "priority": 1},
            {"lane": "a", "priority": -1},
        ],
    )
    def test_by_task_and_queue(self, app, engine, options):
        field = next(iter(options))
        with pytest.raises(InvalidArgument, match=field):
            app.task(double).using(**options)
        with pytest.raises(InvalidArgument, match=field):
            app.queue("q").enqueue(b"", **options)
        with pytest.raises(InvalidArgument, match=field):
            app.queue("q").enqueue_many([b""], **options)
        with pytest.raises(InvalidArgument, match=field):
            app.task(name="other", **options)(double)
        assert engine.enqueued == []

    @pytest.mark.parametrize("unique", [Debounce(5), Unique(on_conflict="rerun")])
    @pytest.mark.parametrize("delay", [{"delay": 1}, {"run_after": YEARS}])
    def test_what_waits_by_itself_has_no_delay(self, app, engine, unique, delay):
        task = app.task(double)
        with pytest.raises(InvalidArgument, match="delay"):
            task.using(unique=unique, **delay)
        with pytest.raises(InvalidArgument, match="delay"):
            task.using(**delay).enqueue_many([task.using(unique=unique).call(1)])
        with pytest.raises(InvalidArgument, match="delay"):
            app.queue("q").enqueue(b"", unique=unique, **delay)
        task.using(delay=5).using(unique=unique, delay=0).enqueue(1)
        assert len(engine.enqueued) == 1

    def test_lane_and_priority_met_in_bulk(self, app, engine):
        task = app.task(double)
        with pytest.raises(InvalidArgument, match="lane 'a' and priority 5"):
            task.using(priority=5).enqueue_many([task.call(1), task.using(lane="a").call(2)])
        with pytest.raises(InvalidArgument, match="lane=None"):
            app.task(name="other", lane="a")(double).using(priority=5)
        assert engine.enqueued == []

    @pytest.mark.parametrize(
        "act",
        [
            lambda app: app.queue("q").enqueue(b"", queue="other"),
            lambda app: app.queue("q").enqueue_many([b""], id="x"),
            lambda app: app.task(delay=5)(double),
            lambda app: app.task(id="x")(double),
        ],
    )
    def test_options_of_other_places(self, app, act):
        with pytest.raises(InvalidArgument, match=r"option must be one of .*, got '(queue|id|delay)'"):
            act(app)

    @pytest.mark.parametrize(
        ("feature", "options"),
        [
            (Feature.LANES, {"lane": "a"}),
            (Feature.PRIORITIES, {"priority": 1}),
            (Feature.UNIQUE, {"unique": True}),
            (Feature.UNIQUE, {"unique": Throttle(5)}),
            (Feature.UNIQUE_KEYS, {"unique": Throttle(5)}),
            (Feature.UNIQUE_KEYS, {"unique": "key"}),
            (Feature.DELAY, {"unique": Debounce(5)}),
            (Feature.PERSISTENT, {"persistent": True}),
        ],
    )
    def test_what_the_protocol_cannot_hold(self, app, engine, feature, options):
        engine.features -= {feature}
        task = app.task(**options)(double)
        for act in (
            lambda: task.enqueue(1),
            lambda: task.enqueue_many([task.call(1)]),
            lambda: app.queue("q").enqueue(b"", **options),
        ):
            with pytest.raises(UnsupportedFeature, match=f"'fake'.*'{feature.value}'"):
                act()
        assert engine.enqueued == []
        task.using(lane=None, priority=0, unique=None, persistent=False).enqueue(1)
        assert engine.enqueued[0].shape == PLAIN


OPTIONS: dict[str, Any] = {
    "id": "mine",
    "queue": "other",
    "delay": 5,
    "run_after": YEARS,
    "timeout": 5,
    "retries": 1,
    "headers": {"tenant": "é 7"},
    "lane": "user 42",
    "lane_limit": 2,
    "priority": -5,
    "unique": "the key",
    "persistent": True,
    "limits": [Limit("mail", per_second=2, per_day=50), Limit("gpu", concurrency=4, cost=2)],
    "share": "tenant 7",
    "expires": 30,
    "on_failed": lambda task: task.call(2),
    "at_most_once": True,
}
"""A value of each option that a job has; for some, what makes it for a task."""


def option(name: str, task: Any) -> dict[str, Any]:
    value = OPTIONS[name]
    return {name: value(task) if callable(value) else value}


class TestEveryOption:
    def test_each_is_here(self):
        assert OPTIONS.keys() == UsingOptions.__annotations__.keys() - {"durable"}
        assert {one.name for one in fields(Shape)} - {"flow"} == ShapeOptions.__annotations__.keys()

    @pytest.mark.parametrize("name", OPTIONS)
    def test_reaches_the_job_and_its_record(self, app, engine, name):
        task = app.task(double)
        plain = {"lane": "a"} if name == "lane_limit" else {}
        task.using(**plain).enqueue(1)
        task.using(**plain, **option(name, task)).enqueue(1)
        before, job = engine.enqueued
        assert replace(job, id=before.id) != before
        record = read_record(job.queue, b"a", b"1760000000000000000 " + write_record(job))
        assert (record.spec(), record.payload, record.malformed) == (job.spec(), job.payload, "")

    def test_the_wire_format_names_the_feature_of_each(self, app, engine):
        task = app.task(double)
        engine.features -= frozenset(Feature) - {Feature.TASKS}
        task.enqueue(1)
        for name in OPTIONS.keys() - {"queue", "lane_limit"}:
            with pytest.raises(UnsupportedFeature):
                task.using(**option(name, task)).enqueue(1)


class TestExpires:
    def test_seconds_count_from_the_enqueue_and_a_time_is_a_time(self, app, engine):
        task = app.task(double, expires=timedelta(minutes=1))
        soon = datetime(2100, 1, 1, tzinfo=UTC)
        for one in (task, task.using(expires=0.5), task.using(expires=soon), task.using(expires=None)):
            one.enqueue(1)
        assert [job.shape.expires for job in engine.enqueued] == ["+60000", "+500", "4102444800000", None]
        assert Shape(expires="+500").expires_ms(1_000) == 1_500

    @pytest.mark.parametrize(
        "options",
        [
            {"expires": 0},
            {"expires": -1},
            {"expires": "soon"},
            {"expires": datetime(2020, 1, 1, tzinfo=UTC)},
            {"expires": datetime(2100, 1, 1)},
            {"expires": 5, "delay": 5},
            {"expires": datetime(2100, 1, 1, tzinfo=UTC), "run_after": datetime(2100, 1, 2, tzinfo=UTC)},
            {"expires": 5, "persistent": True},
        ],
    )
    def test_refused(self, app, engine, options):
        with pytest.raises(InvalidArgument, match="expires"):
            app.task(double).using(**options).enqueue(1)

    def test_a_schedule_counts_from_its_ticks(self, app, engine):
        task = app.task(double, expires=datetime(2100, 1, 1, tzinfo=UTC))
        with pytest.raises(InvalidArgument, match="expires must be seconds, which count from each tick"):
            app.schedules.add("s", task.call(1), Every(hours=1))


class TestAtMostOnce:
    def test_there_are_no_retries(self, app, engine):
        once = app.task(double, at_most_once=True)
        once.enqueue(1)
        once.using(at_most_once=False).enqueue(1)
        assert [job.retries for job in engine.enqueued] == [0, None]
        for options, other in (({"retries": 2}, "retries=2"), ({"persistent": True}, "persistent")):
            with pytest.raises(InvalidArgument, match=f"at_most_once cannot go with {other}"):
                once.using(**options).enqueue(1)


class TestUnique:
    @pytest.mark.parametrize(
        ("wish", "rule"),
        [
            ("x", UniqueRule("k:x")),
            (Unique("x"), UniqueRule("k:x")),
            (Unique("x", until="started"), UniqueRule("k:x", Until.STARTED)),
            (Unique("x", until="ended"), UniqueRule("k:x")),
            (Unique("x", until=1.5), UniqueRule("k:x", Until.WINDOW, window_ms=1_500)),
            (Unique("x", until=timedelta(days=365)), UniqueRule("k:x", Until.WINDOW, window_ms=MAX_WINDOW_MS)),
            (Unique("x", on_conflict="existing"), UniqueRule("k:x", conflict=Conflict.EXISTING)),
            (Unique("x", on_conflict="replace"), UniqueRule("k:x", conflict=Conflict.REPLACE)),
            (Unique("x", on_conflict="rerun"), UniqueRule("k:x", conflict=Conflict.RERUN)),
            (Throttle(60, "x"), UniqueRule("k:x", Until.WINDOW, Conflict.EXISTING, window_ms=60_000)),
            (Debounce(5, "x"), UniqueRule("k:x", Until.STARTED, Conflict.POSTPONE, wait_ms=5_000)),
        ],
    )
    def test_on_the_wire(self, app, engine, wish, rule):
        app.task(double).using(unique=wish).enqueue(1)
        app.queue("q").enqueue(b"", unique=wish)
        assert [job.shape.unique for job in engine.enqueued] == [rule, rule]
        assert [job.delay_ms for job in engine.enqueued] == [rule.wait_ms, rule.wait_ms]

    @pytest.mark.parametrize(
        "make",
        [
            lambda: Unique(""),
            lambda: Unique(5),  # type: ignore[arg-type]
            lambda: Unique("x" * 201),
            lambda: Unique(until="window"),  # type: ignore[arg-type]
            lambda: Unique(until="later"),  # type: ignore[arg-type]
            lambda: Unique(until=0),
            lambda: Unique(until=None),  # type: ignore[arg-type]
            lambda: Unique(until=True),
            lambda: Unique(until=timedelta(days=366)),
            lambda: Unique(on_conflict="postpone"),  # type: ignore[arg-type]
            lambda: Unique(on_conflict="x"),  # type: ignore[arg-type]
            lambda: Unique(on_conflict=None),  # type: ignore[arg-type]
            lambda: Unique(on_conflict="rerun", until="started"),
            lambda: Unique(on_conflict="rerun", until=60),
            lambda: Debounce(0),
            lambda: Debounce(0.0004),
            lambda: Debounce("5"),  # type: ignore[arg-type]
            lambda: Debounce(5, ""),
            lambda: Throttle(-1),
            lambda: Throttle(float("nan")),
            lambda: Throttle(timedelta(days=366)),
            lambda: Throttle(5, "\n"),
        ],
    )
    def test_refused_when_it_is_made(self, make):
        with pytest.raises(InvalidArgument, match=r"key|until|on_conflict|seconds"):
            make()

    @pytest.mark.parametrize("wish", [True, Unique(), Throttle(1), Debounce(1)])
    def test_by_the_arguments(self, app, engine, wish):
        task, other = app.task(double).using(unique=wish), app.task(name="other")(double).using(unique=wish)
        task.enqueue(1, b=2)
        for same in (lambda: task.enqueue(1, 2), lambda: task.enqueue(b=2, a=1)):
            same()
            assert key_of(engine) == key_of(engine, 0)
        for different in (lambda: task.enqueue(1), lambda: task.enqueue(2, 1), lambda: other.enqueue(1, 2)):
            different()
            assert key_of(engine) != key_of(engine, 0)

    def test_a_default_counts_as_if_it_was_passed(self, app, engine):
        @app.task(name="defaults", unique=True)
        def task(
            a, /, b: int = 1, *more: int, when: datetime = datetime(2020, 1, 1), own: Any = object, **rest: int
        ) -> None: ...

        task.enqueue(5)
        for same in (
            lambda: task.enqueue(5, 1),
            lambda: task.enqueue(5, b=1),
            lambda: task.enqueue(5, when=datetime(2020, 1, 1)),
            lambda: task.enqueue(5, 1, when=datetime(2020, 1, 1)),
        ):
            same()
            assert key_of(engine) == key_of(engine, 0)
        for different in (
            lambda: task.enqueue(5, 2),
            lambda: task.enqueue(5, 1, 1),
            lambda: task.enqueue(5, when=datetime(2020, 1, 2)),
            lambda: task.enqueue(5, own=1),
            lambda: task.enqueue(5, c=1),
        ):
            different()
            assert key_of(engine) != key_of(engine, 0)

    def test_the_same_in_every_process(self, app, engine):
        app.task(name="two")(double).using(unique=True).enqueue(1, 2)
        assert key_of(engine) == "a:8714bf3d06d9f3446872f63fb6b3bbff"

    def test_the_order_within_an_argument(self, app, engine):
        @app.task(name="keep", unique=True)
        def keep(*rows: dict[str, Any], **more: Any) -> None: ...

        keep.enqueue({"a": 1, "b": [2]}, x=1, y=2)
        keep.enqueue({"b": [2], "a": 1}, y=2, x=1)
        keep.enqueue({"a": 1, "b": [2]}, {}, x=1, y=2)
        first, second, third = (job.shape.unique for job in engine.enqueued)
        assert first == second != third

    def test_raw_payloads(self, app, engine):
        queue = app.queue("q")
        queue.enqueue_many([b"a", "a", b"b"], unique=True)
        first, second, third = (job.shape.unique for job in engine.enqueued)
        assert first == second != third

    def test_an_own_key_is_no_digest(self, app, engine):
        queue = app.queue("q")
        queue.enqueue(b"a", unique=True)
        queue.enqueue(b"b", unique=key_of(engine))
        assert key_of(engine, 1) == f"k:{key_of(engine, 0)}"

    def test_the_longest_key(self, app, engine):
        app.queue("q").enqueue(b"", unique="ä" * MAX_UNIQUE_KEY)
        assert len(key_of(engine)) == MAX_UNIQUE_KEY + 2


class TestConflicts:
    def test_reject(self, app, engine):
        engine.others["mine"] = Enqueued("other", False, Conflict.REJECT)
        with pytest.raises(NotUnique, match="'other'") as caught:
            app.queue("q").enqueue(b"", id="mine", unique="x")
        assert (caught.value.other, caught.value.queue) == ("other", "q")
        assert isinstance(caught.value, DuplicateJob)

    async def test_reject_async(self, app, engine):
        engine.others["mine"] = Enqueued("other", False, Conflict.REJECT)
        with pytest.raises(NotUnique):
            await app.task(double).using(id="mine", unique="x").aenqueue(1)

    @pytest.mark.parametrize("conflict", set(Conflict) - {Conflict.REJECT})
    def test_a_handle_of_the_other(self, app, engine, conflict):
        engine.others["mine"] = Enqueued("other", False, conflict)
        job = app.task(double).using(id="mine", unique=Unique("x")).enqueue(1)
        assert (job.id, job.created, job.conflict) == ("other", False, conflict)

    def test_none(self, app):
        job = app.task(double).using(unique="x").enqueue(1)
        assert (job.created, job.conflict) == (True, None)

    def test_in_bulk(self, app, engine):
        engine.others["b"] = Enqueued("other", False, Conflict.REJECT)
        task = app.task(double).using(unique=True)
        jobs = task.enqueue_many(task.using(id=id).call(n) for n, id in enumerate("abc"))
        assert [(job.id, job.created, job.conflict) for job in jobs] == [
            ("a", True, None),
            ("other", False, Conflict.REJECT),
            ("c", True, None),
        ]


class TestPersistent:
    def test_timeouts(self, app, engine):
        plain, timed = app.task(double), app.task(name="timed", timeout=30)(double)
        always = app.task(name="always", persistent=True)(double)
        slow = app.task(name="slow", persistent=True, timeout=3600)(double)
        for job in (
            plain.using(persistent=True),
            timed.using(persistent=True),
            plain.using(persistent=True, timeout=5),
            always,
            always.using(timeout=5),
            slow,
        ):
            job.enqueue(1)
        assert [job.timeout_ms for job in engine.enqueued] == [0, 30_000, 5_000, 0, 5_000, None]
        assert [task.spec.timeout_ms for task in (plain, timed, always, slow)] == [3_600_000, 30_000, None, 3_600_000]

    def test_raw(self, app, engine):
        app.handler("timed", timeout=30)(lambda job: None)
        app.handler("plain")(lambda job: None)
        for queue in ("timed", "plain", "unknown"):
            app.queue(queue).enqueue(b"", persistent=True)
        assert [job.timeout_ms for job in engine.enqueued] == [30_000, 0, 0]

    def test_a_protocol_without_timeouts(self, app, engine):
        engine.features -= {Feature.TIMEOUT}
        app.queue("q").enqueue(b"", persistent=True)
        assert engine.enqueued[0].timeout_ms is None


class TestBatches:
    @pytest.mark.parametrize(
        ("options", "rule"),
        [
            ({}, None),
            ({"batch": 50}, BatchRule(50)),
            ({"batch": 1, "linger": 0.2}, BatchRule(1, 200)),
            ({"batch": 500, "linger": timedelta(minutes=1), "one_lane": True}, BatchRule(500, 60_000, True)),
        ],
    )
    def test_rules(self, app, options, rule):
        assert app.handler("events", **options)(lambda jobs: None).spec.batch == rule

    @pytest.mark.parametrize(
        "options",
        [
            {"batch": 0},
            {"batch": MAX_BATCH_SIZE + 1},
            {"batch": "5"},
            {"linger": 0.2},
            {"linger": 0},
            {"linger": -1, "batch": 5},
            {"linger": 61, "batch": 5},
            {"one_lane": True},
            {"one_lane": 1, "batch": 5},
        ],
    )
    def test_refused(self, app, options):
        with pytest.raises(InvalidArgument, match=next(iter(options))):
            app.handler("events", **options)

    def test_one_lane_needs_lanes(self, app, engine):
        engine.features -= {Feature.LANES}
        with pytest.raises(UnsupportedFeature, match="lanes"):
            app.handler("events", batch=5, one_lane=True)
