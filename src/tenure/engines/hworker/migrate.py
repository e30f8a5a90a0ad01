"""Takes waiting jobs out of a pool for another protocol: see `engines.kit.moving`."""

from __future__ import annotations

from collections.abc import Sequence

from tenure.core import limits
from tenure.core.job import NewJob
from tenure.core.steps import Draw, Invoke, Nonce, Steps
from tenure.engines.hworker.engine import HworkerEngine
from tenure.engines.hworker.records import read_job
from tenure.engines.hworker.scripts import SCRIPTS
from tenure.engines.kit.chunks import JOB_BYTES
from tenure.engines.kit.encoding import as_bytes, as_text
from tenure.engines.kit.moving import Arrival, Export

EXPORT_MOST = limits.MAX_BATCH // 2
"""Jobs of one move: the other engine adds them in one call."""
_LETTERS = {Arrival.ARRIVED: "1", Arrival.REFUSED: "0", Arrival.RETURNED: "b"}


class Exporter:
    """Takes waiting jobs out of the pool of an engine. Jobs that are held stay with their holders."""

    def __init__(self, engine: HworkerEngine) -> None:
        self._engine = engine

    def export(self, queue: str, to: str, limit: int) -> Steps[Export]:
        nonce: Nonce = yield Draw()
        most = min(limit, EXPORT_MOST)
        args = (f"{nonce.session}-{nonce.number}", as_bytes(to), most, most * JOB_BYTES)
        looked, name, stored, age_ms, rows = yield Invoke(SCRIPTS["export"], (self._engine.prefix(queue),), args)
        jobs = tuple(_job(queue, id, data) for id, data in rows)
        return Export(as_text(name), as_text(stored), age_ms, jobs, looked, ())

    def end_export(self, queue: str, name: str, arrivals: Sequence[Arrival]) -> Steps[None]:
        letters = "".join(_LETTERS[arrival] for arrival in arrivals)
        yield Invoke(SCRIPTS["end_export"], (self._engine.prefix(queue),), (name, letters))


def _job(queue: str, id: bytes, data: bytes) -> NewJob:
    """The same job. Bytes that cannot be read move as the raw payload that they are."""
    record = read_job(queue, id, data)
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
