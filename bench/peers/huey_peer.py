"""Huey: https://huey.readthedocs.io. A job is taken off its list when it starts."""

from __future__ import annotations

from collections.abc import Iterable

import contract
from contract import Arguments, Peer, Variant
from huey import RedisHuey

huey = RedisHuey("bench", url=contract.url(), results=not contract.is_fast())


@huey.task(retries=3)
def mark(journal: str, token: str, seconds: float) -> None:
    contract.mark(journal, token, seconds)


@huey.task()
def sync(journal: str, token: str, seconds: float) -> None:
    contract.noop(journal, token, seconds)


def enqueue(kind: str, jobs: Iterable[Arguments], bulk: bool) -> None:
    task = {"mark": mark, "sync": sync}[kind]
    for job in jobs:
        task(*job)


def worker() -> list[str]:
    threads = "1" if contract.variant() == "fast-one" else "4"
    fast = ["--workers", threads, "--quiet", "--no-periodic"] if contract.is_fast() else []
    return [contract.program("huey_consumer"), "huey_peer.huey", *fast]


PEER = Peer(
    title="Huey",
    packages=("huey", "redis"),
    kinds=("mark", "sync"),
    variants=(Variant("default", "defaults, `retries=3`"),),
    enqueue=enqueue,
    worker=worker,
    fast="`--workers 4` (threads), `results=False`, `--no-periodic --quiet`",
    sweep=(Variant("fast-one", "`--workers 1`"),),
    no_bulk="has no call for many",
)
