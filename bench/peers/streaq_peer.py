"""streaQ: https://streaq.readthedocs.io. Streams; a worker renews what it runs, others take over what stays idle."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import contract
from contract import Arguments, Peer, Variant
from streaq import Worker

OPTIONS = {
    "idle": {"idle_timeout": 10},
    "fast": {"concurrency": 100, "prefetch": 100},
    "fast-ten": {"concurrency": 10, "prefetch": 100},
}
worker_ = Worker(redis_url=contract.url(), **OPTIONS.get(contract.variant(), {}))


@worker_.task
async def mark(journal: str, token: str, seconds: float) -> None:
    await contract.amark(journal, token, seconds)


@worker_.task
def sync(journal: str, token: str, seconds: float) -> None:
    contract.noop(journal, token, seconds)


@worker_.task
async def nothing(journal: str, token: str, seconds: float) -> None:
    await contract.anoop(journal, token, seconds)


async def put(kind: str, jobs: Iterable[Arguments], bulk: bool) -> None:
    task = {"mark": mark, "sync": sync, "async": nothing}[kind]
    async with worker_:
        if bulk:
            await worker_.enqueue_many([task.enqueue(*job) for job in jobs])
        else:
            for job in jobs:
                await task.enqueue(*job)


def enqueue(kind: str, jobs: Iterable[Arguments], bulk: bool) -> None:
    asyncio.run(put(kind, jobs, bulk))


def worker() -> list[str]:
    return [contract.program("streaq"), "run", "streaq_peer:worker_"]


PEER = Peer(
    title="streaQ",
    packages=("streaq", "coredis"),
    kinds=("mark", "sync", "async"),
    variants=(
        Variant("default", "defaults (`idle_timeout` 60 s)"),
        Variant("idle", "`idle_timeout` 10 s"),
    ),
    enqueue=enqueue,
    worker=worker,
    fast="`concurrency=100`, `prefetch=100`",
    sweep=(Variant("fast-ten", "`concurrency=10`"),),
)
