"""The original clients, in Python and in Node, share a queue with ours."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from tenure.compat.redis_work_queue import Item, KeyPrefix, WorkQueue
from tenure.core.outcome import Retried
from tenure.testing.server import RedisServer
from tests.wire.redis_work_queue.bench import BOOM, Bench
from tests.wire.redis_work_queue.originals import KINDS, Original

DATA = b'\x00\xff{"a":1}\r\n'
IDS = ["plain", "with:colon", "snow☃", "a*b?[c]"]


def test_they_produce_and_we_consume(bench: Bench, original: Original) -> None:
    for id in IDS:
        original.add(id, DATA)
    leases = bench.take()
    assert [lease.record.id for lease in leases] == IDS
    assert {lease.record.payload for lease in leases} == {DATA}
    assert (original.do("queue_len"), original.do("processing")) == (0, 4)
    assert all(bench.settle(lease) for lease in leases)
    assert (original.do("queue_len"), original.do("processing")) == (0, 0)
    bench.audit()


def test_we_produce_and_they_consume(bench: Bench, original: Original) -> None:
    assert bench.put(*IDS, data=DATA) == [True] * 4
    for id in IDS:
        assert original.lease(30) == (id, DATA)
        assert original.do("complete", id) is True
        assert original.do("complete", id) is False
    assert bench.lengths() == (0, 0)
    bench.audit()


def test_the_call_of_a_task_is_json_to_them(bench: Bench, original: Original) -> None:
    bench.put("a", data=b'[["cat.png"],{"size":64}]', task="shop.thumbnail")
    assert original.lease(30) == (
        "a",
        b'{"tenure":1,"task":"shop.thumbnail","args":["cat.png"],"kwargs":{"size":64}}',
    )


def test_they_can_call_a_task(bench: Bench, original: Original) -> None:
    original.add("a", b'{"kwargs": {"size": 64}, "task": "shop.thumbnail", "tenure": 1}')
    record = bench.take_one().record
    assert (record.task, record.payload) == ("shop.thumbnail", b'[[],{"size": 64}]')


def test_neither_is_given_what_the_other_holds(bench: Bench, original: Original) -> None:
    bench.put("a", "b")
    lease = bench.take_one()
    assert original.lease(30) == ("b", b"data")
    assert original.lease(1, timeout=1) is None
    assert bench.take() == []
    assert bench.lengths() == (0, 2)
    assert original.do("complete", "b") is True
    assert bench.settle(lease)


def test_they_block_until_we_produce(bench: Bench, original: Original) -> None:
    original.send("lease", 30, 10)
    time.sleep(0.2)  # so that it blocks, mostly; the answer is the same if it does not yet
    bench.put("a")
    assert original.process.stdout is not None
    assert b'"a"' in original.process.stdout.readline()


def test_we_block_until_they_produce(bench: Bench, original: Original, db: redis.Redis) -> None:
    original.do("queue_len")
    command = [sys.executable, "-c", "import time, sys; time.sleep(0.3); sys.stdout.write('x')"]
    with subprocess.Popen(command, stdout=subprocess.PIPE):
        original.send("add", "a", "")
        item = WorkQueue(KeyPrefix("jobs")).lease(db, 5, timeout=20)
    assert item is not None
    assert item.id() == "a"


def test_their_cleaner_leaves_what_we_hold(bench: Bench, original: Original) -> None:
    """Also a job that waits for its retry."""
    bench.put("held", "later")
    held, later = bench.take(2)
    assert bench.settle(later, Retried(BOOM, 60_000))
    original.do("light_clean")
    assert bench.queue() == []
    assert sorted(bench.processing()) == [b"held", b"later"]
    assert original.do("processing") - bench.command("ZCARD", "jobs:later") == 1, "what an autoscaler should count"
    assert bench.settle(held)
    bench.audit()


@pytest.mark.parametrize("dies", ["we", "they"])
def test_what_one_side_left_the_other_puts_back(bench: Bench, original: Original, dies: str) -> None:
    bench.put("a")
    if dies == "we":
        bench.take_one("dead", lease_ms=1_000)
        bench.pass_time(1_100)
        original.do("light_clean")
        bench.command("LREM", "jobs:queue", 0, "0")  # Node's cleaner queues this as well
        assert bench.queue() == [b"a"]
        assert original.lease(30) == ("a", b"data")
        assert original.do("complete", "a") is True
    else:
        assert original.lease(30) == ("a", b"data")
        bench.pass_time(31_000)
        assert bench.light().requeued == 0, "it may be in the middle of leasing it"
        bench.pass_time(61_000)
        assert bench.light().requeued == 1
        assert bench.drain() == ["a"]
    bench.maintain()
    assert (bench.lengths(), bench.items()) == ((0, 0), 0)


CONSUMER = """
import sys, time, redis
from tenure.compat.redis_work_queue import KeyPrefix, WorkQueue
db, queue = redis.Redis.from_url(sys.argv[1]), WorkQueue(KeyPrefix("jobs"))
with open(sys.argv[2], "ab", buffering=0) as log:
    while True:
        item = queue.lease(db, 2, True, 1)
        if item is None:
            continue
        log.write(b"start %s\\n" % item.id().encode())
        time.sleep(0.002)
        log.write(b"done %s %d\\n" % (item.id().encode(), queue.complete(db, item)))
"""


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("kind", KINDS)
def test_both_consume_while_workers_of_both_are_killed_and_both_clean(
    bench: Bench, start: Callable[[str], Original], tmp_path: Path, kind: str
) -> None:
    """Nothing is lost, and of all completions of an item one says True."""
    seed = random.randrange(1_000_000)
    draw = random.Random(seed)
    bench.command("CONFIG", "SET", "appendonly", "no")
    producer, cleaner = start(kind), start(kind)
    queue = WorkQueue(KeyPrefix("jobs"), grace=3)
    db = redis.Redis.from_url(bench.server.url)
    ids = [f"i{n}" for n in range(1_000)]
    for n, id in enumerate(ids):
        if n % 2:
            producer.add(id, b"x")
        else:
            assert queue.add_item(db, Item(b"x", id))
    consumers: list[tuple[str, subprocess.Popen[bytes]]] = []

    def begin(side: str) -> None:
        path = str(tmp_path / f"{side}-{len(list(tmp_path.iterdir()))}.log")
        if side == "ours":
            Path(path).touch()
            consumers.append((side, subprocess.Popen([sys.executable, "-c", CONSUMER, bench.server.url, path])))
        else:
            Path(path).touch()
            client = start(kind)
            client.send("consume", path, 2)
            consumers.append((side, client.process))

    for side in ("ours", "theirs", "ours", "theirs"):
        begin(side)
    kills = 0
    until = time.monotonic() + 150
    while bench.items() and time.monotonic() < until:
        time.sleep(0.4)
        if kills < 24:
            side, victim = consumers.pop(draw.randrange(len(consumers)))
            victim.kill()
            victim.wait()
            kills += 1
            begin(side)
        cleaner.do("light_clean")
        queue.light_clean(db)
        queue.deep_clean(db)
    for _, process in consumers:
        process.kill()
        process.wait()
    lines = [line.split() for path in tmp_path.iterdir() for line in path.read_text().splitlines()]
    # Node's cleaner queues an id `0` beside each that it puts back, and Node's worker runs it.
    started = {line[1] for line in lines if line[0] == "start"} - {"0"}
    true = Counter(line[1] for line in lines if line[0] == "done" and line[2] == "1" and line[1] != "0")
    assert bench.items() == 0, f"seed {seed}: left {bench.command('KEYS', 'jobs:item:*')}"
    assert started == set(ids), f"seed {seed}"
    assert max(true.values()) == 1, f"seed {seed}"
    assert kills >= 3, "nothing was killed: the test says nothing"
    assert len(true) >= len(ids) - kills, "more completions unheard of than kills"
    db.close()


def test_the_kinds_of_original_are_what_this_says(server: RedisServer) -> None:
    """Should they change their keys, this says it first."""
    client = Original("python", server.url, "jobs")
    try:
        client.add("a", b"x")
        client.lease(30)
        assert sorted(server.command("KEYS", "*")) == [b"jobs:item:a", b"jobs:leased_by_session:a", b"jobs:processing"]
    finally:
        client.close()
