"""Moves what waits in a queue to a queue of another protocol on the same Redis, without losing or doubling an item.

An item leaves the one queue and comes into the other in one script: nobody can die, or take it, in between. That script
is made of two, ours and what the other protocol enqueues with: it knows best how its jobs are added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Protocol

from leasehold.core import limits
from leasehold.core.engine import Engine
from leasehold.core.errors import QueueFull
from leasehold.core.job import JobRecord, NewJob
from leasehold.core.steps import Call, Invoke, Script, Steps
from leasehold.engines.kit.encoding import as_text
from leasehold.engines.kit.extras import Moved
from leasehold.engines.redis_work_queue.engine import RedisWorkQueueEngine
from leasehold.engines.redis_work_queue.records import read_record
from leasehold.engines.redis_work_queue.scripts import SCRIPTS


class MigrationTarget(Engine, Protocol):
    """An engine whose script `enqueue` takes `session number room (id record due own)...`."""

    @property
    def scripts(self) -> Mapping[str, Script]: ...


def migrate_page(
    source: RedisWorkQueueEngine, queue: str, target: MigrationTarget, to: str, limit: int = limits.MAX_BATCH
) -> Steps[Moved]:
    """Move up to `limit` waiting items, in their order. `QueueFull`: none of them was moved.

    What is held is left to its holder. Attempts are counted anew. An item that is refused can move when the other job
    has ended, and its record is gone; until then whoever works on its queue may take it.
    """
    prefix = source.prefix(queue)
    args = (limit, limits.MAX_CALL_BYTES, limits.MAX_ID)
    looked, rows, others = yield Invoke(SCRIPTS["movable"], (prefix,), args)
    unfit = tuple(as_text(id) for id in others)
    if not rows:
        return Moved(looked, unfit=unfit)
    jobs = [_job(read_record(queue, id, data), to) for id, data, _ in rows]
    letters = yield from _moved(target, jobs, prefix, [hash for _, _, hash in rows])
    refused = tuple(as_text(row[0]) for row, letter in zip(rows, letters, strict=True) if letter == ord("0"))
    return Moved(looked, letters.count(b"1"), refused, unfit)


def _moved(target: MigrationTarget, jobs: Sequence[NewJob], prefix: str, hashes: Sequence[bytes]) -> Steps[bytes]:
    """Enqueue these, with our script in the place of each one that adds some. Answers what became of each.

    It takes several calls where they are large. When a later one is refused, the rest stays where it is.
    """
    letters = b""
    steps = target.enqueue(jobs)
    try:
        call: Call = next(steps)
        while True:
            moves = isinstance(call, Invoke) and call.script == target.scripts["enqueue"]
            try:
                reply = yield _move(call, prefix, hashes[len(letters) :]) if moves else call
            except Exception as error:
                call = steps.throw(error)
                continue
            if moves:
                letters += reply
            call = steps.send(reply)
    except StopIteration:
        return letters
    except QueueFull:
        if not letters:
            raise
        return letters.ljust(len(jobs), b"-")
    finally:
        steps.close()


def _move(call: Call, prefix: str, hashes: Sequence[bytes]) -> Invoke:
    """The call that takes these jobs out of their queue as well."""
    assert isinstance(call, Invoke), "asked before"
    session, number, room, *rest = call.args
    jobs = zip(rest[::4], hashes, rest[1::4], rest[2::4], rest[3::4], strict=False)
    args = (session, number, call.keys[0], room, *(arg for job in jobs for arg in job))
    return Invoke(_script(call.script), (prefix,), args)


@cache
def _script(enqueue: Script) -> Script:
    return Script("move", f"local function enqueue(KEYS, ARGV)\n{enqueue.text}\nend\n{SCRIPTS['move'].text}")


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
