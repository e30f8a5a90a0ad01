"""A bare loop on redis-py, 100 jobs with each round trip."""

from __future__ import annotations

from collections.abc import Iterable

import loop
from contract import Arguments, Peer

SIZE = 100


def enqueue(kind: str, jobs: Iterable[Arguments], bulk: bool) -> None:
    loop.put(jobs, SIZE if bulk else 1)


def worker() -> list[str]:
    return loop.command(SIZE)


PEER = Peer(
    title="bare loop, 100 a call",
    packages=("redis", "hiredis"),
    kinds=("sync", "async"),
    variants=(),
    enqueue=enqueue,
    worker=worker,
    fast="the same script, for 100 jobs",
    no_single="is what 100 jobs a round trip do; see the loop with one",
)
