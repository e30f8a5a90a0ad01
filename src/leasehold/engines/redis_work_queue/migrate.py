"""Moves what waits in a queue to a queue of another protocol on the same Redis, without losing or doubling an item.

An item is set aside first, so that nobody takes it; then it is added there under its own id, which happens once however
often it is tried; then it is forgotten here. Whoever dies in between, the next call goes on from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from leasehold.core import limits
from leasehold.core.engine import Engine, Inspector
from leasehold.core.job import JobRecord, NewJob
from leasehold.core.steps import Invoke, Steps
from leasehold.engines.redis_work_queue.engine import RedisWorkQueueEngine
from leasehold.engines.redis_work_queue.records import read_record
from leasehold.engines.redis_work_queue.scripts import SCRIPTS
from leasehold.engines.texts import as_bytes, as_text


class Target(Engine, Inspector, Protocol):
    """An engine that can be looked into."""


@dataclass(frozen=True, slots=True)
class Moved:
    """How many items arrived. `refused`: ids that another job has there; these items stay aside. `stay`: ids of which
    another item is aside here already; these items stay in the queue."""

    count: int = 0
    refused: tuple[str, ...] = ()
    stay: tuple[str, ...] = ()


def migrate_page(source: RedisWorkQueueEngine, queue: str, target: Target, to: str) -> Steps[Moved]:
    """Move up to `limits.MAX_BATCH` waiting items, in their order. None arrived: there is none that could.

    What is held is left to its holder. Attempts are counted anew. An item that is refused is tried again by the next
    call: it can move when the other job has ended, and its record is gone.
    """
    prefix = source.prefix(queue)
    rows, left = yield Invoke(SCRIPTS["depart"], (prefix,), (limits.MAX_BATCH,))
    stay = tuple(map(as_text, left))
    if not rows:
        return Moved(stay=stay)
    records = [read_record(queue, id, data) for id, data in rows]
    answers = yield from target.enqueue([_job(record, to) for record in records])
    refused: dict[str, None] = {}
    for record, answer in zip(records, answers, strict=True):
        if not answer.created and not (yield from _is_there(target, to, record)):
            refused[record.id] = None
    arrived = tuple(as_bytes(record.id) for record in records if record.id not in refused)
    yield Invoke(SCRIPTS["arrive"], (prefix,), arrived)
    return Moved(len(arrived), tuple(refused), stay)


def _is_there(target: Target, to: str, record: JobRecord) -> Steps[bool]:
    """Whether it was added by a call before that died: the same payload, or it has run already."""
    view = yield from target.job(to, record.id)
    return view is None or view.payload is None or view.payload == record.payload


def _job(record: JobRecord, queue: str) -> NewJob:
    """The same job. An envelope that cannot be read moves as the raw payload that it is."""
    return NewJob(
        queue,
        record.id,
        record.payload,
        task=record.task,
        timeout_ms=record.timeout_ms,
        retries=record.retries,
        own_id=True,
    )
