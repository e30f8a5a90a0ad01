"""The errors of all failed attempts, and their bounds."""

from __future__ import annotations

import pytest

from tenure.core.job import ErrorInfo, State
from tenure.core.outcome import Broken, Completed, Crashed, Failed, Outcome, Released, Retried
from tenure.engines.native.config import ERRORS_BYTES, ERRORS_KEPT
from tests.support.world import World


def error(number: int, size: int = 0) -> ErrorInfo:
    return ErrorInfo("Boom", f"number {number}", f"a\nb{'x' * size}")


def fail(world: World, *numbers: int, size: int = 0) -> None:
    for number in numbers:
        assert world.settle(world.take_one(), Retried(error(number, size)))


@pytest.mark.parametrize("end", [Failed, Broken])
def test_an_end_has_the_errors_of_the_attempts_before_it(world: World, end: type[Failed | Broken]) -> None:
    world.put("a")
    fail(world, 1, 2)
    view = world.view("a")
    assert (view.error, view.earlier_errors) == (error(2), (error(1),))
    assert world.settle(world.take_one(), Crashed())
    assert world.settle(world.take_one(), end(error(4)))
    view = world.view("a")
    assert (view.error, view.earlier_errors) == (error(4), (error(2), error(1)))
    errors = [one for one in (view.error, *view.earlier_errors) if one is not None]
    assert [one.attempt for one in errors] == [4, 2, 1]  # the third crashed
    assert all(one.at_ms for one in errors)
    assert errors[0].at_ms == view.ended_ms


def test_the_last_ten_are_kept(world: World) -> None:
    world.put("a")
    fail(world, *range(1, ERRORS_KEPT + 3))
    view = world.view("a")
    assert view.error == error(ERRORS_KEPT + 2)
    assert view.earlier_errors == tuple(error(number) for number in range(ERRORS_KEPT + 1, 2, -1))


def test_as_many_as_fit(world: World) -> None:
    world.put("a")
    fail(world, 1, 2, 3, size=ERRORS_BYTES // 2 - 200)
    assert world.view("a").earlier_errors == (error(2, ERRORS_BYTES // 2 - 200),)
    fail(world, 4, size=ERRORS_BYTES)
    assert world.view("a").error == error(4, ERRORS_BYTES)
    assert world.view("a").earlier_errors == ()


@pytest.mark.parametrize("outcome", [Released(), Completed(b"r", 60_000)])
def test_other_ends_change_nothing(world: World, outcome: Outcome) -> None:
    world.put("a")
    fail(world, 1, 2)
    assert world.settle(world.take_one(), outcome)
    view = world.view("a")
    assert view.earlier_errors == (() if view.state is State.COMPLETED else (error(1),))


def test_a_page_has_the_newest_only(world: World) -> None:
    world.put("a", "b")
    for lease in world.take(2):
        assert world.settle(lease, Retried(error(1)))
    waiting, ending = world.take(2)
    assert world.settle(waiting, Retried(error(2)))
    assert world.settle(ending, Failed(error(2)))
    for state in (State.READY, State.FAILED):
        (view,) = world.run(world.engine.page("q", state, 0, 10)).jobs
        assert (view.error, view.earlier_errors) == (error(2), ())
