"""Functions that see jobs before they are enqueued, and may set their headers: enqueue middleware of the user, and
instruments, which also see the end of the call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TypeAlias

from msgspec import structs

from tenure.core import names
from tenure.core.job import NewJob


class Outgoing:
    """A job that is about to be enqueued. Enqueue middleware changes its `headers`, and reads the rest.

    @app.enqueue_middleware
    def pass_tenant(job: Outgoing) -> None:
        job.headers.setdefault("tenant", tenant.get())

    `task` is None for a raw payload. `headers`: from `using(headers=...)`, and from the middleware before.
    """

    __slots__ = ("_job", "headers")

    def __init__(self, job: NewJob) -> None:
        self._job = job
        self.headers: dict[str, str] = dict(job.headers or {})

    def __repr__(self) -> str:
        return f"<Outgoing {self.id!r} for queue {self.queue!r}>"

    @property
    def id(self) -> str:
        return self._job.id

    @property
    def queue(self) -> str:
        return self._job.queue

    @property
    def task(self) -> str | None:
        return self._job.task

    @property
    def payload(self) -> bytes:
        return self._job.payload

    @property
    def lane(self) -> str | None:
        return self._job.shape.lane


EnqueueMiddleware: TypeAlias = Callable[[Outgoing], None]
"""Called with each job before it is enqueued."""


def after_middleware(layers: Sequence[EnqueueMiddleware], job: NewJob) -> NewJob:
    """Return the job with the headers that the middleware leaves. Raises `InvalidArgument` for wrong ones."""
    outgoing = Outgoing(job)
    for layer in layers:
        layer(outgoing)
    return structs.replace(job, headers=names.headers(outgoing.headers, "headers of enqueue middleware") or None)


AroundEnqueue: TypeAlias = Callable[[Sequence[Outgoing]], AbstractContextManager[None]]
"""Entered with the jobs of one call for one queue, in which it may set headers. It ends when Redis has them, or with
the error."""


@contextmanager
def surrounded(around: Sequence[AroundEnqueue], jobs: Sequence[NewJob]) -> Iterator[Sequence[NewJob]]:
    """Enter the instruments, and give the jobs with the headers that these leave."""
    outgoing = [Outgoing(job) for job in jobs]
    queues: dict[str, list[Outgoing]] = {}
    for each in outgoing:
        queues.setdefault(each.queue, []).append(each)
    with ExitStack() as stack:
        for one in around:
            for same in queues.values():
                stack.enter_context(one(same))
        yield [structs.replace(job, headers=one.headers or None) for job, one in zip(jobs, outgoing, strict=True)]
