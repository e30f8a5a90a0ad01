"""Writes jobs to Redis, waits for replicas, and makes the handles."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from tenure.client.handle import JobHandle
from tenure.client.outgoing import surrounded
from tenure.core.encoding.signature import Results
from tenure.core.engine import Engine
from tenure.core.errors import DuplicateJob, NotDurable, NotUnique, QueueFull, UnsupportedFeature
from tenure.core.job import Enqueued, Lease, NewJob
from tenure.core.outcome import Outcome
from tenure.core.shape import Conflict
from tenure.core.steps import Steps, durably

if TYPE_CHECKING:
    from tenure.client.client import Client

_log: Final = logging.getLogger("tenure")


def enqueue_durably(engine: Engine, jobs: Sequence[NewJob], replicas: int) -> Steps[list[Enqueued]]:
    """Enqueue jobs, and wait until `replicas` replicas have them.

    Raises `NotDurable` if too few have them in time; the jobs are enqueued nevertheless. The call also waits for jobs
    that existed before, so it can be repeated.
    """
    done = yield from durably(engine.enqueue(jobs), replicas)
    if done.replicas < replicas:
        raise NotDurable(tuple(answer.id for answer in done.answer), done.replicas, replicas, done.trouble)
    return done.answer


def settle_durably(engine: Engine, settlements: Sequence[tuple[Lease, Outcome]], replicas: int) -> Steps[list[bool]]:
    """Settle jobs, and wait for `replicas` replicas; 0: do not wait. Too few replicas change no outcome; a warning
    is logged."""
    if not replicas:
        return (yield from engine.settle(settlements))
    done = yield from durably(engine.settle(settlements), replicas)
    if done.replicas < replicas:
        _log.warning("durability_lost replicas=%d wanted=%d", done.replicas, replicas)
    return done.answer


def enqueue_one(
    client: Client, job: NewJob, results: Results | None = None, durable: int | None = None
) -> Steps[JobHandle[Any]]:
    """Enqueue one job. Raises `DuplicateJob` (the user's id exists), `NotUnique` and `NotDurable`."""
    [handle] = yield from enqueue_all(client, [job], results, durable)
    return _checked(job, handle)


def _one(client: Client, job: NewJob, results: Results | None, durable: int | None) -> Steps[JobHandle[Any]]:
    [handle] = yield from _all(client, [job], results, durable)
    return _checked(job, handle)


async def enqueue_together(
    client: Client, job: NewJob, results: Results | None = None, durable: int | None = None
) -> JobHandle[Any]:
    """Enqueue one job like `enqueue_one`, in one call with the jobs that other tasks enqueue at the same time."""
    if client.around:
        with surrounded(client.around, [job]) as [job]:
            return await _together(client, job, results, durable)
    return await _together(client, job, results, durable)


async def _together(client: Client, job: NewJob, results: Results | None, durable: int | None) -> JobHandle[Any]:
    batches = client.batches
    if not client.replicas(durable) and len(job.payload) <= client.payload_limit:
        reply = batches.join(job)
        answer = None if reply is None else await reply
        if answer is not None:
            return _checked(job, JobHandle(client, job.queue, answer.id, answer.created, None, results))
    return await batches.alone(job, client.arun(_one(client, job, results, durable)))


def _checked(job: NewJob, handle: JobHandle[Any]) -> JobHandle[Any]:
    if handle.conflict is Conflict.REJECT:
        raise NotUnique(job.queue, handle.id)
    if job.own_id and not handle.created and handle.conflict is None:
        raise DuplicateJob(
            f"Queue {job.queue!r} already has a job with the id {job.id!r}, or keeps the record of one that has ended; "
            f"nothing was enqueued. See `tenure job {job.queue} {job.id}`."
        )
    return handle


def enqueue_all(
    client: Client, jobs: Sequence[NewJob], results: Results | None = None, durable: int | None = None
) -> Steps[list[JobHandle[Any]]]:
    """Enqueue many jobs. The handle has `created` False if its id existed, or another job has the unique key."""
    if client.around:
        with surrounded(client.around, jobs) as jobs:
            return (yield from _all(client, jobs, results, durable))
    return (yield from _all(client, jobs, results, durable))


def _all(
    client: Client, jobs: Sequence[NewJob], results: Results | None, durable: int | None
) -> Steps[list[JobHandle[Any]]]:
    if not jobs:
        return []
    if client.large.store is not None:
        jobs = yield from client.large.put(client.engine, jobs, client.payload_limit)
    replicas = client.replicas(durable)
    try:
        enqueued = (
            yield from enqueue_durably(client.engine, jobs, replicas) if replicas else client.engine.enqueue(jobs)
        )
    except (QueueFull, UnsupportedFeature):
        # A producer that tries again until there is room would fill the store.
        yield from client.large.withdraw(client.engine, jobs)
        raise
    if client.large.store is not None:
        yield from client.large.remove(job for job, one in zip(jobs, enqueued, strict=True) if not one.created)
    return [
        JobHandle(client, job.queue, answer.id, answer.created, answer.conflict, results)
        for job, answer in zip(jobs, enqueued, strict=True)
    ]
