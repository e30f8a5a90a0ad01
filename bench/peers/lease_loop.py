# mypy: ignore-errors
"""What a program does with redis-work-queue: the same calls, whether the package is the original or our drop-in."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice
from types import ModuleType

import contract
from contract import Arguments
from redis import Redis

PREFIX = "bench"
LEASE_S = 60
PIPELINE = 500


def enqueue(api: ModuleType, jobs: Iterable[Arguments], bulk: bool) -> None:
    db, queue = Redis.from_url(contract.url()), api.WorkQueue(api.KeyPrefix(PREFIX))
    items = (api.Item.from_json_data(job) for job in jobs)
    if not bulk:
        for item in items:
            queue.add_item(db, item)
        return
    # Its way to add many: each to a pipeline of the caller's.
    while part := list(islice(items, PIPELINE)):
        pipeline = db.pipeline(transaction=False)
        for item in part:
            queue.add_item_to_pipeline(pipeline, item)
        pipeline.execute()


def work(api: ModuleType) -> None:
    """The loop of the original's documentation: lease, run, complete."""
    db, queue = Redis.from_url(contract.url()), api.WorkQueue(api.KeyPrefix(PREFIX))
    while True:
        item = queue.lease(db, LEASE_S, True, 1)
        if item is not None:
            contract.noop(*json.loads(item.data()))
            queue.complete(db, item)
