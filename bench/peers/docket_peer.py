"""Docket: https://docket.lol. Async only, on streams; a worker takes over what has not been acknowledged in time."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from datetime import timedelta

import contract
from contract import Arguments, Peer, Variant
from docket import Docket, Worker

NAME = "bench"


async def mark(journal: str, token: str, seconds: float) -> None:
    await contract.amark(journal, token, seconds)


async def nothing(journal: str, token: str, seconds: float) -> None:
    await contract.anoop(journal, token, seconds)


def docket() -> Docket:
    fast = {"execution_ttl": timedelta(0)} if contract.is_fast() else {}
    found = Docket(NAME, url=contract.url(), **fast)
    found.register(mark)
    found.register(nothing)
    return found


async def put(kind: str, jobs: Iterable[Arguments], bulk: bool) -> None:
    function = {"mark": mark, "async": nothing}[kind]
    async with docket() as queue:
        if bulk:
            await queue.add_many(queue.call(function)(*job) for job in jobs)
        else:
            for job in jobs:
                await queue.add(function)(*job)


def enqueue(kind: str, jobs: Iterable[Arguments], bulk: bool) -> None:
    asyncio.run(put(kind, jobs, bulk))


async def work() -> None:
    slots = {"fast": 100, "fast-ten": 10}.get(contract.variant(), 10)
    async with docket() as queue, Worker(queue, concurrency=slots) as running:
        await running.run_forever()


def worker() -> list[str]:
    return [sys.executable, "-c", "import asyncio, docket_peer; asyncio.run(docket_peer.work())"]


PEER = Peer(
    title="Docket",
    packages=("pydocket", "redis"),
    kinds=("mark", "async"),
    variants=(Variant("default", "defaults (`redelivery_timeout` 300 s)"),),
    enqueue=enqueue,
    worker=worker,
    fast="`concurrency=100`, `execution_ttl=0` (no results)",
    sweep=(Variant("fast-ten", "`concurrency=10`"),),
)
