"""A bare loop on redis-py, one job with each round trip."""

from __future__ import annotations

from collections.abc import Iterable

import loop
from contract import Arguments, Peer


def enqueue(kind: str, jobs: Iterable[Arguments], bulk: bool) -> None:
    loop.put(jobs, 1)


def worker() -> list[str]:
    return loop.command(1)


PEER = Peer(
    title="bare loop, 1 a call",
    packages=("redis", "hiredis"),
    kinds=("sync", "async"),
    variants=(),
    enqueue=enqueue,
    worker=worker,
    fast="a script that ends a job and claims the next",
    no_bulk="is what one job a round trip does; see the loop with 100",
)
