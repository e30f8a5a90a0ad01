"""The exceptions that a handler raises to choose its outcome: `Retry`, `Snooze`, `RateLimited`, `Fail` and
`JobCancelled`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenure.core import limits, names, rates
from tenure.core.errors import invalid

if TYPE_CHECKING:
    from datetime import timedelta


class Retry(Exception):
    """Raise or return this from a handler to run the job again later.

    `delay`: seconds or a `timedelta`; None: the task's backoff. It counts as a failure, and after the task's last retry
    the job ends in `failed`. Raises `InvalidArgument` for a reason that is not text, or a bad delay.

        raise Retry("the mail server is busy", delay=30)
    """

    delay: float | None = None
    """In seconds."""

    def __init__(self, reason: str = "", *, delay: float | timedelta | None = None) -> None:
        super().__init__(reason)
        if not isinstance(reason, str):
            raise invalid("Retry: reason", "a str", type(reason).__name__, "The delay has a name: Retry(delay=30).")
        self.reason = reason
        if delay is not None:
            self.delay = names.duration_ms(delay, "delay", least_ms=0, most_ms=limits.MAX_DELAY_MS) / limits.SECOND


class Snooze(Exception):
    """Raise or return this from a handler to run the job again later, without counting the attempt.

        raise Snooze(600, "the export is not ready")        # look again in ten minutes, as often as needed

    `seconds`: a number or a `timedelta`. Retries that are left stay as they are, and so does `Job.attempt`. Only the
    native protocol can do this: on others the job ends in `failed` with `UnsupportedFeature`. Raises `InvalidArgument`
    for a bad time, or a reason that is not text.
    """

    seconds: float = 0.0

    def __init__(self, seconds: float | timedelta, reason: str = "") -> None:
        super().__init__(reason)
        if not isinstance(reason, str):
            raise invalid("Snooze: reason", "a str", type(reason).__name__)
        most_ms = limits.MAX_DELAY_MS
        self.seconds = names.duration_ms(seconds, "Snooze: seconds", least_ms=0, most_ms=most_ms) / limits.SECOND
        self.reason = reason


class RateLimited(Exception):
    """Raise or return this from a handler to run the job again later, without counting the attempt.

        raise RateLimited(retry_after=30, limit="stripe")     # after a reply 429

    `retry_after`: seconds or a `timedelta`, 0.001 s to a day. `limit`: the name of a limit, its braces filled: until
    then no job of it starts, and this job stays in front of those like it. Without one only this job waits. Raises
    `InvalidArgument`.
    """

    retry_after: float = 1.0
    """In seconds."""
    limit: str | None = None

    def __init__(self, *, retry_after: float | timedelta, limit: str | None = None) -> None:
        super().__init__("" if limit is None else limit)
        most_ms = rates.MAX_REST_MS
        self.retry_after = names.duration_ms(retry_after, "RateLimited: retry_after", most_ms=most_ms) / limits.SECOND
        self.limit = None if limit is None else names.limit_name(limit, "RateLimited: limit")


class Fail(Exception):
    """Raise or return this from a handler to end the job in `failed`, without another retry.

    Raises `InvalidArgument` for a reason that is not text.

        raise Fail("no such customer")
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        if not isinstance(reason, str):
            raise invalid("Fail: reason", "a str", type(reason).__name__)
        self.reason = reason


class JobCancelled(Exception):
    """Raise this from a handler to end the job in `cancelled`.

    `Job.check_cancelled()` raises it after a cancel request.

    raise JobCancelled("the customer has left")
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
