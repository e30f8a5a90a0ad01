"""SAQ: https://saq-py.readthedocs.io. Async only; a sweep gives back jobs that ran over their timeout."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import contract
from contract import Arguments, Peer, Variant
from saq import Queue

queue = Queue.from_url(contract.url())
OPTIONS = {
    "default": {},
    "retries": {"retries": 3},
    "sweep": {"retries": 3},
    "fast": {"ttl": -1},
    "fast-ten": {"ttl": -1},
}


async def mark(ctx: dict[str, Any], *, journal: str, token: str, seconds: float) -> None:
    await contract.amark(journal, token, seconds)


async def nothing(ctx: dict[str, Any], *, journal: str, token: str, seconds: float) -> None:
    await contract.anoop(journal, token, seconds)


settings = {
    "queue": queue,
    "functions": [mark, nothing],
    **({"timers": {"sweep": 5}} if contract.variant() == "sweep" else {}),
    **({"concurrency": 10 if contract.variant() == "fast-ten" else 100} if contract.is_fast() else {}),
}


async def put(kind: str, jobs: Iterable[Arguments], bulk: bool) -> None:
    name = {"mark": "mark", "async": "nothing"}[kind]
    options = OPTIONS[contract.variant()]
    await queue.connect()
    calls = ({"journal": journal, "token": token, "seconds": seconds, **options} for journal, token, seconds in jobs)
    if bulk:
        # There is no call for many: side by side on one pool of connections is its way.
        await asyncio.gather(*(queue.enqueue(name, **call) for call in calls))
    else:
        for call in calls:
            await queue.enqueue(name, **call)
    await queue.disconnect()


def enqueue(kind: str, jobs: Iterable[Arguments], bulk: bool) -> None:
    asyncio.run(put(kind, jobs, bulk))


def worker() -> list[str]:
    return [contract.program("saq"), "saq_peer.settings"]


PEER = Peer(
    title="SAQ",
    packages=("saq", "redis"),
    kinds=("mark", "async"),
    variants=(
        Variant("default", "defaults (`timeout=10`, `retries=1`, sweep every 60 s)"),
        Variant("retries", "`retries=3`"),
        Variant("sweep", "`retries=3`, sweep every 5 s"),
    ),
    enqueue=enqueue,
    worker=worker,
    fast="`concurrency=100`, `ttl=-1` (no results)",
    sweep=(Variant("fast-ten", "`concurrency=10`"),),
)
