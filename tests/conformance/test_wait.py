"""Waiting: for work (the next claim gets it) and for the end of one job."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from tenure.core.engine import Feature, Trait
from tenure.core.job import Lease, State
from tenure.core.outcome import Broken, Cancelled, Completed, Failed, Outcome, Released, Retried, Unroutable
from tests.support.world import BOOM, World


def waiting(world: World, *queues: str, timeout_ms: int = 20) -> str | None:
    return world.wait(queues or ("q",), timeout_ms)


def test_nothing_to_wait_for_ends_in_time(world: World) -> None:
    assert waiting(world) is None
    world.put("a", queue="other")
    assert waiting(world) is None


@pytest.mark.needs(Trait.KEPT_WAKE)
def test_waiting_says_which_queue_and_takes_nothing(world: World) -> None:
    world.put("b", queue="b")
    assert waiting(world, "a", "b", timeout_ms=5_000) == "b"
    assert world.counts("b") == {"ready": 1}
    assert world.drain("b") == ["b"]
    assert waiting(world, "a", "b") is None


@pytest.mark.needs(Trait.KEPT_WAKE)
def test_more_than_one_job_wakes_as_many_workers_as_it_takes(world: World) -> None:
    world.put("a", "b", "c")
    for worker in ("w1", "w2", "w3"):
        assert waiting(world) == "q"
        assert len(world.take(1, worker)) == 1
    assert waiting(world) is None


@pytest.mark.needs(Trait.SINGLE_WAKE, Trait.KEPT_WAKE)
def test_one_job_wakes_one_worker(world: World) -> None:
    world.put("a")
    assert waiting(world) == "q"
    assert waiting(world) is None
    assert world.drain() == ["a"]


def test_a_job_that_comes_while_a_worker_waits_wakes_it(world: World) -> None:
    woken: list[str | None] = []
    thread = threading.Thread(target=lambda: woken.append(waiting(world, timeout_ms=30_000)))
    thread.start()
    for n in range(600):  # where wake-ups are not kept, those before the worker waits are lost
        world.put(f"j{n}")
        thread.join(0.05)
        if not thread.is_alive():
            break
    assert woken == ["q"]


@pytest.mark.needs(Trait.SINGLE_WAKE)
def test_one_job_wakes_one_of_those_who_wait(world: World) -> None:
    woken: list[str | None] = []
    threads = [threading.Thread(target=lambda: woken.append(waiting(world, timeout_ms=1_000))) for _ in range(3)]
    for thread in threads:
        thread.start()
    world.until(lambda: blocked(world) == 3)
    world.put("a")
    world.until(lambda: woken)
    assert woken == ["q"]
    for thread in threads:
        thread.join()
    assert sorted(map(str, woken)) == ["None", "None", "q"]
    world.drain()


@pytest.mark.needs(Trait.KEPT_WAKE)
def test_a_job_that_comes_later_wakes_who_was_passed_over(world: World) -> None:
    """A wake-up that was lost with its worker must not keep later jobs silent."""
    world.put("a")
    assert waiting(world) == "q", "its worker dies now, before the claim"
    world.put("b")
    assert waiting(world) == "q"
    world.drain()


@pytest.mark.needs(Feature.DELAY)
def test_a_delayed_job_at_the_head_wakes_so_that_somebody_learns_its_time(world: World) -> None:
    world.put("late", delay_ms=60_000)
    assert waiting(world) == "q"
    assert world.take() == []
    world.put("later", delay_ms=90_000)
    assert waiting(world) is None, "not the head: whoever waits looks earlier anyway"
    world.put("sooner", delay_ms=30_000)
    assert waiting(world) == "q"


@pytest.mark.needs(Trait.KEPT_WAKE)
@pytest.mark.parametrize(
    "how",
    [
        "released",
        "retried",
        "left",
        "retry",
        "reclaimed",
        pytest.param("promoted", marks=pytest.mark.needs(Feature.DELAY)),
        pytest.param("unparked", marks=pytest.mark.needs(Feature.UNROUTABLE)),
    ],
)
def test_every_way_back_into_the_queue_wakes(world: World, how: str) -> None:
    world.put("a", task="t", delay_ms=1_000 if how == "promoted" else 0)
    waiting(world)
    if how == "promoted":
        world.pass_time(1_100)
        world.maintain()
    else:
        lease = world.take_one()
        assert waiting(world) is None
        come_back(world, how, lease)
    assert waiting(world) == "q"
    assert len(world.take()) == 1


def come_back(world: World, how: str, lease: Lease) -> None:
    outcomes: dict[str, Outcome] = {"released": Released(), "retried": Retried(BOOM), "unparked": Unroutable()}
    if how in outcomes:
        assert world.settle(lease, outcomes[how])
    if how == "unparked":
        world.maintain(["t"])
    elif how == "left":
        world.run(world.engine.leave("w", ["q"]))
    elif how == "retry":
        assert world.settle(lease, Failed(BOOM))
        assert world.run(world.engine.retry("q", "a"))
    elif how == "reclaimed":
        assert world.silence() == 1


def blocked(world: World) -> int:
    lines = world.command("INFO", "clients").decode().splitlines()
    return int(next(line.split(":")[1] for line in lines if line.startswith("blocked_clients:")))


# The end of one job.


@pytest.mark.needs(Feature.RESULTS)
def test_the_result_of_a_job_before_and_after_its_end(world: World) -> None:
    assert world.run(world.engine.results.result("q", "a")) is None
    world.put("a")
    before = world.run(world.engine.results.result("q", "a"))
    assert before is not None
    assert before.state is State.READY
    world.settle(world.take_one(), Completed(b"out", 60_000))
    after = world.run(world.engine.results.result("q", "a"))
    assert after is not None
    assert (after.state, after.result) == (State.COMPLETED, b"out")


@pytest.mark.needs(Feature.RESULTS)
@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        (Completed(b"out", 60_000), b"completed"),
        (Completed(b"out", 0), b"completed"),
        (Failed(BOOM), b"failed"),
        (Broken(BOOM), b"broken"),
        (Cancelled("no"), b"cancelled"),
    ],
)
def test_the_end_is_published_to_who_asked(world: World, outcome: Outcome, message: bytes) -> None:
    world.put("a", "b")
    with world.driver.subscribe(world.engine.results.result_channel("q", "a")) as messages:
        world.run(world.engine.results.result("q", "a"))
        settle_all(world, ["b", "a"], outcome)
        assert messages.get(timeout_s=5) == message


@pytest.mark.needs(Feature.RESULTS)
@pytest.mark.parametrize("how", ["cancel", "discard", "purge"])
def test_the_end_is_published_when_somebody_acts_on_the_job(world: World, how: str) -> None:
    world.put("a")
    with world.driver.subscribe(world.engine.results.result_channel("q", "a")) as messages:
        world.run(world.engine.results.result("q", "a"))
        if how == "purge":
            world.run(world.engine.purge("q", State.READY))
        else:
            world.run(getattr(world.engine, how)("q", "a"))
        assert messages.get(timeout_s=5) == (b"cancelled" if how == "cancel" else b"discarded")


def settle_all(world: World, ids: Sequence[str], outcome: Outcome) -> None:
    leases = {lease.record.id: lease for lease in world.take()}
    assert all(world.run(world.engine.settle([(leases[id], outcome) for id in ids])))
