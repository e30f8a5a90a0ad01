"""Headers: texts that travel with a job, through failures, retries and new payloads."""

from __future__ import annotations

from typing import Final

import pytest

from tenure.core.engine import Feature
from tenure.core.job import ErrorInfo, NewJob, State
from tenure.core.outcome import Completed, Failed, Retried
from tenure.core.shape import Conflict, Shape
from tests.support.world import World

pytestmark = pytest.mark.needs(Feature.HEADERS)

HEADERS: Final = {"tenant": "7", "a=b c&d": " p=1 l=x\n%25 ü\u2028+", "empty": "", "h": "t=1"}
CALL: Final = b"[[1],{}]"


@pytest.mark.parametrize("task", ["shop.send", None])
def test_headers_stay_with_a_job_until_it_completes(world: World, task: str | None) -> None:
    world.enqueue([NewJob("q", "a", CALL, task=task, retries=7, headers=HEADERS), NewJob("q", "b", CALL, task=task)])
    assert world.view("a").headers == HEADERS
    first, plain = world.take(2)
    assert (first.record.headers, first.record.payload, first.record.retries) == (HEADERS, CALL, 7)
    assert plain.record.headers is None
    world.settle(first, Retried(ErrorInfo("Boom", ""), 0))
    again = world.take_one()
    assert (again.record.headers, again.failures) == (HEADERS, 1)
    world.settle(again, Failed(ErrorInfo("Boom", "")))
    assert world.view("a").headers == HEADERS
    assert world.run(world.engine.retry("q", "a", b"[[2],{}]"))
    edited = world.take_one()
    assert (edited.record.task, edited.record.payload, edited.record.headers) == (task, b"[[2],{}]", HEADERS)


@pytest.mark.needs(Feature.LANES)
def test_headers_beside_a_lane(world: World) -> None:
    world.enqueue([NewJob("q", id, CALL, headers=HEADERS, shape=Shape(lane="user:7")) for id in ("a", "b")])
    first = world.take_one()
    assert (first.record.headers, first.record.shape.lane) == (HEADERS, "user:7")
    assert world.take() == [], "the lane runs one at a time"
    world.settle(first, Completed(b"", 1_000))
    assert world.take_ids() == ["b"]


@pytest.mark.needs(Feature.DELAY)
def test_a_delayed_job_with_headers_gets_another_payload(world: World) -> None:
    world.put("a", payload=CALL, task="shop.send", delay_ms=60_000, headers=HEADERS)
    assert world.run(world.engine.retry("q", "a", b"[[2],{}]"))
    record = world.take_one().record
    assert (record.task, record.payload, record.headers) == ("shop.send", b"[[2],{}]", HEADERS)


@pytest.mark.needs(Feature.UNIQUE_KEYS)
def test_a_unique_job_that_is_replaced_has_the_headers_of_the_new_call(world: World) -> None:
    world.put_only("a", headers=HEADERS)
    assert not world.put_only("b", conflict=Conflict.REPLACE, payload=b"new", headers={"tenant": "8"}).created
    record = world.take_one().record
    assert (record.id, record.payload, record.headers) == ("a", b"new", {"tenant": "8"})


@pytest.mark.needs(Feature.RESULTS)
def test_the_record_of_a_completed_job_has_no_headers(world: World) -> None:
    world.put("a", headers=HEADERS)
    world.settle(world.take_one(), Completed(b"1", 60_000))
    view = world.view("a")
    assert (view.state, view.headers) == (State.COMPLETED, None)
