"""A pool of hworker: its jobs, its workers and its monitor."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast

import msgspec

from tenure import Fail, Job, Tenure
from tenure import Retry as RetryLater
from tenure.app.embed import AppWorker
from tenure.client.client import asynchronous, blocking
from tenure.client.connections import Connections
from tenure.compat.hworker.engine import TypedEngine
from tenure.compat.hworker.results import Failure, Result, Retry
from tenure.core import limits, names
from tenure.core.errors import InvalidArgument, PayloadInvalid, invalid
from tenure.core.steps import Steps
from tenure.engines.hworker.keys import DEFAULT_QUEUE
from tenure.protocols import hworker

if TYPE_CHECKING:
    from tenure.core.engine import FullEngine
    from tenure.protocols.spec import ProtocolSettings

Function = Callable[[Any], Result | Awaitable[Result | None] | None]
F = TypeVar("F", bound=Function)
RETRY_DELAY_S: Final = 1.0
"""How long a job waits for its retry. The original runs it again at once, for ever: that is `retry_delay=0`."""
READ_MOST: Final = 10_000
"""Jobs that one call reads."""


class Hworker:
    """A pool that workers of hworker share.

        pool = Hworker("printer", "redis://localhost:6379/0", timeout=120, on_exception="retry")

    `url`: as for `Tenure`. `type`: what the values of the jobs are, for msgspec (`Page`, `dict[str, int]`); a job
    with another value ends in broken, with the reason. `timeout`: how many seconds a job of another client may be in
    progress. `failed_queue_size`: how many failed jobs the pool keeps. `on_exception`: whether a job fails or is
    retried when its function raises. `retry_delay`: seconds before a retry; 0 as the original.

    Each method has a version for asyncio with a name that begins with `a`: `await pool.aqueue(job)`. `app` is the
    Tenure app: `app = pool.app` in a module is what `tenure worker` and the other commands take. Raises
    `InvalidArgument` for wrong options.
    """

    def __init__(
        self,
        name: str,
        url: str | None = None,
        *,
        type: Any = Any,
        timeout: float = hworker.TIMEOUT_S,
        failed_queue_size: int = hworker.FAILED_QUEUE_SIZE,
        on_exception: Literal["fail", "retry"] = "fail",
        retry_delay: float = RETRY_DELAY_S,
    ) -> None:
        if on_exception not in ("fail", "retry"):
            raise invalid("on_exception", "'fail' or 'retry'", names.shown(on_exception))
        names.duration_ms(retry_delay, "retry_delay", least_ms=0, most_ms=limits.MAX_DELAY_MS)
        protocol = _Typed(name, timeout, failed_queue_size, type=type)
        self.app = Tenure(url, protocol=protocol)
        self._engine = cast(TypedEngine, self.app.engine)
        self._client = Connections(self.app.settings)
        self._retries = on_exception == "retry"
        self._delay = retry_delay

    # Producers.

    @blocking
    def queue(self, job: object) -> Steps[bool]:
        """Enqueue a job: any value that is JSON, or an object of msgspec. Returns True.

        Raises `PayloadInvalid` for what JSON does not have, such as NaN and infinity.
        """
        yield from self._engine.push(_encoded(job))
        return True

    # Workers.

    def job(self, function: F) -> F:
        """Register the function that runs the jobs of this pool, async or not.

            @pool.job
            def work(page):
                return Success()

        It gets the value of a job, and returns `Success`, `Retry` or `Failure`. An exception is `Failure("Exception
        raised: ...")`, or a retry with `on_exception="retry"`.
        """
        self.app.handler(DEFAULT_QUEUE, retries=limits.MAX_RETRIES)(self._handler(function))
        return function

    def worker(self, concurrency: int = 1, *, burst: bool = False) -> None:
        """Run jobs until a signal stops the process; with `burst` until none is ready. It is a monitor, too.

        Raises `InvalidArgument` when no function is registered.
        """
        self._worker(concurrency, burst).run()

    async def aworker(self, concurrency: int = 1, *, burst: bool = False) -> None:
        """Async version of `worker`."""
        await self._worker(concurrency, burst).arun()

    def _worker(self, concurrency: int, burst: bool) -> AppWorker:
        if not self.app.handlers:
            raise InvalidArgument("The pool has no function for its jobs. Register one: @pool.job.")
        return self.app.worker(
            concurrency=concurrency, burst=burst, signals=True, wait_for_redis=math.inf, allow_eviction=True
        )

    @blocking
    def monitor(self) -> Steps[int]:
        """Return the jobs of dead workers to the list, once. Return their number. Workers do this by themselves.

        Jobs of other clients are timed from the first call that sees them: call it every few seconds, or run `tenure
        monitor`.
        """
        reclaimed = 0
        for _ in range(limits.PURGE_ROUNDS):
            done = yield from self._engine.maintain((DEFAULT_QUEUE,), ())
            reclaimed += done.reclaimed
            if not done.more:
                break
        return reclaimed

    # Looking.

    @blocking
    def jobs(self) -> Steps[list[Any]]:
        """The values of the jobs that wait, the newest first, as `failed`; at most 10,000."""
        return (yield from self._engine.values_of("jobs", READ_MOST))

    @blocking
    def failed(self) -> Steps[list[Any]]:
        """The values of the jobs that failed, the newest first."""
        return (yield from self._engine.values_of("failed", READ_MOST))

    @blocking
    def broken(self) -> Steps[list[tuple[bytes, str]]]:
        """The bytes that could not be decoded, and when that was found, in ISO 8601; at most 10,000, in no order."""
        return (yield from self._engine.broken(READ_MOST))

    @blocking
    def destroy(self) -> Steps[None]:
        """Remove the pool with all its jobs, also those that run. Their workers lose them."""
        yield from self._engine.destroy()

    aqueue = asynchronous(queue)
    amonitor = asynchronous(monitor)
    ajobs = asynchronous(jobs)
    afailed = asynchronous(failed)
    abroken = asynchronous(broken)
    adestroy = asynchronous(destroy)

    def close(self) -> None:
        """Close the connections."""
        try:
            self._client.close()
        finally:
            self.app.close()

    async def aclose(self) -> None:
        """Async version of `close`."""
        try:
            await self._client.aclose()
        finally:
            await self.app.aclose()

    def _handler(self, function: Function) -> Callable[[Job], Any]:
        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def run_async(job: Job) -> None:
                with _Exceptions(self._retries, self._delay):
                    self._end(await function(self._engine.value_in(job.payload)))

            return run_async

        @wraps(function)
        def run(job: Job) -> None:
            with _Exceptions(self._retries, self._delay):
                self._end(function(self._engine.value_in(job.payload)))

        return run

    def _end(self, result: object) -> None:
        if isinstance(result, Retry):
            raise RetryLater(result.message, delay=self._delay)
        if isinstance(result, Failure):
            raise Fail(result.message)


def _encoded(job: object) -> bytes:
    """The job as JSON. The encoder writes null for a float that is not finite, so nulls are looked at."""
    try:
        data = msgspec.json.encode(job)
        if b"null" in data:
            with suppress(TypeError):  # it has JSON of its own in it (`msgspec.Raw`)
                json.dumps(msgspec.to_builtins(job, str_keys=True), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise PayloadInvalid(f"The job cannot be written as JSON: {type(error).__name__}.") from None
    return data


class _Exceptions:
    """Turns an exception of a job into a failure or a retry, by the option of the pool."""

    def __init__(self, retries: bool, delay: float) -> None:
        self._retries = retries
        self._delay = delay

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, RetryLater | Fail):
            message = f"Exception raised: {error}"
            raise (RetryLater(message, delay=self._delay) if self._retries else Fail(message)) from error


@dataclass(frozen=True, slots=True)
class _Typed(hworker.Hworker):
    """The protocol, for jobs with values of a type."""

    type: Any = Any

    def engine(self, settings: ProtocolSettings) -> FullEngine:
        return TypedEngine(self.name, self._numbers(), self.type)
