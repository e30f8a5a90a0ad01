"""How jobs are run: options of tasks and handlers, defaults of queues and of the app, and what wins."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import tenure
from tenure import Backoff, TaskDefaults, Tenure, events
from tenure.app.hooks import MAX_LISTENERS, MAX_MIDDLEWARE
from tenure.core import limits
from tenure.core.backoff import OwnBackoff
from tenure.core.errors import InvalidArgument, JobFailed
from tenure.core.events import EVENTS
from tenure.core.retries import RetryRule
from tenure.core.task import TaskSpec
from tests.support.fakes import FakeEngine, FakeRunner, double, recorder


def app_of(engine: FakeEngine | None = None, **options: Any) -> Tenure:
    return Tenure("redis://nowhere.invalid", protocol=engine or recorder(), runner=FakeRunner(), **options)


def spec_of(app: Tenure) -> TaskSpec:
    return app.specs()[0]


def tell(job: object, error: object) -> None: ...


async def delay_later(failures: int, error: BaseException) -> float:
    return 1.0


async def decide_later(error: BaseException) -> bool:
    return False


class TestPrecedence:
    def test_built_in(self):
        app = app_of()
        app.task(double)
        spec = spec_of(app)
        assert (spec.timeout_ms, spec.retries, spec.backoff) == (limits.DEFAULT_TIMEOUT_MS, 3, Backoff())
        assert (spec.result_ttl_ms, spec.retry_rule, spec.on_failure) == (limits.COMPLETED_TTL_MS, None, None)

    def test_task_over_queue_over_app_option_by_option(self):
        app = app_of(defaults=TaskDefaults(timeout=60, retries=1, result_ttl=10, fail_on=KeyError, on_failure=tell))
        app.queue_defaults("emails", retries=2, backoff=Backoff.fixed(9), retry_on=(ConnectionError,))
        app.task(queue="emails", retries=7, result_ttl=0)(double)
        spec = spec_of(app)
        assert (spec.timeout_ms, spec.retries, spec.result_ttl_ms) == (60_000, 7, 0)
        assert spec.backoff == Backoff.fixed(9)
        assert spec.retry_rule == RetryRule(on=(ConnectionError,), never=(KeyError,))
        assert spec.on_failure is tell

    def test_a_hook_of_the_task_comes_before_that_of_the_app(self):
        app = app_of(defaults=TaskDefaults(on_success=tell))
        app.task(name="usual")(double)
        app.task(name="own", on_success=print)(double)
        assert [spec.on_success for spec in app.specs()] == [tell, print]

    def test_other_queues_have_the_defaults_of_the_app(self):
        app = app_of(defaults=TaskDefaults(retries=1))
        app.queue_defaults("emails", retries=2)
        app.task(queue="images")(double)
        assert spec_of(app).retries == 1

    def test_defaults_of_a_queue_may_come_after_its_tasks_and_in_parts(self):
        app = app_of()
        app.task(queue="emails")(double)
        app.queue_defaults("emails", retries=2, timeout=5)
        app.queue_defaults("emails", retries=4)
        assert (spec_of(app).retries, spec_of(app).timeout_ms) == (4, 5_000)

    def test_no_limit_can_be_said_everywhere(self):
        app = app_of(defaults=TaskDefaults(timeout=60))
        app.queue_defaults("emails", timeout=None)
        app.task(queue="emails", name="a")(double)
        app.task(queue="images", timeout=None, name="b")(double)
        app.task(queue="images", name="c")(double)
        assert [spec.timeout_ms for spec in app.specs()] == [None, None, 60_000]

    def test_nothing_can_be_said_with_nothing(self):
        app = app_of(defaults=TaskDefaults(fail_on=KeyError))
        app.task(fail_on=())(double)
        spec = spec_of(app)
        assert spec.retry_rule == RetryRule(on=None, never=())
        assert spec.retry_rule.again(KeyError())

    def test_handlers_too(self):
        app = app_of(defaults=TaskDefaults(retries=1, on_failure=tell))
        app.queue_defaults("emails", timeout=timedelta(seconds=5))

        @app.handler("emails", batch=5)
        def store(jobs: list[Any]) -> None: ...

        spec = spec_of(app)
        assert (spec.retries, spec.timeout_ms, spec.on_failure) == (1, 5_000, tell)
        assert spec.batch is not None

    def test_the_wire_says_the_timeout_that_holds(self):
        engine = recorder()
        app = app_of(engine, defaults=TaskDefaults(timeout=60))
        app.queue_defaults("emails", timeout=7)
        app.handler("emails")(lambda job: None)
        task = app.task(double)
        task.enqueue(1)
        task.using(timeout=3).enqueue(1)
        app.queue("emails").enqueue(b"")
        app.queue("elsewhere").enqueue(b"")
        assert [job.timeout_ms for job in engine.enqueued] == [60_000, 3_000, None, None]

    def test_a_persistent_job_does_not_time_out_by_a_default(self):
        engine = recorder()
        app = app_of(engine, defaults=TaskDefaults(timeout=60))
        app.task(persistent=True, name="forever")(double).enqueue(1)
        app.task(name="sometimes")(double).using(persistent=True).enqueue(1)
        app.task(persistent=True, timeout=9, name="restarted")(double).enqueue(1)
        assert [job.timeout_ms for job in engine.enqueued] == [0, 0, 9_000]
        assert [spec.timeout_ms for spec in app.specs()] == [None, 60_000, 9_000]


class TestChecks:
    @pytest.mark.parametrize(
        ("options", "named"),
        [
            ({"timeout": 0}, "timeout"),
            ({"retries": -1}, "retries"),
            ({"retries": True}, "retries"),
            ({"result_ttl": -1}, "result_ttl"),
            ({"backoff": 5}, "backoff"),
            ({"backoff": Backoff}, "backoff"),
            ({"backoff": lambda failures: 5}, "backoff"),
            ({"backoff": delay_later}, "backoff must be a function that is not async, got delay_later"),
            ({"retry_on": "ConnectionError"}, "retry_on"),
            ({"retry_on": (ConnectionError, "ValueError")}, "retry_on"),
            ({"retry_on": int}, "retry_on"),
            ({"retry_on": lambda: True}, "retry_on"),
            ({"retry_on": decide_later}, "retry_on must be a function that is not async, got decide_later"),
            ({"fail_on": decide_later}, "fail_on must be a function that is not async"),
            ({"fail_on": 7}, "fail_on"),
            ({"on_failure": "tell"}, "on_failure"),
            ({"on_failure": lambda job: None}, "on_failure"),
            ({"on_success": lambda job: None}, "on_success"),
            ({"retrys": 1}, "retrys"),
        ],
    )
    def test_what_cannot_be_is_refused_and_named(self, options, named):
        app = app_of()
        for ask in (
            lambda: app.task(**options),
            lambda: app.handler("q", **options),
            lambda: app.queue_defaults("q", **options),
            lambda: TaskDefaults(**options),
        ):
            with pytest.raises(InvalidArgument, match=named):
                ask()

    def test_defaults_are_task_defaults(self):
        with pytest.raises(InvalidArgument, match="TaskDefaults"):
            app_of(defaults={"retries": 1})

    def test_a_queue_name_is_checked(self):
        with pytest.raises(InvalidArgument, match="queue"):
            app_of().queue_defaults("a/b", retries=1)

    def test_own_functions_are_taken(self):
        app = app_of()

        class Callable_:
            def __call__(self, failures: int, error: BaseException) -> float:
                return 1.0

        app.task(backoff=Callable_(), retry_on=lambda error: True, on_failure=print)(double)
        assert isinstance(spec_of(app).backoff, OwnBackoff)

    def test_one_class_or_a_list_will_do(self):
        app = app_of()
        app.task(retry_on=ConnectionError, fail_on=[KeyError, ValueError])(double)  # type: ignore[call-overload]
        assert spec_of(app).retry_rule == RetryRule((ConnectionError,), (KeyError, ValueError))


class TestOn:
    def test_registers_and_gives_the_function_back(self):
        app = app_of()

        @app.on(events.Failed, events.Broken)
        def listener(event: events.Failed | events.Broken) -> None: ...

        assert [one.kinds for one in app.listeners] == [(events.Failed, events.Broken)]
        assert app.listeners[0].function is listener
        assert app.listeners[0].name.endswith("listener")

    @pytest.mark.parametrize("kinds", [(), ("failed",), (JobFailed,), (int,), (lambda event: None,)])
    def test_takes_classes_of_events(self, kinds):
        with pytest.raises(InvalidArgument, match=r"tenure\.events"):
            app_of().on(*kinds)

    def test_the_listener_takes_the_event(self):
        with pytest.raises(InvalidArgument, match=r"@app\.on"):
            app_of().on(events.Failed)(lambda: None)  # type: ignore[arg-type, misc]

    def test_bounded(self):
        app = app_of()
        for _ in range(MAX_LISTENERS):
            app.on(events.Failed)(print)
        with pytest.raises(InvalidArgument, match="100 listeners"):
            app.on(events.Failed)(print)

    def test_every_event_can_be_had_from_the_package(self):
        assert tenure.events is events
        assert {kind.__name__ for kind in EVENTS} <= set(events.__all__)
        assert all(hasattr(events, name) for name in events.__all__)


class TestMiddleware:
    def test_registers_in_order_and_gives_the_function_back(self):
        app = app_of()

        @app.middleware
        async def outer(jobs: Any, call_next: tenure.CallNext) -> Any:
            return await call_next()

        @app.middleware
        def inner(jobs: Any, call_next: tenure.CallNextSync) -> Any:
            return call_next()

        assert app.layers == (outer, inner)

    @pytest.mark.parametrize("function", [None, "layer", lambda job: None])
    def test_takes_functions_of_two_arguments(self, function):
        with pytest.raises(InvalidArgument, match="middleware"):
            app_of().middleware(function)

    def test_bounded(self):
        app = app_of()
        for _ in range(MAX_MIDDLEWARE):
            app.middleware(lambda jobs, call_next: call_next())
        with pytest.raises(InvalidArgument, match="50"):
            app.middleware(lambda jobs, call_next: call_next())
