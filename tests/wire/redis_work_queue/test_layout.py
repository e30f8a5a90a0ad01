"""The drop-in beside a newer release that has changed our side keys."""

from __future__ import annotations

import pytest
import redis

from tenure import NewerLayout
from tenure.compat.redis_work_queue import Item, KeyPrefix, WorkQueue
from tenure.testing.server import RedisServer


def test_it_leases_and_cleans_nothing(private_server: RedisServer) -> None:
    queue = WorkQueue(KeyPrefix("jobs"))
    with redis.Redis(unix_socket_path=private_server.url.removeprefix("unix://")) as db:
        assert queue.add_item(db, Item(b"x"))
        db.hset("jobs:meta", "layout", 99)
        for act in (lambda: queue.lease(db, 10, block=False), lambda: queue.light_clean(db)):
            with pytest.raises(NewerLayout, match="99"):
                act()
        assert queue.queue_len(db) == 1
