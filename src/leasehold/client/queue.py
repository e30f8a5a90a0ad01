"""A queue without a worker: enqueue raw payloads, and lease, settle and extend jobs."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from leasehold.client.client import seconds_or_none
from leasehold.client.enqueue import enqueue_all, enqueue_one, settle_durably
from leasehold.client.handle import JobHandle
from leasehold.client.lease import HeldJob, MaybeJob, NoJob, PendingLease, held_of
from leasehold.client.options import NO_TIMEOUT_MS, OF_JOB, OF_MANY, JobOptions, ManyOptions, Options
from leasehold.core import limits, names
from leasehold.core.codec import encode_raw
from leasehold.core.engine import Feature
from leasehold.core.errors import invalid
from leasehold.core.job import ErrorInfo, Leased, NewJob
from leasehold.core.outcome import Completed, Failed, Outcome, Released, Retried
from leasehold.core.patience import ReconnectBackoff
from leasehold.core.shape import progress_of
from leasehold.core.signature import Results
from leasehold.core.steps import Steps, WaitLost
from leasehold.core.text import cut
from leasehold.core.waiting import calls_of, pause_ms_of

if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Unpack

    from leasehold.client.client import Client

_log = logging.getLogger("leasehold")


@dataclass(frozen=True, slots=True)
class Claim:
    """The parameters of one manual lease: worker id, lease time, and until when to wait for a job (None: no limit)."""

    worker: str
    lease_ms: int
    wait: bool
    until: float | None
    waits: ReconnectBackoff = field(default_factory=lambda: ReconnectBackoff(random.random))

    def wait_ms(self, leased: Leased, now: float) -> int:
        """Return how long to wait before the next claim; 0: give up. Bounded, because wake-ups may be lost."""
        if not self.wait:
            return 0
        most = limits.IDLE_WAIT_MS if leased.next_ms is None else min(limits.IDLE_WAIT_MS, leased.next_ms)
        left = most if self.until is None else round((self.until - now) * limits.SECOND)
        return 0 if left <= 0 else max(limits.MIN_WAIT_MS, min(left, most))

    def pause_s(self, began: float, now: float) -> float:
        """Return how long to pause before the next claim, after the wait that began at `began` was lost."""
        left = math.inf if self.until is None else self.until - now
        return max(0.0, min(self.waits.lost(now - began, now), left))


class TimeoutPolicy(Protocol):
    """The timeout of the queue's handler, for jobs without one."""

    def wire_timeout_ms(self, options: Options) -> int: ...


class Queue:
    """A queue, made by `app.queue(name)`. Every method has an async version with an `a` before its name.

    queue = app.queue("emails")
    queue.enqueue(b"...")
    with queue.lease(seconds=30) as job:
        if job is not None:
            send(job.payload)
    """

    def __init__(self, client: Client, name: str, policy: Callable[[], TimeoutPolicy | None] = lambda: None) -> None:
        self.name = name
        self._client = client
        self._policy = policy

    def __repr__(self) -> str:
        return f"<Queue {self.name!r}>"

    def enqueue(self, payload: object, **options: Unpack[JobOptions]) -> JobHandle[Any]:
        """Enqueue a raw payload for the queue's handler: bytes as they are, str as UTF-8, any other value as JSON.

            app.queue("emails").enqueue({"to": "a@example.org"}, delay=60)
            app.queue("emails").enqueue(b"...", lane="customer:7", unique="welcome:7")

        The options are those of `Task.using`, except `queue`. Raises `PayloadInvalid`, `PayloadTooLarge`,
        `InvalidArgument`, `DuplicateJob` (your own id exists), `NotUnique` (another job has the unique key),
        `UnsupportedFeature`, `QueueFull` and the errors of Redis.
        """
        return self._client.run(self._enqueue(payload, options))

    async def aenqueue(self, payload: object, **options: Unpack[JobOptions]) -> JobHandle[Any]:
        """Async version of `enqueue`."""
        return await self._client.arun(self._enqueue(payload, options))

    def enqueue_many(self, payloads: Iterable[object], **options: Unpack[ManyOptions]) -> list[JobHandle[Any]]:
        """Enqueue many raw payloads in a few round trips. Returns their handles in order.

            queue.enqueue_many((line.encode() for line in file), lane="import:7")

        Takes the options of `enqueue` except `id`; they apply to all jobs. A payload that is not unique is no error
        here: its handle is that of the other job and has `created` False.
        """
        return self._client.run(self._enqueue_many(payloads, options))

    async def aenqueue_many(self, payloads: Iterable[object], **options: Unpack[ManyOptions]) -> list[JobHandle[Any]]:
        """Async version of `enqueue_many`."""
        return await self._client.arun(self._enqueue_many(payloads, options))

    def lease(
        self, seconds: float | timedelta = 30, *, block: bool = False, timeout: float | timedelta | None = None
    ) -> MaybeJob:
        """Lease the next job for `seconds`. If there is none, the answer is false, and `with` binds None.

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
        claim = self._claim(seconds, block, timeout)
        while True:
            leased = self._client.run(self._lease(claim))
            wait_ms = claim.wait_ms(leased, time.monotonic())
            if leased.leases or not wait_ms:
                return self._held(leased)
            began = time.monotonic()
            try:
                self._wait(claim.worker, wait_ms)
            except WaitLost:
                time.sleep(claim.pause_s(began, time.monotonic()))
            else:
                claim.waits.good()

    def alease(
        self, seconds: float | timedelta = 30, *, block: bool = False, timeout: float | timedelta | None = None
    ) -> PendingLease:
        """Async version of `lease`: `await` it, or use it in `async with`.

        async with queue.alease(seconds=30) as job: ...
        job = await queue.alease(block=True, timeout=5)
        """
        return PendingLease(self, lambda: self._alease(self._claim(seconds, block, timeout)).__await__())

    def complete(self, job: HeldJob, result: object = None) -> bool:
        """Complete the job. Returns True for exactly one call per job; False: the lease was lost.

        `result` is kept for an hour, for callers that wait for it. Raises `PayloadInvalid` if it cannot be encoded.
        """
        return self._client.run(self._complete(job, result))

    async def acomplete(self, job: HeldJob, result: object = None) -> bool:
        """Async version of `complete`."""
        return await self._client.arun(self._complete(job, result))

    def retry(self, job: HeldJob, delay: float | timedelta = 0, reason: str = "") -> bool:
        """Run the job again after `delay`. Counts as a failure; a manual lease has no limit of retries.

        Returns False if the lease was lost.
        """
        return self._client.run(self._retry(job, delay, reason))

    async def aretry(self, job: HeldJob, delay: float | timedelta = 0, reason: str = "") -> bool:
        """Async version of `retry`."""
        return await self._client.arun(self._retry(job, delay, reason))

    def fail(self, job: HeldJob, reason: str = "") -> bool:
        """End the job in `failed`. Returns False if the lease was lost."""
        return self._client.run(self._settle(job, Failed(ErrorInfo("Fail", cut(str(reason), limits.MAX_ERROR_TEXT)))))

    async def afail(self, job: HeldJob, reason: str = "") -> bool:
        """Async version of `fail`."""
        return await self._client.arun(
            self._settle(job, Failed(ErrorInfo("Fail", cut(str(reason), limits.MAX_ERROR_TEXT))))
        )

    def release(self, job: HeldJob) -> bool:
        """Release the job unchanged, to the front of its queue. The attempt does not count.

        Returns False if the lease was lost.
        """
        return self._client.run(self._settle(job, Released()))

    async def arelease(self, job: HeldJob) -> bool:
        """Async version of `release`."""
        return await self._client.arun(self._settle(job, Released()))

    def extend(self, job: HeldJob, seconds: float | timedelta) -> bool:
        """Extend the lease to `seconds` from now. Returns False if the lease was lost."""
        return self._client.run(self._extend(job, seconds))

    async def aextend(self, job: HeldJob, seconds: float | timedelta) -> bool:
        """Async version of `extend`."""
        return await self._client.arun(self._extend(job, seconds))

    def progress(self, job: HeldJob, current: float, total: float | None = None, text: str = "") -> bool:
        """Report the progress of a job, for `JobHandle.watch` and the inspector. Returns False if the lease was lost.

            queue.progress(job, 3, 10, "resizing")

        `total` None: unknown. `text` is cut to 500 bytes. Raises `InvalidArgument` for a number that is not finite, or
        a total of 0 or less.
        """
        return self._client.run(self._progress(job, current, total, text))

    async def aprogress(self, job: HeldJob, current: float, total: float | None = None, text: str = "") -> bool:
        """Async version of `progress`."""
        return await self._client.arun(self._progress(job, current, total, text))

    def job(self, id: str) -> JobHandle[Any]:
        """Return a handle for an existing job of this queue. Sends nothing."""
        return JobHandle(self._client, self.name, names.known_id(id))

    def _enqueue(self, payload: object, options: JobOptions) -> Steps[JobHandle[Any]]:
        asked = Options().using(OF_JOB, **options)
        return enqueue_one(self._client, self._new_job(payload, asked), durable=asked.durable)

    def _enqueue_many(self, payloads: Iterable[object], options: ManyOptions) -> Steps[list[JobHandle[Any]]]:
        # Iterating a mapping would enqueue only its keys.
        one = isinstance(payloads, (str, bytes, bytearray, memoryview, Mapping))
        if one or not isinstance(payloads, Iterable):
            raise invalid("payloads", "a list of payloads", type(payloads).__name__, "Use `enqueue` for one payload.")
        asked = Options().using(OF_MANY, **options)
        return enqueue_all(self._client, [self._new_job(payload, asked) for payload in payloads], durable=asked.durable)

    def _new_job(self, payload: object, options: Options) -> NewJob:
        timeout_ms = None  # the handler's, where the job runs
        if options.persistent:  # such a job has no timeout by default
            policy = self._policy()
            timeout_ms = NO_TIMEOUT_MS if policy is None else policy.wire_timeout_ms(options)
        return self._client.job(self.name, encode_raw(payload), options, timeout_ms=timeout_ms)

    def _claim(self, seconds: object, block: bool, timeout: object) -> Claim:
        lease_ms = names.duration_ms(seconds, "seconds", least_ms=limits.MIN_LEASE_MS, most_ms=limits.MAX_LEASE_MS)
        wait_s = seconds_or_none(timeout)
        until = None if wait_s is None else time.monotonic() + wait_s
        return Claim(f"hand-{secrets.token_hex(8)}", lease_ms, block, until)

    async def _alease(self, claim: Claim) -> MaybeJob:
        while True:
            leased = await self._client.arun(self._lease(claim))
            wait_ms = claim.wait_ms(leased, time.monotonic())
            if leased.leases or not wait_ms:
                return self._held(leased)
            began = time.monotonic()
            try:
                await self._await(claim.worker, wait_ms)
            except WaitLost:
                await asyncio.sleep(claim.pause_s(began, time.monotonic()))
            else:
                claim.waits.good()

    def _wait(self, worker: str, wait_ms: int) -> None:
        """Wait for work as the engine states. A claim follows, which also adopts what the wait took."""
        wait = self._client.engine.wait(worker, [self.name], wait_ms)
        calls = calls_of(wait)
        if calls is None:
            time.sleep(pause_ms_of(wait, wait_ms) / limits.SECOND)
        else:
            self._client.run(calls)

    async def _await(self, worker: str, wait_ms: int) -> None:
        """The twin of `_wait`."""
        wait = self._client.engine.wait(worker, [self.name], wait_ms)
        calls = calls_of(wait)
        if calls is None:
            await asyncio.sleep(pause_ms_of(wait, wait_ms) / limits.SECOND)
        else:
            await self._client.arun(calls)

    def _lease(self, claim: Claim) -> Steps[Leased]:
        """Claim one job. A single call may not get past cancelled jobs and those of dead workers, so it repeats."""
        looks = 0
        while True:
            leased = yield from self._client.engine.lease(claim.worker, [self.name], 1, claim.lease_ms)
            for dropped in leased.dropped:
                _log.warning("queue %r: entry %r was dropped: %s", dropped.queue, dropped.id, dropped.reason)
            looks += 1
            if leased.leases or leased.next_ms != 0 or looks >= limits.LEASE_LOOKS:
                return leased

    def _held(self, leased: Leased) -> MaybeJob:
        return HeldJob(self, leased.leases[0]) if leased.leases else NoJob()

    def _complete(self, job: HeldJob, result: object) -> Steps[bool]:
        held_of(self.name, job)
        data = Results(f"job {job.id!r}").encode(result)
        return self._settle(job, Completed(data))

    def _retry(self, job: HeldJob, delay: object, reason: str) -> Steps[bool]:
        delay_ms = names.duration_ms(delay, "delay", least_ms=0, most_ms=limits.MAX_DELAY_MS)
        return self._settle(job, Retried(ErrorInfo("Retry", cut(str(reason), limits.MAX_ERROR_TEXT)), delay_ms))

    def _settle(self, job: HeldJob, outcome: Outcome) -> Steps[bool]:
        held_of(self.name, job)
        settled = yield from settle_durably(self._client.engine, [(job.lease, outcome)], self._client.replicas(None))
        # Not earlier: if the call fails, the end of the `with` block still releases the job.
        job.mark_settled()
        return settled[0]

    def _extend(self, job: HeldJob, seconds: object) -> Steps[bool]:
        held_of(self.name, job)
        self._client.require(Feature.EXTEND)
        ms = names.duration_ms(seconds, "seconds", least_ms=limits.MIN_LEASE_MS, most_ms=limits.MAX_LEASE_MS)
        return self._client.engine.extend(job.lease, ms)

    def _progress(self, job: HeldJob, current: object, total: object, text: object) -> Steps[bool]:
        held_of(self.name, job)
        self._client.require(Feature.PROGRESS)
        return self._client.engine.progress(job.lease, progress_of(current, total, text))
