"""Limits and shares as they are written in code; over an engine that only remembers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tenure import InvalidArgument, Limit, LimitRule, RateLimited, Tenure, UnsupportedFeature
from tenure.client.limit import MAX_LIMITS, interval_of
from tenure.core.job import JobRecord, Lease
from tenure.core.names import filled_name, limit_name
from tenure.core.outcome import Retried
from tenure.core.rates import MAX_REST_MS, names_limit
from tenure.core.shape import PLAIN, Shape
from tenure.core.values import replace
from tenure.runtime.jobs import outcomes
from tenure.runtime.jobs.held import Held
from tests.runtime.fakes import task
from tests.support.fakes import FakeEngine, FakeRunner, recorder

STRIPE = Limit("stripe", per_second=10, burst=20)
STRIPE_RULE = LimitRule("stripe", 1, None, 100_000, 20)


@pytest.fixture
def engine() -> FakeEngine:
    return recorder()


@pytest.fixture
def app(engine: FakeEngine) -> Tenure:
    return Tenure("redis://nowhere.invalid", protocol=engine, runner=FakeRunner())


def charge(tenant: str, amount: int = 1, *, user: object = None) -> None: ...


def last(engine: FakeEngine) -> Shape:
    shape: Shape = engine.enqueued[-1].shape
    return shape


def test_the_rates_become_intervals():
    assert interval_of({"per_second": 10}) == 100_000
    assert interval_of({"per_second": 3}) == 333_334, "rounded up: never faster than the rate"
    assert interval_of({"per_minute": 1}) == 60_000_000
    assert interval_of({"per_hour": 7, "per_day": None}) == 514_285_715
    assert interval_of({"per_day": 24}) == 3_600_000_000
    assert interval_of({"per_second": 0.5}) == 2_000_000
    assert interval_of({"per_second": 0.1}) == 10_000_000
    assert interval_of({"per_second": 100_000}) == 10
    assert interval_of({"per_hour": None}) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "per_second, per_minute, per_hour, per_day or concurrency"),
        ({"per_second": 0}, "Limit: per_second must be a number above 0"),
        ({"per_second": 100_001}, "Limit: per_second must be a number above 0, at most 100,000"),
        ({"per_minute": float("nan")}, "Limit: per_minute must be a number"),
        ({"per_hour": True}, "Limit: per_hour must be a number"),
        ({"per_hour": float("inf")}, "Limit: per_hour must be a number"),
        ({"per_day": 0.01}, "Limit: per_day must be a number above 0, at most .* one start in 30 days"),
        ({"per_day": "7"}, "Limit: per_day must be a number"),
        ({"concurrency": 0}, "Limit: concurrency must be a whole number from 1"),
        ({"per_second": 1, "burst": 0}, "Limit: burst must be a whole number from 1"),
        ({"concurrency": 1, "burst": 2}, "Limit: burst must be given with one of per_second"),
        ({"concurrency": 4, "cost": 5}, "Limit: cost must be at most the concurrency"),
        ({"per_second": 4, "cost": 2}, "Limit: cost must be at most the burst"),
        ({"concurrency": 4, "cost": 0}, "Limit: cost must be a whole number from 1"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(options, message):
    with pytest.raises(InvalidArgument, match=message):
        Limit("name", **options)


@pytest.mark.parametrize(
    "name", ["", 7, "x\n", "x" * 201, "{", "{}", "{a.b}", "{a!r}", "{a:>3}", "{0}", "{{a}}", "a}}"]
)
def test_a_name_is_text_in_which_braces_hold_arguments(name: Any):
    with pytest.raises(InvalidArgument, match="Limit: name"):
        Limit(name, concurrency=1)


class TestTasks:
    def test_limits_of_a_task_and_of_one_call(self, app, engine):
        pay = app.task(limits=[STRIPE])(charge)
        pay.enqueue("a")
        assert last(engine) == Shape(limits=(STRIPE_RULE,))
        pay.using(limits=[Limit("gpu", concurrency=4, cost=2)]).enqueue("a")
        assert last(engine).limits == (LimitRule("gpu", 2, 4),)
        pay.using(limits=[]).enqueue("a")
        assert last(engine) is PLAIN

    def test_names_are_filled_from_the_arguments_of_the_call(self, app, engine):
        pay = app.task(limits=[Limit("tenant:{tenant}:{amount}", concurrency=3)])(charge)
        pay.enqueue("a")
        pay.enqueue(tenant="b", amount=2)
        assert [job.shape.limits[0].name for job in engine.enqueued] == ["tenant:a:1", "tenant:b:2"]

    def test_of_two_limits_with_the_same_name_the_first_counts(self, app, engine):
        found = [Limit("{tenant}", concurrency=3), Limit("a", concurrency=1)]
        app.task(limits=found)(charge).enqueue("a")
        assert last(engine).limits == (LimitRule("a", 1, 3),)

    def test_a_name_that_mentions_no_argument_is_refused_where_it_is_written(self, app):
        with pytest.raises(InvalidArgument, match=r"arguments of task .*tenant, amount, user.*customer"):
            app.task(limits=[Limit("customer:{customer}", concurrency=3)])(charge)
        with pytest.raises(InvalidArgument, match="customer"):
            app.task(charge).using(share="{customer}")

    def test_an_argument_that_is_no_plain_value_is_refused(self, app, engine):
        pay = app.task(limits=[Limit("user:{user}", concurrency=3)])(charge)
        with pytest.raises(InvalidArgument, match="argument 'user' must be text, a number or a bool, got list"):
            pay.enqueue("a", user=[1])
        with pytest.raises(InvalidArgument, match="argument 'user'"):
            pay.enqueue("a")
        assert engine.enqueued == []

    @pytest.mark.parametrize("share", [False, True])
    @pytest.mark.parametrize(
        ("tenant", "name"),
        [
            ("a{b}", "a%7Bb%7D"),
            ("two\nlines", "two%0Alines"),
            ("50% ü", "50% ü"),
            ("\x00\u2028", "%00%E2%80%A8"),
            ("", "%"),
        ],
    )
    def test_an_argument_of_any_text_makes_a_name(self, app, engine, tenant, name, share):
        options = {"share": "{tenant}"} if share else {"limits": [Limit("{tenant}", concurrency=3)]}
        app.task(**options)(charge).enqueue(tenant)
        shape = last(engine)
        assert (shape.share if share else shape.limits[0].name) == name
        assert limit_name(name) == name, "a name as it is listed can be given back"

    def test_a_long_argument_makes_a_name_that_ends_in_a_digest(self, app, engine):
        pay = app.task(limits=[Limit("tenant:{tenant}", concurrency=3)])(charge)
        for tenant in ("x" * 300, "x" * 300, "x" * 299 + "y", "{" * 10_000):
            pay.enqueue(tenant)
        first, again, other, _ = (job.shape.limits[0].name for job in engine.enqueued)
        assert first == again != other
        assert {len(job.shape.limits[0].name) for job in engine.enqueued} == {200}
        assert RateLimited(retry_after=1, limit="tenant:" + "x" * 300).limit == first

    def test_a_limit_with_several_rates_is_one_for_each(self, app, engine):
        found = [Limit("mail:{tenant}", per_day=5_000, per_second=2, burst=3, concurrency=7)]
        app.task(limits=found)(charge).enqueue("a")
        assert last(engine).limits == (
            LimitRule("mail:a", 1, 7, 500_000, 3),
            LimitRule("mail:a per day", 1, None, 17_280_000, 5_000),
        )
        assert [rule.template for rule in found[0].unfilled] == ["mail:{tenant}", "mail:{tenant} per day"]

    def test_shares(self, app, engine):
        pay = app.task(share="tenant:{tenant}")(charge)
        pay.enqueue("a")
        assert last(engine) == Shape(share="tenant:a")
        pay.using(share=None).enqueue("a")
        assert last(engine) is PLAIN

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"limits": [STRIPE], "priority": 5}, "limits and priority 5 cannot both be given"),
            ({"share": "a", "priority": 5}, "share and priority 5 cannot both be given"),
            ({"share": "a", "lane": "b"}, "share 'a' and lane 'b' cannot both be given"),
            ({"limits": STRIPE}, "limits must be a list"),
            ({"limits": "stripe"}, "limits must be a list"),
            ({"limits": ["stripe"]}, "limits must be a list"),
            ({"limits": [STRIPE, STRIPE]}, "limits with different names"),
            ({"limits": [Limit(str(n), concurrency=1) for n in range(MAX_LIMITS + 1)]}, "at most 8, got 9"),
            ({"share": ""}, "share must be 1 to 200 characters"),
        ],
    )
    def test_what_contradicts_itself_is_refused(self, app, options, message):
        with pytest.raises(InvalidArgument, match=message):
            app.task(**options)(charge)


class TestQueues:
    def test_limits_of_a_queue_are_added_to_those_of_its_jobs(self, app, engine):
        app.queue_defaults("default", limits=[Limit("queue", concurrency=9)])
        app.task(limits=[STRIPE])(charge).enqueue("a")
        assert last(engine).limits == (STRIPE_RULE, LimitRule("queue", 1, 9))
        app.queue("default").enqueue(b"raw")
        assert last(engine).limits == (LimitRule("queue", 1, 9),)
        app.queue("other").enqueue(b"raw")
        assert last(engine) is PLAIN

    def test_jobs_of_a_queue_with_limits_have_no_priority(self, app):
        app.queue_defaults("default", limits=[STRIPE])
        with pytest.raises(InvalidArgument, match="has limits"):
            app.queue("default").enqueue(b"raw", priority=3)

    def test_a_raw_payload_has_no_arguments(self, app):
        with pytest.raises(InvalidArgument, match="needs the argument 'tenant'"):
            app.queue("q").enqueue({"tenant": "a"}, limits=[Limit("{tenant}", concurrency=1)])


@pytest.mark.parametrize("protocol", ["redis-work-queue:x", "queue-farm:x", "worqr:x", "hworker:x"])
def test_other_protocols_refuse_limits_where_they_are_defined(protocol: str):
    app = Tenure("redis://nowhere.invalid", protocol=protocol)
    with pytest.raises(UnsupportedFeature, match="limits of rate or concurrency"):
        app.queue_defaults("default", limits=[STRIPE])
    with pytest.raises(UnsupportedFeature, match="limits of rate or concurrency"):
        app.task(limits=[STRIPE])(charge)
    with pytest.raises(UnsupportedFeature, match="fair shares"):
        app.task(share="a")(charge)
    with pytest.raises(UnsupportedFeature):
        app.limits.get("stripe")


class TestStored:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({}, "per_second, per_minute, per_hour, per_day, burst or concurrency"),
            ({"per_second": 0}, "per_second must be a number above 0"),
            ({"concurrency": 0}, "concurrency must be a whole number from 1"),
            ({"burst": 0}, "burst must be a whole number from 1"),
            ({"per_second": 1, "per_hour": 1}, "one of per_second, per_minute, per_hour"),
        ],
    )
    def test_bad_numbers_are_refused(self, app, options, message):
        with pytest.raises(InvalidArgument, match=message):
            app.limits.set("stripe", **options)

    @pytest.mark.parametrize("name", ["", 7, "tenant:{tenant}", "{", "a}"])
    def test_a_name_is_one_that_jobs_have(self, app, name: Any):
        """A name with braces would be the name of no job's limit."""
        acts: list[Callable[[], object]] = [
            lambda: app.limits.set(name, concurrency=1),
            lambda: app.limits.get(name),
            lambda: app.limits.clear(name),
            lambda: app.limits.set_share(name, weight=2),
            lambda: RateLimited(retry_after=1, limit=name),
        ]
        for act in acts:
            with pytest.raises(InvalidArgument, match=r"name must be|RateLimited: limit must be"):
                act()

    def test_bad_weights_are_refused(self, app):
        with pytest.raises(InvalidArgument, match="weight must be a whole number from 1 to 100"):
            app.limits.set_share("a", weight=0)


class TestRateLimited:
    @pytest.mark.parametrize("seconds", [0, -1, MAX_REST_MS, float("nan"), "30"])
    def test_a_time_that_makes_no_sense_is_refused(self, seconds: Any):
        with pytest.raises(InvalidArgument, match="retry_after"):
            RateLimited(retry_after=seconds)

    def test_the_outcome_is_a_retry_that_does_not_count(self):
        error = RateLimited(retry_after=timedelta(seconds=30), limit="stripe")
        outcome = outcomes.outcome_of_error(held(failures=9), error, lambda: 0.5)
        assert isinstance(outcome, Retried)
        assert (outcome.delay_ms, outcome.deferred, outcome.limit) == (30_000, True, "stripe")
        assert outcomes.outcome_of_return(held(), error, lambda: 0.5) == outcome

    def test_it_counts_where_the_format_can_only_retry(self):
        job = held()
        job.spec = replace(job.spec, protocol_without_snooze="hworker")
        outcome = outcomes.outcome_of_error(job, RateLimited(retry_after=1), lambda: 0.5)
        assert isinstance(outcome, Retried)
        assert not outcome.deferred

    def test_a_mistyped_name_is_told_once_and_only_this_job_waits(self, caplog):
        code = (LimitRule("mail:{tenant}", 1, 3, template="mail:{tenant}"),)
        mistyped = RateLimited(retry_after=30, limit="mial:7")
        job = held(limits=code)
        for _ in range(2):
            outcome = outcomes.outcome_of_error(job, mistyped, lambda: 0.5)
            assert isinstance(outcome, Retried)
            assert (outcome.delay_ms, outcome.limit) == (30_000, None)
        assert caplog.text.count("limit_unknown") == 1
        known = outcomes.outcome_of_error(job, RateLimited(retry_after=30, limit="mail:7"), lambda: 0.5)
        assert isinstance(known, Retried)
        assert known.limit == "mail:7"

    def test_attributes_that_were_spoilt_do_no_harm(self):
        error: Any = RateLimited(retry_after=1)
        error.retry_after, error.limit = "soon", 7
        outcome = outcomes.outcome_of_error(held(), error, lambda: 0.5)
        assert isinstance(outcome, Retried)
        assert (outcome.delay_ms, outcome.limit) == (1_000, None)


@pytest.mark.parametrize(
    ("template", "name", "fits"),
    [
        ("a", "a", True),
        ("a", "ab", False),
        ("a:{x}", "a:", True),
        ("a:{x}", "b:c", False),
        ("{x}:{y}:z", "1:2:z", True),
        ("{x}:{y}:z", "1:z", False),
        ("a{x}a", "a", False),
        ("a:{x} per day", filled_name("a:" + "x" * 300 + " per day"), True),
        ("b:{x}", filled_name("a:" + "x" * 300), False),
    ],
)
def test_which_names_come_from_a_template(template: str, name: str, fits: bool):
    assert names_limit(template, name) is fits


def held(failures: int = 0, limits: tuple[LimitRule, ...] = ()) -> Held:
    spec = task(lambda: None, retries=2, limits=limits)
    return Held(Lease("w", 1, JobRecord("id", "q", b"", 0, task="t"), failures, 0), ("q", "id", 1), spec, 0.0)
