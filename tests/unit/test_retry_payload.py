"""`app.control.retry(..., payload=)`: what is checked before a job that is there gets another payload."""

from __future__ import annotations

from typing import Any

import pytest

from tenure import Limit, LimitRule, State, Tenure
from tenure.core.engine import Feature
from tenure.core.errors import InvalidArgument, PayloadInvalid, PayloadTooLarge
from tenure.core.job import JobView
from tenure.core.shape import Shape, UniqueRule
from tenure.core.steps import Steps
from tenure.core.values import replace
from tests.support.fakes import FakeEngine, FakeRunner


class Engine(FakeEngine):
    """Has one job, and notes what it is asked to retry."""

    view: JobView | None = None
    reshaped: Shape | None = None

    def job(self, queue: str, id: str) -> Steps[JobView | None]:
        yield from ()
        return self.view

    def retry(self, queue: str, id: str, payload: bytes | None = None, reshaped: Shape | None = None) -> Steps[bool]:
        self.reshaped = reshaped
        return self._answer(lambda: True, queue, id, payload)


@pytest.fixture
def engine() -> Engine:
    return Engine(features=frozenset(Feature))


@pytest.fixture
def app(engine: Engine) -> Tenure:
    return Tenure("redis://nowhere.invalid", protocol=engine, runner=FakeRunner(), max_payload=100)


@pytest.fixture
def add(app: Tenure) -> Any:
    @app.task(name="add")
    def add(a: int, b: int = 0) -> int: ...

    return add


def of(task: str | None) -> JobView:
    return JobView("one", "q", State.FAILED, task)


async def test_without_a_payload_the_job_is_not_looked_at(app, engine):
    assert app.control.retry("q", "one")
    assert await app.control.aretry("q", "one")
    assert engine.asked == [("q", "one", None)] * 2


@pytest.mark.parametrize(("payload", "sent"), [(b"\xff", b"\xff"), ("ü", "ü".encode()), ({"a": 1}, b'{"a":1}')])
async def test_a_raw_payload(app, engine, payload, sent):
    engine.view = of(None)
    assert app.control.retry("q", "one", payload=payload)
    assert await app.control.aretry("q", "one", payload=payload)
    assert engine.asked == [("q", "one", sent)] * 2


def test_a_call_of_the_task(app, engine, add):
    engine.view = of("add")
    app.control.retry("q", "one", payload=add.call(1, b=2))
    assert engine.asked == [("q", "one", b'[[1],{"b":2}]')]


@pytest.mark.parametrize("payload", [b'[[1], {"b": 2}]', '[[1], {"b": 2}]'])
def test_arguments_as_they_lie_in_redis(app, engine, add, payload):
    engine.view = of("add")
    app.control.retry("q", "one", payload=payload)
    assert engine.asked == [("q", "one", b'[[1], {"b": 2}]')]


@pytest.mark.parametrize(
    "payload", ['[["s3cret"], {}]', "[[], {}]", '[[1], {"c": 1}]', "[1, 2]", "s3cret", "[[NaN], {}]"]
)
def test_what_does_not_fit_is_refused(app, engine, add, payload):
    engine.view = of("add")
    with pytest.raises(PayloadInvalid) as refused:
        app.control.retry("q", "one", payload=payload)
    assert "s3cret" not in str(refused.value)
    assert engine.asked == []


def test_a_task_that_the_app_has_not(app, engine):
    engine.view = of("elsewhere")
    app.control.retry("q", "one", payload='[["anything"], {}]')
    assert engine.asked == [("q", "one", b'[["anything"], {}]')]
    with pytest.raises(PayloadInvalid, match="must be JSON"):
        app.control.retry("q", "one", payload="anything")


def test_a_call_that_is_of_another_task_or_has_options(app, engine, add):
    engine.view = of("multiply")
    with pytest.raises(InvalidArgument, match="a call of the job's task multiply, got a call of add"):
        app.control.retry("q", "one", payload=add.call(1))
    engine.view = of("add")
    with pytest.raises(InvalidArgument, match="a call without options"):
        app.control.retry("q", "one", payload=add.using(delay=5).call(1))
    engine.view = of(None)
    with pytest.raises(InvalidArgument):
        app.control.retry("q", "one", payload=add.call(1))
    assert engine.asked == []


@pytest.fixture
def limited(app: Tenure) -> Any:
    @app.task(
        name="report", limits=[Limit("tenant:{tenant}", concurrency=3), Limit("all", concurrency=9)], share="{tenant}"
    )
    def report(tenant: str) -> None: ...

    return report


OWN = LimitRule("own", concurrency=1)
ALL = LimitRule("all", concurrency=9)


def limits_of(tenant: str, *, concurrency: int = 3) -> LimitRule:
    return LimitRule(f"tenant:{tenant}", concurrency=concurrency)


def test_limits_and_shares_that_are_named_by_arguments_follow_the_new_ones(app, engine, limited):
    before = Shape(limits=(OWN, limits_of("a", concurrency=5), ALL), share="a", unique=UniqueRule("k"))
    engine.view = replace(of("report"), payload=b'[["a"],{}]', shape=before)
    app.control.retry("q", "one", payload=limited.call("b"))
    assert engine.reshaped == Shape(limits=(OWN, limits_of("b", concurrency=5), ALL), share="b")


@pytest.mark.parametrize("payload", [b"no arguments", b"[[1],{}]"])
def test_limits_stay_where_the_old_arguments_do_not_say_what_followed_from_them(app, engine, limited, payload):
    engine.view = replace(of("report"), payload=payload, shape=Shape(limits=(limits_of("a"),)))
    app.control.retry("q", "one", payload=limited.call("b"))
    assert engine.reshaped is None


def test_limits_stay_without_the_task(app, engine):
    engine.view = replace(of("elsewhere"), payload=b'[["a"],{}]', shape=Shape(limits=(limits_of("a"),)))
    app.control.retry("q", "one", payload='[["b"], {}]')
    assert engine.reshaped is None


def keyed_by(call: Any, **options: Any) -> JobView:
    """The failed job of a call of `add`, unique by its arguments."""
    job = call.template(call.using(unique=True, **options).call(1, b=2))
    return replace(of("add"), payload=job.payload, shape=job.shape)


def test_a_unique_key_that_is_made_from_arguments_follows_the_new_ones(app, engine, add):
    engine.view = keyed_by(add)
    other = add.template(add.using(unique=True).call(3)).shape.unique
    app.control.retry("q", "one", payload='[[], {"b": 0, "a": 3}]')
    assert engine.reshaped == Shape(unique=other)
    assert other != engine.view.shape.unique


def test_limits_that_do_not_follow_stay_with_a_new_unique_key(app, engine, add):
    engine.view = keyed_by(add, limits=[Limit("own", concurrency=1)])
    app.control.retry("q", "one", payload=add.call(3))
    assert engine.reshaped.limits == (OWN,)
    assert engine.reshaped.unique.key != engine.view.shape.unique.key


def test_a_unique_key_stays_that_the_user_chose_or_that_the_new_arguments_make_again(app, engine, add):
    engine.view = keyed_by(add)
    app.control.retry("q", "one", payload='[[], {"b": 2, "a": 1}]')
    assert engine.reshaped is None
    engine.view = replace(of("add"), payload=b"[[1],{}]", shape=Shape(unique=UniqueRule("k:mine")))
    app.control.retry("q", "one", payload=add.call(3))
    assert engine.reshaped is None


def test_without_its_task_a_unique_key_that_is_made_from_arguments_cannot_follow(app, engine, add):
    engine.view = replace(keyed_by(add), task="elsewhere")
    with pytest.raises(InvalidArgument, match="made from its arguments by task elsewhere, which this app does not"):
        app.control.retry("q", "one", payload="[[3], {}]")
    assert engine.asked == []


def test_too_large(app, engine):
    engine.view = of(None)
    with pytest.raises(PayloadTooLarge):
        app.control.retry("q", "one", payload=b"x" * 101)
    assert engine.asked == []


def test_no_such_job(app, engine):
    assert app.control.retry("q", "one", payload=b"x") is False
    assert engine.asked == []
