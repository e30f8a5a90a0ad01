"""Dramatiq: https://dramatiq.io. Its Redis broker requeues what silent workers held, in maintenance run by chance."""

from __future__ import annotations

from collections.abc import Iterable

import contract
import dramatiq
from contract import Arguments, Peer, Variant
from dramatiq.brokers.redis import RedisBroker

OPTIONS = {
    "default": {},
    "fast": {},
    "fast-one": {},
    "prompt": {"heartbeat_timeout": 10_000, "maintenance_chance": 100_000},
}
broker = RedisBroker(url=contract.url(), **OPTIONS[contract.variant()])
dramatiq.set_broker(broker)


@dramatiq.actor
def mark(journal: str, token: str, seconds: float) -> None:
    contract.mark(journal, token, seconds)


@dramatiq.actor
def sync(journal: str, token: str, seconds: float) -> None:
    contract.noop(journal, token, seconds)


def enqueue(kind: str, jobs: Iterable[Arguments], bulk: bool) -> None:
    actor = {"mark": mark, "sync": sync}[kind]
    if bulk:
        # A group is its way to send many.
        dramatiq.group([actor.message(*job) for job in jobs]).run()
    else:
        for job in jobs:
            actor.send(*job)


def worker() -> list[str]:
    threads = "1" if contract.variant() == "fast-one" else "8"
    fast = ["--processes", "1", "--threads", threads] if contract.is_fast() else []
    return [contract.program("dramatiq"), *fast, "dramatiq_peer"]


PEER = Peer(
    title="Dramatiq",
    packages=("dramatiq", "redis"),
    kinds=("mark", "sync"),
    variants=(
        Variant("default", "defaults (`heartbeat_timeout=60_000`, `maintenance_chance=1_000`)"),
        Variant("prompt", "`heartbeat_timeout=10_000`, `maintenance_chance=100_000`"),
    ),
    enqueue=enqueue,
    worker=worker,
    fast="`--processes 1 --threads 8`",
    sweep=(Variant("fast-one", "`--threads 1`"),),
)
