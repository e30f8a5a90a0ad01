"""Cleaning many ids: few round trips, short steps, and lengths that are right at every instant."""

from __future__ import annotations

import threading
import time

import pytest

from tenure.compat.redis_work_queue import Item, KeyPrefix, WorkQueue
from tenure.core.steps import Command, Steps
from tenure.engines.kit.config import FAILED_MAX
from tenure.engines.redis_work_queue import clean
from tests.support.stepping import Session, send_with, step
from tests.wire.redis_work_queue.bench import LEASE_KEYS, STRAY_MS, Bench, P

MANY = 100_000
FILL = """
for i = ARGV[1], ARGV[2] do
  redis.call('SET', KEYS[1] .. ':item:i' .. i, 'data')
  if ARGV[3] ~= '' then redis.call('LPUSH', KEYS[1] .. ARGV[3], 'i' .. i) end
  if ARGV[4] ~= '' then redis.call('SET', KEYS[1] .. ':leased_by_session:i' .. i, 'x', 'EX', ARGV[4]) end
end
"""


LOOK = """
local items = #redis.call('KEYS', KEYS[1] .. ':item:*')
return { redis.call('LLEN', KEYS[1] .. ':queue'), redis.call('LLEN', KEYS[1] .. ':processing'), items }
"""


def fill(bench: Bench, first: int, last: int, where: str = ":processing", lease: str = "") -> None:
    for start in range(first, last + 1, 5_000):
        bench.command("EVAL", FILL, 1, P, start, min(start + 4_999, last), where, lease)


def asked_by(bench: Bench, steps: Steps[object]) -> list[object]:
    """Run an operation. Return the names of its commands and scripts."""
    asked: list[object] = []

    def see(number, call, send):
        asked.append(call.args[0] if isinstance(call, Command) else call.script.name)
        return send(call)

    step(steps, Session("s"), send_with(bench.driver), see)
    return asked


def has_short_steps(bench: Bench) -> bool:
    """Whether no command since the slow log was emptied took a third of the time of all."""
    times = [entry[2] for entry in bench.command("SLOWLOG", "GET", -1)]
    return 3 * max(times) < sum(times)


@pytest.mark.slow
def test_a_light_clean_of_many_takes_short_steps(bench: Bench) -> None:
    fill(bench, 1, MANY // 2, lease="3600")
    fill(bench, MANY // 2 + 1, MANY)
    calls = []

    def count(number, call, send):
        calls.append(number)
        return send(call)

    bench.light()
    bench.pass_time(STRAY_MS + 1)
    bench.command("SLOWLOG", "RESET")
    total = step(clean.light_clean(P, bench.engine.config), Session("s"), send_with(bench.driver), count)
    assert (total.looked, total.requeued) == (MANY, MANY // 2)
    assert len(calls) <= 5 * MANY / 1_000
    assert bench.lengths() == (MANY // 2, MANY // 2)
    assert has_short_steps(bench)
    assert bench.light().requeued == 0


@pytest.mark.slow
def test_a_deep_clean_of_many_finds_the_few(bench: Bench) -> None:
    fill(bench, 1, MANY - 20_000, ":queue")
    fill(bench, MANY - 19_999, MANY - 50, ":processing", "3600")
    fill(bench, MANY - 49, MANY, "")
    bench.command("MSET", *(word for n in range(20_000) for word in (f"other:item:{n}", "x")))
    bench.command("SLOWLOG", "RESET")
    first = bench.deep()
    assert (first.requeued, first.noted) == (0, 50)
    assert has_short_steps(bench)
    bench.pass_time(STRAY_MS + 1)  # which looks through all of `processing` at once
    bench.command("SLOWLOG", "RESET")
    assert bench.deep().requeued == 50
    assert bench.lengths() == (MANY - 20_000 + 50, 20_000 - 50)
    assert has_short_steps(bench)
    assert bench.command("EXISTS", f"{P}:stray") == 0


def test_a_deep_clean_takes_turns_where_the_lists_are_long(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.engines.redis_work_queue.clean.KNOWN_MAX", 100)
    fill(bench, 1, 450, ":queue")
    fill(bench, 451, 500, "")
    assert asked_by(bench, clean.search(P, bench.engine.config)).count("SCAN") == 1
    assert asked_by(bench, clean.deep_clean(P, bench.engine.config)).count("SCAN") == 5
    bench.pass_time(STRAY_MS + 1)
    total = sum(bench.deep().requeued for _ in range(3))
    assert total == 50
    assert bench.lengths() == (500, 0)


def test_lengths_are_right_at_every_instant(bench: Bench) -> None:
    """Whoever reads both in one step finds every item in one of them."""
    ids = [f"i{n}" for n in range(40)]
    bench.put(*ids)
    wrong: list[tuple[int, int, int]] = []
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            waiting, held, items = bench.command("EVAL", LOOK, 1, P)
            if waiting + held != items:
                wrong.append((waiting, held, items))

    watcher = threading.Thread(target=watch)
    watcher.start()
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        leases = bench.take(7, "w")
        for n, lease in enumerate(leases):
            bench.settle(lease) if n % 2 else None
        bench.run(bench.engine.leave("w", ["default"]))
        bench.maintain()
        bench.put(*ids)
    over.set()
    watcher.join()
    assert wrong == []


def test_two_cleaners_at_once_put_back_everything_once(bench: Bench) -> None:
    fill(bench, 1, 3_000)
    bench.light()
    bench.pass_time(STRAY_MS + 1)
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(bench.light().requeued)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    while left := bench.light().requeued:
        found.append(left)
    assert sum(found) == 3_000
    assert bench.lengths() == (3_000, 0)
    assert len(set(bench.queue())) == 3_000


def test_one_clean_puts_back_all_that_nobody_holds(bench: Bench) -> None:
    fill(bench, 1, 3_500)
    assert bench.light().requeued == 0
    bench.pass_time(STRAY_MS + 1)
    assert bench.light().requeued == 3_500
    assert bench.lengths() == (3_500, 0)


def test_a_clean_reads_no_names_of_keys_but_by_scan(bench: Bench) -> None:
    bench.put("a")
    asked = asked_by(bench, clean.deep_clean(P, bench.engine.config))
    assert set(asked) <= {"LLEN", "LRANGE", "SCAN", "ZCARD", "unleased", "unlisted", "unmark", "maintain"}


def test_a_fleet_of_the_drop_in_alone_leaves_nothing_behind(bench: Bench) -> None:
    """Its leases lapse, others put the items back and complete them; marks of another time are in the way."""
    queue = WorkQueue(KeyPrefix(P))
    with bench.client() as db:
        for id in ("a", "b", "c"):
            assert queue.add_item(db, Item(b"data", id))
            assert queue.lease(db, 5, block=False) is not None
        for id in ("a", "b", "c"):
            bench.foreign_complete(id)
        for kind in ("unleased", "stray"):
            bench.command("ZADD", f"{P}:{kind}", 1, "old")
        bench.pass_time(60_000)
        bench.command("DEL", *(f"{P}:{kind}:{id}" for kind in LEASE_KEYS for id in "abc"))
        queue.light_clean(db)
    left = {name.decode() for name in bench.command("KEYS", f"{P}:*") if b":done:" not in name}
    assert left == set()


def test_a_drop_in_without_work_takes_back_what_has_lapsed(bench: Bench) -> None:
    queue = WorkQueue(KeyPrefix(P))
    with bench.client() as db:
        bench.put("a")
        assert queue.lease(db, 5, block=False) is not None
        assert queue.lease(db, 5, block=False) is None
        bench.pass_time(60_000)
        bench.command("DEL", *(f"{P}:{kind}:a" for kind in LEASE_KEYS))
        again = queue.lease(db, 5, block=False)
        assert again is not None
        assert again.id() == "a"
    assert bench.lengths() == (0, 1)


def test_a_light_clean_says_what_it_may_put_back_later(bench: Bench) -> None:
    bench.foreign_add("a")
    bench.foreign_pop()
    assert bench.light().noted == 1


def test_a_clean_of_the_drop_in_keeps_the_records_that_workers_keep(bench: Bench) -> None:
    queue = WorkQueue(KeyPrefix(P))
    with bench.client() as db:
        records = FAILED_MAX + 500
        names = [f"f{number}" for number in range(records)]
        for start in range(0, records, 2_000):
            part = names[start : start + 2_000]
            bench.command("ZADD", f"{P}:failed", *(word for name in part for word in (9_999_999_999_999, name)))
        queue.light_clean(db)
    assert bench.command("ZCARD", f"{P}:failed") == records


def test_a_clean_puts_nothing_back_that_another_client_has_completed(bench: Bench) -> None:
    bench.put("a")
    bench.take_one("hand", lease_ms=1_000)
    bench.foreign_complete("a")
    bench.pass_time(60_000)
    assert bench.light().requeued == 0
    assert bench.lengths() == (0, 0)
