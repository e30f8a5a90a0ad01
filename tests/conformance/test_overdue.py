"""Jobs that a worker holds much longer than they may run. The keeper gives them up, by a clock of its own."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tenure.core import limits
from tenure.core.engine import BEAT_MS, Feature, HeartbeatReply
from tenure.core.job import Lease, State
from tenure.processes.overdue import Overdue, Timeouts
from tests.support.world import World

GRACE_S = limits.OVERDUE_GRACE_MS / limits.SECOND
STRAY_MS = 2 * BEAT_MS + 50
TIMEOUTS = Timeouts({"t": 7_000, "endless": 0}, {"q": 9_000})


class Keeper:
    """What a keeper does for the worker `w`, at times that a test says."""

    def __init__(self, world: World, timeouts: Timeouts = TIMEOUTS) -> None:
        self._world = world
        self.overdue = Overdue(world.engine, "w", timeouts)
        self.refusal = ""

    def beat(self, now: float) -> HeartbeatReply:
        beat, self.refusal = self._world.run(self.overdue.beat("q", now))
        return beat

    def told(self, *leases: Lease, ends_at: float = math.inf) -> None:
        self.overdue.leases = {lease.ref: ends_at for lease in leases}


@pytest.mark.needs(Feature.COUNTS)
def test_an_overdue_job_is_given_up_as_crashed(world: World) -> None:
    world.put("late", "fine")
    late, fine = world.take()
    keeper = Keeper(world)
    keeper.overdue.leases = {late.ref: 50.0, fine.ref: 51.0}
    assert not keeper.beat(49.9).lost
    assert keeper.beat(50.0).lost == {late.ref}
    assert not world.settle(late)
    assert world.view("late").crashes == 1
    assert [lease.record.id for lease in world.take(2, "other")] == ["late"]
    world.finish(fine)


def test_a_job_whose_outcome_waits_is_not_given_up(world: World) -> None:
    """However long Redis was away: the worker tells the keeper that it has an outcome."""
    world.put("a")
    lease = world.take_one()
    keeper = Keeper(world)
    keeper.told(lease, ends_at=50.0)
    keeper.told(lease)
    assert not keeper.beat(1e9).lost
    world.finish(lease)
    assert world.totals().get("crashed", 0) == 0


@pytest.mark.needs(Feature.LANES)
def test_a_lane_goes_on_behind_an_overdue_job(world: World) -> None:
    world.put_in("L", "a", "b")
    lease = world.take_one()
    keeper = Keeper(world)
    keeper.told(lease, ends_at=50.0)
    keeper.beat(49.0)
    assert world.take(2, "other") == []
    keeper.beat(50.0)
    assert world.drain() == ["a", "b"]


@pytest.mark.needs(Feature.COUNTS)
@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        ({"task": "t"}, 7),
        ({"task": "t", "timeout_ms": 2_000}, 2),
        ({}, 9),
        ({"task": "t", "timeout_ms": 0}, None),
        ({"task": "endless"}, None),
        ({"task": "unknown"}, None),
    ],
)
def test_a_job_that_the_worker_could_not_report_is_given_up_too(
    world: World, options: dict[str, Any], seconds: int | None
) -> None:
    """A handler that blocks the event loop at once: its worker never says that it holds the job."""
    world.put("a", **options)
    lease = world.take_one()
    world.pass_time(STRAY_MS)
    keeper = Keeper(world)
    since = 100.0
    for step in range(int(GRACE_S) + 1):
        keeper.beat(since + step)
    if seconds is None:
        keeper.beat(since + 1e9)
        world.finish(lease)
        return
    keeper.beat(since + GRACE_S + seconds - 0.1)
    assert world.state("a") is State.ACTIVE
    keeper.beat(since + GRACE_S + seconds)
    assert world.state("a") is State.READY
    assert world.view("a").crashes == 1
    assert not world.settle(lease)


def test_a_job_that_the_worker_reports_late_is_judged_by_its_report(world: World) -> None:
    world.put("a", task="t")
    lease = world.take_one()
    world.pass_time(STRAY_MS)
    keeper = Keeper(world)
    for now in (0.0, GRACE_S):
        keeper.beat(now)
    keeper.told(lease, ends_at=1_000.0)
    assert not keeper.beat(999.0).lost
    assert keeper.beat(1_000.0).lost == {lease.ref}


def test_a_beat_asks_for_few_timeouts(world: World) -> None:
    ids = [f"j{n:02}" for n in range(50)]
    world.put(*ids, task="t")
    leases = world.take(50)
    world.pass_time(STRAY_MS)
    keeper = Keeper(world)
    keeper.beat(0.0)
    for beat in range(5):
        keeper.beat(GRACE_S + beat)
    keeper.beat(GRACE_S + 7)
    assert world.counts() == {"ready": 50}
    assert not any(world.settle(lease) for lease in leases)
