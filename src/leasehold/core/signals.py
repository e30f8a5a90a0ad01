"""The exceptions that a handler raises to choose its outcome: `Retry`, `Fail` and `JobCancelled`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.core import limits, names
from leasehold.core.errors import invalid

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
