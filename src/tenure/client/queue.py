"""A queue without a worker: enqueue raw payloads, and lease, settle and extend jobs."""

from __future__ import annotations

import logging
import math
import random
import secrets
import time
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tenure.client.client import JobSource, asynchronous, blocking, seconds_or_none
from tenure.client.enqueue import enqueue_all, enqueue_one, enqueue_together, settle_durably
from tenure.client.handle import JobHandle
from tenure.client.options import NONE_GIVEN, OF_JOB, OF_MANY, JobOptions, ManyOptions, Options
from tenure.core import limits, names
from tenure.core.backoff import RetryBudget
from tenure.core.encoding.codec import encode_raw
from tenure.core.encoding.signature import Results
from tenure.core.engine import Feature
from tenure.core.errors import InvalidArgument, LeaseLost, QueueFull, TenureError, invalid
from tenure.core.job import ErrorInfo, Lease, Leased, NewJob, Token
from tenure.core.outcome import Completed, Failed, Outcome, Released, Retried
from tenure.core.shape import progress_of
from tenure.core.steps import Steps, WaitLost, finish
from tenure.core.waiting import calls_of, pause_ms_of

if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Unpack

    from tenure.client.client import Client

_log = logging.getLogger("tenure")
_NOT_RELEASED = "job %r could not be released; it runs again after its lease expires"


class HeldJob:
    """A job on a manual lease. True in a condition. `with` completes it at the end, or releases it after an error.

    `task`: the task's name, None for a raw payload. `attempt` counts from 1: earlier failures and crashes, plus this
    attempt. `token`: the fencing token, new with every claim of the job. `headers`: see `Task.using`. `settled`:
    whether `complete`, `retry`, `fail` or `release` was called with this job, even if it returned False.
    """

    __slots__ = ("_queue", "attempt", "headers", "id", "lease", "payload", "queue", "settled", "task", "token")

    def __init__(self, queue: Queue, lease: Lease) -> None:
        self._queue = queue
        self.lease = lease
        self.id, self.queue = lease.record.id, lease.record.queue
        self.task: str | None = lease.record.task
        self.payload: bytes = lease.record.payload
        self.headers: Mapping[str, str] = lease.record.headers or {}
        self.attempt = lease.attempt
        self.token: Token = lease.token
        self.settled = False

    def __repr__(self) -> str:
        return f"<HeldJob {self.id!r} of queue {self.queue!r}, attempt {self.attempt}>"

    def __bool__(self) -> Literal[True]:
        return True

    def mark_settled(self) -> None:
        """Called by `Queue` after settling: the end of a `with` block then does nothing."""
        self.settled = True

    def __enter__(self) -> HeldJob:
        return self

    def __exit__(self, kind: object, error: object, tb: object) -> None:
        if self.settled:
            return
        if error is None:
            _check_completed(self, self._queue.complete(self))
            return
        try:
            self._queue.release(self)
        except TenureError:
            _log.warning(_NOT_RELEASED, self.id)


class NoJob:
    """What `lease` returns if there is no job: false in a condition, and `with` binds None."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<NoJob>"

    def __bool__(self) -> Literal[False]:
        return False

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: object, tb: object) -> None:
        return None


MaybeJob: TypeAlias = HeldJob | NoJob


class PendingLease:
    """What `alease` returns: `await` it for the job, or use it in `async with`."""

    def __init__(self, queue: Queue, lease: Callable[[], Coroutine[Any, Any, MaybeJob]]) -> None:
        self._queue = queue
        self._lease = lease
        self._job: MaybeJob = NoJob()

    def __await__(self) -> Generator[Any, Any, MaybeJob]:
        return self._lease().__await__()

    async def __aenter__(self) -> HeldJob | None:
        self._job = await self
        return self._job or None

    async def __aexit__(self, kind: object, error: object, tb: object) -> None:
        job = self._job
        if not job or job.settled:
            return
        if error is None:
            _check_completed(job, await self._queue.acomplete(job))
            return
        try:
            await self._queue.arelease(job)
        except TenureError:
            _log.warning(_NOT_RELEASED, job.id)


class Queue:
    """A queue, made by `app.queue(name)`. Every method has an async version with an `a` before its name.

    queue = app.queue("emails")
    queue.enqueue(b"...")
    with queue.lease(seconds=30) as job:
        if job is not None:
            send(job.payload)
    """

    def __init__(self, client: Client, name: str, persistent_timeout_ms: Callable[[], int]) -> None:
        self.name = name
        self._client = client
        # The timeout of other jobs is the handler's, where the job runs.
        self._source = JobSource(name, timeout_ms=lambda asked: persistent_timeout_ms() if asked.persistent else None)

    def __repr__(self) -> str:
        return f"<Queue {self.name!r}>"

    @blocking
    def enqueue(self, payload: object, **options: Unpack[JobOptions]) -> Steps[JobHandle[Any]]:
        """Enqueue a raw payload for the queue's handler: bytes as they are, str as UTF-8, any other value as JSON.

            app.queue("emails").enqueue({"to": "a@example.org"}, delay=60)
            app.queue("emails").enqueue(b"...", lane="customer:7", unique="welcome:7")

        Takes the options of `Task.using`, except `queue`. Raises `PayloadInvalid`, `PayloadTooLarge`,
        `InvalidArgument`, `DuplicateJob` (your own id exists), `NotUnique` (another job has the unique key),
        `UnsupportedFeature`, `QueueFull` and the errors of Redis.
        """
        asked, job = self._job(payload, options)
        return enqueue_one(self._client, job, durable=asked.durable)

    async def aenqueue(self, payload: object, **options: Unpack[JobOptions]) -> JobHandle[Any]:
        """Async version of `enqueue`. Jobs that tasks enqueue at the same time go to Redis together.

        await asyncio.gather(*(queue.aenqueue(line) for line in lines))
        """
        asked, job = self._job(payload, options)
        return await enqueue_together(self._client, job, durable=asked.durable)

    def _job(self, payload: object, options: JobOptions) -> tuple[Options, NewJob]:
        asked = NONE_GIVEN.using(OF_JOB, **options)
        return asked, self._client.job(self._source, encode_raw(payload), asked)

    @blocking
    def enqueue_many(self, payloads: Iterable[object], **options: Unpack[ManyOptions]) -> Steps[list[JobHandle[Any]]]:
        """Enqueue many raw payloads in a few round trips. Returns their handles in order.

            queue.enqueue_many((line.encode() for line in file), lane="import:7")

        Takes the options of `enqueue` except `id`; they apply to all jobs. A payload that is not unique is no error
        here: its handle names the other job and has `created` False.
        """
        # Iterating a mapping would enqueue only its keys.
        one = isinstance(payloads, (str, bytes, bytearray, memoryview, Mapping))
        if one or not isinstance(payloads, Iterable):
            raise invalid("payloads", "a list of payloads", type(payloads).__name__, "Use `enqueue` for one payload.")
        asked = NONE_GIVEN.using(OF_MANY, **options)
        build = self._client.builder(self._source, asked)
        return enqueue_all(self._client, [build(encode_raw(payload)) for payload in payloads], durable=asked.durable)

    aenqueue_many = asynchronous(enqueue_many)

    def lease(
        self, seconds: float | timedelta = 30, *, block: bool = False, timeout: float | timedelta | None = None
    ) -> MaybeJob:
        """Lease the next job for `seconds`. Without a job the answer is false, and `with` binds None.

            with queue.lease(seconds=30) as job:        # completes on success, releases on error
                if job is not None:
                    send(job.payload)

            job = queue.lease(block=True, timeout=5)    # waits up to 5 s; without a timeout until there is a job
            if job:
                queue.complete(job)

        A job that is not settled in time returns to its queue: call `extend` in time. No heartbeat extends the lease:
        Redis' clock alone measures it, so it ends early if that clock is set ahead. A released job runs again at once;
        use `retry` or `fail` for a job that cannot run now. The end of `with` raises `LeaseLost` if the lease has
        expired. Raises `InvalidArgument` for less than 0.1 s or more than 7 days.
        """

        async def run(steps: Steps[Any]) -> Any:
            return self._client.run(steps)

        async def sleep(seconds: float) -> None:
            time.sleep(seconds)  # noqa: ASYNC251

        return finish(self._lease(_lease_ms(seconds), _until(block, timeout), run, sleep))

    def alease(
        self, seconds: float | timedelta = 30, *, block: bool = False, timeout: float | timedelta | None = None
    ) -> PendingLease:
        """Async version of `lease`: `await` it, or use it in `async with`.

        async with queue.alease(seconds=30) as job: ...
        job = await queue.alease(block=True, timeout=5)
        """

        def lease() -> Coroutine[Any, Any, MaybeJob]:
            import asyncio  # not at the top: blocking programs do without

            return self._lease(_lease_ms(seconds), _until(block, timeout), self._client.arun, asyncio.sleep)

        return PendingLease(self, lease)

    @blocking
    def complete(self, job: HeldJob, result: object = None) -> Steps[bool]:
        """Complete the job. Returns True for exactly one call per job; False: the lease was lost.

        `result` is kept for an hour, for callers that wait for it. Raises `PayloadInvalid` if it cannot be encoded.
        """
        self._check(job)
        outcome = Completed(Results(f"job {job.id!r}", conversion=self._client.conversion).encode(result))
        completed = yield from self._settle(job, outcome)
        if completed:
            yield from self._client.large.remove_read(job.lease)
        return completed

    acomplete = asynchronous(complete)

    @blocking
    def retry(self, job: HeldJob, delay: float | timedelta = 0, reason: str = "") -> Steps[bool]:
        """Run the job again after `delay`. Counts as a failure; a manual lease has no limit of retries.

        Returns False if the lease was lost.
        """
        delay_ms = names.duration_ms(delay, "delay", least_ms=0, most_ms=limits.MAX_DELAY_MS)
        return self._settle(job, Retried(ErrorInfo("Retry", names.reason(str(reason))), delay_ms))

    aretry = asynchronous(retry)

    @blocking
    def fail(self, job: HeldJob, reason: str = "") -> Steps[bool]:
        """End the job in `failed`. Returns False if the lease was lost."""
        return self._settle(job, Failed(ErrorInfo("Fail", names.reason(str(reason)))))

    afail = asynchronous(fail)

    @blocking
    def release(self, job: HeldJob) -> Steps[bool]:
        """Release the job unchanged, to the front of its queue. The attempt does not count.

        Returns False if the lease was lost.
        """
        return self._settle(job, Released())

    arelease = asynchronous(release)

    @blocking
    def extend(self, job: HeldJob, seconds: float | timedelta) -> Steps[bool]:
        """Extend the lease to `seconds` from now. Returns False if the lease was lost."""
        self._check(job)
        self._client.require(Feature.EXTEND)
        return self._client.engine.extend(job.lease, _lease_ms(seconds))

    aextend = asynchronous(extend)

    @blocking
    def progress(self, job: HeldJob, current: float, total: float | None = None, text: str = "") -> Steps[bool]:
        """Report the progress of a job, for `JobHandle.watch` and the inspector. Returns False if the lease was lost.

            queue.progress(job, 3, 10, "resizing")

        `total` None: unknown. `text` is cut to 500 bytes. Raises `InvalidArgument` for a number that is not finite, or
        a total of 0 or less.
        """
        self._check(job)
        results = self._client.needed(self._client.engine.results, Feature.PROGRESS)
        return results.progress(job.lease, progress_of(current, total, text))

    aprogress = asynchronous(progress)

    def job(self, id: str) -> JobHandle[Any]:
        """Return a handle for an existing job of this queue. Sends nothing."""
        return JobHandle(self._client, self.name, names.known_id(id))

    async def _lease(
        self, lease_ms: int, until: float, run: Callable[[Steps[Any]], Any], sleep: Callable[[float], Any]
    ) -> MaybeJob:
        """Claim until there is a job or the time is over. In blocking code, `run` and `sleep` never suspend."""
        worker, waits = f"hand-{secrets.token_hex(8)}", RetryBudget(math.inf, random.random)
        while True:
            leased: Leased = await run(self._claim(worker, lease_ms))
            if leased.leases:
                return HeldJob(self, leased.leases[0])
            began = time.monotonic()
            wait_ms = _wait_ms(leased, (until - began) * limits.SECOND)
            if not wait_ms:
                return NoJob()
            wait = self._client.engine.wait(worker, [self.name], wait_ms)
            calls = calls_of(wait)
            try:
                # The next claim also adopts the job that a wait took.
                await (sleep(pause_ms_of(wait, wait_ms) / limits.SECOND) if calls is None else run(calls))
            except (WaitLost, QueueFull):  # at the memory limit Redis moves no job, but the next claim takes one
                now = time.monotonic()
                await sleep(max(0.0, min(waits.lost(now - began, now), until - now)))
            else:
                waits.good()

    def _claim(self, worker: str, lease_ms: int) -> Steps[Leased]:
        """Claim one job. A single call may not get past cancelled jobs and jobs of dead workers, so it repeats."""
        leased = Leased()
        for _ in range(limits.LEASE_LOOKS):
            leased = yield from self._client.engine.lease(worker, [self.name], 1, lease_ms)
            if gone := leased.dropped:
                about = (self.name, len(gone), gone[0].id, gone[0].reason)
                _log.warning("queue %r: %d entries were dropped, the first is %r: %s", *about)
            if leased.leases:
                leased = yield from self._client.large.read(self._client.engine, leased)
            if leased.leases or leased.next_ms != 0:
                break
        return leased

    def _settle(self, job: HeldJob, outcome: Outcome) -> Steps[bool]:
        self._check(job)
        settled = yield from settle_durably(self._client.engine, [(job.lease, outcome)], self._client.replicas(None))
        # Not earlier: if the call fails, the end of the `with` block still releases the job.
        job.mark_settled()
        return settled[0]

    def _check(self, job: object) -> None:
        """Refuse anything but a held job of this queue."""
        if isinstance(job, NoJob):
            raise InvalidArgument("There was no job to lease, so there is nothing to settle. Check first: `if job:`.")
        if not isinstance(job, HeldJob):
            raise invalid("job", f"one that `lease` of queue {self.name!r} returned", type(job).__name__)
        if job.queue != self.name:
            other = f"one of {job.queue!r}"
            raise invalid("job", f"one of queue {self.name!r}", other, f"Use app.queue({job.queue!r}).")


def _lease_ms(seconds: object) -> int:
    return names.duration_ms(seconds, "seconds", least_ms=limits.MIN_LEASE_MS, most_ms=limits.MAX_LEASE_MS)


def _until(block: bool, timeout: object) -> float:
    """Return the monotonic time at which a lease stops waiting for a job."""
    wait_s = seconds_or_none(timeout)
    if not names.flag(block, "block"):
        return -math.inf
    return math.inf if wait_s is None else time.monotonic() + wait_s


def _wait_ms(leased: Leased, left_ms: float) -> int:
    """Return how long to wait before the next claim; 0: give up. Bounded, because wake-ups may be lost."""
    most = limits.IDLE_WAIT_MS if leased.next_ms is None else min(limits.IDLE_WAIT_MS, leased.next_ms)
    return 0 if left_ms < 1 else max(limits.MIN_WAIT_MS, round(min(left_ms, most)))


def _check_completed(job: HeldJob, completed: bool) -> None:
    if not completed:
        raise LeaseLost(
            f"The lease of job {job.id!r} expired before its block ended, so the job runs again. Lease it for longer, "
            "or call `extend` in time."
        )
