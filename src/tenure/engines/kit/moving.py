"""Moves waiting jobs from a queue of one engine to a queue of another, in three calls.

1. `export` takes jobs out of the queue and keeps them, under the name of the move, in a place of the source.
2. `import_jobs` adds them. Under the same name it adds nothing twice: it answers as the first time.
3. `end_export` forgets the jobs that arrived, and returns the others to their queue.

A process may die between any two calls. The next `export` of the queue answers the same move, and the steps continue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from msgspec import structs

from tenure.core import limits
from tenure.core.errors import InvalidArgument, QueueFull, WrongState
from tenure.core.job import JobRecord, NewJob
from tenure.core.steps import Arg, Draw, Invoke, Nonce, Steps
from tenure.engines.kit.base import Scripted
from tenure.engines.kit.chunks import JOB_BYTES
from tenure.engines.kit.encoding import as_bytes, as_text
from tenure.engines.kit.extras import Moved

ReadRow: TypeAlias = Callable[[str, Any], JobRecord]
"""Reads a row of the script `export` as a job of this queue."""
EXPORT_MOST: Final = limits.MAX_BATCH // 2
"""Jobs of one move: the other engine adds them in one call."""

IMPORT_TTL_MS: Final = 30 * limits.DAY
"""How long an engine remembers which jobs of a move it added."""
RESUME_MS: Final = IMPORT_TTL_MS - limits.DAY
"""A move that began longer ago is not continued: its jobs could be added twice."""


class Arrival(Enum):
    """What became of a job of a move, and its letter in the scripts. `REFUSED`: its id is taken there. `RETURNED`:
    nothing of the move was added."""

    ARRIVED = "1"
    REFUSED = "0"
    RETURNED = "b"


@dataclass(frozen=True, slots=True)
class Export:
    """Jobs that are on their way. `to`: the destination that the move began with; `age_ms`: how long ago.

    `looked`: how many ids were looked at. `unfit`: ids that no job can have outside the protocol; these jobs stay.
    """

    name: str
    to: str
    age_ms: int
    jobs: tuple[NewJob, ...]
    looked: int
    unfit: tuple[str, ...]


class Exporter:
    """Takes waiting jobs out of the queues of an engine. Jobs that are held stay with their holders.

    `more`: what its scripts take behind the arguments that all formats have.
    """

    def __init__(self, engine: Scripted, read: ReadRow, most: int = EXPORT_MOST, more: tuple[Arg, ...] = ()) -> None:
        self._engine = engine
        self._read = read
        self._most = most
        self._more = more

    def export(self, queue: str, to: str, limit: int) -> Steps[Export]:
        """Take up to `limit` waiting jobs out of the queue, in their order; or those of an earlier move."""
        nonce: Nonce = yield Draw()
        most = min(limit, self._most)
        numbers: tuple[Arg, ...] = (most, most * JOB_BYTES, limits.MAX_ID)
        reply = yield self._call("export", queue, f"{nonce.session}-{nonce.number}", as_bytes(to), *numbers)
        looked, name, stored, age_ms, rows, unfit = reply
        jobs = tuple(_job(self._read(queue, row)) for row in rows)
        return Export(as_text(name), as_text(stored), age_ms, jobs, looked, tuple(map(as_text, unfit)))

    def end_export(self, queue: str, name: str, arrivals: Sequence[Arrival]) -> Steps[None]:
        """End a move, with one arrival for each job. Nothing happens when it has ended."""
        letters = "".join(arrival.value for arrival in arrivals)
        yield self._call("end_export", queue, name, letters, *(yield from self._marks(queue)))

    def _marks(self, queue: str) -> Steps[tuple[Arg, ...]]:
        """The marks of the jobs, which only Python can make."""
        yield from ()
        return ()

    def _call(self, script: str, queue: str, *args: Arg) -> Invoke:
        return Invoke(self._engine.scripts[script], (self._engine.prefix(queue),), (*args, *self._more))


def _job(record: JobRecord) -> NewJob:
    """The same job. What cannot be read moves as the raw payload that it is."""
    return NewJob(record.queue, record.id, record.payload, own_id=True, **record.spec())


@runtime_checkable
class Importer(Protocol):
    """The side that jobs come to."""

    def prefix(self, queue: str) -> str: ...

    def import_jobs(self, name: str, jobs: Sequence[NewJob]) -> Steps[list[bool]]:
        """Add the jobs of a move to one queue. False: another job has the id.

        Raises `QueueFull` when there is no room for all, or when the move was given up; then none is added.
        """
        ...

    def end_import(self, queue: str, name: str) -> Steps[list[bool] | None]:
        """Give up a move: from now on, nothing is added under its name.

        When its jobs were added before, answers as `import_jobs` did; else None.
        """
        ...


def move_page(source: Exporter, queue: str, target: Importer, to: str, limit: int = limits.MAX_BATCH) -> Steps[Moved]:
    """Move up to `limit` waiting jobs, in their order. `QueueFull`: none of them was moved.

    Raises `InvalidArgument` when an earlier move of the queue was interrupted that had another destination, or that
    began too long ago.
    """
    destination = target.prefix(to)
    export = yield from source.export(queue, destination, limit)
    if not export.jobs:
        return Moved(export.looked, unfit=export.unfit)
    if export.to != destination:
        raise InvalidArgument(
            f"An earlier migration of queue {queue!r} was interrupted; its NAMESPACE:QUEUE was "
            f"{export.to.strip('{}')!r}. Run it again with that --namespace and --to first."
        )
    if export.age_ms > RESUME_MS:
        raise InvalidArgument(
            f"An earlier migration of queue {queue!r} was interrupted {export.age_ms // limits.DAY} days ago. It is no "
            f"longer known whether its {len(export.jobs):,} jobs arrived: compare them by hand."
        )
    try:
        added = yield from target.import_jobs(export.name, [structs.replace(job, queue=to) for job in export.jobs])
    except (QueueFull, WrongState):
        # Another run may add the same jobs meanwhile. Once the target has given up the move, neither can.
        late = yield from target.end_import(to, export.name)
        if late is None:
            yield from source.end_export(queue, export.name, [Arrival.RETURNED] * len(export.jobs))
            raise
        added = late
    yield from source.end_export(queue, export.name, [Arrival.ARRIVED if one else Arrival.REFUSED for one in added])
    refused = tuple(job.id for job, arrived in zip(export.jobs, added, strict=True) if not arrived)
    return Moved(export.looked, sum(added), refused, export.unfit)
