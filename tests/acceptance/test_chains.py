"""Chains on a real Redis: each element follows the completion of the one before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tenure import Flow, FlowState, InvalidArgument, JobFailed, ResultTimeout, Tenure, chain, group
from tests.acceptance.test_flows import Shop


@pytest.fixture
def shop(redis_url: str) -> Iterator[Shop]:
    with Tenure(redis_url) as app:
        yield Shop(app)


def test_a_task_takes_the_result_before_it_and_a_call_does_not(shop: Shop) -> None:
    """In other queues, also after tasks that keep no results."""
    flow = chain(shop.square.call(2), shop.hidden, shop.square, shop.square.call(3), shop.hidden).enqueue()
    assert flow.view().left == 5
    assert shop.drain() == [2, 4, 16, 3, 9]
    assert flow.result(timeout=0) == 81
    assert flow.results() == [4, 16, 256, 9, 81]
    view = flow.view()
    assert (view.state, view.is_chain, view.completed) == (FlowState.COMPLETED, True, 5)


def test_no_result_is_none(shop: Shop) -> None:
    chain(shop.done.call("first"), shop.done).enqueue()
    assert shop.drain() == [("first",), (None,)]


def test_those_behind_a_failure_come_after_its_retry(shop: Shop) -> None:
    steps = chain(shop.square.call(2), shop.square.call(-1), shop.square)
    flow = steps.enqueue(shop.done.call("success"), shop.done.call("end"))
    assert shop.drain() == [2, -1, ("end",)]
    view = flow.view()
    assert (view.state, view.completed, view.failed, view.cancelled) == (FlowState.FAILED, 1, 1, 1)
    with pytest.raises(JobFailed, match="ValueError"):
        flow.result(timeout=0)
    shop.bad.clear()
    assert flow.retry() == 1
    assert shop.drain() == [-1, 1, ("success",), ("end",)]
    assert flow.result() == 1


def test_a_chain_can_be_cancelled(shop: Shop) -> None:
    flow = chain(shop.square.using(delay=60).call(2), shop.square, shop.square).enqueue()
    with pytest.raises(ResultTimeout, match="3 of 3 members are left"):
        flow.result(timeout=0)
    assert flow.cancel("not needed")
    view = flow.view()
    assert (view.state, view.cancelled, view.reason) == (FlowState.CANCELLED, 3, "not needed")
    with pytest.raises(JobFailed, match="cancelled"):
        flow.result()
    assert shop.drain() == []


def test_a_chain_that_was_cancelled_while_a_member_completed_goes_on_by_a_retry(shop: Shop) -> None:
    flows: list[Flow] = []
    cancels: Any = shop.app.task(name="cancels")(lambda: 5 * flows[0].cancel("by itself"))
    flow = chain(cancels.call(), shop.square, shop.square).enqueue(on_end=shop.done.call("end"))
    flows.append(flow)
    assert shop.drain() == [("end",)]
    view = flow.view()
    assert (view.state, view.completed, view.cancelled) == (FlowState.CANCELLED, 1, 2)
    assert flow.retry() == 1
    view = flow.view()
    assert (view.state, view.reason, view.completed, view.left) == (FlowState.OPEN, None, 1, 2)
    assert flow.retry() == 0
    assert shop.drain() == [5, 25, ("end",)]
    assert flow.result(timeout=0) == 625
    assert flow.retry() == 0


def test_so_does_one_within_another_flow(shop: Shop) -> None:
    flows: list[Flow] = []
    cancels: Any = shop.app.task(name="cancels")(lambda: flows[0].cancel("by a member"))
    inner = group([chain(cancels.call(), shop.square.call(3)), shop.square.using(delay=60).call(2)])
    flows.append(chain(inner, shop.done.call("after")).enqueue(on_end=shop.done.call("end")))
    assert shop.drain() == [("end",)]
    assert flows[0].view().state is FlowState.CANCELLED
    assert flows[0].retry() == 2
    assert sorted(shop.drain(), key=str) == [("after",), ("end",), 2, 3]
    assert flows[0].view().state is FlowState.COMPLETED


def test_delays_count_from_the_completion_before(shop: Shop) -> None:
    flow = chain(shop.square.call(2), shop.square.using(delay=60)).enqueue()
    assert shop.drain() == [2]
    shop.app.testing().advance(seconds=61)
    assert shop.drain() == [4]
    assert flow.view().state is FlowState.COMPLETED


async def test_in_async_code(shop: Shop) -> None:
    flow = await chain(shop.square.call(2), shop.square).aenqueue()
    await shop.app.testing().adrain()
    assert await flow.aresult(timeout=5) == 16


def test_refused(shop: Shop) -> None:
    call: Any = shop.square.call(1)
    nothing: Any = shop.app.task(name="nothing")(lambda: None)
    group_result = "is a group: `results` has what its members returned"
    cases: list[tuple[Any, str]] = [
        (lambda: chain(call), "2 to 1,000 calls or tasks"),
        (lambda: chain(*[call] * 1_001), "2 to 1,000 calls or tasks"),
        (lambda: chain(call, 5), "chain must be a call of a task"),  # type: ignore[arg-type]
        (lambda: chain(shop.square, call).enqueue(), "has no result before it: write square.call"),
        (lambda: chain(call, nothing).enqueue(), "nothing cannot take the result before it"),
        (
            lambda: chain(call, shop.total).enqueue(),
            r"total takes list\[int \| None\], and square before it returns int",
        ),
        (
            lambda: chain(shop.total.call([1]), shop.square).enqueue(),
            "square takes int, and total before it returns None",
        ),
        (lambda: chain(call, shop.square.using(id="mine").call(1)).enqueue(), "an id of its own"),
        (lambda: chain(call, shop.square.using(unique="k").call(1)).enqueue(), "cannot be unique"),
    ]
    for act, error in cases:
        with pytest.raises(InvalidArgument, match=error):
            act()
    with pytest.raises(InvalidArgument, match=group_result):
        group([]).enqueue(on_end=call).result()


def test_a_result_that_cannot_be_stored_ends_the_chain(shop: Shop) -> None:
    """The next element would get a note in its place."""
    odd: Any = shop.app.task(name="odd", retries=0)(lambda: object())
    flow = chain(odd.call(), shop.done).enqueue()
    assert shop.drain() == []
    with pytest.raises(JobFailed, match="The flow needs the result, which cannot be stored"):
        flow.result(timeout=0)
