"""redis-work-queue, the original: https://github.com/MeVitae/redis-work-queue. Its loop is lease, run, complete."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import lease_loop
import redis_work_queue
from contract import Arguments, Peer


def enqueue(kind: str, jobs: Iterable[Arguments], bulk: bool) -> None:
    lease_loop.enqueue(redis_work_queue, jobs, bulk)


def worker() -> list[str]:
    return [sys.executable, "-c", "import lease_loop, redis_work_queue; lease_loop.work(redis_work_queue)"]


PEER = Peer(
    title="redis-work-queue",
    packages=("redis-work-queue", "redis"),
    kinds=("sync",),
    variants=(),
    enqueue=enqueue,
    worker=worker,
    fast="the loop of its documentation; many: pipelines of 500",
)
