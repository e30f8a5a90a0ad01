"""Groups on a real Redis: what follows when all members have ended, however they did."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from tenure import (
    FlowNotFound,
    FlowState,
    Group,
    GroupEnded,
    InvalidArgument,
    JobFailed,
    JobView,
    Limit,
    QueueFull,
    ResultTimeout,
    Retry,
    State,
    Tenure,
    chain,
    current_job,
    group,
    then,
)


class Shop:
    """An app with tasks, and what they did."""

    def __init__(self, app: Tenure) -> None:
        self.app = app
        self.ran: list[Any] = []
        self.bad: set[int] = {-1}

        def square(n: int) -> int:
            self.ran.append(n)
            if n in self.bad:
                raise ValueError(n)
            return n * n

        self.square = app.task(name="square", retries=0)(square)
        self.hidden = app.task(name="hidden", queue="hidden", retries=0, result_ttl=0)(square)
        self.done = app.task(name="done", queue="done")(lambda *words: self.ran.append(words))
        self.total = app.task(name="total", queue="done")(self._total)

    def _total(self, results: list[int | None]) -> None:
        self.ran.append(results)

    def drain(self) -> list[Any]:
        """Run all that is due, and return what ran since the last time."""
        self.app.testing().drain(raises=False)
        ran, self.ran = self.ran, []
        return ran


@pytest.fixture
def shop(redis_url: str) -> Iterator[Shop]:
    with Tenure(redis_url) as app:
        yield Shop(app)


def test_a_call_follows_when_all_have_completed(shop: Shop) -> None:
    calls = (shop.square.call(n) for n in range(3))
    flow = group(calls).enqueue(on_success=shop.done.call("success"), on_end=shop.done.call("end"))
    view = flow.view()
    assert (view.state, view.total, view.left, view.sealed) == (FlowState.OPEN, 3, 3, True)
    assert shop.drain() == [0, 1, 2, ("success",), ("end",)]
    view = flow.view()
    assert (view.state, view.completed, view.left) == (FlowState.COMPLETED, 3, 0)
    assert flow.wait(timeout=0) == view
    assert shop.app.flow(flow.id).view() == view


def test_after_a_failure_only_what_follows_the_end_comes_until_a_retry(shop: Shop) -> None:
    flow = group([shop.square.call(n) for n in (1, -1, 2)]).enqueue(shop.done.call("success"), shop.done.call("end"))
    assert shop.drain() == [1, -1, 2, ("end",)]
    view = flow.view()
    assert (view.state, view.completed, view.failed) == (FlowState.FAILED, 2, 1)
    (job,), after = flow.failed()
    assert isinstance(job, JobView)
    assert (job.id, job.error and job.error.type, after) == (f"{flow.id.partition('/')[2]}.1", "ValueError", None)
    shop.bad.clear()
    assert flow.retry() == 1
    assert shop.drain() == [-1, ("success",), ("end",)]
    assert flow.view().state is FlowState.COMPLETED
    assert flow.failed() == ([], None)


def test_a_task_takes_the_results_in_the_order_of_the_calls(shop: Shop) -> None:
    """Also of tasks that keep no results."""
    calls = [shop.square.using(delay=5).call(2), shop.hidden.call(3), shop.square.call(4)]
    flow = group(calls, results=True).enqueue(on_success=shop.total)
    assert sorted(shop.drain()) == [3, 4]
    shop.app.testing().advance(seconds=6)
    assert shop.drain() == [2, [4, 9, 16]]
    assert flow.results() == [4, 9, 16]
    assert flow.results(after=2) == [16]


def test_what_has_no_result_is_none(shop: Shop) -> None:
    group([shop.square.call(-1), shop.square.call(1)], results=True).enqueue(on_end=shop.total)
    assert shop.drain() == [-1, 1, [None, 1]]


def test_an_empty_group_succeeds_at_once(shop: Shop) -> None:
    flow = group([]).enqueue(on_success=shop.done.call("success"))
    assert flow.view().state is FlowState.COMPLETED
    assert shop.drain() == [("success",)]


def test_the_first_failure_cancels_the_others(shop: Shop) -> None:
    calls = [shop.square.call(-1), *(shop.square.using(delay=60).call(n) for n in range(3)), shop.hidden.call(5)]
    flow = group(calls).enqueue(on_end=shop.done.call("end"), if_one_fails="cancel")
    assert set(shop.drain()) - {5} == {-1, ("end",)}
    view = flow.view()
    assert (view.state, view.failed, view.left) == (FlowState.CANCELLED, 1, 0)
    assert view.reason == "member 0 failed"


def test_a_flow_can_be_cancelled(shop: Shop) -> None:
    flow = group(shop.square.using(delay=60).call(n) for n in range(3)).enqueue(on_end=shop.done.call("end"))
    assert flow.cancel("not needed")
    view = flow.view()
    assert (view.state, view.cancelled, view.reason) == (FlowState.CANCELLED, 3, "not needed")
    assert shop.drain() == [("end",)]


def test_members_can_come_one_by_one(shop: Shop) -> None:
    with shop.app.open_group("default", on_success=shop.done.call("success")) as members:
        for n in range(1_200):
            members.add(shop.square.call(n))
        assert len(shop.drain()) == 1_000
        assert members.flow.view().state is FlowState.OPEN
    assert shop.drain() == [*range(1_000, 1_200), ("success",)]


def test_a_group_that_is_broken_off_is_cancelled(shop: Shop) -> None:
    members = shop.app.open_group("default", on_end=shop.done.call("end"))
    with contextlib.suppress(ZeroDivisionError), members:
        for n in range(501):
            members.add(shop.square.call(1000 // (500 - n)))
    view = members.flow.view()
    assert (view.state, view.cancelled) == (FlowState.CANCELLED, 500)
    assert shop.drain() == [("end",)]


def test_a_producer_that_dies_leaves_a_group_that_can_be_ended(shop: Shop) -> None:
    members = shop.app.open_group("default", on_end=shop.done.call("end"))
    members.__enter__()
    for n in range(500):
        members.add(shop.square.call(n))
    assert len(shop.drain()) == 500
    flow = shop.app.flow(members.flow.id)
    assert flow.view().state is FlowState.OPEN
    assert flow.seal()
    assert flow.view().state is FlowState.COMPLETED
    assert shop.drain() == [("end",)]
    for n in range(499):
        members.add(shop.square.call(n))
    with pytest.raises(GroupEnded):
        members.add(shop.square.call(499))


def test_waiting_and_forgetting(shop: Shop) -> None:
    flow = group([shop.square.call(1)]).enqueue(on_end=shop.done.call("end"))
    with pytest.raises(ResultTimeout, match="1 of 1 members are left"):
        flow.wait(timeout=0)
    assert flow.forget()
    with pytest.raises(FlowNotFound):
        flow.view()
    assert not flow.forget()
    assert shop.drain() == [1]


async def test_all_of_it_in_async_code(shop: Shop) -> None:
    flow = await group([shop.square.call(n) for n in (1, -1)], results=True).aenqueue(shop.done.call("success"))
    await shop.app.testing().adrain(raises=False)
    assert (await flow.wait_async(timeout=5)).failed == 1
    assert await flow.aresults() == [1, None]
    assert len((await flow.afailed())[0]) == 1
    async with shop.app.open_group("default") as members:
        await members.aadd(shop.square.call(7))
    assert (await members.flow.aview()).total == 1
    assert await members.flow.acancel()
    assert await members.flow.aforget()


def test_refused(shop: Shop) -> None:
    call = shop.square.call(1)
    wrong: Any = call
    wrongs: Any = [shop.square]
    nothing: Any = shop.app.task(name="nothing")(lambda *, key=0: None)
    cases: list[tuple[Any, str]] = [
        (lambda: group(wrong), "group must be a list of calls"),
        (lambda: group([]).enqueue(), "it has no calls, and nothing follows it"),
        (lambda: group(wrongs).enqueue(), "square has no result before it: write square.call"),
        (lambda: group([shop.square.using(id="mine").call(1)]).enqueue(), "an id of its own"),
        (lambda: group([shop.square.using(unique="k").call(1)]).enqueue(), "cannot be unique"),
        (lambda: group([shop.square.using(persistent=True).call(1)]).enqueue(), "never ends"),
        (lambda: group([call]).enqueue(on_success=shop.total), "set results=True"),
        (lambda: group([call], results=True).enqueue(on_success=nothing), "cannot take"),
        (lambda: group([call]).enqueue(if_one_fails="stop"), "if_one_fails"),  # type: ignore[arg-type]
        (lambda: group([call] * 1_001, results=True).enqueue(on_success=shop.total), "at most 1,000"),
        (lambda: shop.app.flow("no id"), "flow must be an id"),
    ]
    for act, error in cases:
        with pytest.raises(InvalidArgument, match=error):
            act()


def test_results_that_are_too_large_for_one_job_break_what_follows(shop: Shop) -> None:
    """And say why. The flow keeps them."""
    large: Any = shop.app.task(name="large")(lambda: "x" * 1_000_000)
    flow = group([large.call() for _ in range(5)], results=True).enqueue(on_success=shop.total)
    assert shop.drain() == []
    [job] = shop.app.inspect.page("done", State.BROKEN).jobs
    assert "the_results_are_too_large" in str(job.error)
    assert [len(one) for one in flow.results()] == [1_000_000] * 5


def test_a_group_is_enqueued_once(shop: Shop) -> None:
    calls = group(shop.square.call(n) for n in range(3))
    calls.enqueue()
    with pytest.raises(InvalidArgument, match="it has been enqueued"):
        calls.enqueue()


def test_a_block_that_cannot_enqueue_its_last_members_cancels_the_flow(shop: Shop) -> None:
    shop.app.control.configure("default", max_length=1)
    members = shop.app.open_group("default")
    members.__enter__()
    members.add(shop.square.call(1))
    members.add(shop.square.call(2))
    with pytest.raises(QueueFull):
        members.__exit__(None, None, None)
    assert members.flow.view().state is FlowState.CANCELLED


def test_a_group_of_groups_and_chains(shop: Shop) -> None:
    """Its results are those of its parts; a task takes them."""
    parts: list[Any] = [
        shop.square.call(2),
        chain(shop.square.call(2), shop.hidden, shop.square),
        group([shop.square.call(3), chain(shop.square.call(1), shop.square)], results=True),
        group([]),
    ]
    flow = group(parts, results=True).enqueue(on_success=shop.total)
    shop.drain()
    assert flow.results() == [4, 256, [9, 1], None]
    view = flow.view()
    assert (view.state, view.total, view.completed) == (FlowState.COMPLETED, 4, 4)


def test_what_follows_a_group_may_be_a_flow(shop: Shop) -> None:
    first = group([shop.square.call(1), shop.square.call(-1)])
    flow = first.enqueue(on_end=chain(shop.done.call("end"), group([shop.done.call("a"), shop.done.call("b")])))
    assert shop.drain() == [1, -1, ("end",), ("a",), ("b",)]
    assert flow.view().state is FlowState.FAILED
    shop.bad.clear()
    assert flow.retry() == 1
    assert shop.drain() == [-1, ("end",), ("a",), ("b",)]


def test_failures_deep_in_a_flow_are_listed_and_retried(shop: Shop) -> None:
    inner = group([chain(shop.square.call(-1), shop.square), shop.square.call(5)])
    flow = chain(inner, shop.done.call("after")).enqueue()
    assert shop.drain() == [-1, 5]
    [job], after = flow.failed()
    assert (job.id, job.state, after) == (f"{flow.id.partition('/')[2]}.0.0.0", State.FAILED, None)
    assert shop.app.flow(f"{flow.id}.0").view().failed == 1
    with pytest.raises(JobFailed, match="ValueError"):
        flow.result(timeout=0)
    shop.bad.clear()
    assert flow.retry() == 1
    assert shop.drain() == [-1, 1, ("after",)]
    assert flow.view().state is FlowState.COMPLETED


def test_members_add_members_to_their_group(shop: Shop) -> None:
    """An attempt that fails adds none."""
    tries: list[int] = []

    def visit(depth: int) -> None:
        tries.append(depth)
        if depth:
            job = current_job()
            assert job is not None
            job.group.add(visits.call(depth - 1), visits.using(queue="done").call(depth - 1))
        if tries.count(2) == 1:
            raise Retry(delay=0)

    visits = shop.app.task(name="visit", queue="hidden")(visit)
    flow = group([visits.call(2)]).enqueue(on_end=shop.done.call("end"))
    assert shop.drain() == [("end",)]
    assert sorted(tries) == [0] * 4 + [1] * 2 + [2] * 2
    assert flow.view().completed == 7


def test_more_results_than_a_job_may_have_do_not_reach_a_task(shop: Shop) -> None:
    """Members have added members: nobody could refuse the task at the enqueue."""

    def add() -> None:
        job = current_job()
        assert job is not None
        job.group.add(*[shop.square.call(2)] * 1_000)

    adds = shop.app.task(name="add")(add)
    flow = group([adds.call()], results=True).enqueue(on_success=shop.total)
    assert [] not in shop.drain()
    assert flow.view().completed == 1_001
    (job,) = shop.app.inspect.page("done", "broken").jobs
    assert job.error is not None
    assert "the_results_are_too_large" in job.error.message


def test_only_members_of_groups_add_members(shop: Shop) -> None:
    errors: list[str] = []

    def add() -> None:
        job = current_job()
        assert job is not None
        try:
            job.group.add(shop.square.using(unique="k").call(1))
        except InvalidArgument as error:
            errors.append(str(error))

    adds = shop.app.task(name="add")(add)
    adds.enqueue()
    chain(adds.call(), shop.done.call("end")).enqueue()
    group([adds.call()]).enqueue()
    shop.drain()
    assert [error.partition(":")[2] for error in errors] == [
        *[" this job is not a member of a group. A chain takes no more members."] * 2,
        " a member cannot be unique: another job could stand for it.",
    ]


def test_flows_follow_a_job(shop: Shop) -> None:
    """By its handler, from outside, before its end and after it, and by its bad end, each time that it comes."""
    steps = chain(shop.square.call(2), shop.square)

    def add() -> None:
        then(steps, group([shop.square.call(3)]), shop.square.call(5))

    adds = shop.app.task(name="add")(add)
    handle = adds.enqueue()
    handle.then(group([shop.square.call(6)], results=True))
    assert sorted(shop.drain()) == [2, 3, 4, 5, 6]
    handle.then(steps)
    assert shop.drain() == [2, 4]
    made = shop.app.inspect.flows("default")
    assert sorted(view.is_chain for view in made) == [False, False, True, True]
    assert {view.state for view in made} == {FlowState.COMPLETED}
    members = group([shop.square.call(7), shop.done.call("in a group")])
    failing = shop.square.using(on_failed=chain(members, shop.done.call("failed")))
    jobs = [failing.enqueue(-1), failing.enqueue(1)]
    assert shop.drain() == [-1, 1, 7, ("in a group",), ("failed",)]
    assert shop.app.control.retry("default", jobs[0].id)
    assert shop.drain() == [-1, 7, ("in a group",), ("failed",)]


def test_a_member_adds_flows_to_its_group(shop: Shop) -> None:
    """Each is one member: the group waits for it, and gets its result."""

    def add() -> int:
        job = current_job()
        assert job is not None
        job.group.add(chain(shop.square.call(2), shop.square), group([shop.hidden.call(3)], results=True))
        job.group.add(shop.square.call(5), group([]))
        return 1

    flow = group([shop.app.task(name="add")(add).call()], results=True).enqueue(on_end=shop.done.call("end"))
    ran = shop.drain()
    assert (sorted(ran[:-1]), ran[-1]) == ([2, 3, 4, 5], ("end",))
    assert sorted(map(str, flow.results())) == ["1", "16", "25", "None", "[9]"]
    assert (flow.view().state, flow.view().total) == (FlowState.COMPLETED, 5)


def test_a_flow_that_cannot_follow_is_refused_where_it_is_written(shop: Shop) -> None:
    errors: list[str] = []
    deep: Group = group([shop.square.call(1)])
    for _ in range(7):
        deep = group([deep])
    with Tenure("redis://127.0.0.1:1") as other:
        stranger = chain(*[other.task(name="stranger")(lambda: None).call()] * 2)
    many, large = (group([shop.square.call(1)] * 600), group([shop.done.call("x" * 600_000)]))

    def add() -> None:
        job = current_job()
        assert job is not None
        for act, flows in (
            (job.group.add, [deep]),
            (job.group.add, [stranger]),
            (job.then, [group([deep])]),
            (job.then, [group([])]),
            (job.then, [many, many]),
            (job.group.add, [large, large]),
        ):
            with pytest.raises(InvalidArgument) as caught:
                act(*flows)
            errors.append(str(caught.value))

    group([shop.app.task(name="add")(add).call()]).enqueue()
    assert shop.drain() == []
    wanted = ["most 8 deep", "of this app", "most 8 deep", "nothing to do", "1,000 follow-up jobs", "bytes of payloads"]
    for error, part in zip(errors, wanted, strict=True):
        assert part in error
    with pytest.raises(InvalidArgument, match="on_failed must be at most 8,192 bytes"):
        shop.square.using(on_failed=large).enqueue(1)


def test_each_member_has_what_follows_from_its_own_call(shop: Shop) -> None:
    """Most members are copies of the one before, but for their arguments."""
    limited = shop.app.task(name="limited", queue="limited", limits=[Limit("user:{n}", concurrency=1)])(lambda n: None)
    slow = shop.square.using(delay=60)
    calls: list[Any] = [
        *map(shop.square.call, range(3)),
        slow.call(3),
        shop.square.call(4),
        *map(limited.call, range(5, 7)),
    ]
    group(calls).enqueue()
    find = shop.app.inspect.page
    ready = [view.payload for view in find("default", State.READY).jobs]
    assert ready == [b"[[%d],{}]" % n for n in (0, 1, 2, 4)]
    assert [view.payload for view in find("default", State.SCHEDULED).jobs] == [b"[[3],{}]"]
    rules = [(view.payload or b"", view.shape.limits[0].name) for view in find("limited", State.READY).jobs]
    assert sorted(rules) == [(b"[[5],{}]", "user:5"), (b"[[6],{}]", "user:6")]


def test_enqueue_middleware_sees_each_member(shop: Shop) -> None:
    shop.app.enqueue_middleware(lambda job: job.headers.update(payload=job.payload.decode()))
    group(map(shop.square.call, range(3))).enqueue()
    views = shop.app.inspect.page("default", State.READY).jobs
    assert sorted(dict(view.headers or {})["payload"] for view in views) == ["[[0],{}]", "[[1],{}]", "[[2],{}]"]


def test_flows_go_eight_deep(shop: Shop) -> None:
    def deep(levels: int) -> Group:
        return group([deep(levels - 1) if levels > 1 else shop.square.call(levels)])

    flow = deep(8).enqueue()
    assert shop.drain() == [1]
    assert flow.view().state is FlowState.COMPLETED
    with pytest.raises(InvalidArgument, match="at most 8 deep"):
        deep(9).enqueue()
    with pytest.raises(InvalidArgument, match="at most 1,000 jobs in a chain, or in a flow within another one"):
        group([group(shop.square.call(n) for n in range(1_001))]).enqueue()
