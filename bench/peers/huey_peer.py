"""Huey: https://huey.readthedocs.io. A job is taken off its list when it starts."""

from __future__ import annotations

from collections.abc import Sequence

import contract
from contract import Arguments, Peer, Variant
from huey import RedisHuey

huey = RedisHuey("bench", url=contract.url())


@huey.task(retries=3)
def mark(journal: str, token: str, seconds: float) -> None:
    contract.mark(journal, token, seconds)


@huey.task()
def sync(journal: str, token: str, seconds: float) -> None:
    contract.noop(journal, token, seconds)


def enqueue(kind: str, jobs: Sequence[Arguments], bulk: bool) -> None:
    task = {"mark": mark, "sync": sync}[kind]
    for job in jobs:
        task(*job)


def worker() -> list[str]:
    return [contract.program("huey_consumer"), "huey_peer.huey"]


PEER = Peer(
    title="Huey",
    packages=("huey", "redis"),
    kinds=("mark", "sync"),
    variants=(Variant("default", "defaults, `retries=3`"),),
    enqueue=enqueue,
    worker=worker,
)
