"""Lease: never more than asked for, never twice, under a token that grows."""

from __future__ import annotations

import threading

import pytest

from tenure.core import limits
from tenure.core.engine import Feature
from tenure.core.errors import InvalidArgument, ReplyError
from tenure.core.job import State
from tenure.core.outcome import Completed, Released, Retried
from tenure.engines.kit.config import CLAIM_BYTES
from tests.support.engines import GRACE_MS, LEASE_MS
from tests.support.stepping import Session, send_with, step
from tests.support.world import BOOM, World


@pytest.mark.parametrize("limit", [0, 1, 3, 7, 8])
def test_never_more_than_the_limit(world: World, limit: int) -> None:
    world.put(*"abcdefg")
    assert len(world.take(limit)) == min(limit, 7)
    assert world.counts().get("active", 0) == min(limit, 7)


def test_the_limit_is_for_all_queues_together_in_the_order_given(world: World) -> None:
    world.put("a1", "a2", queue="a")
    world.put("b1", "b2", queue="b")
    assert [lease.record.id for lease in world.take(3, queues=("b", "a"))] == ["b1", "b2", "a1"]
    assert [lease.record.id for lease in world.take(3, queues=("b", "a"))] == ["a2"]


def test_an_empty_queue_has_nothing(world: World) -> None:
    answer = world.run(world.engine.lease("w", ["q"], 5))
    assert (answer.leases, answer.dropped, answer.next_ms) == ((), (), None)


def test_two_workers_never_share_a_job(world: World) -> None:
    ids = [f"j{n}" for n in range(600)]
    world.put(*ids)
    taken: list[tuple[str, str]] = []

    def work(worker: str) -> None:
        while leases := world.take(7, worker):
            taken.extend((lease.record.id, lease.worker) for lease in leases)

    threads = [threading.Thread(target=work, args=(f"w{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(id for id, _ in taken) == sorted(ids)
    assert world.counts() == {"active": 600}


def test_tokens_grow_with_every_claim_of_a_job(world: World) -> None:
    world.put("a")
    tokens = []
    for n in range(5):
        lease = world.take_one(f"w{n}")
        tokens.append(lease.token)
        assert world.view("a").token == lease.token
        assert world.settle(lease, Retried(BOOM) if n % 2 else Released())
    lease = world.take_one()
    tokens.append(lease.token)
    world.silence()
    tokens.append(world.take_one("other").token)
    assert tokens == sorted(set(tokens))


def test_the_holder_is_seen(world: World) -> None:
    world.put("a")
    lease = world.take_one("me")
    view = world.view("a")
    assert (view.state, view.worker, view.token) == (State.ACTIVE, "me", lease.token)
    assert view.started_ms is not None


@pytest.mark.needs(Feature.DELAY)
def test_how_long_until_something_is_due(world: World) -> None:
    world.put("a", delay_ms=5_000)
    answer = world.run(world.engine.lease("w", ["q"], 1))
    assert answer.next_ms is not None
    assert 4_000 < answer.next_ms <= 5_000
    world.put("b")
    world.take_one("w")
    world.put("c", delay_ms=60_000, queue="other")
    answer = world.run(world.engine.lease("x", ["other", "q"], 1))
    assert answer.next_ms is not None
    assert answer.next_ms <= 5_000


@pytest.mark.needs(Feature.COUNTS)
def test_a_lease_by_hand_lasts_as_long_as_it_says(world: World) -> None:
    world.put("a")
    (lease,) = world.take(lease_ms=30_000)
    world.pass_time(29_000)
    world.maintain()
    assert world.state("a") is State.ACTIVE
    world.pass_time(1_500)
    world.maintain()
    world.pass_time(GRACE_MS + 50)
    assert world.maintain().reclaimed == 1
    assert not world.settle(lease)
    assert world.take_one().crashes == 1


def test_leases_by_hand_of_workers_of_their_own_do_not_touch_each_other(world: World) -> None:
    world.put("a", "b")
    world.take(1, "short", lease_ms=5_000)
    (long,) = world.take(1, "long", lease_ms=50_000)
    world.pass_time(5_100)
    world.maintain()
    world.pass_time(GRACE_MS + 50)
    assert world.maintain().reclaimed == 1
    assert world.state("a") is State.READY
    assert world.settle(long)


@pytest.mark.needs(Feature.EXTEND)
def test_extend_moves_the_end_of_a_lease_by_hand(world: World) -> None:
    world.put("a")
    (lease,) = world.take(lease_ms=5_000)
    for _ in range(4):
        world.pass_time(4_000)
        assert world.run(world.engine.extend(lease, 5_000))
        world.maintain()
    world.pass_time(5_100)
    world.maintain()
    world.pass_time(GRACE_MS + 50)
    assert world.maintain().reclaimed == 1
    before = world.dump()
    assert not world.run(world.engine.extend(lease, 5_000))
    assert world.dump() == before


@pytest.mark.needs(Feature.EXTEND)
def test_only_the_holder_can_extend(world: World) -> None:
    world.put("a")
    old = world.take_one("w")
    world.run(world.engine.leave("w", ["q"]))
    new = world.take_one("w")
    before = world.dump()
    assert not world.run(world.engine.extend(old, 5_000))
    assert world.dump() == before
    assert world.run(world.engine.extend(new, 5_000))


@pytest.mark.needs(Feature.EXTEND)
@pytest.mark.parametrize("ms", [0, -1, limits.MIN_LEASE_MS - 1, limits.MAX_LEASE_MS + 1])
def test_a_lease_cannot_be_extended_by_nonsense(world: World, ms: int) -> None:
    world.put("a")
    with pytest.raises(InvalidArgument, match="lease lasts"):
        world.run(world.engine.extend(world.take_one(), ms))


def test_no_more_than_a_worker_may_hold(world: World) -> None:
    count = limits.MAX_HELD + 20
    world.put(*(f"j{n}" for n in range(count)))
    held = 0
    while leases := world.take(300):
        held += len(leases)
    assert held == limits.MAX_HELD
    assert world.counts() == {"active": limits.MAX_HELD, "ready": 20}
    assert len(world.take(300, "other")) == 20


def test_settling_what_one_worker_holds_frees_only_that(world: World) -> None:
    world.put("a", "b")
    (a,) = world.take(1, "w1")
    (b,) = world.take(1, "w2")
    assert world.settle(a, Completed(b"", 0))
    assert world.counts() == {"active": 1}
    world.pass_time(LEASE_MS - 1_000)
    assert world.settle(b, Completed(b"", 0))


@pytest.mark.needs(Feature.EXTEND)
def test_a_late_copy_of_extend_does_not_shorten_a_lease(world: World) -> None:
    world.put("a")
    (lease,) = world.take(1, "w", lease_ms=60_000)
    session = Session("s")
    steps = world.engine.extend(lease, 1_000)
    next(steps)
    late = steps.send(session.draw())
    assert step(world.engine.extend(lease, 60_000), session, send_with(world.driver), lambda _, call, send: send(call))
    with pytest.raises(ReplyError, match="given up"):
        send_with(world.driver)(late)
    world.pass_time(1_100)
    world.maintain()
    world.pass_time(GRACE_MS + 50)
    world.maintain()
    assert world.state("a") is State.ACTIVE


@pytest.mark.parametrize("small", [0, 1])
def test_a_claim_of_large_jobs_takes_a_bounded_number_of_them(world: World, small: int) -> None:
    ids = [f"j{n:02}" for n in range(small + 20)]
    world.put(*ids[:small])
    world.put(*ids[small:], payload=b"x" * (limits.MAX_CALL_BYTES // 4))
    seen: list[str] = []
    while taken := world.take_ids(100):
        # Behind a small one some are read before it is known how large they are.
        assert len(taken) <= (10 if seen == [] and small else 5)
        seen += taken
    assert seen == ids


def test_a_job_larger_than_a_claim_is_claimed(world: World) -> None:
    world.put("a", "b", payload=b"x" * (CLAIM_BYTES + 1))
    assert sum(len(world.take(10)) for _ in range(3)) == 2


@pytest.mark.needs(Feature.PERSISTENT)
def test_a_claim_that_ends_for_its_bytes_says_that_there_is_more(world: World) -> None:
    """Who gets fewer than it has room for would else take it for the end."""
    world.put(*(f"n{n}" for n in range(30)), payload=b"x" * 100_000)
    answer = world.run(world.engine.lease("w", ["q"], 30))
    assert 0 < len(answer.leases) < 30
    assert answer.next_ms == 0
