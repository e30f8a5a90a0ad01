"""An engine that only remembers what it was asked, and a runner for its steps. No Redis."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any

from leasehold import State
from leasehold.core.engine import Feature
from leasehold.core.job import Enqueued, ErrorInfo, JobRecord, JobView, Lease, Leased, NewJob, Page
from leasehold.core.outcome import Outcome
from leasehold.core.shape import CancelAnswer, CancelCount, LanePage, LaneView, QueueSettings
from leasehold.core.steps import Steps
from leasehold.core.waiting import Wake


@dataclass
class FakeEngine:
    """Remembers. Its steps need no calls, so any runner can run them. `others`: id -> what another job's key led to."""

    features: frozenset[Feature] = frozenset(Feature)
    name: str = "fake"
    enqueued: list[NewJob] = field(default_factory=list)
    settled: list[tuple[Lease, Outcome]] = field(default_factory=list)
    leases: list[Lease] = field(default_factory=list)
    asked: list[tuple[Any, ...]] = field(default_factory=list)
    views: list[JobView | None] = field(default_factory=list)
    others: dict[str, Enqueued] = field(default_factory=dict)
    holds: bool = True
    a_page: Page = field(default_factory=lambda: Page((), 0))

    def engine(self, settings: Any) -> Any:
        return self

    def prefix(self, queue: str) -> str:
        return queue

    def enqueue(self, jobs: Any) -> Steps[list[Enqueued]]:
        yield from ()
        known = {job.id for job in self.enqueued}
        self.enqueued += jobs
        return [self.others.get(job.id) or Enqueued(job.id, job.id not in known) for job in jobs]

    def lease(self, worker: str, queues: Any, limit: int, lease_ms: int | None = None) -> Steps[Leased]:
        yield from ()
        self.asked.append(("lease", worker, tuple(queues), limit, lease_ms))
        return Leased((self.leases.pop(0),) if self.leases else ())

    def wait(self, worker: str, queues: Any, timeout_ms: int) -> Wake:
        return Wake(self._wake(timeout_ms))

    def _wake(self, timeout_ms: int) -> Steps[str | None]:
        yield from ()
        self.asked.append(("wait", timeout_ms))
        self.leases.append(held("late"))
        return None

    def settle(self, settlements: Any) -> Steps[list[bool]]:
        yield from ()
        self.settled += settlements
        return [self.holds for _ in settlements]

    def extend(self, lease: Lease, ms: int) -> Steps[bool]:
        yield from ()
        self.asked.append(("extend", lease.record.id, ms))
        return True

    def progress(self, lease: Lease, progress: Any) -> Steps[bool]:
        return self._note(self.holds, "progress", lease.record.id, progress)

    def result(self, queue: str, id: str) -> Steps[JobView | None]:
        yield from ()
        self.asked.append(("result", queue, id))
        return self.views.pop(0)

    def result_channel(self, queue: str, id: str) -> str:
        return f"ended:{queue}:{id}"

    def job(self, queue: str, id: str) -> Steps[JobView | None]:
        yield from ()
        return self.views[0]

    def queue(self, name: str) -> Steps[Any]:
        raise AssertionError("the name was to be refused")

    def retry(self, queue: str, id: str, payload: bytes | None = None) -> Steps[bool]:
        raise AssertionError("the name was to be refused")

    def discard(self, queue: str, id: str) -> Steps[bool]:
        raise AssertionError("the id was to be refused")

    def cancel(self, queue: str, id: str, reason: str = "") -> Steps[CancelAnswer]:
        return self._note(CancelAnswer.REQUESTED, "cancel", queue, id, reason)

    def cancel_all(self, queue: str, lane: str | None = None, reason: str = "") -> Steps[CancelCount]:
        return self._note(CancelCount(2, 1), "cancel_all", queue, lane, reason)

    def settings(self, queue: str) -> Steps[QueueSettings]:
        return self._note(QueueSettings(), "settings", queue)

    def configure(self, queue: str, **given: Any) -> Steps[QueueSettings]:
        asked = {name: value for name, value in given.items() if value is not None}
        return self._note(QueueSettings(**asked), "configure", queue, asked)

    def park_lane(self, queue: str, lane: str) -> Steps[bool]:
        return self._note(True, "park_lane", queue, lane)

    def resume_lane(self, queue: str, lane: str) -> Steps[bool]:
        return self._note(False, "resume_lane", queue, lane)

    def quiet(self, worker: str, quiet: bool = True) -> Steps[bool]:
        return self._note(True, "quiet", worker, quiet)

    def lane(self, queue: str, lane: str) -> Steps[LaneView]:
        return self._note("a lane", "lane", queue, lane)

    def lanes(self, queue: str, state: Any, cursor: int = 0, limit: int = 100) -> Steps[LanePage]:
        return self._note("lanes", "lanes", queue, state, cursor, limit)

    def page(
        self,
        queue: str,
        state: State,
        offset: int = 0,
        limit: int = 100,
        lane: str | None = None,
        after: str | None = None,
    ) -> Steps[Any]:
        return self._note(self.a_page, "page", queue, state, offset, limit, lane, after)

    def purge(self, queue: str, state: State) -> Steps[int]:
        yield from ()
        self.asked.append(("purge", queue, state))
        return 3

    def _note(self, answer: Any, *asked: Any) -> Steps[Any]:
        yield from ()
        self.asked.append(asked)
        return answer


class FakeRunner:
    """Runs steps that make no calls, and says what was listened to."""

    def __init__(self) -> None:
        self.log: list[Any] = []

    def run(self, steps: Steps[Any]) -> Any:
        try:
            next(steps)
        except StopIteration as stop:
            return stop.value
        raise AssertionError("the fake engine makes no calls")

    async def arun(self, steps: Steps[Any]) -> Any:
        return self.run(steps)

    @contextlib.contextmanager
    def subscribe(self, channel: str) -> Any:
        self.log.append(channel)
        try:
            yield self
        finally:
            self.log.append("left")

    @contextlib.asynccontextmanager
    async def asubscribe(self, channel: str) -> Any:
        with self.subscribe(channel):
            yield AsyncMessages(self)

    def get(self, timeout_s: float) -> bytes | None:
        self.log.append(timeout_s)
        return None

    def close(self) -> None:
        self.log.append("close")

    async def aclose(self) -> None:
        self.log.append("aclose")


class AsyncMessages:
    def __init__(self, runner: FakeRunner) -> None:
        self.runner = runner

    async def get(self, timeout_s: float) -> bytes | None:
        return self.runner.get(timeout_s)


def held(id: str, payload: bytes = b"x") -> Lease:
    return Lease("hand", 7, JobRecord(id, "q", None, payload, 0), failures=1, crashes=1)


def view(state: State, result: bytes | None = None, error: ErrorInfo | None = None) -> JobView:
    return JobView("id", "q", state, result=result, error=error)


def double(a: int, b: int = 1) -> int:
    return a * 2 * b
