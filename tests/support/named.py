"""Engines without ids of jobs, as the conformance tests see them: each job has the id that the test gave it.

The id is the first word of the payload. So an operation by the hash of a job's bytes takes just that job.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final
from urllib.parse import quote, unquote

from msgspec import structs

from tenure.core.engine import CancelAsked, Feature, HeartbeatReply, Maintained
from tenure.core.job import Enqueued, JobView, Lease, Leased, LeaseRef, NewJob, Page, State
from tenure.core.outcome import Outcome
from tenure.core.shape import CancelAnswer, Shape
from tenure.core.steps import Steps
from tenure.core.values import replace

_MARK: Final = b" =id= "


class Named:
    """Wraps an engine; `names` has what it called the jobs, by queue and id."""

    def __init__(self, engine: Any, names: dict[tuple[str, str], str] | None = None) -> None:
        assert Feature.IDS not in engine.features
        self.unnamed = engine
        self.names: dict[tuple[str, str], str] = {} if names is None else names
        self._claimed: dict[tuple[str, Any], tuple[str, str]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unnamed, name)

    def enqueue(self, jobs: Sequence[NewJob]) -> Steps[list[Enqueued]]:
        marked = [structs.replace(job, payload=_marked(job.id, job.payload), own_id=False) for job in jobs]
        answers: list[Enqueued] = yield from self.unnamed.enqueue(marked)
        for job, answer in zip(jobs, answers, strict=True):
            self.names[job.queue, job.id] = answer.id
        return [structs.replace(answer, id=job.id) for job, answer in zip(jobs, answers, strict=True)]

    def lease(self, *args: Any, **options: Any) -> Steps[Leased]:
        leased: Leased = yield from self.unnamed.lease(*args, **options)
        return replace(leased, leases=tuple(map(self._lease, leased.leases)))

    def settle(self, settlements: Sequence[tuple[Lease, Outcome]]) -> Steps[list[bool]]:
        real = [(self._real(lease), outcome) for lease, outcome in settlements]
        answers: list[bool] = yield from self.unnamed.settle(real)
        return answers

    def extend(self, lease: Lease, ms: int) -> Steps[bool]:
        held: bool = yield from self.unnamed.extend(self._real(lease), ms)
        return held

    def progress(self, lease: Lease, progress: Any) -> Steps[bool]:
        held: bool = yield from self.unnamed.progress(self._real(lease), progress)
        return held

    def heartbeat(self, worker: str, queues: Sequence[str], leases: Sequence[LeaseRef]) -> Steps[HeartbeatReply]:
        asked = {self._real_ref(ref): ref for ref in leases}
        reply: HeartbeatReply = yield from self.unnamed.heartbeat(worker, queues, list(asked))
        orphaned = []
        for lease in reply.orphaned:
            view = yield from self.unnamed.job(lease.record.queue, lease.record.id)
            record = structs.replace(lease.record, payload=view.payload if view else b"")
            orphaned.append(self._lease(structs.replace(lease, record=record)))
        wishes = tuple(CancelAsked(asked[wish.ref], wish.reason) for wish in reply.cancelled)
        lost = frozenset(asked[ref] for ref in reply.lost)
        return replace(reply, lost=lost, orphaned=tuple(orphaned), cancelled=wishes)

    def maintain(
        self, queues: Sequence[str], tasks: Sequence[str], *args: Any, raw_queues: Collection[str] = (), **limit: int
    ) -> Steps[Maintained]:
        done: Maintained = yield from self.unnamed.maintain(queues, tasks, *args, raw_queues=raw_queues, **limit)
        return replace(done, poisoned=tuple(map(_view, done.poisoned)))

    def job(self, queue: str, id: str) -> Steps[JobView | None]:
        view: JobView | None = yield from self.unnamed.job(queue, self._name(queue, id))
        return _view(view) if view else None

    def page(self, *args: Any, **options: Any) -> Steps[Page]:
        page: Page = yield from self.unnamed.page(*args, **options)
        return replace(page, jobs=tuple(map(_view, page.jobs)))

    def retry(self, queue: str, id: str, payload: bytes | None = None, reshaped: Shape | None = None) -> Steps[bool]:
        payload = None if payload is None else _marked(id, payload)
        retried: bool = yield from self.unnamed.retry(queue, self._name(queue, id), payload, reshaped)
        if payload is not None:  # other bytes, another hash
            page: Page = yield from self.unnamed.page(queue, State.READY)
            self.names.update({(queue, _view(view).id): view.id for view in page.jobs})
        return retried

    def discard(self, queue: str, id: str) -> Steps[bool]:
        discarded: bool = yield from self.unnamed.discard(queue, self._name(queue, id))
        return discarded

    def cancel(self, queue: str, id: str, reason: str = "") -> Steps[CancelAnswer]:
        answer: CancelAnswer = yield from self.unnamed.cancel(queue, self._name(queue, id), reason)
        return answer

    def _name(self, queue: str, id: str) -> str:
        return self.names.get((queue, id), id)

    def _lease(self, lease: Lease) -> Lease:
        record = lease.record
        id, payload = _parted(record.payload)
        if id is None:
            return lease
        self._claimed[record.queue, lease.token] = (record.id, id)
        return structs.replace(lease, record=structs.replace(record, id=id, payload=payload))

    def _real(self, lease: Lease) -> Lease:
        ref = self._real_ref(lease.ref)
        payload = _marked(lease.record.id, lease.record.payload)
        return structs.replace(lease, record=structs.replace(lease.record, id=ref.id, payload=payload))

    def _real_ref(self, ref: LeaseRef) -> LeaseRef:
        """Also that of another world on the same server: the id of a lease is new with its claim."""
        id, name = self._claimed.get((ref.queue, ref.token), (ref.id, ref.id))
        return LeaseRef(ref.queue, id, ref.token) if name == ref.id else ref


def _marked(id: str, payload: bytes) -> bytes:
    return quote(id, safe="", errors="surrogateescape").encode() + _MARK + payload


def _parted(payload: bytes) -> tuple[str | None, bytes]:
    """The id and the payload; None: no test gave the job an id."""
    id, mark, rest = payload.partition(_MARK)
    return (unquote(id.decode(), errors="surrogateescape"), rest) if mark else (None, payload)


def _view(view: JobView) -> JobView:
    id, payload = _parted(view.payload or b"")
    return view if id is None else replace(view, id=id, payload=payload)
