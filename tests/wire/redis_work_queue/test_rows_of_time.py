"""Rows of docs/protocols/redis-work-queue.md that are about time: what takes long, and what would never end."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tenure.compat.redis_work_queue import KeyPrefix, WorkQueue
from tenure.core import limits
from tenure.core.job import State
from tenure.core.outcome import Broken
from tenure.engines.redis_work_queue.config import DEEP_MS
from tenure.redis.sync import SyncDriver
from tests.redis.proxy import Proxy
from tests.wire.redis_work_queue.bench import BOOM, Bench, P

# R17: completing must not look through all of `processing`.


def test_r17_completing_starts_where_the_oldest_are(bench: Bench) -> None:
    bench.put("a")
    lease = bench.take_one()
    many = "for i = 1, 50000 do redis.call('LPUSH', KEYS[1], 'i' .. i) end"
    bench.command("EVAL", many, 1, f"{P}:processing")
    looked = timed(bench, "lrem", lambda: bench.command("LREM", f"{P}:processing", 0, "nobody"))
    assert timed(bench, "lrem", lambda: bench.settle(lease)) < looked / 5
    assert bench.lengths() == (0, 50_000)


def timed(bench: Bench, command: str, act: Callable[[], object]) -> float:
    """How many microseconds the server spends on commands of this name while something is done."""
    bench.command("CONFIG", "RESETSTAT")
    act()
    found = re.search(rf"cmdstat_{command}:calls=\d+,usec=(\d+)", bench.command("INFO", "commandstats").decode())
    assert found, f"no {command} was sent"
    return int(found[1])


# R19: a connection whose other end has vanished without a word.


def test_r19_a_worker_notices_that_its_wait_will_not_be_answered(bench: Bench) -> None:
    with Proxy(bench.server.socket_path) as proxy:
        driver = SyncDriver(proxy.url)
        driver.run(bench.engine.queue("default"))
        proxy.hole()
        bench.put("a")
        before = time.monotonic()
        assert [lease.record.id for lease in driver.run(bench.wait_and_claim()).leases] == ["a"]
        assert time.monotonic() - before < 0.5 + 2 + 3
        driver.close()


def test_r19_a_lease_without_end_heeds_the_timeout_of_its_client(bench: Bench) -> None:
    """While the connection lives, it waits for longer; when it is dead, the caller hears of it."""
    queue = WorkQueue(KeyPrefix(P))
    with Proxy(bench.server.socket_path) as proxy:
        path, never = proxy.url.removeprefix("unix://"), Retry(NoBackoff(), 0)
        client = redis.Redis(unix_socket_path=path, socket_timeout=1.0, retry=never)
        later = threading.Timer(1.0, bench.put, ("a",))
        later.start()
        item = queue.lease(client, 5)
        assert item is not None
        later.join()
        proxy.hole()
        bench.put("b")
        with pytest.raises(redis.exceptions.TimeoutError):
            queue.lease(client, 5)
        item = queue.lease(client, 5)
        assert item is not None
        assert item.id() == "b"
        client.close()


def test_a_clock_that_is_set_back_puts_off_no_deep_clean(bench: Bench) -> None:
    bench.maintain()
    bench.pass_time(-7 * limits.DAY)
    bench.foreign_item("stranded")
    for _ in range(3):
        bench.maintain()
        bench.pass_time(DEEP_MS)
    assert bench.drain() == ["stranded"]


# No time, whatever an item says, takes a job from a worker that beats.


@pytest.mark.parametrize(
    "data",
    [
        b"x",
        b'{"tenure":1,"timeout_ms":5000,"task":"t"}',
        b'{"tenure":1,"task":"t","kwargs":{"timeout_ms":50}}',
        b'{"tenure":1,"timeout_ms":50}',
        b'{"tenure":1,"timeout_ms":50,"task":"t","timeout_ms":7200000}',
        b'{"tenure":1,"timeout_ms":50,"task":"t"',
    ],
)
def test_a_worker_that_beats_keeps_its_item(bench: Bench, data: bytes) -> None:
    bench.foreign_add("a", data)
    lease = bench.take_one()
    for _ in range(3):
        bench.pass_time(3_600_000)
        bench.beat("w", [lease])
        assert bench.take(1, "other") == []
    assert bench.settle(lease)
    bench.audit()


@pytest.mark.parametrize("digits", [25, 400, 5_000])
def test_a_timeout_of_any_length_leaves_a_lease_that_can_be_settled(bench: Bench, digits: int) -> None:
    bench.foreign_add("a", b'{"tenure":1,"timeout_ms":%s,"task":"t"}' % (b"9" * digits))
    lease = bench.take_one()
    assert lease.record.malformed
    assert bench.settle(lease, Broken(BOOM))
    assert bench.state("a") is State.BROKEN
    bench.audit()
