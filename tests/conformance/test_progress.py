"""Progress: what a job says of itself can be seen while it runs, and is gone with its end."""

from __future__ import annotations

import pytest

from tenure.core.engine import Feature
from tenure.core.job import Lease, State
from tenure.core.outcome import Broken, Cancelled, Completed, Failed, Outcome, Released, Retried, Unroutable
from tenure.core.shape import Progress, Shape
from tests.support.world import BOOM, World

pytestmark = pytest.mark.needs(Feature.PROGRESS)

OUTCOMES: list[Outcome] = [
    Completed(b"r", 60_000),
    Completed(b"", 0),
    Failed(BOOM),
    Broken(BOOM),
    Cancelled("no"),
    Retried(BOOM),
    Retried(BOOM, 60_000),
    Released(),
    Unroutable(),
]


def tell(world: World, lease: Lease, progress: Progress) -> bool:
    answer: bool = world.run(world.engine.results.progress(lease, progress))
    return answer


@pytest.mark.parametrize(
    "told",
    [
        Progress(3),
        Progress(3, 10),
        Progress(0.1, 0.3, "a third"),
        Progress(1e18, 1e300, "é\n two lines "),
        Progress(0, 0, ""),
        Progress(-5, None, " - "),
    ],
    ids=str,
)
def test_it_is_seen_as_it_was_told(world: World, told: Progress) -> None:
    world.put("a")
    lease = world.take_one()
    assert world.view("a").progress is None
    assert tell(world, lease, told)
    seen = world.view("a").progress
    assert seen is not None
    assert (seen.current, seen.total, seen.text) == (told.current, told.total, told.text)
    now_ms = int(world.command("TIME")[0]) * 1_000
    assert seen.at_ms is not None
    assert abs(seen.at_ms - now_ms) < 60_000
    assert world.run(world.engine.page("q", State.ACTIVE)).jobs[0].progress == seen


def test_the_newest_counts_and_each_job_has_its_own(world: World) -> None:
    world.put("a", "b")
    a, b = world.take()
    for n in range(5):
        assert tell(world, a, Progress(n, 5))
    assert tell(world, b, Progress(1, 2, "b"))
    seen = [world.view(id).progress for id in "ab"]
    assert [(progress.current, progress.total) for progress in seen if progress] == [(4, 5), (1, 2)]


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
def test_it_is_gone_with_the_attempt(world: World, outcome: Outcome) -> None:
    world.put("a", own_id=True, task="t")
    lease = world.take_one()
    tell(world, lease, Progress(1, 2))
    assert world.settle(lease, outcome)
    view = world.job("a")
    assert view is None or view.progress is None
    assert not tell(world, lease, Progress(2, 2)), "its lease is over"
    if view:
        world.retry("a")
        if world.take(1):
            assert world.view("a").progress is None
    assert not any(name.endswith(b"progress") for name in world.left())


@pytest.mark.parametrize("how", ["silent", "left", "broken"])
def test_it_is_gone_with_its_worker(world: World, how: str) -> None:
    world = world.with_options(max_crashes=1 if how == "broken" else 3)
    world.put("a")
    lease = world.take_one("w1")
    tell(world, lease, Progress(1, 2))
    if how == "left":
        world.leave("w1")
    else:
        world.silence()
    assert world.view("a").progress is None
    assert not tell(world, lease, Progress(2, 2))
    if world.take(1, "w2"):
        assert world.view("a").progress is None


@pytest.mark.needs(Feature.PERSISTENT)
def test_a_new_round_starts_without_it(world: World) -> None:
    world.put("a", shape=Shape(persistent=True))
    lease = world.take_one()
    tell(world, lease, Progress(1))
    assert world.settle(lease, Completed(b""))
    world.take_one()
    assert world.view("a").progress is None


@pytest.mark.parametrize("heir", ["heir", "zombie"])
def test_a_zombie_cannot_tell(world: World, heir: str) -> None:
    world.put("a")
    zombie = world.take_one("zombie")
    world.silence()
    lease = world.take_one(heir)
    assert tell(world, lease, Progress(1, 9, "the heir"))
    assert not tell(world, zombie, Progress(8, 9, "the zombie"))
    seen = world.view("a").progress
    assert seen is not None
    assert seen.text == "the heir"


def test_who_watches_is_told(world: World) -> None:
    world.put("a", "b")
    a, b = world.take()
    with world.driver.subscribe(world.engine.results.result_channel("q", "a")) as messages:
        world.run(world.engine.results.result("q", "a"))
        tell(world, b, Progress(1))
        tell(world, a, Progress(1))
        assert messages.get(timeout_s=5) == b"progress"
        view = world.run(world.engine.results.result("q", "a"))
        assert view is not None
        assert view.progress is not None
        world.settle(a, Completed(b"r", 60_000))
        assert messages.get(timeout_s=5) == b"completed"


def test_it_keeps_no_lease(world: World) -> None:
    """Progress is no sign of life: that is the keeper's affair."""
    world.put("a")
    lease = world.take_one("w1")
    for _ in range(3):
        tell(world, lease, Progress(1))
        world.pass_time(6_000)
        world.maintain()
    assert world.state("a") is State.READY
