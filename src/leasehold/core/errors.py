"""All errors that Leasehold raises, as one tree.

    LeaseholdError
    ├── InvalidArgument (ValueError)    a name, number or option that cannot be right; nothing was sent
    │   ├── PayloadTooLarge             more bytes than the limit allows
    │   ├── PayloadInvalid (TypeError)  arguments that cannot be encoded, or bytes that cannot be decoded
    │   └── UnsupportedFeature          the protocol in use cannot hold what was asked for
    ├── NotConfigured                   a setting, an extra or a URL is missing or wrong
    ├── DuplicateJob                    a job with this id exists; nothing was enqueued
    │   └── NotUnique                   another job has the unique key; nothing was enqueued
    ├── RedisError
    │   ├── Unreachable                 no answer in time: whether a change took place is unknown
    │   ├── QueueFull                   Redis or the queue is at its limit; nothing was enqueued
    │   ├── NotDurable                  enqueued, but too few replicas had it in time
    │   ├── AccessDenied                wrong password, or a user who may not do this
    │   ├── WrongState                  a key of ours holds something that is not ours
    │   ├── NewerLayout                 a newer release has written to this queue
    │   └── ReplyError                  any other error reply of Redis
    ├── LeaseLost                       the job is no longer ours: its lease lapsed or it was taken back
    └── ResultError
        ├── ResultTimeout (TimeoutError)  the job had not ended in time
        ├── JobNotFound (LookupError)     no such job, or its record is no longer kept
        └── JobFailed                     the job ended, but not with a result

`Retry`, `Fail` and `JobCancelled` are not errors of Leasehold but what a handler raises to choose its outcome: see
`leasehold.core.signals`.
"""

from __future__ import annotations

from typing import Any

from leasehold.core import limits


class LeaseholdError(Exception):
    """Base of all errors that Leasehold raises."""


class InvalidArgument(LeaseholdError, ValueError):
    """A name, number or option that cannot be right. Nothing was sent to Redis."""


class PayloadTooLarge(InvalidArgument):
    """The encoded payload has more bytes than the limit allows."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"The payload has {size:,} bytes, the limit is {limit:,}. Store large data elsewhere and enqueue a "
            "reference to it, or raise `max_payload`."
        )
        self.size = size
        self.limit = limit

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy calls the class again: with what it was made of, not with the text.
        return type(self), (self.size, self.limit), self.__dict__


class PayloadInvalid(InvalidArgument, TypeError):
    """Arguments that cannot be encoded, or bytes that cannot be decoded to what the task expects.

    `size`: how many bytes there were, where that were too many; else None.
    """

    size: int | None = None


class UnsupportedFeature(InvalidArgument):
    """The protocol in use cannot hold what was asked for."""


class NotConfigured(LeaseholdError):
    """A setting, an extra or a URL is missing or wrong.

    `variable`: the environment variable that is wrong, where it is one.
    """

    variable: str | None = None


class DuplicateJob(LeaseholdError):
    """A job with this id exists already. Nothing was enqueued."""


class NotUnique(DuplicateJob):
    """Another job has the unique key. Nothing was enqueued. `other` is the id of that job."""

    def __init__(self, queue: str, other: str) -> None:
        super().__init__(f"Queue {queue!r} has job {other!r} with the same unique key; nothing was enqueued.")
        self.queue = queue
        self.other = other

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.queue, self.other), self.__dict__


class RedisError(LeaseholdError):
    """Redis could not be reached or refused.

    `found`: the part of the message that says what was found; `remedy`: the part that says what to do. Empty where the
    message is not made of such parts.
    """

    found: str = ""
    remedy: str = ""


class Unreachable(RedisError):
    """Redis gave no answer in time. Whether a change took place is unknown: the same call may be made again."""


class QueueFull(RedisError):
    """Redis or the queue is at its limit, or Redis refuses all writes (MISCONF). Nothing was enqueued."""


class NotDurable(RedisError):
    """The jobs are enqueued, but fewer replicas than asked for had them in time: a failover now may lose them.

    `ids`: of the jobs. `replicas`: how many had them. `wanted`: how many should. Enqueue them again with the same ids
    to be sure: what is there already is not enqueued twice, and the call waits for the replicas once more.
    """

    def __init__(self, ids: tuple[str, ...], replicas: int, wanted: int, trouble: str = "") -> None:
        what = f"Job {ids[0]!r} is" if len(ids) == 1 else f"{len(ids):,} jobs, of which the first is {ids[0]!r}, are"
        why = f"Redis would not wait for its replicas ({trouble})" if trouble else "others may be away or slow"
        super().__init__(
            f"{what} enqueued, but {replicas} of the {wanted} replicas asked for had it after {limits.WAIT_MS} ms; "
            f"{why}. It may or may not outlive a failover. Enqueue it again with the same id to wait once more, and "
            "look at the replicas (INFO replication)."
        )
        self.ids = ids
        self.replicas = replicas
        self.wanted = wanted
        self.trouble = trouble

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.ids, self.replicas, self.wanted, self.trouble), self.__dict__


class AccessDenied(RedisError):
    """Redis refused the user: wrong password, or a user who may not do this. Or its certificate cannot be trusted.

    `prefix`: the first word of the error reply, such as `WRONGPASS`, or `NOPERM` for what this user may not do. Empty
    when it was the certificate.
    """

    prefix: str = ""


class WrongState(RedisError):
    """A key of ours holds something that is not ours."""


class NewerLayout(RedisError):
    """A newer release has written to this queue in a form that this one cannot read. Update this one.

    `queue`: its name. `layout`: the version of its layout. `readable`: the newest that this release reads.
    """

    def __init__(self, queue: str, layout: int, readable: int) -> None:
        super().__init__(
            f"Queue {queue!r} has layout version {layout}, written by a newer release of Leasehold; this one reads "
            f"versions up to {readable}. Update Leasehold here."
        )
        self.queue = queue
        self.layout = layout
        self.readable = readable

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.queue, self.layout, self.readable), self.__dict__


class ReplyError(RedisError):
    """An error reply of Redis. `prefix` is its first word."""

    def __init__(self, prefix: str, message: str) -> None:
        super().__init__(message)
        self.prefix = prefix

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.prefix, str(self)), self.__dict__


class LeaseLost(LeaseholdError):
    """The job is no longer ours: its lease lapsed, or it was taken back. Whatever was done for it does not count."""


class ResultError(LeaseholdError):
    """There is no result to give."""


class ResultTimeout(ResultError, TimeoutError):
    """The job had not ended in time. It goes on; ask again."""


class JobNotFound(ResultError, LookupError):
    """No such job, or its record is no longer kept."""


class JobFailed(ResultError):
    """The job ended in `failed`, `broken` or `cancelled`. `error_type`, `error_message` and `traceback` say why."""

    def __init__(self, state: str, error_type: str, error_message: str, traceback: str = "") -> None:
        super().__init__(f"The job ended in {state}: {error_type}: {error_message}" if error_type else error_message)
        self.state = state
        self.error_type = error_type
        self.error_message = error_message
        self.traceback = traceback

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.state, self.error_type, self.error_message, self.traceback), self.__dict__
