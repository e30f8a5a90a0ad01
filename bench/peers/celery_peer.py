"""Celery on Redis: https://docs.celeryq.dev. Without acks_late a job is acknowledged before it runs."""

from __future__ import annotations

from collections.abc import Sequence

import contract
from celery import Celery, group
from contract import Arguments, Peer, Variant

app = Celery("celery_peer", broker=contract.url())
if contract.variant() != "default":
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


def enqueue(kind: str, jobs: Sequence[Arguments], bulk: bool) -> None:
    task = {"mark": mark, "sync": sync}[kind]
    if bulk:
        group(task.s(*job) for job in jobs).apply_async()
    else:
        for job in jobs:
            task.delay(*job)


def worker() -> list[str]:
    # Two workers of one host need names of their own.
    return [contract.program("celery"), "-A", "celery_peer", "worker", "-n", f"{contract.worker_name()}@%h"]


PEER = Peer(
    title="Celery",
    packages=("celery", "kombu", "redis"),
    kinds=("mark", "sync"),
    variants=(
        Variant("default", "defaults"),
        Variant("late", "`task_acks_late`, `task_reject_on_worker_lost` (visibility timeout 3600 s, the default)"),
        Variant("visible", "the same, `visibility_timeout` 60 s"),
    ),
    enqueue=enqueue,
    worker=worker,
)
