"""Takes waiting jobs out of their lanes for another protocol: see `engines.kit.moving`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenure.core import limits
from tenure.core.job import NewJob
from tenure.core.steps import Draw, Invoke, Nonce, Steps
from tenure.engines.kit.chunks import JOB_BYTES
from tenure.engines.kit.encoding import as_bytes, as_text
from tenure.engines.kit.moving import Arrival, Export
from tenure.engines.queue_farm.engine import QueueFarmEngine
from tenure.engines.queue_farm.records import read_record
from tenure.engines.queue_farm.scripts import SCRIPTS

EXPORT_MOST = limits.MAX_BATCH // 5
"""Jobs of one move: the other engine adds jobs of lanes in one call."""
_LETTERS = {Arrival.ARRIVED: "1", Arrival.REFUSED: "0", Arrival.RETURNED: "b"}


class Exporter:
    """Takes waiting jobs out of the lanes of a namespace. Lanes with active jobs stay, so that their order holds."""

    def __init__(self, engine: QueueFarmEngine) -> None:
        self._engine = engine

    def export(self, queue: str, to: str, limit: int) -> Steps[Export]:
        nonce: Nonce = yield Draw()
        most = min(limit, EXPORT_MOST)
        numbers = (most, most * JOB_BYTES, limits.MAX_ID)
        reply = yield self._call("export", queue, f"{nonce.session}-{nonce.number}", as_bytes(to), *numbers)
        looked, name, stored, age_ms, rows, unfit = reply
        jobs = tuple(_job(queue, row, self._engine.config.apply_timeouts) for row in rows)
        return Export(as_text(name), as_text(stored), age_ms, jobs, looked, tuple(map(as_text, unfit)))

    def end_export(self, queue: str, name: str, arrivals: Sequence[Arrival]) -> Steps[None]:
        yield self._call("end_export", queue, name, "".join(_LETTERS[arrival] for arrival in arrivals))

    def _call(self, script: str, queue: str, *args: Any) -> Invoke:
        return Invoke(SCRIPTS[script], (self._engine.prefix(queue),), (self._engine.config.as_argument(), *args))


def _job(queue: str, row: list[Any], apply_timeouts: bool) -> NewJob:
    """The same job. An envelope that cannot be read moves as the raw payload that it is."""
    record = read_record(queue, row, apply_timeouts)
    return NewJob(
        queue,
        record.id,
        record.payload,
        task=record.task,
        timeout_ms=record.timeout_ms,
        retries=record.retries,
        own_id=True,
        headers=record.headers,
        shape=record.shape,
    )
