"""Redis at its memory limit: nothing new comes in, and all that lets work end goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tenure import RedisWorkQueue, Tenure
from tenure.cli import commands
from tenure.cli.errors import run
from tenure.compat.redis_work_queue import Item, KeyPrefix, WorkQueue
from tenure.core.errors import QueueFull
from tenure.core.job import State
from tenure.core.outcome import Broken, Cancelled, Completed, Failed, Outcome, Released, Retried, Unroutable
from tests.wire.redis_work_queue.bench import BOOM, STRAY_MS, Bench, P


@pytest.fixture
def full(bench: Bench) -> Iterator[Bench]:
    bench.put("a", "b", "c", task="t")
    bench.foreign_add("lost")
    bench.foreign_push("ghost")
    bench.command("CONFIG", "SET", "maxmemory", 1)
    yield bench
    bench.command("CONFIG", "SET", "maxmemory", 0)


OUTCOMES: list[Outcome] = [
    Completed(b"", 0),
    Retried(BOOM),
    Retried(BOOM, 5_000),
    Failed(BOOM),
    Broken(BOOM),
    Released(),
    Unroutable(),
    Cancelled(""),
]


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
def test_work_goes_on(full: Bench, outcome: Outcome) -> None:
    leases = full.take(2)
    assert full.beat("w", leases) == set()
    assert full.run(full.engine.extend(leases[0], 5_000))
    assert full.settle(leases[0], outcome)
    assert full.run(full.engine.leave("w", ["default"])) == 1


def test_nothing_new_comes_in(full: Bench) -> None:
    before = full.lengths(), full.items()
    with pytest.raises(QueueFull):
        full.put("new")
    assert (full.lengths(), full.items()) == before


def test_cleaning_and_acting_go_on(full: Bench) -> None:
    full.take(3)
    full.run(full.engine.leave("w", ["default"]))
    full.maintain()
    full.deep()
    full.pass_time(STRAY_MS)
    assert full.run(full.engine.cancel("default", "a"))
    assert full.state("a") is State.CANCELLED
    assert full.run(full.engine.retry("default", "a"))
    assert full.run(full.engine.discard("default", "a"))
    assert sorted(full.drain()) == ["b", "c", "lost"]


def test_a_migration_says_what_became_of_the_items(full: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    status = run(
        commands, ["migrate", "default", "--yes", "--protocol", f"redis-work-queue:{P}", "--url", full.server.url]
    )
    assert status == 1
    assert "0 jobs moved; the others wait where they were." in capsys.readouterr().err
    assert full.queue() == [b"a", b"b", b"c", b"lost"]


def test_waiting_goes_on(full: Bench) -> None:
    """Redis refuses to move an id, and the claim behind the wait runs all the same."""
    ids = []
    for _ in range(4):
        leased = full.run(full.wait_and_claim())
        ids += [lease.record.id for lease in leased.leases]
    assert ids == ["a", "b", "c", "lost"]
    assert full.run(full.wait_and_claim()).leases == ()


def test_a_lease_by_hand_ends_in_time(full: Bench) -> None:
    full.drain()
    app = Tenure(full.server.url, protocol=RedisWorkQueue(prefix=P))
    with app, app.queue("default").lease(block=True, timeout=0.2) as job:
        assert job is None


def test_the_drop_in_goes_on(full: Bench, db) -> None:
    queue = WorkQueue(KeyPrefix("jobs"))
    for _ in range(4):
        item = queue.lease(db, 5)
        assert isinstance(item, Item)
        assert queue.complete(db, item)
    assert queue.lease(db, 5, block=False) is None
    assert full.lengths() == (0, 0)
