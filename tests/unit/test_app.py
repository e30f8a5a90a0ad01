"""Apps, tasks and what they enqueue, over an engine that only remembers."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime
from typing import Any

import pytest

from tenure import Backoff, Hworker, Native, QueueFarm, RedisWorkQueue, State, Tenure, Worqr
from tenure.client.queue import NoJob
from tenure.core import limits
from tenure.core.engine import Feature
from tenure.core.errors import (
    DuplicateJob,
    InvalidArgument,
    NotConfigured,
    PayloadInvalid,
    PayloadTooLarge,
    UnsupportedFeature,
)
from tenure.core.job import NewJob
from tenure.core.values import replace
from tenure.protocols.registry import parse_protocol
from tests.support.fakes import double


class TestRegistering:
    def test_bare(self, app):
        task = app.task(double)
        spec = task.spec
        assert task(2) == 4
        assert app.tasks[f"{double.__module__}.double"] is task
        assert (spec.function, spec.is_async, spec.queue, spec.retries) == (double, False, "default", 3)
        assert (spec.timeout_ms, spec.result_ttl_ms, spec.backoff) == (3_600_000, 3_600_000, Backoff())
        assert (task.__name__, task.__doc__, task.__wrapped__) == ("double", None, double)

    async def test_with_options(self, app):
        @app.task(name="two", queue="images", timeout=None, retries=0, backoff=Backoff.fixed(1), result_ttl=0)
        async def other(a: int) -> int:
            return a + 2

        assert await other(1) == 3
        spec = app.tasks["two"].spec
        assert (spec.name, spec.queue, spec.timeout_ms, spec.retries) == ("two", "images", None, 0)
        assert (spec.is_async, spec.result_ttl_ms, spec.backoff) == (True, 0, Backoff.fixed(1))
        assert spec.decode(b"[[1],{}]") == ((1,), {})
        assert spec.encode_result(3) == b"3"

    def test_inspect_sees_the_function(self, app):
        @app.task(name="async")
        async def loads(a: int, *, b: int = 1) -> None: ...

        @app.handler("raw")
        async def handles(job) -> None: ...

        assert inspect.iscoroutinefunction(loads)
        assert inspect.iscoroutinefunction(loads.using(delay=1))
        assert inspect.iscoroutinefunction(handles)
        assert str(inspect.signature(loads)) == "(a: 'int', *, b: 'int' = 1) -> 'None'"
        assert not inspect.iscoroutinefunction(app.task(double))

    def test_names_must_be_given_where_there_is_none(self, app):
        with pytest.raises(InvalidArgument, match="name="):
            app.task(lambda: None)
        assert app.task(name="x")(lambda: None).name == "x"

    def test_taken_names(self, app):
        app.task(double)
        with pytest.raises(InvalidArgument, match="already"):
            app.task(double)

    @pytest.mark.parametrize("thing", [5, int, print, "double"])
    def test_only_functions(self, app, thing):
        with pytest.raises(InvalidArgument, match="function"):
            app.task(name="x")(thing)

    def test_no_generators(self, app):
        def yields():
            yield 1

        with pytest.raises(InvalidArgument, match="yields"):
            app.task(name="x")(yields)

    @pytest.mark.parametrize(
        "options",
        [{"name": "a b"}, {"queue": ""}, {"timeout": -1}, {"timeout": float("nan")}, {"retries": 1.5}],
    )
    def test_wrong_options(self, app, options):
        with pytest.raises(InvalidArgument, match=next(iter(options))):
            app.task(**options)

    def test_annotations_defined_later_are_found(self, app, monkeypatch):
        def early(a): ...

        early.__annotations__ = {"a": "Later"}
        task = app.task(name="early")(early)
        with pytest.raises(InvalidArgument, match="Later"):
            app.specs()
        monkeypatch.setitem(globals(), "Later", int)
        assert task.spec.decode(b"[[1],{}]") == ((1,), {})

    def test_handlers(self, app):
        @app.handler("emails", timeout=5)
        async def send(job: Any) -> None: ...

        assert app.handlers["emails"] is send
        assert (send.spec.name, send.spec.decode, send.spec.timeout_ms, send.spec.is_async) == (None, None, 5_000, True)
        assert app.specs() == (replace(send.spec, follow=app._client.following),)
        with pytest.raises(InvalidArgument, match="already"):
            app.handler("emails")(send.__wrapped__)
        with pytest.raises(InvalidArgument, match="one argument"):
            app.handler("other")(lambda: None)
        with pytest.raises(InvalidArgument, match="list of jobs"):
            app.handler("other", batch=5)(lambda: None)


class TestEnqueue:
    def test_the_job_that_is_sent(self, app, engine):
        job = app.task(queue="images", timeout=30)(double).enqueue(1, b=2)
        assert job.created
        assert (job.queue, len(job.id)) == ("images", 14)
        assert engine.enqueued == [
            NewJob("images", job.id, b'[[1],{"b":2}]', task=f"{double.__module__}.double", timeout_ms=30_000)
        ]

    async def test_arguments_may_have_any_name(self, app, engine):
        @app.task(name="named")
        def task(self: int, cls: int = 0, args: int = 0, call: int = 0) -> int:
            return self + cls + args + call

        assert task(self=1, cls=2, args=3, call=4) == 10
        task.enqueue(self=1, cls=2, args=3, call=4)
        await task.aenqueue(self=1, args=3)
        task.enqueue_many([task.call(self=1)])
        payloads = [job.payload for job in engine.enqueued]
        assert payloads == [
            b'[[],{"self":1,"cls":2,"args":3,"call":4}]',
            b'[[],{"self":1,"args":3}]',
            b'[[],{"self":1}]',
        ]
        assert task.spec.function(**task.spec.decode(payloads[0])[1]) == 10

    async def test_async(self, app, engine):
        job = await app.task(double).aenqueue(1)
        assert [sent.id for sent in engine.enqueued] == [job.id]

    def test_timeouts_on_the_wire(self, app, engine):
        app.task(double).enqueue(1)
        app.task(name="b", timeout=None)(double).enqueue(1)
        app.tasks["b"].using(timeout=5).enqueue(1)
        app.tasks["b"].using(timeout=5).using(timeout=None).enqueue(1)
        assert [job.timeout_ms for job in engine.enqueued] == [None, 0, 5_000, 0]

    def test_using(self, app, engine):
        task = app.task(double)
        task.using(id="x", queue="fast", delay=1.5, retries=0).enqueue(1)
        task.using(run_after=datetime(2030, 1, 1, tzinfo=UTC)).enqueue(1)
        task.using(delay=5).using(queue="slow").enqueue(1)
        first, second, third = engine.enqueued
        assert (first.id, first.own_id, first.queue, first.delay_ms, first.retries) == ("x", True, "fast", 1_500, 0)
        assert (second.delay_ms, second.run_at_ms, second.own_id) == (0, 1_893_456_000_000, False)
        assert (third.queue, third.delay_ms) == ("slow", 5_000)
        assert task.using(queue="slow").queue == "slow"

    @pytest.mark.parametrize(
        "options",
        [
            {"id": ""},
            {"id": "@x"},
            {"queue": "a/b"},
            {"delay": -1},
            {"run_after": datetime(2030, 1, 1)},
            {"timeout": 0},
            {"retries": -1},
        ],
    )
    def test_wrong_options(self, app, options):
        with pytest.raises(InvalidArgument, match=next(iter(options))):
            app.task(double).using(**options)

    def test_an_own_id_that_exists(self, app, engine):
        task = app.task(double).using(id="x")
        task.enqueue(1)
        with pytest.raises(DuplicateJob, match="'x'"):
            task.enqueue(1)
        assert [job.created for job in app.tasks[task.name].enqueue_many([task.call(1)])] == [False]

    def test_many(self, app, engine):
        task = app.task(double)
        jobs = task.enqueue_many(task.call(n) for n in range(3))
        assert [job.payload for job in engine.enqueued] == [b"[[0],{}]", b"[[1],{}]", b"[[2],{}]"]
        assert [job.id for job in jobs] == [job.id for job in engine.enqueued]
        assert task.enqueue_many([]) == []

    def test_many_with_options(self, app, engine):
        task = app.task(double)
        other = task.using(queue="fast", delay=5, timeout=2, retries=1)
        own = task.using(queue="slow", delay=0, timeout=None, retries=7, id="x")
        other.enqueue_many([task.call(1), own.call(2), task.using(run_after=datetime(2030, 1, 1, tzinfo=UTC)).call(3)])
        first, second, third = engine.enqueued
        assert (first.queue, first.delay_ms, first.timeout_ms, first.retries) == ("fast", 5_000, 2_000, 1)
        assert (second.queue, second.delay_ms, second.timeout_ms, second.retries) == ("slow", 0, 0, 7)
        assert (second.id, first.own_id) == ("x", False)
        assert (third.delay_ms, third.run_at_ms) == (0, 1_893_456_000_000)
        task.using(run_after=datetime(2030, 1, 1, tzinfo=UTC)).enqueue_many([task.call(1)])
        assert engine.enqueued[-1].run_at_ms == 1_893_456_000_000

    def test_an_id_is_no_default_for_many(self, app, engine):
        task = app.task(double)
        with pytest.raises(InvalidArgument, match=r"many jobs cannot share the id 'x'"):
            task.using(id="x").enqueue_many([task.call(1)])
        assert engine.enqueued == []

    def test_options_given_as_arguments(self, app):
        with pytest.raises(PayloadInvalid, match=r"\.using\(delay=\.\.\.\)"):
            app.task(double).enqueue(1, delay=5)

    def test_many_takes_its_own_calls_only(self, app, engine):
        task, other = app.task(double), app.task(name="other")(double)
        for wrong in (other.call(1), (1,), {"a": 1}, 1):
            with pytest.raises(InvalidArgument, match="call"):
                task.enqueue_many([task.call(1), wrong])
        for single in (None, 1, task.call(1)):
            with pytest.raises(InvalidArgument, match=r"calls must be a list of calls made by double\.call"):
                task.enqueue_many(single)
        assert engine.enqueued == []

    @pytest.mark.parametrize("argument", ["1", None, 1.5, object(), float("nan")])
    def test_arguments_are_checked_here(self, app, engine, argument):
        with pytest.raises(PayloadInvalid, match=r"double: argument 'a'"):
            app.task(double).enqueue(argument)
        assert engine.enqueued == []

    def test_too_large(self, engine, runner):
        app = Tenure("redis://x", protocol=engine, runner=runner, max_payload=10)
        app.queue("q").enqueue(b"x" * 10)
        with pytest.raises(PayloadTooLarge) as caught:
            app.queue("q").enqueue(b"x" * 11)
        assert (caught.value.size, caught.value.limit) == (11, 10)

    @pytest.mark.parametrize(
        ("feature", "act"),
        [
            (Feature.DELAY, lambda app: app.queue("q").enqueue(b"", delay=1)),
            (Feature.DELAY, lambda app: app.queue("q").enqueue(b"", run_after=datetime(1990, 1, 1, tzinfo=UTC))),
            (Feature.OWN_ID, lambda app: app.queue("q").enqueue(b"", id="x")),
            (Feature.RETRIES, lambda app: app.queue("q").enqueue(b"", retries=1)),
            (Feature.TIMEOUT, lambda app: app.queue("q").enqueue(b"", timeout=None)),
            (Feature.TASKS, lambda app: app.task(double).enqueue(1)),
            (Feature.RESULTS, lambda app: app.queue("q").job("x").result()),
        ],
    )
    def test_what_the_protocol_cannot_hold(self, engine, runner, feature, act):
        engine.features -= {feature}
        with pytest.raises(UnsupportedFeature, match=f"'fake'.*'{feature.value}'"):
            act(Tenure("redis://x", protocol=engine, runner=runner))
        assert engine.enqueued == []

    def test_raw_payloads(self, app, engine):
        app.handler("q", timeout=7)(lambda job: None)
        app.queue("q").enqueue({"a": 1}, id="x")
        app.queue("other").enqueue_many([b"\xff", "é"])
        assert [job.payload for job in engine.enqueued] == [b'{"a":1}', b"\xff", "é".encode()]
        assert [job.timeout_ms for job in engine.enqueued] == [None, None, None], "the handler says it where it runs"
        assert {job.task for job in engine.enqueued} == {None}


class TestPanel:
    def test_states_by_name(self, app, engine):
        assert app.control.purge("q", "failed") == 3
        assert engine.asked == [("purge", "q", State.FAILED)]

    @pytest.mark.parametrize(
        "act",
        [
            lambda app: app.control.purge("q", "active"),
            lambda app: app.control.purge("q", "__class__"),
            lambda app: app.control.retry("a/b", "x"),
            lambda app: app.inspect.page("q", State.READY, offset=-1),
            lambda app: app.inspect.page("q", State.READY, limit=10**9),
            lambda app: app.inspect.queue(".."),
            lambda app: app.inspect.job("q", 5),
            lambda app: app.inspect.job("q", b"x"),
            lambda app: app.control.retry("q", None),
            lambda app: app.control.discard("q", 5),
            lambda app: app.control.cancel("q", 5),
            lambda app: app.control.cancel("q", "x", 5),
            lambda app: app.control.cancel("q", "\ud800"),
            lambda app: app.queue("q").job(5),
            lambda app: app.task(double).job(5),
            lambda app: app.queue("q").enqueue_many("abc"),
            lambda app: app.queue("q").enqueue_many(b"abc"),
            lambda app: app.queue("q").complete(NoJob()),
            lambda app: app.queue("q").complete("x"),
            lambda app: app.queue("q").release(None),
            lambda app: app.queue("q").extend("x", 5),
            lambda app: app.queue("q").progress("x", 5),
            lambda app: app.handler(double),
        ],
    )
    def test_refused(self, app, act):
        with pytest.raises(InvalidArgument):
            act(app)

    def test_a_reason_is_cut_and_made_utf8(self, app, engine):
        assert app.control.cancel("q", "x", "\ud800" + "ä" * limits.MAX_ERROR_TEXT)
        ((_, _, id, reason),) = engine.asked
        assert id == "x"
        assert reason.startswith("\\ud800ä")
        assert len(reason.encode()) <= limits.MAX_ERROR_TEXT


class TestHandles:
    def test_equal_by_queue_and_id(self, app):
        queue = app.queue("q")
        assert len({queue.job("a"), queue.job("a"), queue.job("b"), app.queue("r").job("a")}) == 3
        assert queue.job("a") != "a"


class TestApp:
    @pytest.mark.parametrize("protocol", ["", "natvie", "native:shop", "redis-work-queue", Native, 5])
    def test_what_is_no_protocol(self, protocol):
        with pytest.raises(InvalidArgument, match=r"(must be|expected) .*[Nn]ative"):
            Tenure("redis://x", protocol=protocol)

    def test_a_protocol_may_be_an_object_or_its_name_given_or_in_the_environment(self, monkeypatch):
        for protocol in (RedisWorkQueue("a:b"), "redis-work-queue:a:b"):
            app = Tenure("redis://x", protocol=protocol)
            assert (app.engine.name, app.settings.protocol) == ("redis-work-queue", "redis-work-queue:a:b")
        monkeypatch.setenv("TENURE_PROTOCOL", "redis-work-queue:a:b")
        engine: Any = Tenure("redis://x").engine
        assert engine.prefix("q") == "a:b:q"
        assert Tenure("redis://x", protocol=Native()).engine.name == "native"
        monkeypatch.setenv("TENURE_PROTOCOL", "redis-work-queue:a?lease=5")
        with pytest.raises(NotConfigured, match=r"TENURE_PROTOCOL.*grace"):
            Tenure("redis://x")

    @pytest.mark.parametrize(
        ("protocol", "text", "prefix", "stray_ms"),
        [
            ("redis-work-queue:a?grace=0.5", "redis-work-queue:a?grace=0.5", "a", 500),
            (RedisWorkQueue("a", grace=0), "redis-work-queue:a?grace=0", "a", 0),
            (RedisWorkQueue("a?b"), "redis-work-queue:a%3Fb", "a?b", 5_000),
            (RedisWorkQueue("a%3Fb", grace=12.345), "redis-work-queue:a%253Fb?grace=12.345", "a%3Fb", 12_345),
            ("redis-work-queue:a%3Fb?grace=60", "redis-work-queue:a%3Fb?grace=60", "a?b", 60_000),
        ],
    )
    def test_a_protocol_with_a_grace(self, protocol, text, prefix, stray_ms):
        app = Tenure("redis://x", protocol=protocol)
        engine: Any = app.engine
        assert (app.settings.protocol, engine.base, engine.config.stray_ms) == (text, prefix, stray_ms)

    @pytest.mark.parametrize(
        ("protocol", "text"),
        [
            (Hworker("pr", timeout=600), "hworker:pr?timeout=600"),
            (Hworker("pr", timeout=1.5, failed_queue_size=7), "hworker:pr?timeout=1.5&failed_queue_size=7"),
            (Hworker("50%3F"), "hworker:50%253F"),
            (QueueFarm("NS", delete_jobs=False), "queue-farm:NS?delete_jobs=false"),
            (QueueFarm(apply_timeouts=True), "queue-farm:queue-farm?apply_timeouts=true"),
            (Worqr("jobs"), "worqr:jobs"),
            (
                RedisWorkQueue("a", queues={"images": "pictures", "b&=?.": "c d%\udcff"}, grace=2),
                "redis-work-queue:a?queues.images=pictures&queues.b%26%3D%3F.=c%20d%25%FF&grace=2",
            ),
        ],
    )
    def test_a_protocol_is_the_same_as_a_value_and_as_text(self, protocol, text):
        assert protocol.text == text
        assert parse_protocol(text) == protocol
        assert Tenure("redis://x", protocol=text).settings.protocol == text

    @pytest.mark.parametrize(
        "text",
        [
            "hworker:pr?x=1",
            "hworker:pr?timeout",
            "hworker:pr?timeout=long",
            "hworker:pr?timeout=1&timeout=2",
            "hworker:pr?timeout.a=1",
            "hworker:pr?config=1",
            "hworker:pr%3Ftimeout=600",
            "queue-farm:NS?delete_jobs=no",
            "queue-farm:NS%3F",
            "redis-work-queue:a?queues=b",
            "redis-work-queue:a?queues.b=c&queues.b=d",
            "worqr:jobs?timeout=5",
            "worqr:jobs?",
        ],
    )
    def test_an_option_or_a_name_that_the_text_of_a_protocol_cannot_have(self, text):
        with pytest.raises(InvalidArgument, match=r"must be"):
            Tenure("redis://x", protocol=text)

    def test_a_question_mark_in_a_name_is_refused(self):
        for kind in (Hworker, QueueFarm, Worqr):
            with pytest.raises(InvalidArgument, match=r"without question marks|letters"):
                kind("pr?timeout=600")

    @pytest.mark.parametrize(
        "option", ["?", "?grace", "?grace=x", "?grace=-1", "?lease=5", "?grace=5&x=1", "?grace=nan"]
    )
    def test_options_that_a_protocol_does_not_have(self, option):
        with pytest.raises(InvalidArgument, match="grace"):
            Tenure("redis://x", protocol=f"redis-work-queue:a{option}")

    @pytest.mark.parametrize("url", ["http://example.org", "localhost", "redis://h:port", "redis://h/s3cret"])
    def test_a_url_that_cannot_be_read(self, url):
        with pytest.raises(NotConfigured) as caught:
            Tenure(url)
        assert "s3cret" not in str(caught.value)

    def test_protocols(self):
        assert Tenure("redis://x", namespace="shop").engine.name == "native"
        engine: Any = Tenure("redis://x", namespace="shop", protocol=Native(namespace="other")).engine
        assert engine.namespace == "other"
        with pytest.raises(InvalidArgument):
            Native(namespace="a{b")

    async def test_closing(self, app, runner):
        with app:
            pass
        async with app:
            pass
        assert runner.log == ["close", "aclose"]

    def test_nothing_shows_the_password(self):
        app = Tenure("redis://:s3cret@nowhere.invalid/0")
        assert "s3cret" not in repr(app) + repr(app.settings) + repr(app.task(double)) + repr(app.queue("q"))
