"""Tenure itself, from this checkout."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import contract
from contract import Arguments, Peer, Variant

from tenure import Tenure

app = Tenure(contract.url())
if contract.is_fast():
    app.queue_defaults("bench", result_ttl=0)


@app.task(queue="bench")
async def mark(journal: str, token: str, seconds: float) -> None:
    await contract.amark(journal, token, seconds)


@app.task(queue="bench")
def sync(journal: str, token: str, seconds: float) -> None:
    contract.noop(journal, token, seconds)


@app.task(queue="bench")
async def nothing(journal: str, token: str, seconds: float) -> None:
    await contract.anoop(journal, token, seconds)


@app.task(queue="bench")
async def record(journal: str, record: dict[str, Any], seconds: float) -> None:
    await contract.anoop(journal, record, seconds)


def enqueue(kind: str, jobs: Iterable[Arguments], bulk: bool) -> None:
    task = record if contract.is_dict() else {"mark": mark, "sync": sync, "async": nothing}[kind]
    if bulk:
        task.enqueue_many(task.call(*job) for job in jobs)
    else:
        for job in jobs:
            task.enqueue(*job)


def worker() -> list[str]:
    # Variant `one`: for whoever asks what waits behind what.
    slots = {"one": ["-c", "1"], contract.FAST: ["-c", "100"]}.get(contract.variant(), [])
    return [contract.program("tenure"), "worker", "tenure_peer:app", "--log-level", "warning", *slots]


PEER = Peer(
    title="Tenure",
    packages=("tenure", "redis"),
    kinds=("mark", "sync", "async"),
    variants=(Variant("default", "defaults"),),
    enqueue=enqueue,
    worker=worker,
    fast="`-c 100`, `result_ttl=0`",
)
