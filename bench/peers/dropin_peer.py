"""Tenure's drop-in for redis-work-queue: the very same calls, another import."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import lease_loop
from contract import Arguments, Peer

from tenure.compat import redis_work_queue


def enqueue(kind: str, jobs: Iterable[Arguments], bulk: bool) -> None:
    lease_loop.enqueue(redis_work_queue, jobs, bulk)


def worker() -> list[str]:
    program = "import lease_loop; from tenure.compat import redis_work_queue; lease_loop.work(redis_work_queue)"
    return [sys.executable, "-c", program]


PEER = Peer(
    title="Tenure's drop-in",
    packages=("tenure", "redis"),
    kinds=("sync",),
    variants=(),
    enqueue=enqueue,
    worker=worker,
    fast="the same calls as redis-work-queue, on its layout",
)
