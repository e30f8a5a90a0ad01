"""Which queue is looked at first: shares, spread, and nobody starves."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tenure.core.errors import InvalidArgument
from tenure.runtime.round_robin import WeightedRoundRobin


def firsts(turns: WeightedRoundRobin, count: int) -> list[str]:
    found = []
    for _ in range(count):
        found.append(turns.order[0])
        turns.advance()
    return found


def test_equal_weights_go_round_and_the_rest_follows_in_its_order():
    turns = WeightedRoundRobin(["a", "b", "c"])
    orders = []
    for _ in range(4):
        orders.append("".join(turns.order))
        turns.advance()
    assert orders == ["abc", "bca", "cab", "abc"]


def test_weights_are_spread_evenly():
    assert "".join(firsts(WeightedRoundRobin(["a", "b", "c"], {"a": 5}), 7)) == "aabacaa"


@pytest.mark.parametrize("seed", range(20))
def test_over_any_window_the_shares_are_right_and_nobody_starves(seed):
    draw = random.Random(seed)
    weights = {name: draw.randint(1, 100) for name in "abcdef"[: draw.randint(1, 6)]}
    turns, whole = WeightedRoundRobin(list(weights), weights), sum(weights.values())
    found = firsts(turns, 3 * whole)
    for start in draw.sample(range(2 * whole + 1), min(50, 2 * whole + 1)):
        assert Counter(found[start : start + whole]) == weights
        length = draw.randint(1, whole)
        part = Counter(found[start : start + length])
        for name, weight in weights.items():
            assert abs(part[name] - length * weight / whole) < len(weights)


def test_every_order_has_every_queue_once():
    turns = WeightedRoundRobin(["a", "b", "c"], {"c": 9})
    for _ in range(30):
        assert sorted(turns.order) == ["a", "b", "c"]
        turns.advance()


def test_the_one_that_woke_is_first_once_and_pays_nothing_for_it():
    turns = WeightedRoundRobin(["a", "b", "c"])
    for _ in range(1_000):
        turns.woken("c")
        assert turns.order == ("c", "a", "b")
        turns.advance()
    assert firsts(turns, 3) == ["a", "b", "c"]
    turns.woken("unknown")
    turns.woken(None)
    assert turns.order[0] == "a"


@pytest.mark.parametrize("weights", [{"q": 0}, {"other": 2}])
def test_weights_are_of_queues_of_the_worker_and_above_0(weights):
    with pytest.raises(InvalidArgument):
        WeightedRoundRobin(["q"], weights)
