"""When a failed call is sent again, on a clock of the test's own."""

from __future__ import annotations

import math

import pytest

from tenure.core.backoff import RetryBudget
from tenure.redis.sessions import MAX_FREE, Sessions


def _waits(limit_s: float, draw: float) -> list[float]:
    """The waits of a call that fails at once whenever it is sent."""
    patience = RetryBudget(limit_s, lambda: draw)
    now, waits = 50.0, []
    while (wait := patience.failed(now)) is not None:
        waits.append(wait)
        now += wait
        assert len(waits) < 10_000
    return waits


@pytest.mark.parametrize("draw", [0.0, 0.5, 0.999])
def test_waits_start_short_grow_and_are_capped(draw: float) -> None:
    waits = _waits(60.0, draw)
    assert 0.015 <= waits[0] <= 0.03
    early = [wait for at, wait in _timed(waits) if at < 9.9]
    late = [wait for at, wait in _timed(waits) if at > 10]
    assert max(early) <= 0.3
    assert 0.3 < max(late) <= 2.0


def test_the_last_wait_ends_with_the_patience() -> None:
    assert sum(_waits(1.0, 0.7)) == pytest.approx(1.0)


def test_no_patience_gives_up_at_once() -> None:
    assert _waits(0.0, 0.5) == []


def test_patience_starts_with_the_first_failure() -> None:
    patience = RetryBudget(10.0, lambda: 0.5)
    assert patience.left(1_000.0) == 10.0
    assert patience.failed(2_000.0) is not None
    assert patience.left(2_004.0) == 6.0
    assert patience.left(2_500.0) == 0.1
    assert patience.failed(2_010.0) is None


def test_a_session_is_one_at_a_time_and_counts_on() -> None:
    sessions = Sessions()
    one, two = sessions.take(), sessions.take()
    assert one.name != two.name
    assert [one.draw().number, one.draw().number] == [1, 2]
    sessions.give(one)
    assert sessions.take() is one
    assert one.draw().number == 3


def test_free_sessions_are_limited() -> None:
    sessions = Sessions()
    taken = [sessions.take() for _ in range(MAX_FREE + 5)]
    for session in taken:
        sessions.give(session)
    back = [sessions.take() for _ in taken]
    assert len(set(back) & set(taken)) == MAX_FREE


def _timed(waits: list[float]) -> list[tuple[float, float]]:
    at, timed = 0.0, []
    for wait in waits:
        timed.append((at, wait))
        at += wait
    return timed


def test_pauses_between_renewals_grow_while_none_holds() -> None:
    renewals = RetryBudget(math.inf, lambda: 1.0)
    pauses = [renewals.lost(0.0, now=now) for now in range(60)]
    assert pauses[:3] == [0.03, 0.06, 0.12]
    assert max(pauses[:9]) == 0.3
    assert max(pauses) == 2.0
    assert renewals.lost(1.0, now=60) == 0.03
    assert renewals.lost(0.0, now=61) == 0.06
    renewals.good()
    assert renewals.lost(0.0, now=62) == 0.03
