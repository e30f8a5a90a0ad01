"""Moves jobs from a queue to another one page by page, in three calls: to another protocol, or to another server.

1. `export` takes a page of jobs out of the queue and keeps it at the source, under the name of the move. The jobs run
   nowhere.
2. `import_jobs` adds them at the destination. Under the same name it adds nothing twice: it answers as the first time.
3. `end_export` forgets the jobs that arrived, and returns the others to their places.

A process may die between any two calls. The next `export` of the queue answers the same page, and the steps continue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar, runtime_checkable

from msgspec import Struct, structs

from tenure.core import limits
from tenure.core.errors import InvalidArgument, QueueFull, UnsupportedFeature, WrongState
from tenure.core.job import JobRecord, NewJob
from tenure.core.shape import Shape
from tenure.core.steps import Arg, Draw, Nonce, Steps
from tenure.engines.kit.base import Scripted
from tenure.engines.kit.chunks import JOB_BYTES
from tenure.engines.kit.encoding import as_bytes, as_text

if TYPE_CHECKING:
    from tenure.engines.kit.acl import AclRules

EXPORT_MOST: Final = limits.MAX_BATCH // 2
"""Jobs of one page: the other engine adds them in one call."""
EXPORT_LANED: Final = limits.MAX_BATCH // 5
"""The same of jobs with lanes or keys: Redis serves no other client while it adds them."""
IMPORT_TTL_MS: Final = 30 * limits.DAY
"""How long an engine remembers which jobs of a page it added."""
RESUME_MS: Final = IMPORT_TTL_MS - limits.DAY
"""A page that was taken out longer ago is not moved on: its jobs could be added twice."""
CLOSED: Final = "-"
CLOSED_BY: Final = "@migrate"
"""`LaneView.parked_by` of a lane that is closed until the jobs before it have arrived. No job has such an id."""


class Row(Struct, frozen=True):
    """A job with its history, which only its engine reads. `shape`: of a job with limits or a share."""

    queue: str
    id: str
    data: bytes
    shape: Shape | None


J = TypeVar("J", NewJob, Row)
J_contra = TypeVar("J_contra", NewJob, Row, contravariant=True)


class Page(Struct, Generic[J], frozen=True):
    """Jobs on their way. `to`: the destination that the move began with; `age_ms`: how long ago.

    `looked`: how many entries were looked at; 0: nothing is left to move. `unfit`: ids that no job can have outside the
    protocol; these jobs stay. `marks`: what the script `end_export` takes for each job.
    """

    name: str
    to: str
    age_ms: int
    jobs: tuple[J, ...]
    looked: int
    unfit: tuple[str, ...] = ()
    marks: tuple[Arg, ...] = ()


class Moved(Struct, frozen=True):
    """`looked`: as of `Page`. `count`: how many jobs were moved. `refused`: ids that another job has there: these jobs
    wait where they were, at the end of the queue, if they are not the same jobs. `unfit`: as of `Page`."""

    looked: int = 0
    count: int = 0
    refused: tuple[str, ...] = ()
    unfit: tuple[str, ...] = ()


class MoveSource(Protocol[J]):
    """The side that jobs leave."""

    def export(self, queue: str, to: str, limit: int) -> Steps[Page[J]]:
        """Take at most `limit` jobs that no worker holds out of the queue; or those of an earlier move."""
        ...

    def end_export(self, queue: str, page: Page[J], added: Sequence[bool] | None) -> Steps[None]:
        """End a move: forget the jobs that arrived. None: none was added, and all return to their places.

        Nothing happens when the move has ended.
        """
        ...


@runtime_checkable
class MoveTarget(Protocol[J_contra]):
    """The side that jobs come to."""

    def prefix(self, queue: str) -> str: ...

    def import_jobs(self, name: str, jobs: Sequence[J_contra]) -> Steps[list[bool]]:
        """Add the jobs of a move to one queue. False: another job has the id.

        Raises `QueueFull` when there is no room for all, or when the move was given up, and `UnsupportedFeature` for
        what jobs cannot have there; then none is added.
        """
        ...

    def end_import(self, queue: str, name: str) -> Steps[list[bool] | None]:
        """Give up a move: from now on, nothing is added under its name.

        When its jobs were added before, answers as `import_jobs` did; else None.
        """
        ...


class Remains(Struct, frozen=True):
    """What is left at the source. `empty`: of the lanes that were asked for, those with nothing left, and how they are
    parked (empty: they are not). `followed`: lanes of jobs that wait for another job with their unique key to end.
    `moving`: jobs of a move that has not ended."""

    empty: Mapping[str, str]
    followed: tuple[str, ...]
    moving: int


class Transferable(MoveSource[Row], MoveTarget[Row], Protocol):
    """An engine with queues that can move to another server, with all that they have."""

    def set_lanes(self, queue: str, lanes: Mapping[str, str]) -> Steps[None]:
        """Close lanes (`CLOSED`); or open closed ones (empty), or leave them parked as they were at the source."""
        ...

    def remains(self, queue: str, lanes: Sequence[str]) -> Steps[Remains]: ...


class Exporter(Struct, frozen=True):
    """Takes waiting jobs out of the queues of an engine, for another protocol. Jobs that are held stay with their
    holders.

    `read`: reads a row of the script `export` as a job of this queue. `rules`: the rights to one queue. `mark`: makes
    what the script `end_export` takes of the bytes of a job.
    """

    engine: Scripted
    read: Callable[[str, Any], JobRecord]
    rules: Callable[[str], AclRules]
    most: int = EXPORT_MOST
    mark: Callable[[bytes], str] | None = None

    def missing(self, queue: str) -> Steps[tuple[str, ...]]:
        """The rights to a queue that the user of Redis lacks."""
        return self.rules(queue).missing()

    def export(self, queue: str, to: str, limit: int) -> Steps[Page[NewJob]]:
        nonce: Nonce = yield Draw()
        most = min(limit, self.most)
        args = (f"{nonce.session}-{nonce.number}", as_bytes(to), most, most * JOB_BYTES)
        reply = yield from self.engine._ask("export", queue, *args, self.engine._config, limits.MAX_ID)
        name, stored, age_ms, rows, looked, unfit = reply
        records = (self.read(queue, row) for row in rows)
        # What cannot be read moves as the raw payload that it is.
        jobs = tuple(NewJob(one.queue, one.id, one.payload, own_id=True, **one.spec()) for one in records)
        marks = tuple(self.mark(row[1]) for row in rows) if self.mark is not None else ()
        return Page(as_text(name), as_text(stored), age_ms, jobs, looked, tuple(map(as_text, unfit)), marks)

    def end_export(self, queue: str, page: Page[NewJob], added: Sequence[bool] | None) -> Steps[None]:
        letters = letters_of(added)
        yield from self.engine._ask("end_export", queue, page.name, letters, self.engine._config, *page.marks)


def letters_of(added: Sequence[bool] | None) -> str:
    """What became of the jobs of a move, as the scripts take it."""
    return "".join("1" if one else "0" for one in added or ())


def move_page(
    source: MoveSource[J], queue: str, target: MoveTarget[J], to: str, limit: int = limits.MAX_BATCH
) -> Steps[Moved]:
    """Move at most `limit` jobs. `QueueFull`, `UnsupportedFeature`: none of them was moved.

    Raises `InvalidArgument` when an earlier move of the queue was interrupted that had another destination, or that
    began too long ago.
    """
    destination = target.prefix(to)
    page = yield from source.export(queue, destination, limit)
    if not page.jobs:
        return Moved(page.looked, unfit=page.unfit)
    if page.to != destination:
        raise InvalidArgument(
            f"An earlier migration of queue {queue!r} was interrupted; its NAMESPACE:QUEUE was "
            f"{page.to.strip('{}')!r}. Run it again with that --namespace and --to first."
        )
    if page.age_ms > RESUME_MS:
        raise InvalidArgument(
            f"An earlier migration of queue {queue!r} was interrupted {page.age_ms // limits.DAY} days ago. It is no "
            f"longer known whether its {len(page.jobs):,} jobs arrived: compare them by hand."
        )
    try:
        added = yield from target.import_jobs(page.name, [structs.replace(job, queue=to) for job in page.jobs])
    except (QueueFull, WrongState, UnsupportedFeature, InvalidArgument):
        # Another run may add the same jobs meanwhile. Once the target has given up the move, neither can.
        late = yield from target.end_import(to, page.name)
        if late is None:
            yield from source.end_export(queue, page, None)
            raise
        added = late
    yield from source.end_export(queue, page, added)
    refused = tuple(job.id for job, arrived in zip(page.jobs, added, strict=True) if not arrived)
    return Moved(page.looked, sum(added), refused, page.unfit)


def move_pages(
    source: MoveSource[J], queue: str, target: MoveTarget[J], to: str
) -> Steps[tuple[Moved, QueueFull | None]]:
    """Move page by page until no job is left that can be moved. If a page has no room, a smaller one may.

    Return what was moved, and the error if the destination is full.
    """
    count, size = 0, limits.MAX_BATCH
    refused: dict[str, None] = {}
    unfit: dict[str, None] = {}
    full: QueueFull | None = None
    for _ in range(limits.PURGE_ROUNDS):
        try:
            page = yield from move_page(source, queue, target, to, size)
        except QueueFull as error:
            if size > 1:
                size //= 2
                continue
            full = error
            break
        known = len(refused) + len(unfit)
        count += page.count
        refused |= dict.fromkeys(page.refused)
        unfit |= dict.fromkeys(page.unfit)
        # Refused jobs go to the end of the queue. If a page has only jobs that were refused before, all were seen.
        stays = page.refused or page.unfit
        if not page.looked or (stays and not page.count and len(refused) + len(unfit) == known):
            break
    return Moved(0, count, tuple(refused), tuple(unfit)), full
