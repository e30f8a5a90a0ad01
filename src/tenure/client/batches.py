"""Enqueues that tasks of one event loop make at the same time: sent in one call for each queue."""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future, Task, get_running_loop
from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from typing import Final, TypeAlias, TypeVar

from tenure.core.errors import InvalidArgument, QueueFull, TenureError
from tenure.core.job import Enqueued, NewJob
from tenure.core.shape import PLAIN

MOST: Final = 100
"""The most jobs of a batch."""
MOST_BYTES: Final = 1024
"""The largest payload of a job in a batch."""
MOST_LETTERS: Final = 256
"""The most letters of its headers. So a batch is one script call, which adds all of its jobs or none."""

T = TypeVar("T")
_Reply: TypeAlias = "Future[Enqueued | None]"
_Batch: TypeAlias = "list[tuple[NewJob, _Reply]]"
_Place: TypeAlias = "tuple[AbstractEventLoop, str]"


class EnqueueBatches:
    """Collects jobs while another enqueue of their queue is under way.

    Jobs of one turn of the event loop are sent together in the next turn. A caller that is cancelled before that
    leaves its batch; one that is cancelled later harms no other.
    """

    def __init__(self, send: Callable[[list[NewJob]], Awaitable[list[Enqueued] | list[None]]]) -> None:
        self._send = send
        self._alone: set[_Place] = set()
        self._open: dict[_Place, _Batch] = {}
        self._sending: set[Task[None]] = set()

    async def alone(self, job: NewJob, sending: Awaitable[T]) -> T:
        """Enqueue a job by itself. Jobs that are enqueued on its queue until then are collected."""
        place = get_running_loop(), job.queue
        self._alone.add(place)
        try:
            return await sending
        finally:
            self._alone.discard(place)

    def join(self, job: NewJob) -> _Reply | None:
        """Send the job with others. None, now or as the reply: it must be sent alone."""
        if job.shape is not PLAIN or len(job.payload) > MOST_BYTES or (job.headers and not _are_small(job.headers)):
            return None
        loop = get_running_loop()
        place = loop, job.queue
        batch = self._open.get(place)
        if batch is None:
            if place not in self._alone:
                return None
            batch = self._open[place] = []
            loop.call_soon(self._begin, place, batch)
        reply: _Reply = loop.create_future()
        batch.append((job, reply))
        if len(batch) == MOST:
            del self._open[place]
        return reply

    def _begin(self, place: _Place, batch: _Batch) -> None:
        """Send a batch with what has joined it by the end of this turn."""
        task = place[0].create_task(self._send_batch(place, batch), name="tenure enqueue")
        self._sending.add(task)
        task.add_done_callback(lambda task: self._end(place, batch, task))

    def _end(self, place: _Place, batch: _Batch, task: Task[None]) -> None:
        """Cancel the callers of a batch after its task was cancelled."""
        self._sending.discard(task)
        self._close(place, batch)
        for _, reply in batch:
            reply.cancel()

    def _close(self, place: _Place, batch: _Batch) -> None:
        if self._open.get(place) is batch:
            del self._open[place]

    async def _send_batch(self, place: _Place, batch: _Batch) -> None:
        self._close(place, batch)
        waiting = [(job, reply) for job, reply in batch if not reply.done()]
        answers: list[Enqueued] | list[None] = [None] * len(waiting)
        try:
            if waiting:
                answers = await self._send([job for job, _ in waiting])
        except Exception as error:
            # Without the jobs of the others, a job may be valid, or have room.
            if not isinstance(error, InvalidArgument) and not (isinstance(error, QueueFull) and error.queue):
                for _, reply in waiting:
                    _refuse(reply, error)
        for (_, reply), answer in zip(waiting, answers, strict=True):
            if not reply.done():
                reply.set_result(answer)


def _are_small(headers: Mapping[str, str]) -> bool:
    return sum(map(len, (*headers, *headers.values()))) <= MOST_LETTERS


def _refuse(reply: _Reply, error: Exception) -> None:
    """Each caller raises an error of its own, with its own traceback."""
    if not reply.done():
        own = copy(error) if isinstance(error, TenureError) else error
        own.__cause__ = error.__cause__
        reply.set_exception(own)
