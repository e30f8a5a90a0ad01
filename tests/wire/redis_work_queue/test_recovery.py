"""How soon items of dead clients return to the queue, and which marks of a clean may be believed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tenure.compat.redis_work_queue import Item, KeyPrefix, WorkQueue
from tenure.core.engine import Maintained
from tenure.core.steps import Command
from tenure.engines.redis_work_queue import RedisWorkQueueEngine
from tenure.engines.redis_work_queue.clean import deep_clean, light_clean, search
from tenure.engines.redis_work_queue.config import (
    DEEP_MS,
    LIGHT_MS,
    MARK_MS,
    SEARCH_MAX,
    STRAY_MS,
    RedisWorkQueueConfig,
)
from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer
from tests.support.stepping import Session, send_with, step
from tests.wire.redis_work_queue.bench import LEASE_KEYS, Bench, P

MARKS = (f"{P}:unleased", f"{P}:stray")
FILL = "for i = 1, ARGV[1] do redis.call('SET', ARGV[2] .. i, 'x') end"


@pytest.fixture(params=LEASE_KEYS)
def bench(request: pytest.FixtureRequest, server: RedisServer, driver: SyncDriver) -> Bench:
    bench = Bench(server, driver, request.param)
    bench.engine = RedisWorkQueueEngine(P)
    return bench


def maintained(bench: Bench, engine: RedisWorkQueueEngine | None = None) -> tuple[Maintained, list[str]]:
    """Maintain; answers also what was asked."""
    asked: list[str] = []

    def see(number, call, send):
        asked.append(str(call.args[0]) if isinstance(call, Command) else call.script.name)
        return send(call)

    return step((engine or bench.engine).maintain(["default"], []), Session("s"), send_with(bench.driver), see), asked


def aged(bench: Bench, id: str) -> None:
    """An item in no list, whose data was written two graces ago."""
    bench.foreign_item(id)
    name = f"{P}:item:{id}"
    bench.command("RESTORE", name, 0, bench.command("DUMP", name), "REPLACE", "IDLETIME", 2 * STRAY_MS // 1_000)


def marks(bench: Bench) -> list[bytes]:
    return [id for name in MARKS for id in bench.command("ZRANGE", name, 0, -1)]


def test_a_worker_looks_again_when_the_grace_of_a_dead_workers_item_is_over(bench: Bench) -> None:
    bench.foreign_add("a")
    bench.foreign_lease(2)
    bench.pass_time(2_000)
    first, _ = maintained(bench)
    assert first.reclaimed == 0, "another client may be about to lease it"
    assert 0 < first.next_ms <= STRAY_MS + 1
    bench.pass_time(first.next_ms - 1_000)
    assert maintained(bench)[0].reclaimed == 0
    bench.pass_time(1_000)
    second, _ = maintained(bench)
    assert (second.reclaimed, second.next_ms) == (1, -1)
    assert bench.drain() == ["a"]
    bench.audit()


@pytest.mark.every_server
def test_an_item_that_a_pass_met_with_a_lease_returns_as_soon_as_the_lease_has_ended(bench: Bench) -> None:
    """Its client has taken the two steps of a lease."""
    bench.foreign_add("a")
    bench.foreign_lease(2)
    assert maintained(bench)[0].next_ms == -1, "it is leased"
    bench.pass_time(LIGHT_MS)
    assert maintained(bench)[0].reclaimed == 1
    assert bench.drain() == ["a"]
    bench.light()
    assert marks(bench) == []
    bench.audit()


def test_a_lease_that_a_pass_met_proves_nothing_about_a_later_entry_of_its_id(bench: Bench) -> None:
    bench.foreign_add("a")
    bench.foreign_lease(2)
    bench.light()
    bench.foreign_complete("a")
    for id in ("b", "a"):
        bench.foreign_add(id)
    bench.foreign_lease()
    bench.foreign_pop()  # and its client is about to lease it
    assert bench.light().requeued == 0


def test_the_leases_that_a_pass_met_are_forgotten(bench: Bench) -> None:
    bench.foreign_add("a")
    bench.foreign_lease()
    bench.light()
    assert 0 < bench.command("PTTL", f"{P}:others") <= MARK_MS
    bench.foreign_complete("a")
    bench.light()
    assert bench.command("EXISTS", f"{P}:others") == 0


@pytest.mark.every_server
def test_a_deep_clean_returns_at_first_sight_what_nothing_has_touched_for_the_grace(bench: Bench) -> None:
    aged(bench, "torn")
    aged(bench, "moves")
    bench.command("RPUSH", f"{P}:cleaning", "moves")
    bench.foreign_item("young")
    assert bench.deep().requeued == 1
    assert bench.queue() == [b"torn"]


@pytest.mark.every_server
def test_a_deep_clean_waits_where_redis_cannot_tell_the_age_of_an_item(bench: Bench) -> None:
    aged(bench, "a")
    bench.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu")
    try:
        assert (bench.deep().requeued, bench.queue()) == (0, [])
        bench.pass_time(STRAY_MS + 1)
        assert bench.deep().requeued == 1
    finally:
        bench.command("CONFIG", "SET", "maxmemory-policy", "noeviction")


def test_one_deep_clean_of_the_drop_in_returns_what_is_in_no_list(bench: Bench) -> None:
    queue = WorkQueue(KeyPrefix(P), grace=0.2)
    bench.foreign_item("young")
    with bench.client() as db:
        queue.deep_clean(db)
    assert bench.queue() == [b"young"]


def test_a_worker_lists_the_item_of_a_dead_producer_within_a_minute_and_a_grace(bench: Bench) -> None:
    maintained(bench)
    bench.foreign_item("a")
    bench.pass_time(DEEP_MS)
    first, asked = maintained(bench)
    assert "SCAN" in asked
    assert first.reclaimed == 0, "its producer may be about to list it"
    assert 0 < first.next_ms <= STRAY_MS + 1
    bench.pass_time(first.next_ms)
    second, asked = maintained(bench)
    assert (second.reclaimed, second.next_ms) == (1, -1)
    assert "SCAN" not in asked, "it searched all keys again"
    assert bench.drain() == ["a"]
    bench.audit()


def test_one_worker_searches_all_keys_at_a_time_and_ends_its_search(bench: Bench) -> None:
    bench.command("EVAL", FILL, 0, 90_000, "other:")
    bench.foreign_item("a")
    other = RedisWorkQueueEngine(P)
    assert "SCAN" in maintained(bench)[1]
    for _ in range(2):
        bench.pass_time(DEEP_MS * 2 // 3)
        assert "SCAN" not in maintained(bench, other)[1]
        assert "SCAN" in maintained(bench)[1], "it goes on with its search"
    assert "SCAN" not in maintained(bench)[1]
    bench.pass_time(STRAY_MS + 1)
    assert maintained(bench, other)[0].reclaimed == 1
    bench.pass_time(DEEP_MS)
    assert "SCAN" in maintained(bench, other)[1]


@pytest.mark.parametrize("noted_by", ["a worker", "a clean"])
def test_a_clean_of_the_drop_in_uses_what_any_clean_noted_a_grace_before(bench: Bench, noted_by: str) -> None:
    queue = WorkQueue(KeyPrefix(P))
    bench.foreign_add("a")
    bench.foreign_pop()
    bench.foreign_item("b")
    with bench.client() as db:
        if noted_by == "a worker":
            maintained(bench)
        else:
            bench.deep()
        queue.light_clean(db)
        assert bench.queue() == []
        bench.pass_time(STRAY_MS)
        queue.deep_clean(db)
    assert sorted(bench.drain()) == ["a", "b"]
    assert marks(bench) == []


def test_workers_share_their_passes_through_a_long_list(bench: Bench) -> None:
    other = RedisWorkQueueEngine(P)
    for id in ("dead", *(f"i{number}" for number in range(1_000))):
        bench.foreign_add(id)
        bench.foreign_lease(3_600)
    assert maintained(bench)[1].count("unleased") == 5
    assert maintained(bench, other)[1].count("unleased") == 1
    bench.command("DEL", *(f"{P}:{kind}:dead" for kind in LEASE_KEYS))
    bench.pass_time(LIGHT_MS)
    found, asked = maintained(bench, other)
    assert (found.reclaimed, asked.count("unleased")) == (1, 5)
    bench.pass_time(LIGHT_MS)
    assert maintained(bench, other)[1].count("unleased") == 5


@pytest.mark.parametrize("clean", [light_clean, deep_clean])
def test_without_a_grace_items_return_at_first_sight(bench: Bench, clean: Callable[..., object]) -> None:
    bench.foreign_add("a")
    bench.foreign_pop()
    if clean is deep_clean:
        bench.foreign_item("b")
        bench.command("RPUSH", f"{P}:cleaning", "c")
        bench.foreign_item("c")
    config = RedisWorkQueueConfig(stray_ms=0)
    found = bench.run(deep_clean(P, config) if clean is deep_clean else light_clean(P, config))
    assert found.noted == 0
    assert sorted(bench.drain()) == (["a", "b", "c"] if clean is deep_clean else ["a"])
    assert marks(bench) == []
    bench.audit()


@pytest.mark.parametrize("other_first", [True, False])
def test_r2_what_another_cleaner_requeued_and_another_client_just_took_is_left_to_it(
    bench: Bench, other_first: bool
) -> None:
    """Its mark is of the time before."""
    bench.foreign_add("a")
    bench.foreign_pop()
    if other_first:
        bench.foreign_add("b")
        bench.foreign_lease()
    assert bench.light().noted == 1
    bench.foreign_reset("a")
    bench.pass_time(STRAY_MS + 1)
    if not other_first:
        bench.light()  # which does not find it, and forgets its mark
    assert bench.foreign_pop() == b"a"
    assert bench.light().requeued == 0
    bench.foreign_hold("a")
    assert bench.light().requeued == 0
    assert marks(bench) == []
    assert bench.queue() == []


def test_r2_an_id_that_was_completed_and_added_again_begins_anew(bench: Bench) -> None:
    bench.foreign_add("a")
    bench.foreign_pop()
    assert bench.light().noted == 1
    bench.foreign_complete("a")
    bench.foreign_add("b")
    bench.foreign_lease()
    bench.foreign_add("a")
    bench.pass_time(STRAY_MS + 1)
    assert bench.foreign_pop() == b"a"
    assert bench.light().requeued == 0
    assert bench.queue() == []


@pytest.mark.parametrize("by", ["a producer", "the drop-in"])
def test_r5_an_id_that_was_added_twice_and_then_once_more_is_not_listed_twice(bench: Bench, by: str) -> None:
    bench.foreign_add("a")
    with bench.client() as db:  # it is known, and noted; the lists are not searched
        added = bench.put("a")[0] if by == "a producer" else WorkQueue(KeyPrefix(P)).add_item(db, Item(b"data", "a"))
    assert not added
    assert marks(bench) == [b"a"]
    bench.foreign_lease()
    bench.foreign_complete("a")
    bench.pass_time(STRAY_MS + 1)
    bench.foreign_item("a")  # its producer is about to list it
    assert maintained(bench)[0].reclaimed == 0
    bench.foreign_push("a")
    bench.pass_time(STRAY_MS + 1)
    assert maintained(bench)[0].reclaimed == 0
    assert bench.queue() == [b"a"]


def test_r1_an_item_that_was_added_again_and_is_in_no_list_returns_without_a_search(bench: Bench) -> None:
    maintained(bench)
    bench.foreign_item("a")
    bench.put("a")
    for reclaimed in (0, 1):
        bench.pass_time(STRAY_MS + 1)
        found, asked = maintained(bench)
        assert "SCAN" not in asked
        assert found.reclaimed == reclaimed
    assert bench.drain() == ["a"]


@pytest.mark.parametrize("kind", ["taken", "unlisted"])
def test_marks_of_a_time_before_the_clock_was_set_back_begin_anew(bench: Bench, kind: str) -> None:
    bench.foreign_item("a") if kind == "unlisted" else bench.foreign_add("a")
    if kind == "taken":
        bench.foreign_pop()
    assert bench.deep().noted == 1
    for name in MARKS:
        bench.command("EVAL", "redis.call('ZADD', KEYS[1], 'XX', 'INCR', 3600000, 'a')", 1, name)
    assert bench.deep().requeued == 0
    bench.pass_time(STRAY_MS - 1_000)
    assert bench.deep().requeued == 0
    bench.pass_time(1_001)
    assert bench.deep().requeued == 1


def test_a_search_notes_no_item_that_was_added_since_it_read_the_lists(bench: Bench) -> None:
    def see(number, call, send):
        if isinstance(call, Command) and call.args[0] == "SCAN":
            bench.foreign_add("a")
            bench.foreign_item("b")
        return send(call)

    step(search(P, bench.engine.config), Session("s"), send_with(bench.driver), see)
    assert marks(bench) == [b"b"]


def test_r5_a_mark_of_another_time_proves_nothing(bench: Bench) -> None:
    bench.foreign_item("a")
    assert bench.deep().noted == 1
    bench.pass_time(STRAY_MS + MARK_MS + 1)
    assert bench.deep().requeued == 0
    bench.pass_time(STRAY_MS + 1)
    assert bench.deep().requeued == 1


def test_an_item_in_no_list_that_is_leased_stays_with_its_holder(bench: Bench) -> None:
    bench.foreign_item("a")
    assert bench.deep().noted == 1
    bench.foreign_hold("a", 3_600)
    for _ in range(2):
        bench.pass_time(STRAY_MS + 1)
        found = bench.deep()
        assert (found.requeued, found.noted) == (0, 0)


@pytest.mark.parametrize("found", [True, False], ids=["old mark", "no mark"])
def test_a_look_that_is_the_last_leaves_no_mark(bench: Bench, found: bool) -> None:
    if found:
        bench.foreign_add("a")
        bench.foreign_pop()
        bench.deep()
        bench.pass_time(STRAY_MS + 1)
    bench.foreign_add("b")
    bench.foreign_pop()
    last = bench.light(note=False)
    assert (last.requeued, last.noted) == (int(found), 1)
    assert marks(bench) == []


def test_after_a_drain_a_light_clean_leaves_no_marks(bench: Bench) -> None:
    queue = WorkQueue(KeyPrefix(P))
    for id in ("a", "b", "c"):
        bench.foreign_add(id)
    bench.foreign_item("d")
    with bench.client() as db:
        for _ in range(2):
            bench.foreign_pop()
        bench.put("c")
        bench.deep()
        assert sorted(marks(bench)) == [b"a", b"b", b"c", b"d"]
        for id in ("a", "b", "c", "d"):
            bench.foreign_complete(id)
        bench.command("LREM", f"{P}:queue", 0, "c")
        bench.foreign_add("e")
        bench.foreign_lease()
        queue.light_clean(db)
    assert marks(bench) == []


def test_a_light_clean_forgets_the_marks_of_many_that_are_gone(bench: Bench) -> None:
    bench.foreign_add("a")
    bench.put("a")
    for name in MARKS:
        bench.command("EVAL", f"for i = 1, 2500 do redis.call('ZADD', '{name}', 9e15, 'gone' .. i) end", 0)
    bench.light()
    assert marks(bench) == [b"a"]


def test_a_clean_of_many_in_no_list_leaves_alone_those_that_were_listed_meanwhile(bench: Bench) -> None:
    """They are searched for together."""
    strays = [f"s{number}" for number in range(3_000)]
    for id in strays:
        bench.foreign_item(id)
    assert bench.deep().noted == 3_000
    for id in strays[:100]:
        bench.foreign_push(id)
    for _ in range(50):
        bench.foreign_lease()
    bench.foreign_complete("s100")
    bench.pass_time(STRAY_MS + 1)
    bench.command("CONFIG", "RESETSTAT")
    assert bench.deep().requeued == 2_899
    assert "cmdstat_lpos:" not in bench.command("INFO", "commandstats").decode()
    assert bench.lengths() == (2_949, 50)
    assert len(set(bench.queue())) == 2_949
    assert marks(bench) == []


def test_in_long_lists_a_call_searches_for_a_few(bench: Bench) -> None:
    bench.command("EVAL", f"for i = 1, {SEARCH_MAX} do redis.call('LPUSH', '{P}:queue', 'ghost' .. i) end", 0)
    strays = [f"s{number}" for number in range(20)]
    for id in strays:
        bench.foreign_item(id)
    bench.foreign_push("s0")
    assert bench.deep().noted == 19
    bench.foreign_push("s1")
    bench.pass_time(STRAY_MS + 1)
    bench.command("CONFIG", "RESETSTAT")
    assert bench.light().requeued == 18
    assert "cmdstat_lpos:" in bench.command("INFO", "commandstats").decode()
    assert bench.lengths()[0] == SEARCH_MAX + 20
    assert marks(bench) == []
