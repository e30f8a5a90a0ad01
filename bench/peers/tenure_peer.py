"""Tenure itself, from this checkout."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from uuid import uuid4

import contract
from contract import Arguments, Peer, Variant

from tenure import Limit, Tenure, Unique
from tenure.client.options import UsingOptions

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


OPTIONS: dict[str, Callable[[], UsingOptions]] = {
    "fast-lane": lambda: {"lane": uuid4().hex},
    "fast-limit": lambda: {"limits": [Limit("bench", concurrency=200)]},
    "fast-priority": lambda: {"priority": 1},
    "fast-unique": lambda: {"unique": Unique(key=uuid4().hex)},
    "fast-expires": lambda: {"expires": 3600},
}
"""Variants with an option for each job, for the page about what options cost. Lanes and unique keys differ."""


def enqueue(kind: str, jobs: Iterable[Arguments], bulk: bool) -> None:
    task = record if contract.is_dict() else {"mark": mark, "sync": sync, "async": nothing}[kind]
    option = OPTIONS.get(contract.variant())
    if bulk:
        task.enqueue_many((task.using(**option()) if option else task).call(*job) for job in jobs)
    else:
        for job in jobs:
            (task.using(**option()) if option else task).enqueue(*job)


def worker() -> list[str]:
    # Variant `one`: for whoever asks what waits behind what.
    slots = ["-c", "100"] if contract.is_fast() else ["-c", "1"] if contract.variant() == "one" else []
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
