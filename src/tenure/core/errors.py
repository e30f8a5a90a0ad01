"""All errors that Tenure raises, as one tree.

    TenureError
    ├── InvalidArgument (ValueError)    a bad name, number or option; nothing was sent
    │   ├── PayloadTooLarge             more bytes than the limit allows
    │   ├── PayloadInvalid (TypeError)  arguments that cannot be encoded, or bytes that cannot be decoded
    │   └── UnsupportedFeature          the protocol in use does not have this feature
    ├── NotConfigured                   a setting, an extra or a URL is missing or wrong
    ├── DuplicateJob                    a job with this id exists; nothing was enqueued
    │   └── NotUnique                   another job has the unique key; nothing was changed
    ├── DuplicateSchedule               the queue has a schedule of this name; nothing was changed
    ├── ScheduleNotFound (LookupError)  the queue has no schedule of this name
    ├── RedisError
    │   ├── Unreachable                 no reply in time; the change may or may not have happened
    │   ├── QueueFull                   Redis or the queue is at its limit; nothing was enqueued
    │   ├── NotDurable                  enqueued, but too few replicas had it in time
    │   ├── AccessDenied                wrong password, or a user without the right for this
    │   ├── WrongState                  one of Tenure's keys holds data of another program
    │   ├── NewerLayout                 a newer release has written to this queue
    │   └── ReplyError                  any other error reply of Redis
    ├── WorkerFailed (RuntimeError)     a worker inside a program ended because a part of it failed
    ├── SyncOnLoop (RuntimeError)       a blocking call on a running event loop; nothing was sent
    ├── LeaseLost                       the lease expired or was revoked; the job runs elsewhere
    └── ResultError
        ├── ResultTimeout (TimeoutError)  the job did not end in time
        ├── JobNotFound (LookupError)     no such job, or its record has expired
        └── JobFailed                     the job ended without a result

`Retry`, `RateLimited`, `Fail` and `JobCancelled` are not in this tree: handlers raise them to choose their outcome.
See `tenure.core.signals`.
"""

from __future__ import annotations

import copyreg
from typing import Any

from tenure.core import limits


class TenureError(Exception):
    """Base of all errors that Tenure raises."""

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy has the message and the attributes; calling the class would take its own arguments instead.
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class InvalidArgument(TenureError, ValueError):
    """A bad name, number or option. Nothing was sent to Redis."""


def invalid(field: str, rule: str, got: str, advice: str = "") -> InvalidArgument:
    """Return the error for a value that breaks a rule.

    >>> invalid("max_memory", "at least 16", "3", "It is in megabytes.")
    InvalidArgument('max_memory must be at least 16, got 3. It is in megabytes.')
    """
    return InvalidArgument(f"{field} must be {rule}, got {got}.{' ' * bool(advice)}{advice}")


class PayloadTooLarge(InvalidArgument):
    """The encoded payload has more bytes than the limit allows."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"The payload has {size:,} bytes, the limit is {limit:,}. Store large data elsewhere and enqueue a "
            "reference to it, or raise `max_payload`."
        )
        self.size = size
        self.limit = limit


class PayloadInvalid(InvalidArgument, TypeError):
    """Arguments that cannot be encoded, or bytes that cannot be decoded to the arguments of the task.

    `size`: the number of bytes, if that was too large; else None.
    """

    size: int | None = None


class UnsupportedFeature(InvalidArgument):
    """The protocol in use does not have this feature."""


class NotConfigured(TenureError):
    """A setting, an extra or a URL is missing or wrong.

    `variable`: the environment variable with the wrong value, if it came from one.
    """

    variable: str | None = None


class WorkerFailed(TenureError, RuntimeError):
    """A worker inside a program could not be kept alive. Its log states why; no job is lost."""


class SyncOnLoop(TenureError, RuntimeError):
    """A blocking call was made on a running event loop, which would stand still until the reply. Nothing was sent."""


class SyncOnLoopWarning(RuntimeWarning):
    """A blocking call holds the running event loop up. Given once for each place in the code."""


class DuplicateJob(TenureError):
    """A job with this id exists already. Nothing was enqueued."""


class NotUnique(DuplicateJob):
    """Another job has the unique key. Nothing was changed. `other` is that job's id."""

    def __init__(self, queue: str, other: str) -> None:
        super().__init__(f"Queue {queue!r} has job {other!r} with the same unique key; nothing was changed.")
        self.queue = queue
        self.other = other


class DuplicateSchedule(TenureError):
    """The queue has a schedule of this name already. Nothing was changed. `queue` and `name`: of the schedule."""

    def __init__(self, queue: str, name: str) -> None:
        super().__init__(f"Queue {queue!r} has a schedule {name!r} already; nothing was changed. Update or remove it.")
        self.queue = queue
        self.name = name


class ScheduleNotFound(TenureError, LookupError):
    """The queue has no schedule of this name. `queue` and `name`: as they were given."""

    def __init__(self, queue: str, name: str) -> None:
        super().__init__(f"Queue {queue!r} has no schedule {name!r}. `tenure schedules` lists all.")
        self.queue = queue
        self.name = name


class RedisError(TenureError):
    """Redis could not be reached, or refused the call.

    `found` and `remedy`: the parts of the message that describe the problem and its fix. Both are empty if the message
    has no such parts.
    """

    found: str = ""
    remedy: str = ""


class Unreachable(RedisError):
    """Redis did not reply in time. The change may or may not have happened. Repeating the call is safe.

    `node`: the node of a cluster that did not reply, if others did; else empty.
    """

    node: str = ""


class QueueFull(RedisError):
    """Redis or the queue is at its limit, or Redis refuses all writes (MISCONF). Nothing was enqueued.

    `queue`: the queue that is at its `max_length`; empty if it is Redis that refuses.
    """

    queue: str = ""


class NotDurable(RedisError):
    """The jobs are enqueued, but too few replicas had them in time: a failover now may lose them.

    `ids`: the jobs. `replicas`: how many replicas had them. `wanted`: how many should.

    To be sure, enqueue the jobs again with the same ids: existing jobs are not enqueued twice, and the call waits for
    the replicas again.
    """

    def __init__(self, ids: tuple[str, ...], replicas: int, wanted: int, trouble: str = "") -> None:
        if len(ids) == 1:
            what = f"Job {ids[0]!r} is"
        elif ids:
            what = f"{len(ids):,} jobs, of which the first is {ids[0]!r}, are"
        else:
            what = "Jobs for other queues are"
        why = f"Redis refused to wait for its replicas ({trouble})" if trouble else "others may be down or slow"
        super().__init__(
            f"{what} enqueued, but {replicas} of {wanted} replicas had it after {limits.WAIT_MS} ms; {why}. A failover "
            "may lose it. To wait again, enqueue it with the same id. Check the replicas with INFO replication."
        )
        self.ids = ids
        self.replicas = replicas
        self.wanted = wanted
        self.trouble = trouble


class AccessDenied(RedisError):
    """Redis refused the user (wrong password, or no right to do this), or its certificate cannot be trusted.

    `prefix`: the first word of the error reply, such as `WRONGPASS` or `NOPERM`. Empty for a bad certificate.
    """

    prefix: str = ""


class WrongState(RedisError):
    """One of Tenure's keys holds data of another program."""


class NewerLayout(RedisError):
    """A newer release has written to this queue in a form that this release cannot read. Update Tenure here.

    `queue`: its name. `layout`: the version of its layout. `readable`: the newest version that this release reads.
    """

    def __init__(self, queue: str, layout: int, readable: int) -> None:
        super().__init__(
            f"Queue {queue!r} has layout version {layout}, written by a newer release of Tenure. This release "
            f"reads versions up to {readable}. Update Tenure here."
        )
        self.queue = queue
        self.layout = layout
        self.readable = readable


class ReplyError(RedisError):
    """Any other error reply of Redis. `prefix` is its first word."""

    def __init__(self, prefix: str, message: str) -> None:
        super().__init__(message)
        self.prefix = prefix


class LeaseLost(TenureError):
    """The lease expired or was revoked. Another worker runs the job, and this outcome does not count."""


class ResultError(TenureError):
    """The job has no result to return."""


class ResultTimeout(ResultError, TimeoutError):
    """The job did not end in time. The message has its state, and why it waits. Call `result` again to wait longer."""


class JobNotFound(ResultError, LookupError):
    """No such job, or its record has expired."""


class FlowNotFound(TenureError, LookupError):
    """No such flow, or its record has expired."""


class GroupEnded(TenureError):
    """A member was added to a group that has ended, or is sealed or gone."""


class JobFailed(ResultError):
    """The job ended in `failed`, `broken` or `cancelled`. The other attributes give the error.

    `id` and `task`: of the job; `task` is None for a raw payload. `error_type` may be empty.
    """

    def __init__(
        self,
        state: str,
        error_type: str,
        error_message: str,
        traceback: str = "",
        *,
        id: str = "",
        task: str | None = None,
    ) -> None:
        job = (f"Job {id!r}" if id else "The job") + (f" of {task}" if task else "")
        error = ": ".join(part for part in (error_type, error_message) if part)
        super().__init__(f"{job} ended in {state}" + (f": {error}" if error else "."))
        self.id = id
        self.task = task
        self.state = state
        self.error_type = error_type
        self.error_message = error_message
        self.traceback = traceback


def wrong_field(key: str, field: str, rule: str, got: str, *, is_needed: bool = False) -> WrongState:
    """Make the error for a field of a hash of another program's making. `is_needed`: jobs are hidden without it."""
    removal = "" if is_needed else ", or remove it with HDEL"
    return WrongState(
        f"Field {field!r} of the hash {key!r} must be {rule}, got {got}. Another program has written it: correct it "
        f"with HSET{removal}."
    )


def is_silent(error: Exception) -> bool:
    """Return whether Redis does not reply at all. If only a node of a cluster does not, queues on others may work."""
    return isinstance(error, Unreachable) and not error.node


def is_away(error: Exception) -> bool:
    """Return whether Redis does not serve this user at all. If not, it refuses a call, perhaps only for one queue."""
    return is_silent(error) or (isinstance(error, AccessDenied) and error.prefix != "NOPERM")
