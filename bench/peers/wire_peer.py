"""Tenure's worker on the layout of redis-work-queue."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import contract
from contract import Arguments, Peer

from tenure import RedisWorkQueue, Tenure

app = Tenure(contract.url(), protocol=RedisWorkQueue(prefix="bench"))


@app.task(queue="default")
def sync(journal: str, token: str, seconds: float) -> None:
    contract.noop(journal, token, seconds)


@app.task(queue="default")
async def nothing(journal: str, token: str, seconds: float) -> None:
    await contract.anoop(journal, token, seconds)


@app.task(queue="default")
async def record(journal: str, record: dict[str, Any], seconds: float) -> None:
    await contract.anoop(journal, record, seconds)


def enqueue(kind: str, jobs: Iterable[Arguments], bulk: bool) -> None:
    task = record if contract.is_dict() else {"sync": sync, "async": nothing}[kind]
    if bulk:
        task.enqueue_many(task.call(*job) for job in jobs)
    else:
        for job in jobs:
            task.enqueue(*job)


def worker() -> list[str]:
    return [contract.program("tenure"), "worker", "wire_peer:app", "--log-level", "warning", "-c", "100"]


PEER = Peer(
    title="Tenure on redis-work-queue",
    packages=("tenure", "redis"),
    kinds=("sync", "async"),
    variants=(),
    enqueue=enqueue,
    worker=worker,
    fast="`-c 100`, on the layout of redis-work-queue",
)
