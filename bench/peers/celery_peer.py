"""Celery on Redis: https://docs.celeryq.dev. Without acks_late a job is acknowledged before it runs."""

from __future__ import annotations

from collections.abc import Iterable

import contract
from celery import Celery, group
from contract import Arguments, Peer, Variant

app = Celery("celery_peer", broker=contract.url())
if contract.is_fast():
    app.conf.worker_prefetch_multiplier = 32
    app.conf.task_ignore_result = True
elif contract.variant() != "default":
    app.conf.task_acks_late = True
    app.conf.task_reject_on_worker_lost = True
if contract.variant() == "visible":
    app.conf.broker_transport_options = {"visibility_timeout": 60}


@app.task(ignore_result=True)
def mark(journal: str, token: str, seconds: float) -> None:
    contract.mark(journal, token, seconds)


@app.task(ignore_result=True)
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
    pool = ["threads", "-c", "4"] if contract.variant() == "fast-threads" else ["solo"]
    fast = ["--pool", *pool, "--loglevel", "WARNING"]
    fast += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    # Two workers of one host need names of their own.
    named = ["-n", f"{contract.worker_name()}@%h"]
    more = fast if contract.is_fast() else []
    return [contract.program("celery"), "-A", "celery_peer", "worker", *named, *more]


PEER = Peer(
    title="Celery",
    packages=("celery", "kombu", "redis"),
    kinds=("mark", "sync"),
    variants=(
        Variant("default", "defaults"),
        Variant("late", "`task_acks_late`, `task_reject_on_worker_lost` (visibility timeout 3600 s, the default)"),
        Variant("visible", "`task_acks_late`, `task_reject_on_worker_lost`, `visibility_timeout` 60 s"),
    ),
    enqueue=enqueue,
    worker=worker,
    fast="`--pool solo`, `worker_prefetch_multiplier=32`, no gossip, mingle, heartbeat or results",
    sweep=(Variant("fast-threads", "`--pool threads -c 4`"),),
)
