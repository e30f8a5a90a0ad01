"""Follow-up jobs of the native engine: those in the step that ends another job, and their way to other queues.

A script sees one hash slot. So it adds a follow-up job of its own queue itself, and leaves one of another queue in a
list, under a number that grows. The process that made the call, or else maintenance, hands it over: `outgoing` reads
the list, `take` adds what has a higher number than the other queue has noted, and `forget_sent` empties the list. Any
number of processes may do so at a time, and each may end anywhere: see docs/decisions/0035.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Final

from tenure.core import limits
from tenure.core.errors import InvalidArgument, TenureError, UnsupportedFeature, is_silent
from tenure.core.job import NewJob, Refused, State
from tenure.core.partitions import split_place
from tenure.core.shape import PLAIN
from tenure.core.steps import Steps
from tenure.engines.kit.encoding import as_bytes, as_text
from tenure.engines.native.control import NativeController
from tenure.engines.native.keys import decoded, encoded
from tenure.engines.native.records import read_record
from tenure.engines.native.wire import WOKE, follow_args

SENT: Final = b"~"
"""The end of the answer of a script that has left jobs for other queues."""
TOO_MANY: Final = b"+"
"""The answer of lua/flows/follow.lua for a job that has as many follow-up jobs as it may have."""
QUEUES_MOST: Final = 10
"""Other queues that one round looks at."""
JOBS_MOST: Final = 100
"""Jobs that one call of `take` adds."""
ROUNDS_MOST: Final = 1_000
"""Rounds in a row, while there are more jobs. The rest waits for maintenance."""


class NativeFlows:
    """Makes jobs follow others, and hands them over to their queues.

    `prepare`, `register`: before jobs are added to a queue. `post`: names a place that has jobs to a worker.
    """

    def __init__(
        self,
        engine: NativeController,
        prepare: Callable[[Iterable[NewJob]], Steps[None]],
        register: Callable[[str], Steps[None]],
        post: Callable[[str], Steps[None]],
    ) -> None:
        self._engine = engine
        self._prepare = prepare
        self._register = register
        self._post = post

    def follow(self, queue: str, id: str, job: NewJob) -> Steps[State | None]:
        yield from self._prepare([job])
        reply = yield from self._engine._act("follow", queue, as_bytes(id), *follow_args(job))
        if reply == TOO_MANY:
            raise InvalidArgument(f"Job {id!r} has {limits.MAX_FOLLOW:,} follow-up jobs already, which is the most.")
        if reply.endswith(SENT):
            yield from self.hand_over_soon(queue)
        return State(reply.removesuffix(SENT).decode()) if reply else None

    def prepare(self, jobs: Iterable[NewJob]) -> Steps[None]:
        """Prepare for jobs that follow others. They are there: a limit of another queue cannot keep them back."""
        try:
            yield from self._prepare(jobs)
        except UnsupportedFeature:
            return

    def hand_over_soon(self, place: str) -> Steps[None]:
        """Hand over what other queues take. Maintenance does the rest, and reports what stands in the way."""
        try:
            yield from self.refusals(place)
        except TenureError:
            return

    def refusals(self, place: str) -> Steps[tuple[Refused, ...]]:
        """Hand the jobs that a place has for others to them. Return the queues that did not take theirs."""
        refused: dict[str, Refused] = {}
        places = [place]
        for _ in range(ROUNDS_MOST):
            pages = yield from self._engine._ask("outgoing", places[-1], QUEUES_MOST, JOBS_MOST)
            left = [(decoded(as_text(name)), jobs) for name, *jobs in pages]
            left = [(to, jobs) for to, jobs in left if to not in refused]
            if not left:
                places.pop()
                if not places:
                    break
            for to, jobs in left:
                try:
                    if (yield from self._hand_to(places[-1], to, jobs)) and to not in places:
                        places.insert(0, to)
                except TenureError as error:
                    if is_silent(error):
                        raise
                    refused[to] = Refused(split_place(to)[0], str(error))
        return tuple(refused.values())

    def _hand_to(self, place: str, to: str, jobs: list[list[bytes]]) -> Steps[bool]:
        """Hand a page of jobs over. Return whether the place that they come to has sent some of them on."""
        engine, (queue, _) = self._engine, split_place(to)
        yield from self._register(queue)
        shapes = [read_record(queue, id, b"0 " + record).shape for _, id, record, *_ in jobs]
        yield from self.prepare([NewJob(queue, "", b"", shape=shape) for shape in shapes if shape is not PLAIN])
        taking = engine._ask("take", to, engine._config, encoded(place), *chain.from_iterable(jobs))
        reply = yield from engine.copied(taking, tuple(as_text(job[1]) for job in jobs))
        has_sent = reply.endswith(SENT)
        last = reply.removesuffix(SENT)
        if last.endswith(WOKE):
            yield from self._post(to)
        yield from engine._ask("forget_sent", place, encoded(to), last.removesuffix(WOKE))
        return bool(has_sent)
