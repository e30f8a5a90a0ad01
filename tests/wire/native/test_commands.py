"""How many commands Redis runs for one plain job that an idle worker takes: the call itself, and those in its script.

The counts only fall: each command of a call makes every job slower.
"""

from __future__ import annotations

import pytest

from tenure.core.job import NewJob
from tenure.core.outcome import Completed, Retried
from tests.support.world import BOOM, World

ENQUEUE, CLAIM, SETTLE = 10, 15, 17


@pytest.fixture
def idle(world: World) -> World:
    """Redis knows the scripts, one job has ended, and no token is left, as when an idle worker has taken it."""
    world.put("first")
    assert world.settle(world.take_one(), Completed(b"r", 60_000))
    assert world.command("EXISTS", world.key("wake")) == 0
    return world


def claim_commands(world: World, id: str) -> int:
    world.put(id)
    assert world.command("LPOP", world.key("wake")) == b"1"
    return world.calls_of(world.engine.lease("other", ("q",), 16))


def test_one_job(idle: World) -> None:
    assert idle.calls_of(idle.engine.enqueue([NewJob("q", "a", b"p")])) <= ENQUEUE
    lease = idle.take_one()
    assert idle.calls_of(idle.engine.settle([(lease, Completed(b"r", 60_000))])) <= SETTLE
    assert claim_commands(idle, "b") <= CLAIM


def test_a_claim_counts_what_is_left_only_when_it_takes_all_that_it_may(idle: World) -> None:
    idle.put("a", "b")
    idle.command("LPOP", idle.key("wake"))
    # As many as it looks at: a count, and a token for the next worker.
    assert idle.calls_of(idle.engine.lease("other", ("q",), 1)) == CLAIM + 2
    assert idle.command("LLEN", idle.key("wake")) == 1


@pytest.mark.parametrize("what", ["settings", "tries", "wake"])
def test_what_a_plain_queue_may_have_costs_a_claim_few_commands(idle: World, what: str) -> None:
    if what == "settings":
        idle.configure(max_length=100)
    elif what == "tries":
        idle.put("another")
        assert idle.settle(idle.take_one(), Retried(BOOM, 60_000))
    idle.put("a")
    if what != "wake":
        idle.command("LPOP", idle.key("wake"))
    assert idle.calls_of(idle.engine.lease("other", ("q",), 16)) <= CLAIM + 4
