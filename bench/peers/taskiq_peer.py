"""taskiq with taskiq-redis: https://taskiq-python.github.io. Streams with acknowledgement, or a plain list without."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import contract
from contract import Arguments, Peer, Variant
from taskiq_redis import ListQueueBroker, RedisStreamBroker

if contract.variant() == "list" or contract.is_fast():
    broker = ListQueueBroker(contract.url())
elif contract.variant() == "idle":
    broker = RedisStreamBroker(contract.url(), idle_timeout=30_000)
else:
    broker = RedisStreamBroker(contract.url())


@broker.task
async def mark(journal: str, token: str, seconds: float) -> None:
    await contract.amark(journal, token, seconds)


@broker.task
def sync(journal: str, token: str, seconds: float) -> None:
    contract.noop(journal, token, seconds)


@broker.task
async def nothing(journal: str, token: str, seconds: float) -> None:
    await contract.anoop(journal, token, seconds)


async def put(kind: str, jobs: Iterable[Arguments], bulk: bool) -> None:
    task = {"mark": mark, "sync": sync, "async": nothing}[kind]
    await broker.startup()
    if bulk:
        # There is no call for many: side by side on one pool of connections is its way.
        await asyncio.gather(*(task.kiq(*job) for job in jobs))
    else:
        for job in jobs:
            await task.kiq(*job)
    await broker.shutdown()


def enqueue(kind: str, jobs: Iterable[Arguments], bulk: bool) -> None:
    asyncio.run(put(kind, jobs, bulk))


def worker() -> list[str]:
    slots = "10" if contract.variant() == "fast-ten" else "100"
    fast = ["--workers", "1", "--max-async-tasks", slots, "--log-level", "WARNING"]
    more = fast if contract.is_fast() else []
    return [contract.program("taskiq"), "worker", "taskiq_peer:broker", *more]


PEER = Peer(
    title="taskiq",
    packages=("taskiq", "taskiq-redis", "redis", "uvloop"),
    kinds=("mark", "sync", "async"),
    variants=(
        Variant("default", "`RedisStreamBroker`, defaults (`idle_timeout` 600 s)"),
        Variant("idle", "`RedisStreamBroker`, `idle_timeout` 30 s"),
        Variant("list", "`ListQueueBroker`"),
    ),
    enqueue=enqueue,
    worker=worker,
    fast="`ListQueueBroker`, `--workers 1 --max-async-tasks 100`, uvloop, no results",
    sweep=(Variant("fast-ten", "`--max-async-tasks 10`"),),
)
