"""Takes waiting items out of a queue for another protocol: see `engines.kit.moving`."""

from __future__ import annotations

from collections.abc import Sequence

from tenure.core import limits
from tenure.core.job import JobRecord, NewJob
from tenure.core.steps import Draw, Invoke, Nonce, Steps
from tenure.engines.kit.chunks import JOB_BYTES
from tenure.engines.kit.encoding import as_bytes, as_text
from tenure.engines.kit.envelope import read_record
from tenure.engines.kit.moving import Arrival, Export
from tenure.engines.redis_work_queue.engine import RedisWorkQueueEngine
from tenure.engines.redis_work_queue.scripts import SCRIPTS

EXPORT_MOST = limits.MAX_BATCH // 2
"""Items of one move: the other engine adds them in one call."""
_LETTERS = {Arrival.ARRIVED: "1", Arrival.REFUSED: "0", Arrival.RETURNED: "b"}


class Exporter:
    """Takes waiting items out of the queues of an engine. Items that are held stay with their holders."""

    def __init__(self, engine: RedisWorkQueueEngine) -> None:
        self._engine = engine

    def export(self, queue: str, to: str, limit: int) -> Steps[Export]:
        nonce: Nonce = yield Draw()
        most = min(limit, EXPORT_MOST)
        args = (f"{nonce.session}-{nonce.number}", as_bytes(to), most, most * JOB_BYTES, limits.MAX_ID)
        looked, name, stored, age_ms, rows, unfit = yield Invoke(SCRIPTS["export"], (self._engine.prefix(queue),), args)
        jobs = tuple(_job(read_record(queue, id, data)) for id, data in rows)
        return Export(as_text(name), as_text(stored), age_ms, jobs, looked, tuple(map(as_text, unfit)))

    def end_export(self, queue: str, name: str, arrivals: Sequence[Arrival]) -> Steps[None]:
        letters = "".join(_LETTERS[arrival] for arrival in arrivals)
        yield Invoke(SCRIPTS["end_export"], (self._engine.prefix(queue),), (name, letters))


def _job(record: JobRecord) -> NewJob:
    """The same job. An envelope that cannot be read moves as the raw payload that it is."""
    return NewJob(
        record.queue,
        record.id,
        record.payload,
        task=record.task,
        timeout_ms=record.timeout_ms,
        retries=record.retries,
        own_id=True,
        headers=record.headers,
    )
