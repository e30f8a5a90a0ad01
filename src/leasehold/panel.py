"""Looking at queues and jobs (`app.inspect`), and acting on them from outside (`app.control`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.core import limits, names
from leasehold.core.errors import InvalidArgument
from leasehold.core.job import JobView, Page, QueueView, State, WorkerView
from leasehold.core.steps import Steps

if TYPE_CHECKING:
    from leasehold.client import Client


class Inspect:
    """Reading; nothing here changes a job. Every method has a twin for async code with an `a` before its name.

    app.inspect.queue("images").counts[State.READY]
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def queues(self) -> list[str]:
        """The names of the queues that exist."""
        return self._client.run(self._client.engine.queues())

    async def aqueues(self) -> list[str]:
        return await self._client.arun(self._client.engine.queues())

    def queue(self, name: str) -> QueueView:
        """How many jobs are in each state, and how many events of each kind there were."""
        return self._client.run(self._queue(name))

    async def aqueue(self, name: str) -> QueueView:
        return await self._client.arun(self._queue(name))

    def job(self, queue: str, id: str) -> JobView | None:
        """One job; None when there is no record of it."""
        return self._client.run(self._job(queue, id))

    async def ajob(self, queue: str, id: str) -> JobView | None:
        return await self._client.arun(self._job(queue, id))

    def page(self, queue: str, state: State | str, offset: int = 0, limit: int = limits.PAGE_MAX) -> Page:
        """Up to `limit` (at most 100) jobs in one state: in the order they will run, or newest end first.

        app.inspect.page("images", State.FAILED).jobs
        """
        return self._client.run(self._page(queue, state, offset, limit))

    async def apage(self, queue: str, state: State | str, offset: int = 0, limit: int = limits.PAGE_MAX) -> Page:
        return await self._client.arun(self._page(queue, state, offset, limit))

    def workers(self) -> list[WorkerView]:
        """The workers that have described themselves lately."""
        return self._client.run(self._client.engine.workers())

    async def aworkers(self) -> list[WorkerView]:
        return await self._client.arun(self._client.engine.workers())

    def _queue(self, name: str) -> Steps[QueueView]:
        return self._client.engine.queue(names.queue_name(name))

    def _job(self, queue: str, id: str) -> Steps[JobView | None]:
        return self._client.engine.job(names.queue_name(queue), names.known_id(id))

    def _page(self, queue: str, state: State | str, offset: int, limit: int) -> Steps[Page]:
        names.count(offset, "offset", most=limits.PAGE_OFFSET_MAX)
        names.count(limit, "limit", least=1, most=limits.PAGE_MAX)
        return self._client.engine.page(names.queue_name(queue), _state(state), offset, limit)


class Control:
    """Acting on jobs from outside. Every method has a twin for async code with an `a` before its name.

    app.control.retry("images", job.id)
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def retry(self, queue: str, id: str) -> bool:
        """Run a failed, broken, cancelled, scheduled or unroutable job now. False: there is no such job."""
        return self._client.run(self._client.engine.retry(names.queue_name(queue), names.known_id(id)))

    async def aretry(self, queue: str, id: str) -> bool:
        return await self._client.arun(self._client.engine.retry(names.queue_name(queue), names.known_id(id)))

    def discard(self, queue: str, id: str) -> bool:
        """Remove a job that is not active, with all its records. False: there is no such job."""
        return self._client.run(self._client.engine.discard(names.queue_name(queue), names.known_id(id)))

    async def adiscard(self, queue: str, id: str) -> bool:
        return await self._client.arun(self._client.engine.discard(names.queue_name(queue), names.known_id(id)))

    def cancel(self, queue: str, id: str, reason: str = "") -> bool:
        """End a job that waits (ready, scheduled, unroutable) in `cancelled`. False: there is no such job.

        `reason` is kept with the job, cut to 8 KiB.
        """
        return self._client.run(self._cancel(queue, id, reason))

    async def acancel(self, queue: str, id: str, reason: str = "") -> bool:
        return await self._client.arun(self._cancel(queue, id, reason))

    def purge(self, queue: str, state: State | str) -> int:
        """Remove all jobs in one state other than active; answers how many.

        app.control.purge("images", State.FAILED)
        """
        return self._client.run(self._purge(queue, state))

    async def apurge(self, queue: str, state: State | str) -> int:
        return await self._client.arun(self._purge(queue, state))

    def _cancel(self, queue: str, id: str, reason: str) -> Steps[bool]:
        return self._client.engine.cancel(names.queue_name(queue), names.known_id(id), names.reason(reason))

    def _purge(self, queue: str, state: State | str) -> Steps[int]:
        wanted = _state(state)
        if wanted is State.ACTIVE:
            raise InvalidArgument(
                "state is 'active': jobs that a worker holds cannot be purged; expected another state."
            )
        return self._client.engine.purge(names.queue_name(queue), wanted)


def _state(value: State | str) -> State:
    try:
        return State(value)
    except ValueError:
        expected = ", ".join(state.value for state in State)
        raise InvalidArgument(f"state is {str(value)[:40]!r}; expected one of {expected}.") from None
