"""arq: https://arq-docs.helpmanual.io. Async only; a running job has a key that expires some time after its timeout."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, ClassVar

import contract
from arq import create_pool
from arq.connections import RedisSettings
from contract import Arguments, Peer, Variant


async def mark(ctx: dict[str, Any], journal: str, token: str, seconds: float) -> None:
    await contract.amark(journal, token, seconds)


async def nothing(ctx: dict[str, Any], journal: str, token: str, seconds: float) -> None:
    await contract.anoop(journal, token, seconds)


class WorkerSettings:
    functions: ClassVar = [mark, nothing]
    redis_settings = RedisSettings.from_dsn(contract.url())
    job_timeout = 30 if contract.variant() == "timeout" else 300
    if contract.is_fast():
        max_jobs = 1_000 if contract.variant() == "fast-thousand" else 100
        poll_delay = 0.01
        keep_result = 0


quiet = {"version": 1, "disable_existing_loggers": False}


async def put(kind: str, jobs: Iterable[Arguments], bulk: bool) -> None:
    name = {"mark": "mark", "async": "nothing"}[kind]
    pool = await create_pool(WorkerSettings.redis_settings)
    if bulk:
        # There is no call for many: side by side on one pool of connections is its way.
        await asyncio.gather(*(pool.enqueue_job(name, *job) for job in jobs))
    else:
        for job in jobs:
            await pool.enqueue_job(name, *job)
    await pool.aclose()


def enqueue(kind: str, jobs: Iterable[Arguments], bulk: bool) -> None:
    asyncio.run(put(kind, jobs, bulk))


def worker() -> list[str]:
    fast = ["--custom-log-dict", "arq_peer.quiet"] if contract.is_fast() else []
    return [contract.program("arq"), *fast, "arq_peer.WorkerSettings"]


PEER = Peer(
    title="arq",
    packages=("arq", "redis"),
    kinds=("mark", "async"),
    variants=(
        Variant("default", "defaults (`job_timeout=300`)"),
        Variant("timeout", "`job_timeout=30`"),
    ),
    enqueue=enqueue,
    worker=worker,
    fast="`max_jobs=100`, `poll_delay=0.01`, `keep_result=0`, no log of jobs",
    sweep=(Variant("fast-thousand", "`max_jobs=1000`"),),
)
