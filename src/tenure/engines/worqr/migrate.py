"""Takes waiting tasks out of a queue for another protocol: see `engines.kit.moving`."""

from __future__ import annotations

from collections.abc import Sequence

from tenure.core import limits
from tenure.core.job import NewJob
from tenure.core.steps import Command, Draw, Invoke, Nonce, Steps
from tenure.engines.kit.chunks import JOB_BYTES
from tenure.engines.kit.encoding import as_bytes, as_text
from tenure.engines.kit.moving import Arrival, Export
from tenure.engines.worqr.engine import WorqrEngine
from tenure.engines.worqr.records import md5_of, read_task
from tenure.engines.worqr.scripts import SCRIPTS

EXPORT_MOST = limits.MAX_BATCH // 2
"""Tasks of one move: the other engine adds them in one call."""
_LETTERS = {Arrival.ARRIVED: "1", Arrival.REFUSED: "0", Arrival.RETURNED: "b"}


class Exporter:
    """Takes waiting tasks out of the queues of an engine, and gives each an id. What is held stays with its holder."""

    def __init__(self, engine: WorqrEngine) -> None:
        self._engine = engine

    def export(self, queue: str, to: str, limit: int) -> Steps[Export]:
        nonce: Nonce = yield Draw()
        most = min(limit, EXPORT_MOST)
        args = (f"{nonce.session}-{nonce.number}", as_bytes(to), most, most * JOB_BYTES)
        looked, name, stored, age_ms, rows = yield Invoke(SCRIPTS["export"], (self._engine.prefix(queue),), args)
        jobs = tuple(_job(queue, as_text(id), task) for id, task in rows)
        return Export(as_text(name), as_text(stored), age_ms, jobs, looked, ())

    def end_export(self, queue: str, name: str, arrivals: Sequence[Arrival]) -> Steps[None]:
        prefix = self._engine.prefix(queue)
        moving = yield Command(("LRANGE", f"{prefix}:moving", 0, -1))
        letters = "".join(_LETTERS[arrival] for arrival in arrivals)
        yield Invoke(SCRIPTS["end_export"], (prefix,), (name, letters, *map(md5_of, moving[2::2])))


def _job(queue: str, id: str, task: bytes) -> NewJob:
    """The same job. An envelope that cannot be read moves as the raw payload that it is."""
    record = read_task(queue, id, task)
    return NewJob(
        record.queue,
        record.id,
        record.payload,
        task=record.task,
        timeout_ms=record.timeout_ms,
        retries=record.retries,
        own_id=True,
        headers=record.headers,
        shape=record.shape,
    )
