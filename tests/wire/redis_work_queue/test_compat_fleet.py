"""A small fleet of the drop-in alone: at the end Redis has the results and no other key, as with the original."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from typing import Final

import redis

from tenure.compat.redis_work_queue import Item, KeyPrefix, WorkQueue
from tenure.testing.server import RedisServer

JOBS: Final = 24
WORKERS: Final = 3
FOLLOW_UPS: Final = 2
DROP_ONE_IN: Final = 9
LATE_ONE_IN: Final = 11
LEASE_S: Final = 1
LATE_S: Final = 1.2
QUIET_ROUNDS: Final = 5
ROUND_S: Final = 0.05
LIMIT_S: Final = 60.0


class Fleet:
    """Workers and a cleaner on two queues. A job of the first adds jobs to the second. Threads share nothing."""

    def __init__(self, server: RedisServer) -> None:
        self.server = server
        self.is_over = threading.Event()
        self.completed: Counter[str] = Counter()
        self.errors: list[BaseException] = []

    def queues(self) -> tuple[redis.Redis, WorkQueue, WorkQueue]:
        db = redis.Redis.from_url(self.server.url)
        return db, WorkQueue(KeyPrefix("first"), grace=0.2), WorkQueue(KeyPrefix("second"), grace=0.2)

    def run(self, duty: str, *args: int) -> None:
        try:
            getattr(self, duty)(*args)
        except BaseException as error:
            self.errors.append(error)
            self.is_over.set()

    def work(self, seed: int) -> None:
        """Lease from both queues in turn. Drop some items, and complete some after their lease."""
        db, *both = self.queues()
        chance = random.Random(seed)
        while not self.is_over.is_set():
            for queue in both:
                item = queue.lease(db, LEASE_S, block=chance.random() < 0.3, timeout=0.2)
                if item is None or chance.randrange(DROP_ONE_IN) == 0:
                    continue
                if chance.randrange(LATE_ONE_IN) == 0:
                    time.sleep(LATE_S)
                db.set(f"results:{item.id()}", item.data())
                if queue.complete(db, item):
                    self.completed[item.id()] += 1
                    if queue is both[0]:
                        for n in range(FOLLOW_UPS):
                            both[1].add_item(db, Item.from_json_data([item.data_json(), n]))
        for queue in both:
            queue.close(db)  # one that completed late makes no further call, which would remove its answer
        db.close()

    def clean(self) -> None:
        """Clean in a loop, until both queues have been empty for some rounds."""
        db, *both = self.queues()
        until, quiet = time.monotonic() + LIMIT_S, 0
        while quiet < QUIET_ROUNDS:
            assert time.monotonic() < until, [(queue.queue_len(db), queue.processing(db)) for queue in both]
            for queue in both:
                queue.light_clean(db)
            quiet = 0 if any(queue.queue_len(db) + queue.processing(db) for queue in both) else quiet + 1
            time.sleep(ROUND_S)
        self.is_over.set()
        db.close()


def test_a_fleet_leaves_its_results_and_no_other_key(server: RedisServer) -> None:
    fleet = Fleet(server)
    db, first, _ = fleet.queues()
    assert db.keys() == []
    with db.pipeline() as pipeline:
        for n in range(JOBS):
            if n % 2:
                first.add_item_to_pipeline(pipeline, Item.from_json_data(n))
            else:
                assert first.add_item(db, Item.from_json_data(n))
        pipeline.execute()
    first.queue_len(db)
    duties = [("clean",), *(("work", seed) for seed in range(WORKERS))]
    threads = [threading.Thread(target=fleet.run, args=duty, daemon=True) for duty in duties]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * LIMIT_S)
    assert not fleet.errors
    keys = [str(key, "utf-8") for key in db.scan_iter()]
    assert [key for key in keys if not key.startswith("results:")] == []
    results = Counter(json.dumps(json.loads(db.get(key) or b"")) for key in keys)
    wanted = [*range(JOBS)] + [[n, m] for n in range(JOBS) for m in range(FOLLOW_UPS)]
    assert results == Counter(json.dumps(one) for one in wanted), "each job ran, and its follow-ups were added once"
    assert set(fleet.completed.values()) == {1}
    db.close()
