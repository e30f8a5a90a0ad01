"""What another client's cleaner has put into the queue while a worker of ours, late or dead, held it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tenure.compat.redis_work_queue import KeyPrefix, WorkQueue
from tenure.core.job import Lease, State
from tenure.core.outcome import Broken, Completed, Failed, Outcome, Released, Retried, Unroutable
from tenure.core.steps import Draw, Invoke, Nonce, Steps
from tenure.engines.kit.config import MAX_CRASHES
from tenure.engines.redis_work_queue.scripts import SCRIPTS
from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer
from tests.support.engines import GRACE_MS, LEASE_MS
from tests.support.world import BOOM
from tests.wire.redis_work_queue.bench import LEASE_KEYS, Bench, P

LATER_MS = 600_000


@pytest.fixture(params=LEASE_KEYS)
def bench(server: RedisServer, driver: SyncDriver, request: pytest.FixtureRequest) -> Bench:
    return Bench(server, driver, request.param)


def end_lease(bench: Bench, id: str) -> None:
    """The time of the lease on the wire is up."""
    bench.command("DEL", *(f"{P}:{key}:{id}" for key in LEASE_KEYS))


def late(bench: Bench, id: str = "a") -> Lease:
    """A worker of ours is stopped for so long that another client puts into the queue what it holds."""
    bench.put(id, task="t")
    lease = bench.take_one()
    end_lease(bench, id)
    bench.foreign_reset(id)
    return lease


def put_beside(bench: Bench, id: str) -> None:
    """An item of this id is parked already, so that there is no room aside for another one."""
    bench.put(id, task="u")
    assert bench.settle(bench.take_one(), Unroutable())
    bench.command("SET", f"{P}:item:{id}", "data")


@pytest.mark.parametrize("outcome", [Retried(BOOM, LATER_MS), Failed(BOOM), Broken(BOOM), Completed(b"", 0)])
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside a parked one"])
def test_who_is_late_leaves_the_item_in_one_place(bench: Bench, outcome: Outcome, beside: bool) -> None:
    if beside:
        put_beside(bench, "a")
        bench.foreign_push("a")
        lease = bench.take_one()
        end_lease(bench, "a")
        bench.foreign_reset("a")
    else:
        lease = late(bench)
    assert bench.settle(lease, outcome)
    waits = isinstance(outcome, Retried) or (beside and not isinstance(outcome, Completed))
    assert (bench.queue(), bench.processing()) == ([], [b"a"] if waits else [])
    assert bench.items() == (1 if waits else 0)


ACTS: dict[str, Callable[[Bench], object]] = {
    "retry": lambda bench: bench.run(bench.engine.retry("default", "a")),
    "discard": lambda bench: bench.run(bench.engine.discard("default", "a")),
    "cancel": lambda bench: bench.run(bench.engine.cancel("default", "a")),
    "purge": lambda bench: bench.run(bench.engine.purge("default", State.SCHEDULED)),
    "cancel all": lambda bench: bench.run(bench.engine.cancel_all("default")),
}


@pytest.mark.parametrize("act", ACTS)
def test_what_waits_for_its_retry_since_then_goes_as_a_whole(bench: Bench, act: str) -> None:
    assert bench.settle(late(bench), Retried(BOOM, LATER_MS))
    assert ACTS[act](bench)
    assert bench.lengths() == ((1, 0) if act == "retry" else (0, 0))
    assert bench.items() == (1 if act == "retry" else 0)
    assert bench.command("EXISTS", f"{P}:later") == 0


@pytest.mark.parametrize("act", ACTS)
def test_one_that_was_moved_while_it_waited_for_its_retry_is_ready(bench: Bench, act: str) -> None:
    bench.put("a")
    assert bench.settle(bench.take_one(), Retried(BOOM, LATER_MS))
    end_lease(bench, "a")
    bench.foreign_reset("a")
    assert bench.state("a") is State.READY
    answer = ACTS[act](bench)
    if act in ("retry", "purge"):
        assert not answer
        assert (bench.queue(), bench.processing(), bench.items()) == ([b"a"], [], 1)
    else:
        assert answer
        assert (bench.lengths(), bench.items()) == ((0, 0), 0)
        assert bench.command("EXISTS", f"{P}:later") == 0


def crash(bench: Bench, times: int, *, by: Callable[[Bench], object]) -> None:
    """So often does a worker die with the item, and somebody takes it back."""
    for n in range(times):
        bench.take_one(f"w{n}")
        end_lease(bench, "a")
        by(bench)
        bench.command("DEL", f"{P}:holders", f"{P}:suspects")
        view = bench.run(bench.engine.job("default", "a"))
        assert view is not None
        assert view.crashes == n + 1


def clean(bench: Bench) -> None:
    WorkQueue(KeyPrefix(P)).light_clean(bench.client())


@pytest.mark.parametrize("by", [lambda bench: bench.light(), clean], ids=["tenure clean", "the drop-in"])
def test_poison_that_cleaners_take_back_ends_in_broken(bench: Bench, by: Callable[[Bench], object]) -> None:
    bench.put("a")
    crash(bench, MAX_CRASHES - 1, by=by)
    bench.take_one("last")
    end_lease(bench, "a")
    by(bench)
    assert bench.state("a") is State.BROKEN
    assert (bench.lengths(), bench.items()) == ((0, 0), 0)


def test_a_cleaner_counts_a_crash_for_what_may_have_been_running(bench: Bench) -> None:
    ids = [f"i{n}" for n in range(10)]
    bench.put(*ids)
    bench.run(bench.engine.lease("w", ["default"], 10, slots=2))
    for id in ids:
        end_lease(bench, id)
    assert bench.light().requeued == 10
    crashes = {view.id: view.crashes for view in bench.run(bench.engine.page("default", State.READY)).jobs}
    assert crashes == {id: int(n < 4) for n, id in enumerate(ids)}


def test_the_last_crash_takes_it_out_of_the_queue_too(bench: Bench) -> None:
    bench.put("a")
    crash(bench, MAX_CRASHES - 1, by=lambda bench: bench.light())
    bench.take_one("last")
    end_lease(bench, "a")
    bench.foreign_reset("a")
    bench.pass_time(LEASE_MS + 50)
    bench.maintain()
    bench.pass_time(GRACE_MS + 50)
    bench.maintain()
    assert bench.state("a") is State.BROKEN
    assert (bench.lengths(), bench.items()) == ((0, 0), 0)


def until_leased(bench: Bench) -> str:
    """A program that only leases finds it in the end."""
    queue, db = WorkQueue(KeyPrefix(P)), bench.client()
    end = time.monotonic() + 60
    while (item := queue.lease(db, 5, timeout=0.05)) is None:
        assert time.monotonic() < end, "it is not found"
    return item.id()


def test_a_lease_of_the_drop_in_takes_back_what_a_dead_worker_held(bench: Bench) -> None:
    bench.put("a")
    bench.take(1)
    bench.pass_time(LEASE_MS + GRACE_MS + 100)
    assert until_leased(bench) == "a"


def test_a_lease_of_the_drop_in_finds_what_is_to_be_tried_again(bench: Bench) -> None:
    bench.put("a")
    assert bench.settle(bench.take_one(), Retried(BOOM, 5_000))
    bench.pass_time(5_100)
    assert until_leased(bench) == "a"


def test_a_completion_that_has_to_look_twice_changes_nothing_at_first(bench: Bench) -> None:
    """The program may end between the two calls."""
    bench.put("a")
    queue, db = WorkQueue(KeyPrefix(P)), bench.client()
    item = queue.lease(db, 5)
    assert item is not None
    bench.foreign_reset("a")
    before = bench.command("ZSCORE", f"{P}:due", "a")
    number, _, session = str(item.token).partition(" ")

    def first_call() -> Steps[bytes]:
        nonce: Nonce = yield Draw()
        args = (nonce.session, nonce.number, b"a", number, session, item.data())
        reply: bytes = yield Invoke(SCRIPTS["complete"], (P,), args)
        return reply

    assert bench.run(first_call()) != b"1"
    assert bench.command("ZSCORE", f"{P}:due", "a") == before


def test_a_mark_of_a_cleaner_does_not_outlive_a_lease(bench: Bench) -> None:
    """Else the next cleaner would put back at once what another client is just about to lease."""
    bench.put("a")
    bench.foreign_pop()
    bench.light()
    assert bench.command("ZCARD", f"{P}:unleased") == 1
    bench.foreign_reset("a")
    queue, db = WorkQueue(KeyPrefix(P)), bench.client()
    item = queue.lease(db, 5)
    assert item is not None
    assert bench.command("EXISTS", f"{P}:unleased") == 0
    assert queue.complete(db, item)


def test_a_released_one_is_in_the_queue_once(bench: Bench) -> None:
    lease = late(bench)
    assert bench.settle(lease, Released())
    assert (bench.queue(), bench.processing()) == ([b"a"], [])


def test_a_worker_that_beats_again_holds_what_was_moved_meanwhile(bench: Bench) -> None:
    lease = late(bench)
    assert bench.beat("w", [lease]) == set()
    assert (bench.queue(), bench.processing()) == ([], [b"a"])
    assert bench.settle(lease, Retried(BOOM, LATER_MS))
    assert (bench.queue(), bench.processing()) == ([], [b"a"])


@pytest.mark.slow
def test_a_purge_of_what_waits_is_quick_beside_a_long_list(bench: Bench) -> None:
    """Ids whose leases are gone are looked for all at once: one by one, that took Redis two seconds."""
    ids = [f"i{n}" for n in range(500)]
    bench.put(*ids)
    bench.run(bench.engine.settle([(lease, Retried(BOOM, LATER_MS)) for lease in bench.take(500)]))
    for id in ids:
        end_lease(bench, id)
    for start in range(0, 100_000, 5_000):
        bench.command("LPUSH", f"{P}:processing", *(f"x{n}" for n in range(start, start + 5_000)))
    bench.command("CONFIG", "RESETSTAT")
    assert bench.run(bench.engine.purge("default", State.SCHEDULED)) == 500
    stats = bench.command("INFO", "commandstats").decode()
    assert "cmdstat_lpos:" not in stats


def test_a_lease_by_hand_forgets_the_marks_of_an_item(bench: Bench) -> None:
    for suffix in ("later", "unleased", "stray"):
        bench.command("ZADD", f"{P}:{suffix}", 9e15, "a", 9e15, "other")
    queue, db = WorkQueue(KeyPrefix(P)), bench.client()
    bench.foreign_add("a")
    item = queue.lease(db, 5)
    assert item is not None
    for suffix in ("later", "unleased", "stray"):
        assert bench.command("ZRANGE", f"{P}:{suffix}", 0, -1) == [b"other"]


def test_a_completion_by_hand_forgets_all_of_an_item_and_nothing_of_others(bench: Bench) -> None:
    queue, db = WorkQueue(KeyPrefix(P)), bench.client()
    bench.foreign_add("a")
    item = queue.lease(db, 5)
    assert item is not None
    for suffix in ("unleased", "stray"):
        bench.command("ZADD", f"{P}:{suffix}", 9e15, "a", 9e15, "other")
    for suffix in ("attempts", "passing"):
        bench.command("HSET", f"{P}:{suffix}", "a", "1 1 0", "other", "1 1 0")
    assert queue.complete(db, item)
    for suffix in ("unleased", "stray"):
        assert bench.command("ZRANGE", f"{P}:{suffix}", 0, -1) == [b"other"]
    for suffix in ("attempts", "passing"):
        assert bench.command("HKEYS", f"{P}:{suffix}") == [b"other"]


def test_a_retry_that_is_due_comes_back_also_where_there_is_always_an_item(bench: Bench) -> None:
    bench.put("retried")
    assert bench.settle(bench.take_one(), Retried(BOOM, 5_000))
    bench.pass_time(5_100)
    bench.foreign_add("a")
    bench.foreign_add("b")
    queue, db = WorkQueue(KeyPrefix(P)), bench.client()
    item = queue.lease(db, 5)
    assert item is not None
    assert item.id() == "a"
    assert bench.queue() == [b"b", b"retried"]
