# mypy: ignore-errors
"""potatoq on Redis: https://anze3db.github.io/potatoq. Celery's calls; tasks are acknowledged after they ran."""

from __future__ import annotations

from collections.abc import Iterable

import contract
from contract import Arguments, Peer, Variant
from potatoq import Potatoq, group

app = Potatoq("potatoq_peer", broker=contract.url())


@app.task
def mark(journal: str, token: str, seconds: float) -> None:
    contract.mark(journal, token, seconds)


@app.task
def sync(journal: str, token: str, seconds: float) -> None:
    contract.noop(journal, token, seconds)


def enqueue(kind: str, jobs: Iterable[Arguments], bulk: bool) -> None:
    task = {"mark": mark, "sync": sync}[kind]
    if bulk:
        group(task.s(*job) for job in jobs).apply_async()
    else:
        for job in jobs:
            task.delay(*job)


def worker() -> list[str]:
    pool = {"fast": ["-P", "solo"], "fast-threads": ["-c", "1", "-t", "10"]}.get(contract.variant(), [])
    return [contract.program("potatoq"), "-A", "potatoq_peer", "worker", "-l", "warning", *pool]


PEER = Peer(
    title="potatoq",
    packages=("potatoq", "redis"),
    kinds=("mark", "sync"),
    variants=(Variant("default", "defaults"),),
    enqueue=enqueue,
    worker=worker,
    fast="`-P solo`, no results",
    sweep=(Variant("fast-threads", "`-c 1 -t 10`"),),
)
