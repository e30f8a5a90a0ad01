"""Runs due jobs one after another, in a test: each is claimed and settled by the engine, and called as in a worker."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from tenure.app.attempts import IMMEDIATE, Action, AppCode, Attempts
from tenure.client.call import TaskCall
from tenure.core import limits
from tenure.core.errors import InvalidArgument, JobFailed, invalid
from tenure.core.job import ErrorInfo, JobRecord, Lease
from tenure.core.outcome import Broken, Completed, Crashed, Failed, Outcome, Retried, Unroutable
from tenure.core.signals import JobCancelled, RateLimited, Retry, Snooze
from tenure.core.steps import Steps

if TYPE_CHECKING:
    from tenure.client.client import Client


@dataclass(frozen=True, slots=True)
class Drained:
    """How many attempts ended in each way.

    assert app.testing().drain() == Drained(completed=3)
    """

    completed: int = 0
    retried: int = 0
    failed: int = 0
    broken: int = 0
    cancelled: int = 0
    unroutable: int = 0
    crashed: int = 0


class Drain:
    """The rules of one drain. Its generators yield actions: `app.testing` executes them, blocking or on a loop.

    Jobs run one at a time, and each is settled before the next one starts.
    """

    def __init__(self, app: AppCode, client: Client, *, limit: int = 1, raises: bool = True) -> None:
        self._app = app
        self._client = client
        self._limit = limit
        self._raises = raises
        self._ran = 0
        self._worker = f"test-{secrets.token_hex(8)}"
        self._queues_seen: tuple[str, ...] = ()
        self._counts: Counter[str] = Counter()
        self._attempts = Attempts(app, client)
        self._kept: list[tuple[Lease, Outcome]] = []
        """Persistent jobs whose handlers returned. They are ready again at once, so they are settled at the end."""
        self._parked: set[tuple[str, str]] = set()
        """Jobs that this app cannot run."""

    async def begin(self) -> None:
        """Begin the app's lifespan, on the loop that runs its async code."""
        await self._attempts.begin()

    async def end(self) -> None:
        """Settle the persistent jobs, release what has not started, and end the lifespan."""
        engine = self._client.engine
        try:
            if self._kept:
                await self._client.arun(engine.settle(self._kept))
            if self._queues_seen:
                await self._client.arun(engine.leave(self._worker, self._queues_seen))
        finally:
            await self._attempts.end()

    def actions(self) -> Generator[Action, Any, Drained]:
        """Run jobs until a look at all queues finds none."""
        found = True
        while found:
            found = False
            for queue in (yield self._queues()):
                while leases := (yield self._claim(queue)):
                    if not (yield from self._run(leases)):
                        break
                    found = True
        return Drained(**self._counts)

    def call(self, call: TaskCall[Any]) -> Generator[Action, Any, bytes]:
        """Run one call without Redis, and return its encoded result. Raises what the handler raises."""
        if not isinstance(call, TaskCall):
            raise invalid("call", "a call of a task, as in add.call(1, 2)", type(call).__name__)
        task = self._app.tasks.get(call.task)
        if task is None:
            raise InvalidArgument(f"The call is of task {call.task}, which this app does not have.")
        now_ms, options = round(time.time() * limits.SECOND), call.options
        record = JobRecord(
            IMMEDIATE,
            task.queue,
            call.payload,
            now_ms,
            task=task.name,
            timeout_ms=options.timeout_ms,
            retries=options.retries,
            headers=options.headers or None,
        )
        lease = Lease(IMMEDIATE, 1, record, 0, 0)
        spec = self._attempts.routes.route(lease)
        assert spec is not None
        [(_, outcome)] = yield from self._attempts.run([lease], spec)
        if isinstance(outcome, Completed):
            return outcome.result
        raise next(iter(_real(self._attempts.errors)), _failure(lease, outcome))

    def _queues(self) -> Steps[list[str]]:
        known = yield from self._client.engine.queues()
        queues = list(dict.fromkeys([*(spec.queue for spec in self._app.specs()), *sorted(known)]))
        tasks, raw_queues = self._attempts.routes.offered(True)
        yield from self._client.engine.maintain(queues, tasks, raw_queues=raw_queues)
        self._queues_seen = tuple(queues)
        return queues

    def _claim(self, queue: str) -> Steps[tuple[Lease, ...]]:
        """Claim one job, or the jobs of one batch. One call may not get past cancelled jobs, so it repeats."""
        rule = self._attempts.routes.batch_rules().get(queue)
        size = 1 if rule is None else rule.size
        of_lane = {queue: size} if rule is not None and rule.one_lane else None
        engine = self._client.engine
        if self._kept:
            kept = [lease.ref for lease, _ in self._kept]
            yield from engine.heartbeat(self._worker, list({ref.queue for ref in kept}), kept)
        for _ in range(limits.LEASE_LOOKS):
            leased = yield from engine.lease(self._worker, [queue], size, None, limits.MAX_HELD, of_lane)
            if leased.leases or leased.next_ms != 0:
                return leased.leases
        return ()

    def _run(self, leases: Sequence[Lease]) -> Generator[Action, Any, bool]:
        """Run the jobs of one claim. False: this app can run none of them, and has seen them before."""
        routes, batch, is_new = self._attempts.routes, [], False
        for lease in leases:
            spec, record = routes.route(lease), lease.record
            refusal = routes.refusal(lease)
            if refusal is None and spec is None:
                is_new = is_new or (record.queue, record.id) not in self._parked
                self._parked.add((record.queue, record.id))
                yield from self._settle([(lease, Unroutable())])
                self._count(lease)
                continue
            is_new = True
            self._count(lease)
            if refusal is not None:
                yield from self._settle([(lease, Broken(refusal))])
                self._raise([(lease, Broken(refusal))], ())
            elif spec is not None and spec.batch is not None and not record.shape.persistent:
                batch.append(lease)
            else:
                yield from self._run_together([lease])
        if batch:
            yield from self._run_together(batch)
        return is_new

    def _count(self, lease: Lease) -> None:
        self._ran += 1
        if self._ran > self._limit:
            raise AssertionError(
                f"drain() has run {self._limit:,} jobs, and more are due, the next in queue {lease.record.queue!r}. "
                "Does a task enqueue itself? Or pass a higher limit."
            )

    def _run_together(self, leases: Sequence[Lease]) -> Generator[Action, Any, None]:
        spec = self._attempts.routes.route(leases[0])
        assert spec is not None
        outcomes = yield from self._attempts.run(leases, spec)
        yield from self._settle([(held.lease, outcome) for held, outcome in outcomes])
        yield from self._attempts.report(outcomes)
        self._raise([(held.lease, outcome) for held, outcome in outcomes], self._attempts.errors)

    def _settle(self, settlements: Sequence[tuple[Lease, Outcome]]) -> Generator[Action, Any, None]:
        now: list[tuple[Lease, Outcome]] = []
        for lease, outcome in settlements:
            name = type(outcome).__name__.lower()
            if name in _COUNTED:
                self._counts[name] += 1
            rests = lease.record.shape.persistent and isinstance(outcome, Completed)
            (self._kept if rests else now).append((lease, outcome))
        if now:
            yield self._client.engine.settle(now)

    def _raise(self, settled: Sequence[tuple[Lease, Outcome]], raised: Sequence[BaseException]) -> None:
        """Raise what the handler raised, unless it asked for a retry or for its cancellation."""
        errors = _real(raised)
        for error in errors:
            if not isinstance(error, (Exception, SystemExit)):  # Ctrl-C, or pytest.fail
                raise error
            if self._raises and not isinstance(error, (Retry, Snooze, RateLimited, JobCancelled)):
                raise error
        for lease, outcome in settled if self._raises and not errors else ():
            asked = isinstance(outcome, Retried) and outcome.error.type in _DEFERRED
            if isinstance(outcome, (Retried, Failed, Broken, Crashed)) and not asked:
                raise _failure(lease, outcome)


_DEFERRED: Final = (Retry.__name__, Snooze.__name__, RateLimited.__name__)
_CRASH: Final = ErrorInfo("Crashed", "its task on the event loop was cancelled, by other code than Tenure")
_COUNTED: Final = frozenset(field.name for field in fields(Drained))


def _real(errors: Sequence[BaseException]) -> list[BaseException]:
    """The errors that handlers raised by themselves: a timeout ends a handler by a cancellation."""
    return [error for error in errors if not isinstance(error, asyncio.CancelledError)]


def _failure(lease: Lease, outcome: Outcome) -> JobFailed:
    state, record = type(outcome).__name__.lower(), lease.record
    error = _CRASH if isinstance(outcome, Crashed) else getattr(outcome, "error", ErrorInfo("", ""))
    return JobFailed(state, error.type, error.message, error.traceback, id=record.id, task=record.task)
