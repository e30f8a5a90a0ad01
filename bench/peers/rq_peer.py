"""RQ: https://python-rq.org. A worker forks a process for each job; abandoned jobs are found by its maintenance."""

from __future__ import annotations

from collections.abc import Iterable

import contract
from contract import Arguments, Peer, Variant
from redis import Redis
from rq import Queue, Retry

QUEUE = "bench"


def enqueue(kind: str, jobs: Iterable[Arguments], bulk: bool) -> None:
    serializer = "json" if contract.variant() == "fast-json" else None
    queue = Queue(QUEUE, connection=Redis.from_url(contract.url()), serializer=serializer)
    function = {"mark": contract.mark, "sync": contract.noop, "async": contract.anoop}[kind]
    fast = contract.is_fast()
    retry = Retry(max=3) if contract.variant() == "maintained" else None
    options = {"retry": retry, "result_ttl": 0 if fast else None}
    if bulk:
        queue.enqueue_many([Queue.prepare_data(function, job, **options) for job in jobs])
    else:
        for job in jobs:
            queue.enqueue(function, args=job, **options)


def worker() -> list[str]:
    if contract.is_fast():
        fast = ["--worker-class", "rq.worker.SimpleWorker", "--quiet"]
        json = ["--serializer", "json"] if contract.variant() == "fast-json" else []
        return [contract.program("rq"), "worker", "--url", contract.url(), *fast, *json, QUEUE]
    often = ["--maintenance-interval", "30", "--worker-ttl", "45"] if contract.variant() == "maintained" else []
    return [contract.program("rq"), "worker", "--url", contract.url(), *often, QUEUE]


PEER = Peer(
    title="RQ",
    packages=("rq", "redis"),
    kinds=("mark", "sync", "async"),
    variants=(
        Variant("default", "defaults (no retry, maintenance every 600 s)"),
        Variant("maintained", "`Retry(max=3)`, `--maintenance-interval 30 --worker-ttl 45`"),
    ),
    enqueue=enqueue,
    worker=worker,
    fast="`SimpleWorker` (no process for each job), `result_ttl=0`, `--quiet`",
    sweep=(Variant("fast-json", "`--serializer json`"),),
)
