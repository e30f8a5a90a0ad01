"""Flows of which a producer, a worker or a cancellation comes between two steps."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tenure import FlowNotFound, FlowState, GroupEnded, InvalidArgument, Tenure, chain, group
from tenure.client import groups
from tenure.core.steps import Command
from tenure.engines.native.flows import NativeFlows
from tests.acceptance.test_flows import Shop


@pytest.fixture
def shop(redis_url: str) -> Iterator[Shop]:
    with Tenure(redis_url) as app:
        yield Shop(app)


def nothing(self: Any, place: str, soon: bool = False) -> Any:
    """The process ends before it hands anything over."""
    yield from ()
    return ()


@contextlib.contextmanager
def dying(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(NativeFlows, "hand_over", nothing)
        yield


def test_an_error_in_the_block_does_not_count_as_success(shop: Shop) -> None:
    members = shop.app.open_group("default", on_success=shop.done.call("success"), on_end=shop.done.call("end"))
    with contextlib.suppress(OSError), members:
        members.add(shop.square.call(1))
        raise OSError
    assert members.flow.view().state is FlowState.CANCELLED
    assert shop.drain() == [("end",)]


def test_nor_a_generator_that_raises_when_the_first_page_has_completed(shop: Shop) -> None:
    def calls() -> Any:
        yield from (shop.square.call(n) for n in range(600))
        shop.app.testing().drain(raises=False)
        raise OSError

    with contextlib.suppress(OSError):
        group(calls()).enqueue(on_success=shop.done.call("success"))
    shop.drain()
    assert ("success",) not in shop.ran
    [view] = shop.app.inspect.flows("default")
    assert view.state is FlowState.CANCELLED


def test_nor_a_group_that_is_not_sealed_in_time(shop: Shop) -> None:
    members = shop.app.open_group("default", on_success=shop.done.call("success"), open_for=0.01)
    members.__enter__()
    time.sleep(0.05)
    assert shop.drain() == []
    assert members.flow.view().state is FlowState.CANCELLED


def test_a_cancel_while_the_producer_enqueues(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end comes when the members that were on their way have ended."""
    real = groups.enqueue_all  # type: ignore[attr-defined]

    def late(client: Any, jobs: Any) -> Any:
        shop.app.flow(f"default/{jobs[0].id.partition('.')[0]}").cancel("by another process")
        assert shop.drain() == []
        return real(client, jobs)

    monkeypatch.setattr(groups, "enqueue_all", late)
    flow = group([shop.square.call(2)]).enqueue(shop.done.call("success"), on_end=shop.done.call("end"))
    assert shop.drain() in ([("end",)], [2, ("end",)])
    view = flow.view()
    assert (view.state, view.left) == (FlowState.CANCELLED, 0)


def test_a_cancel_while_the_jobs_of_an_inner_flow_are_on_their_way(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    with dying(monkeypatch):
        flow = group([group([shop.square.call(2)])]).enqueue(on_end=shop.done.call("end"))
    flow.cancel("by another process")
    assert shop.drain() == [("end",)]


@pytest.mark.parametrize("partitions", [4])
def test_a_cancel_when_word_of_completions_is_on_its_way(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    _spread(shop, partitions)
    flow = group([shop.square.call(1), *(shop.hidden.call(n) for n in range(8))], results=True).enqueue()
    with dying(monkeypatch):
        shop.drain()
    flow.cancel("too late")
    shop.drain()
    assert flow.view().completed == 9


def test_a_sealed_group_ends_although_its_producer_died_with_numbers(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(client: Any, jobs: Any) -> Any:
        yield from ()
        raise SystemExit

    members = shop.app.open_group("default", on_end=shop.done.call("end"))
    members.__enter__()
    monkeypatch.setattr(groups, "enqueue_all", dies)
    with contextlib.suppress(SystemExit):
        for n in range(500):
            members.add(shop.square.call(n))
    monkeypatch.setattr("tenure.core.flows.PRODUCER_MS", -1)
    assert members.flow.seal()
    assert shop.drain() == [("end",)]


def test_a_retry_and_the_end_after_it_in_one_page(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = chain(shop.square.call(2), shop.hidden, shop.square).enqueue()
    with dying(monkeypatch):
        shop.drain()
    flows: Any = shop.app._client.flows
    shop.app._client.run(flows.hand_over("default"))
    flow.cancel("stop")
    assert flow.view().state is FlowState.CANCELLED
    with dying(monkeypatch):
        assert flow.retry() == 1
        shop.drain()
    shop.drain()
    assert flow.view().state is FlowState.COMPLETED


def test_a_flow_within_an_open_one_is_kept(shop: Shop) -> None:
    flow = group([group([shop.square.call(-1)]), shop.square.using(delay=60).call(2)]).enqueue(keep=0.05)
    shop.drain()
    time.sleep(0.1)
    assert flow.view().state is FlowState.OPEN
    assert flow.retry() == 1


def test_no_call_is_lost_after_the_block(shop: Shop) -> None:
    with shop.app.open_group("default") as members:
        pass
    with pytest.raises(GroupEnded):
        members.add(shop.square.call(1))


def test_a_wrong_call_is_refused_where_it_is_added(shop: Shop) -> None:
    wrong: Any = 5
    with shop.app.open_group("default") as members, pytest.raises(InvalidArgument):
        members.add(wrong)


def test_an_empty_group_succeeds(shop: Shop) -> None:
    assert chain(group([], results=True), shop.total).enqueue()
    assert shop.drain() == [[]]


def test_a_task_does_not_take_the_results_of_a_group_without(shop: Shop) -> None:
    with pytest.raises(InvalidArgument):
        chain(group([shop.square.call(1)]), shop.total).enqueue()


def test_an_id_with_a_dot_leaves_no_key(shop: Shop) -> None:
    flow = group([shop.square.call(1)]).enqueue(on_success=shop.done.using(id="report.1").call("x"))
    shop.drain()
    flow.forget()
    assert [key for key in _keys(shop) if b":flow:" in key] == []


def test_a_forgotten_flow_takes_the_records_of_inner_ones_along(shop: Shop) -> None:
    """Also of those that are open; nothing in them goes on."""
    inner = group([chain(shop.square.call(2), shop.square), chain(shop.square.call(-1), shop.square)])
    flow = chain(inner, shop.done.call("after")).enqueue()
    assert [one.id for one in shop.app.inspect.flows("default")] == [
        f"{flow.id}{n}" for n in (".0.1", ".0.0", ".0", "")
    ]
    assert flow.forget()
    assert shop.app.inspect.flows("default") == []
    assert shop.drain() == [2, -1]
    assert [key for key in _keys(shop) if b"flow" in key] == []


def test_a_large_flow_is_removed_in_slices(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that forgets it ends after one; maintenance removes the rest."""
    inner = [group([shop.square.call(1)]) for _ in range(3)]
    flow = group([*(shop.square.call(n) for n in range(1_500)), *inner], results=True).enqueue()
    assert len(shop.drain()) == 1_503
    with monkeypatch.context() as patch:
        patch.setattr("tenure.engines.native.flows.FORGET_ROUNDS", 1)
        assert flow.forget()
    with pytest.raises(FlowNotFound):
        flow.view()
    key = flow.id.partition("/")[2].encode()
    left = {name.rpartition(key)[2] for name in _keys(shop) if b":flow:" in name}
    assert left >= {b"", b":results", b".1500", b".1502:ended"}
    shop.drain()
    assert [name for name in _keys(shop) if b"flow" in name] == []
    assert not flow.forget()


def test_records_that_are_past_their_time_are_removed_in_slices(shop: Shop) -> None:
    flow = group([shop.square.call(n) for n in range(1_500)], results=True).enqueue(keep=0.001)
    shop.drain()
    with pytest.raises(FlowNotFound):
        flow.view()
    shop.drain()
    assert [name for name in _keys(shop) if b"flow" in name] == []


def fail_over(shop: Shop) -> None:
    """Lose the word of ends that its sources have forgotten."""
    for key in [key for key in _keys(shop) if b":out:" in key or key.endswith(b":outs")]:
        _call(shop, "DEL", key)


def test_a_deep_check_settles_members_with_ends_that_a_failover_has_lost(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one without a record. One that waits is left alone."""
    calls: list[Any] = [shop.square.call(-1), shop.square.call(2), shop.hidden.call(3)]
    waits, inner = shop.square.using(delay=60).call(4), group([shop.square.call(5)], results=True)
    flow = group([*calls, waits, inner], results=True).enqueue(on_end=shop.done.call("end"))
    with dying(monkeypatch):
        shop.drain()
    fail_over(shop)
    assert shop.drain() == []
    lost = [f"{flow.id}.{n}" for n in ("0", "1", "4.0")]
    assert _found(shop, False) == lost  # the producer may be about to enqueue member 2
    monkeypatch.setattr("tenure.core.flows.PRODUCER_MS", -1)
    lost.insert(2, f"{flow.id}.2")
    assert _found(shop, False) == lost
    assert flow.view().left == 5
    assert _found(shop, True) == lost
    assert _found(shop, True) == []
    view = flow.view()
    assert (view.completed, view.failed, view.cancelled, view.left) == (2, 1, 1, 1)
    shop.app.testing().advance(seconds=61)
    assert shop.drain() == [4, ("end",)]
    assert flow.results() == [None, 4, None, 16, [25]]


def test_a_deep_check_settles_inner_flows(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = chain(group([shop.square.call(-1), shop.square.call(5)], results=True), shop.total).enqueue()
    for ran in ([-1, 5], [-1]):
        with dying(monkeypatch):
            assert shop.drain() == ran
        if shop.bad:  # else the member was counted as it ended
            _hand_over_once(shop, monkeypatch)
        fail_over(shop)
        assert shop.app.flow(f"{flow.id}.0").view().state is not FlowState.OPEN
        assert shop.drain() == []
        assert flow.view().state is FlowState.OPEN
        assert _found(shop, True) == [f"{flow.id}.0"]
        if not shop.bad:
            break
        shop.bad.clear()
        assert flow.retry() == 1
    assert shop.drain() == [[1, 25]]
    assert flow.view().state is FlowState.COMPLETED


def test_the_command_of_a_deep_check(shop: Shop, monkeypatch: pytest.MonkeyPatch, command: Any, redis_url: str) -> None:
    flow = group([shop.square.call(-1)]).enqueue(on_end=shop.done.call("end"))
    with dying(monkeypatch):
        shop.drain()
    fail_over(shop)

    def check(*args: str) -> str:
        return str(command("check", *args, url=redis_url).end(0).out)

    assert "flows" not in check()
    found = check("--deep")
    assert f"1 members that open flows wait for have ended, or are gone: {flow.id}.0." in found
    assert "--repair" in found
    assert flow.view().state is FlowState.OPEN
    assert "Their flows have counted them now." in check("--deep", "--repair")
    assert flow.view().state is FlowState.FAILED
    assert shop.drain() == [("end",)]
    assert "No open flow of 2 queues waits for a member that has ended." in check("--deep")
    assert "--repair needs --deep" in command("check", "--repair", url=redis_url).end(2).err


def _hand_over_once(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process ends after one page."""
    flows: Any = shop.app._client.flows
    with monkeypatch.context() as patch:
        patch.setattr("tenure.engines.native.flows.ROUNDS_MOST", 1)
        shop.app._client.run(flows.hand_over("default"))


def _found(shop: Shop, settles: bool) -> list[str]:
    from tenure.manage.checks import _lost_of

    return sorted(shop.app._client.run(_lost_of(shop.app._client.flows, "default", settles)))


def _call(shop: Shop, *args: Any) -> Any:
    def steps() -> Any:
        return (yield Command(args))

    return shop.app._client.run(steps())


def _keys(shop: Shop) -> list[bytes]:
    return list(_call(shop, "KEYS", "*"))


def _spread(shop: Shop, partitions: int) -> None:
    shop.hidden.enqueue(100)
    if partitions > 1:
        shop.app.control.configure("hidden", partitions=partitions)
    shop.drain()
