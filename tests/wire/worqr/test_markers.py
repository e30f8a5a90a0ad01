"""The markers of unique tasks: a task that lives keeps its marker, and none is left of one that ended."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from tenure.compat.worqr.raw import RawEngine
from tenure.core.job import State
from tenure.core.outcome import Broken, Cancelled, Completed, Failed, Outcome, Retried, Unroutable
from tenure.core.shape import Shape, UniqueRule
from tenure.core.steps import Call, Command, Steps
from tests.wire.worqr.bench import BOOM, UNIQUE, Bench
from tests.wire.worqr.original import R

LATER = Retried(BOOM, 10**7)
RECORDS: dict[State, Outcome] = {
    State.FAILED: Failed(BOOM),
    State.BROKEN: Broken(BOOM),
    State.CANCELLED: Cancelled("no"),
}


def name_of(task: str) -> str:
    return hashlib.sha1(task.encode(), usedforsecurity=False).hexdigest()


def only(bench: Bench, state: State) -> str:
    [job] = bench.run(bench.engine.page("q", state)).jobs
    return job.id


def aside(bench: Bench, state: State) -> str:
    """A unique task that has gone there."""
    if state is State.UNROUTABLE:
        assert bench.put("a", shape=UNIQUE, task="t") == [True]
        assert bench.settle(bench.take()[0], Unroutable())
    else:
        assert bench.put("a", shape=UNIQUE) == [True]
        assert bench.settle(bench.take()[0], RECORDS.get(state, LATER))
    return only(bench, state)


def task_of(bench: Bench, state: State) -> str:
    return '{"tenure":1,"task":"t","text":"a"}' if state is State.UNROUTABLE else "a"


@pytest.mark.parametrize("state", RECORDS)
def test_a_retry_takes_the_marker_again(bench: Bench, state: State) -> None:
    id = aside(bench, state)
    assert not bench.is_marked("a")
    assert bench.run(bench.engine.retry("q", id))
    assert bench.put("a", shape=UNIQUE) == [False]
    assert bench.settle(bench.take()[0])
    assert not bench.is_marked("a")


@pytest.mark.parametrize("state", RECORDS)
def test_a_retry_is_refused_while_another_has_the_marker(bench: Bench, state: State) -> None:
    id = aside(bench, state)
    assert bench.put("a", shape=UNIQUE) == [True]
    assert not bench.run(bench.engine.retry("q", id))
    assert bench.waiting() == ["a"]
    assert bench.settle(bench.take()[0])
    assert bench.run(bench.engine.retry("q", id))
    assert bench.is_marked("a")


def test_the_retry_of_a_task_that_was_not_unique_takes_none(bench: Bench) -> None:
    bench.put("a")
    assert bench.settle(bench.take()[0], Failed(BOOM))
    assert bench.put("a", shape=UNIQUE) == [True]
    assert bench.run(bench.engine.retry("q", name_of("a")))
    assert bench.waiting() == ["a", "a"]


@pytest.mark.parametrize("state", [State.FAILED, State.SCHEDULED])
def test_a_retry_with_another_payload_takes_the_marker_of_that(bench: Bench, state: State) -> None:
    id = aside(bench, state)
    assert bench.run(bench.engine.retry("q", id, b"b"))
    assert not bench.is_marked("a")
    assert bench.is_marked("b")
    assert bench.put("a", shape=UNIQUE) == [True]


def test_a_retry_with_the_payload_of_another_unique_task_is_refused(bench: Bench) -> None:
    assert bench.put("b", shape=UNIQUE) == [True]
    assert bench.settle(bench.take()[0], LATER)
    id = aside(bench, State.FAILED)
    assert not bench.run(bench.engine.retry("q", id, b"b"))
    assert bench.is_marked("b")


@pytest.mark.parametrize("state", [State.SCHEDULED, State.UNROUTABLE])
@pytest.mark.parametrize("how", ["retry", "discard", "cancel", "purge", "cancel all"])
def test_what_ends_a_task_that_is_aside_frees_it(bench: Bench, state: State, how: str) -> None:
    id, task = aside(bench, state), task_of(bench, state)
    assert bench.is_marked(task)
    if how == "purge":
        bench.run(bench.engine.purge("q", state))
    elif how == "cancel all":
        bench.run(bench.engine.cancel_all("q"))
    else:
        assert bench.run(getattr(bench.engine, how)("q", id))
    assert bench.is_marked(task) == (how == "retry")
    bench.audit()


@pytest.mark.parametrize("state", RECORDS)
@pytest.mark.parametrize("how", ["discard", "purge"])
@pytest.mark.parametrize("where", ["waits", "runs", "aside"])
def test_the_end_of_a_record_leaves_the_marker_of_a_later_task(
    bench: Bench, state: State, how: str, where: str
) -> None:
    id = aside(bench, state)
    assert bench.put("a", shape=UNIQUE) == [True]
    if where != "waits":
        [lease] = bench.take()
        if where == "aside":
            assert bench.settle(lease, LATER)
    bench.run(bench.engine.purge("q", state) if how == "purge" else bench.engine.discard("q", id))
    assert bench.put("a", shape=UNIQUE) == [False]


@pytest.mark.parametrize("how", ["discard", "cancel", "purge", "cancel all", "cancel_tasks"])
def test_the_end_of_a_copy_leaves_the_marker_of_one_that_runs(bench: Bench, how: str) -> None:
    assert bench.put("a", shape=UNIQUE) == [True]
    [lease] = bench.take()
    bench.put("a")
    if how in ("discard", "cancel"):
        bench.run(getattr(bench.engine, how)("q", name_of("a")))
    elif how == "purge":
        assert bench.run(bench.engine.purge("q", State.READY)) == 1
    elif how == "cancel all":
        bench.run(bench.engine.cancel_all("q"))
    else:
        bench.run(RawEngine(R).cancel_tasks("q", b"a"))
    assert bench.is_marked("a")
    assert bench.settle(lease, Completed(b""))
    assert not bench.is_marked("a")


@pytest.mark.parametrize("how", ["discard", "cancel"])
def test_the_end_of_a_copy_leaves_the_marker_of_one_that_waits_or_is_with_an_original(bench: Bench, how: str) -> None:
    bench.put("a", "a")
    original = bench.original("original", "q")
    assert bench.put("b", shape=UNIQUE) == [True]
    bench.db.set(f"{R}:uniqueTasks:{hashlib.md5(b'a', usedforsecurity=False).hexdigest()}", " ")
    bench.run(getattr(bench.engine, how)("q", name_of("a")))
    assert bench.is_marked("a"), "the other one waits"
    bench.put("a")
    held = original.dequeue("q")
    while held is not None and held[1] != "a":
        held = original.dequeue("q")
    assert held is not None
    bench.run(getattr(bench.engine, how)("q", name_of("a")))
    assert bench.is_marked("a"), "an original runs the other one"
    original.finish(held[0])
    assert not bench.is_marked("a")


def test_a_task_that_crashed_too_often_is_free_at_once(bench: Bench) -> None:
    assert bench.put("a", shape=UNIQUE) == [True]
    for number in range(bench.config.max_crashes):
        assert bench.take(1, f"w{number}")
        bench.silence()
    id = only(bench, State.BROKEN)
    assert not bench.is_marked("a")
    assert bench.run(bench.engine.retry("q", id))
    assert bench.is_marked("a")


def test_markers_of_a_cut_purge_wait_for_maintenance_and_for_nothing_else(bench: Bench) -> None:
    """The caller dies between the two steps. An original completes another copy, and the task is enqueued again."""
    assert bench.put("a", "b", shape=UNIQUE) == [True, True]
    steps = bench.engine._in_rounds("take_out", "q", bench.engine._config, 500, b"")
    assert bench.run(steps) == 2
    assert bench.is_marked("a")
    bench.db.delete(f"{R}:uniqueTasks:{hashlib.md5(b'a', usedforsecurity=False).hexdigest()}")
    assert bench.put("a", shape=UNIQUE) == [True]
    bench.maintain()
    assert bench.is_marked("a")
    assert not bench.is_marked("b")


def test_a_foreign_envelope_is_freed_also_when_its_end_is_sent_twice(bench: Bench) -> None:
    task = '{ "tenure": 1, "task": "t", "args": [] }'
    assert bench.original().enqueue_unique("q", task)
    [lease] = bench.take()
    cut = bench.engine.settle([(lease, Completed(b""))])
    next(cut)
    cut.close()
    assert bench.settle(lease)
    assert not bench.is_marked(task)


def test_a_sweep_spares_a_task_that_moves_meanwhile(bench: Bench) -> None:
    """It returns from a worker to the front, or to the end, while the search reads the queue."""
    bench.put(*(f"t{n}" for n in range(2_500)))
    assert bench.put("moving", shape=Shape(unique=UniqueRule("a:0"))) == [True]
    bench.db.lmove(f"{R}:queues:q", f"{R}:queues:q", "LEFT", "RIGHT")
    for _ in range(2):
        bench.take(1)
        steps = bench.engine.maintain(["q"], [])
        call, has_moved = next(steps), False
        try:
            while True:
                reply = bench.run(one(call))
                if isinstance(call, Command) and call.args[:2] == ("LRANGE", f"{R}:queues:q") and not has_moved:
                    has_moved = bench.leave() == 1
                call = steps.send(reply)
        except StopIteration:
            assert has_moved
        bench.pass_time(60_050)
    assert bench.is_marked("moving")


def one(call: Call) -> Steps[Any]:
    return (yield call)
