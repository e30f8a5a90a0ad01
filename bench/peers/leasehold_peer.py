"""Leasehold itself, from this checkout."""

from __future__ import annotations

from collections.abc import Iterable

import contract
from contract import Arguments, Peer, Variant

from leasehold import Leasehold

app = Leasehold(contract.url())


@app.task(queue="bench")
async def mark(journal: str, token: str, seconds: float) -> None:
    await contract.amark(journal, token, seconds)


@app.task(queue="bench")
def sync(journal: str, token: str, seconds: float) -> None:
    contract.noop(journal, token, seconds)


@app.task(queue="bench")
async def nothing(journal: str, token: str, seconds: float) -> None:
    await contract.anoop(journal, token, seconds)


def enqueue(kind: str, jobs: Iterable[Arguments], bulk: bool) -> None:
    task = {"mark": mark, "sync": sync, "async": nothing}[kind]
    if bulk:
        task.enqueue_many(task.call(*job) for job in jobs)
    else:
        for job in jobs:
            task.enqueue(*job)


def worker() -> list[str]:
    # Variant `one`: for whoever asks what waits behind what.
    few = ["-c", "1"] if contract.variant() == "one" else []
    return [contract.program("leasehold"), "worker", "leasehold_peer:app", "--log-level", "warning", *few]


PEER = Peer(
    title="Leasehold",
    packages=("leasehold", "redis"),
    kinds=("mark", "sync", "async"),
    variants=(Variant("default", "defaults"),),
    enqueue=enqueue,
    worker=worker,
    fast="defaults",
)
