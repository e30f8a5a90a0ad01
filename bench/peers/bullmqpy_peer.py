"""BullMQ for Python: https://docs.bullmq.io/python. Async only; a job whose lock is not renewed counts as stalled."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from itertools import islice
from typing import Any

import contract
from bullmq import Queue, Worker
from contract import Arguments, Peer, Variant

QUEUE = "bench"
CHUNK = 1_000
OPTIONS = {"removeOnComplete": True} if contract.is_fast() else {}


async def handle(job: Any, token: str) -> None:
    run = contract.amark if job.name == "mark" else contract.anoop
    await run(*job.data)


async def put(kind: str, jobs: Iterable[Arguments], bulk: bool) -> None:
    queue, left = Queue(QUEUE, {"connection": contract.url()}), iter(jobs)
    if bulk:
        while part := list(islice(left, CHUNK)):
            await queue.addBulk([{"name": kind, "data": job, "opts": OPTIONS} for job in part])
    else:
        for job in left:
            await queue.add(kind, job, OPTIONS)
    await queue.close()


def enqueue(kind: str, jobs: Iterable[Arguments], bulk: bool) -> None:
    asyncio.run(put(kind, jobs, bulk))


async def work() -> None:
    slots = {"fast": 100, "fast-ten": 10}.get(contract.variant(), 1)
    Worker(QUEUE, handle, {"connection": contract.url(), "concurrency": slots})
    await asyncio.Event().wait()


def worker() -> list[str]:
    return [sys.executable, "-c", "import asyncio, bullmqpy_peer; asyncio.run(bullmqpy_peer.work())"]


PEER = Peer(
    title="BullMQ for Python",
    packages=("bullmq", "redis"),
    kinds=("mark", "async"),
    variants=(Variant("default", "defaults (stalled jobs are looked for every 30 s)"),),
    enqueue=enqueue,
    worker=worker,
    fast="`concurrency: 100`, `removeOnComplete`",
    sweep=(Variant("fast-ten", "`concurrency: 10`"),),
)
