"""A queue by hand: enqueue raw payloads, and lease, settle and extend jobs without a worker."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from leasehold.client import UNSET, Options, Unset, seconds_or_none
from leasehold.core import limits, names
from leasehold.core.codec import encode_raw
from leasehold.core.engine import Feature
from leasehold.core.errors import InvalidArgument, LeaseholdError, LeaseLost
from leasehold.core.job import ErrorInfo, Lease, Leased, NewJob, Token
from leasehold.core.outcome import Completed, Failed, Outcome, Released, Retried
from leasehold.core.signature import Results
from leasehold.core.steps import Steps
from leasehold.core.text import cut
from leasehold.results import JobHandle, enqueue_all, enqueue_one

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from leasehold.client import Client
    from leasehold.core.task import TaskSpec

_log = logging.getLogger("leasehold")


class HeldJob:
    """A job leased by hand. True in a condition; `with` completes it at the end, or releases it on an error."""

    __slots__ = ("_queue", "_settled", "lease")

    def __init__(self, queue: Queue, lease: Lease) -> None:
        self.lease = lease
        self._queue = queue
        self._settled = False

    def __repr__(self) -> str:
        return f"<HeldJob {self.id!r} of queue {self.queue!r}, attempt {self.attempt}>"

    def __bool__(self) -> Literal[True]:
        return True

    @property
    def id(self) -> str:
        return self.lease.record.id

    @property
    def queue(self) -> str:
        return self.lease.record.queue

    @property
    def task(self) -> str | None:
        """The task's name; None for a raw payload."""
        return self.lease.record.task

    @property
    def payload(self) -> bytes:
        return self.lease.record.payload

    @property
    def attempt(self) -> int:
        """Counts from 1: earlier failures and crashes, plus this one."""
        return self.lease.attempt

    @property
    def token(self) -> Token:
        """The fencing token: grows with every claim of the job."""
        return self.lease.token

    @property
    def settled(self) -> bool:
        """Whether `complete`, `retry`, `fail` or `release` was called with this job, whatever it answered."""
        return self._settled

    def mark_settled(self) -> None:
        """For `Queue`: the end of a `with` block has nothing left to do."""
        self._settled = True

    def __enter__(self) -> HeldJob:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._settled:
            return
        if error is None:
            check_completed(self, self._queue.complete(self))
            return
        try:
            self._queue.release(self)
        except LeaseholdError:
            _log.warning("job %r could not be released; it comes back when its lease lapses", self.id)


class NoJob:
    """What `lease` gives when there is nothing to do: false in a condition, and `with` gives None."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<NoJob>"

    def __bool__(self) -> Literal[False]:
        return False

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        return None


MaybeJob: TypeAlias = HeldJob | NoJob


class PendingLease:
    """What `alease` gives: `await` it for the job, or use it in `async with`."""

    def __init__(self, queue: Queue, lease: Callable[[], Generator[Any, Any, MaybeJob]]) -> None:
        self._queue = queue
        self._lease = lease
        self._job: MaybeJob = NoJob()

    def __await__(self) -> Generator[Any, Any, MaybeJob]:
        return self._lease()

    async def __aenter__(self) -> HeldJob | None:
        self._job = await self
        return self._job or None

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        job = self._job
        if not job or job.settled:
            return
        if error is None:
            check_completed(job, await self._queue.acomplete(job))
            return
        try:
            await self._queue.arelease(job)
        except LeaseholdError:
            _log.warning("job %r could not be released; it comes back when its lease lapses", job.id)


@dataclass(frozen=True, slots=True)
class Claim:
    """One wish for a job: in whose name, for how long to hold it, and until when to wait for it (None: for ever)."""

    worker: str
    lease_ms: int
    wait: bool
    until: float | None

    def wait_ms(self, leased: Leased, now: float) -> int:
        """How long to wait before the next look; 0: give up. Wake-ups may be lost, so never for long."""
        if not self.wait:
            return 0
        most = limits.IDLE_WAIT_MS if leased.next_ms is None else min(limits.IDLE_WAIT_MS, leased.next_ms)
        left = most if self.until is None else round((self.until - now) * limits.SECOND)
        return 0 if left <= 0 else max(limits.MIN_WAIT_MS, min(left, most))


class Queue:
    """A queue by its name, made by `app.queue(name)`. All methods but `alease` with an `a` before them are coroutines.

    queue = app.queue("emails")
    queue.enqueue(b"...")
    with queue.lease(seconds=30) as job:
        if job is not None:
            send(job.payload)
    """

    def __init__(self, client: Client, name: str, handler: Callable[[], TaskSpec | None] = lambda: None) -> None:
        self.name = name
        self._client = client
        self._handler = handler

    def __repr__(self) -> str:
        return f"<Queue {self.name!r}>"

    def enqueue(
        self,
        payload: object,
        *,
        id: str | None = None,
        delay: float | timedelta | None = None,
        run_after: datetime | None = None,
        timeout: float | timedelta | Unset | None = UNSET,
        retries: int | None = None,
    ) -> JobHandle[Any]:
        """Enqueue a raw payload for the queue's handler: bytes as they are, str as UTF-8, other values as JSON.

            app.queue("emails").enqueue({"to": "a@example.org"}, delay=60)

        The options are those of `Task.using`. Raises `PayloadInvalid`, `PayloadTooLarge`, `InvalidArgument`,
        `DuplicateJob` (an own id that exists), `UnsupportedFeature`, `QueueFull` and the errors of Redis.
        """
        options = Options().using(id=id, delay=delay, run_after=run_after, timeout=timeout, retries=retries)
        return self._client.run(enqueue_one(self._client, self._new_job(payload, options)))

    async def aenqueue(
        self,
        payload: object,
        *,
        id: str | None = None,
        delay: float | timedelta | None = None,
        run_after: datetime | None = None,
        timeout: float | timedelta | Unset | None = UNSET,  # noqa: ASYNC109
        retries: int | None = None,
    ) -> JobHandle[Any]:
        """The twin of `enqueue` for async code."""
        options = Options().using(id=id, delay=delay, run_after=run_after, timeout=timeout, retries=retries)
        return await self._client.arun(enqueue_one(self._client, self._new_job(payload, options)))

    def enqueue_many(self, payloads: Iterable[object]) -> list[JobHandle[Any]]:
        """Enqueue many raw payloads with few round trips. The handles come in their order.

        queue.enqueue_many(line.encode() for line in file)
        """
        return self._client.run(self._enqueue_many(payloads))

    async def aenqueue_many(self, payloads: Iterable[object]) -> list[JobHandle[Any]]:
        """The twin of `enqueue_many` for async code."""
        return await self._client.arun(self._enqueue_many(payloads))

    def lease(
        self, seconds: float | timedelta = 30, *, block: bool = False, timeout: float | timedelta | None = None
    ) -> MaybeJob:
        """Hold the next job for `seconds`. Without one the answer is false in a condition, and `with` gives None.

            with queue.lease(seconds=30) as job:        # completes on success, releases on error
                if job is not None:
                    send(job.payload)

            job = queue.lease(block=True, timeout=5)    # waits up to 5 s; without a timeout for as long as it takes
            if job:
                queue.complete(job)

        A job that is not settled in time goes back to its queue: `extend` it in time. A released job is tried again at
        once; use `retry` or `fail` for one that cannot be done now. Leaving `with` raises `LeaseLost` when the job was
        no longer ours. Raises `InvalidArgument` for less than 0.1 s or more than 7 days.
        """
        claim = self._claim(seconds, block, timeout)
        while True:
            leased = self._client.run(self._lease(claim))
            wait_ms = claim.wait_ms(leased, time.monotonic())
            if leased.leases or not wait_ms:
                return self._held(leased)
            self._client.run(self._client.engine.wait([self.name], wait_ms))

    def alease(
        self, seconds: float | timedelta = 30, *, block: bool = False, timeout: float | timedelta | None = None
    ) -> PendingLease:
        """The twin of `lease` for async code: `await` it, or use it in `async with`.

        async with queue.alease(seconds=30) as job: ...
        job = await queue.alease(block=True, timeout=5)
        """
        return PendingLease(self, lambda: self._alease(self._claim(seconds, block, timeout)).__await__())

    def complete(self, job: HeldJob, result: object = None) -> bool:
        """End the job well. True for exactly one call per job; False: it was ours no longer.

        `result` is kept for a while, for whoever waits for it. Raises `PayloadInvalid` when it cannot be encoded.
        """
        return self._client.run(self._complete(job, result))

    async def acomplete(self, job: HeldJob, result: object = None) -> bool:
        """The twin of `complete` for async code."""
        return await self._client.arun(self._complete(job, result))

    def retry(self, job: HeldJob, delay: float | timedelta = 0, reason: str = "") -> bool:
        """Let the job run again after `delay`. Counts as a failure; by hand there is no limit to their number.

        False: it was ours no longer.
        """
        return self._client.run(self._retry(job, delay, reason))

    async def aretry(self, job: HeldJob, delay: float | timedelta = 0, reason: str = "") -> bool:
        """The twin of `retry` for async code."""
        return await self._client.arun(self._retry(job, delay, reason))

    def fail(self, job: HeldJob, reason: str = "") -> bool:
        """End the job in `failed`. False: it was ours no longer."""
        return self._client.run(self._settle(job, Failed(ErrorInfo("Fail", cut(str(reason), limits.MAX_ERROR_TEXT)))))

    async def afail(self, job: HeldJob, reason: str = "") -> bool:
        """The twin of `fail` for async code."""
        return await self._client.arun(
            self._settle(job, Failed(ErrorInfo("Fail", cut(str(reason), limits.MAX_ERROR_TEXT))))
        )

    def release(self, job: HeldJob) -> bool:
        """Hand the job back unchanged, to the front of its queue; the attempt does not count.

        False: it was ours no longer.
        """
        return self._client.run(self._settle(job, Released()))

    async def arelease(self, job: HeldJob) -> bool:
        """The twin of `release` for async code."""
        return await self._client.arun(self._settle(job, Released()))

    def extend(self, job: HeldJob, seconds: float | timedelta) -> bool:
        """Hold the job for `seconds` from now. False: it was ours no longer."""
        return self._client.run(self._extend(job, seconds))

    async def aextend(self, job: HeldJob, seconds: float | timedelta) -> bool:
        """The twin of `extend` for async code."""
        return await self._client.arun(self._extend(job, seconds))

    def job(self, id: str) -> JobHandle[Any]:
        """A handle for a job of this queue that was enqueued before, here or elsewhere. No traffic."""
        return JobHandle(self._client, self.name, names.known_id(id))

    def _new_job(self, payload: object, options: Options) -> NewJob:
        spec = self._handler()
        timeout_ms = None if spec is None else spec.timeout_ms or 0
        return self._client.job(self.name, encode_raw(payload), options, timeout_ms=timeout_ms)

    def _enqueue_many(self, payloads: Iterable[object]) -> Steps[list[JobHandle[Any]]]:
        if isinstance(payloads, (str, bytes, bytearray, memoryview)):
            raise InvalidArgument(
                f"The payloads are one {type(payloads).__name__}; expected a list of payloads, or `enqueue` for one."
            )
        options = Options()
        return enqueue_all(self._client, [self._new_job(payload, options) for payload in payloads])

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
            await self._client.arun(self._client.engine.wait([self.name], wait_ms))

    def _lease(self, claim: Claim) -> Steps[Leased]:
        return self._client.engine.lease(claim.worker, [self.name], 1, claim.lease_ms)

    def _held(self, leased: Leased) -> MaybeJob:
        for dropped in leased.dropped:
            _log.warning("queue %r: entry %r was dropped: %s", dropped.queue, dropped.id, dropped.reason)
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
        settled = yield from self._client.engine.settle([(job.lease, outcome)])
        # Only now: a call that failed on the way leaves the end of the `with` block something to do.
        job.mark_settled()
        return settled[0]

    def _extend(self, job: HeldJob, seconds: object) -> Steps[bool]:
        held_of(self.name, job)
        self._client.require(Feature.EXTEND, "a longer lease")
        ms = names.duration_ms(seconds, "seconds", least_ms=limits.MIN_LEASE_MS, most_ms=limits.MAX_LEASE_MS)
        return self._client.engine.extend(job.lease, ms)


def held_of(queue: str, job: object) -> None:
    """Refuse what is no held job, and one of another queue: it would be looked for where it is not."""
    if isinstance(job, NoJob):
        raise InvalidArgument("There was no job to lease, so there is nothing to settle. Look first: `if job:`.")
    if not isinstance(job, HeldJob):
        raise InvalidArgument(f"Got a {type(job).__name__}; expected a job that `lease` of queue {queue!r} gave.")
    if job.queue != queue:
        raise InvalidArgument(
            f"The job is of queue {job.queue!r}, not of {queue!r}; use app.queue({job.queue!r}) for it."
        )


def check_completed(job: HeldJob, completed: bool) -> None:
    """Raise `LeaseLost` when the end of a `with` block came too late."""
    if not completed:
        raise LeaseLost(
            f"Job {job.id!r} was no longer ours when its block ended: its lease had lapsed, and it runs again or has "
            "run again. Lease it for longer, or extend it in time."
        )
