"""Backoff: how long a job waits before its next try."""

import pytest

from tenure.core.backoff import Backoff, Pauses
from tenure.core.errors import InvalidArgument


def top() -> float:
    return 1.0


def test_default_grows_from_a_second_to_an_hour():
    backoff = Backoff()
    assert [backoff.delay_ms(n, top) for n in (1, 2, 3, 12, 13, 10_000)] == [
        1_000,
        2_000,
        4_000,
        2_048_000,
        3_600_000,
        3_600_000,
    ]


def test_jitter_is_drawn_from_nothing_to_the_whole():
    drawn = iter([0.0, 0.25, 0.5])
    assert [Backoff(base=8).delay_ms(1, lambda: next(drawn)) for _ in range(3)] == [0, 2_000, 4_000]


def test_without_jitter_nothing_is_drawn():
    def never() -> float:
        raise AssertionError("randomness was drawn")

    assert Backoff(jitter=False).delay_ms(3, never) == 4_000
    assert Backoff.fixed(30).delay_ms(1, never) == Backoff.fixed(30).delay_ms(99, never) == 30_000


def test_no_wait_at_all():
    assert Backoff(base=0).delay_ms(10_000, top) == 0
    assert Backoff.fixed(0).delay_ms(1, top) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"base": -1},
        {"base": float("nan")},
        {"cap": float("inf")},
        {"cap": 1e12},
        {"factor": 0.5},
        {"base": "1"},
        {"base": True},
    ],
)
def test_numbers_that_cannot_be_right(wrong):
    with pytest.raises(InvalidArgument, match=next(iter(wrong))):
        Backoff(**wrong)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"jitter": 2}, "jitter"),
        ({"jitter": None}, "jitter"),
        ({"base": 10, "cap": 5}, "cap"),
        ({"base": 7_200}, "cap"),
    ],
)
def test_what_cannot_be_meant_is_refused(options, field):
    with pytest.raises(InvalidArgument, match=rf"backoff .*\b{field}\b"):
        Backoff(**options)


def test_pauses_between_attempts_double_up_to_a_cap_and_start_again():
    pauses = Pauses(0.05, 1.0, top)
    assert [pauses.next_s() for _ in range(1, 17)][:6] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0]
    assert (pauses.next_s(), pauses.next_s(cap_s=0.3)) == (1.0, 0.3)
    pauses.reset()
    assert pauses.next_s() == 0.05


def test_half_of_a_pause_is_drawn_at_random():
    assert Pauses(1.0, 1.0, lambda: 0.0).next_s() == 0.5
