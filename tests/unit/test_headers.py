"""Headers as a producer gives them, and enqueue middleware, over an engine that only remembers."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest

from tenure import Outgoing, Tenure
from tenure.app.hooks import MAX_MIDDLEWARE
from tenure.core.engine import Feature
from tenure.core.errors import InvalidArgument, UnsupportedFeature
from tenure.core.names import MAX_HEADERS
from tests.support.fakes import FakeEngine, FakeRunner, double, recorder

TENANT: ContextVar[str] = ContextVar("tenant")


@pytest.fixture
def engine() -> FakeEngine:
    return recorder()


@pytest.fixture
def app(engine: FakeEngine) -> Tenure:
    return Tenure("redis://nowhere.invalid", protocol=engine, runner=FakeRunner())


def sent(engine: FakeEngine) -> list[Any]:
    return [job.headers for job in engine.enqueued]


def test_headers_are_those_of_the_latest_using(app, engine):
    task = app.task(double)
    task.enqueue(1)
    tenant = task.using(headers={"tenant": "7"})
    tenant.enqueue(1)
    tenant.using(headers={"request": "r"}).enqueue(1)
    tenant.using(headers={}).enqueue(1)
    tenant.enqueue_many([task.call(1), task.using(headers={}).call(1)])
    app.queue("q").enqueue(b"x", headers={"a": ""})
    app.queue("q").enqueue_many([b"x"], headers={"b": "2"})
    tenant7 = {"tenant": "7"}
    assert sent(engine) == [None, tenant7, {"request": "r"}, None, tenant7, None, {"a": ""}, {"b": "2"}]


def test_the_caller_may_change_the_mapping_afterwards(app, engine):
    mine = {"tenant": "7"}
    task = app.task(double).using(headers=mine)
    mine["tenant"] = "8"
    task.enqueue(1)
    assert sent(engine) == [{"tenant": "7"}]


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ("tenant=7", "headers must be text by name"),
        ([("tenant", "7")], "headers must be text by name"),
        ({7: "7"}, "headers: name must be a str, got int"),
        ({"": "7"}, "headers: name must be 1 to 200 characters"),
        ({"a\nb": "7"}, "headers: name must be text without control characters"),
        ({"tenant": 7}, "headers: 'tenant' must be a str, got int"),
        ({"tenant": b"7"}, "headers: 'tenant' must be a str, got bytes"),
        ({"tenant": "\ud800"}, "headers: 'tenant' must be text that UTF-8 can encode"),
        ({"tenant": "ü" * 2_046}, "headers must be at most 4,096 bytes, names included, got 4,098 bytes"),
    ],
)
def test_wrong_headers_are_refused(app, engine, headers, message):
    with pytest.raises(InvalidArgument, match=message):
        app.task(double).using(headers=headers)
    assert not engine.enqueued


def test_headers_up_to_the_limit(app, engine):
    most = {"n" * 96: "x" * (MAX_HEADERS - 96)}
    app.queue("q").enqueue(b"", headers=most)
    assert sent(engine) == [most]


async def test_middleware_sees_each_job_once_and_sets_its_headers(app, engine):
    seen: list[tuple[Any, ...]] = []

    @app.enqueue_middleware
    def tenant(job: Outgoing) -> None:
        seen.append((job.queue, job.task, job.payload, job.lane, dict(job.headers)))
        job.headers.setdefault("tenant", TENANT.get())

    @app.enqueue_middleware
    def count(job: Outgoing) -> None:
        job.headers["number"] = str(len(seen))

    TENANT.set("7")
    task = app.task(double, name="double")
    task.using(lane="L").enqueue(1)
    await task.using(headers={"tenant": "8"}).aenqueue(2)
    task.enqueue_many([task.call(3), task.call(4)])
    app.queue("q").enqueue(b"x")
    assert sent(engine) == [
        {"tenant": "7", "number": "1"},
        {"tenant": "8", "number": "2"},
        *({"tenant": "7", "number": number} for number in ("3", "4", "5")),
    ]
    assert seen[:2] == [
        ("default", "double", b"[[1],{}]", "L", {}),
        ("default", "double", b"[[2],{}]", None, {"tenant": "8"}),
    ]
    assert seen[4][:3] == ("q", None, b"x")


def test_middleware_may_remove_headers(app, engine):
    app.enqueue_middleware(lambda job: job.headers.clear())
    app.task(double).using(headers={"tenant": "7"}).enqueue(1)
    assert sent(engine) == [None]


def test_an_error_of_middleware_is_the_callers_and_nothing_is_enqueued(app, engine):
    @app.enqueue_middleware
    def refuse(job: Outgoing) -> None:
        if job.payload == b"3":
            raise LookupError("no tenant")

    with pytest.raises(LookupError, match="no tenant"):
        app.queue("q").enqueue_many([1, 2, 3])
    assert not engine.enqueued


def test_wrong_headers_of_middleware_are_refused(app, engine):
    app.enqueue_middleware(lambda job: job.headers.update(tenant=7))
    with pytest.raises(InvalidArgument, match="headers of enqueue middleware: 'tenant' must be a str, got int"):
        app.task(double).enqueue(1)
    assert not engine.enqueued


async def _async(job: Outgoing) -> None: ...


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (_async, "must be a function that is not async, got _async"),
        (lambda: None, "must be a function that takes the job"),
        ("tenant", "must be a function that takes the job, got str"),
    ],
)
def test_what_cannot_be_enqueue_middleware(app, layer: Callable[..., Any], message):
    with pytest.raises(InvalidArgument, match=message):
        app.enqueue_middleware(layer)


def test_middleware_is_limited(app):
    for _ in range(MAX_MIDDLEWARE):
        app.enqueue_middleware(lambda job: None)
    with pytest.raises(InvalidArgument, match="50 functions of enqueue middleware"):
        app.enqueue_middleware(lambda job: None)


def test_a_protocol_without_headers_refuses_them_by_name(app, engine):
    engine.features -= {Feature.HEADERS}
    task = app.task(double)
    for enqueue in (task.using(headers={"a": "1"}).enqueue, app.task(double, name="second").enqueue):
        with pytest.raises(UnsupportedFeature, match=r"headers .feature 'headers'"):
            enqueue(1)
        app.enqueue_middleware(lambda job: job.headers.update(tenant="7"))
    assert not engine.enqueued
