"""How an attempt ended, as an outcome: functions from what a handler returned or raised to what is settled.

They are pure but for one thing: they ask the functions of a task's options, and log it when one of these fails or
a result is dropped.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from types import CoroutineType
from typing import Final

from leasehold.core import limits
from leasehold.core.backoff import Backoff, OwnBackoff
from leasehold.core.errors import PayloadInvalid
from leasehold.core.job import ErrorInfo, Lease
from leasehold.core.outcome import Broken, Cancelled, Completed, Failed, Outcome, Retried
from leasehold.core.retries import RetryRule
from leasehold.core.signals import Fail, JobCancelled, Retry
from leasehold.core.task import TaskSpec
from leasehold.core.text import cut
from leasehold.runtime.errors import describe as describe
from leasehold.runtime.log import callback_failed, log_event

Random = Callable[[], float]
_CHOICES: Final = (Retry, Fail, JobCancelled)


def outcome_of_return(spec: TaskSpec, lease: Lease, value: object, random: Random, asked: str | None = None) -> Outcome:
    """What a returned value means. `asked`: the job was to be cancelled, for this reason; a result counts all the same.

    Not that of a persistent job: it would be run again, and to return is how its handler does what it was asked for.
    """
    if isinstance(value, type) and issubclass(value, _CHOICES):
        return outcome_of_error(spec, lease, _made(value), random, asked)
    if isinstance(value, _CHOICES):
        return outcome_of_error(spec, lease, value, random, asked)
    if isinstance(value, CoroutineType) and closed(value):
        error = TypeError("a sync handler returned a coroutine: declare it `async def`")
        return outcome_of_error(spec, lease, error, random, asked)
    if asked is not None and lease.record.shape.persistent:
        return Cancelled(asked)
    if spec.result_ttl_ms == 0:
        return Completed(b"", 0)
    return Completed(_encoded(spec, lease, value), spec.result_ttl_ms)


def _made(kind: type[BaseException]) -> BaseException:
    """`return Retry` means what `raise Retry` does. A class that cannot be made without arguments fails as it would."""
    try:
        return kind()
    except BaseException as error:
        return error


def closed(value: object) -> bool:
    """Whether the value is a coroutine, which is closed then: nobody will await it."""
    if isinstance(value, CoroutineType):
        value.close()
        return True
    return False


def outcome_of_error(
    spec: TaskSpec,
    lease: Lease,
    error: BaseException,
    random: Random,
    asked: str | None = None,
    info: ErrorInfo | None = None,
) -> Outcome:
    """What a raised error means: another try after a while, or the end. `asked`: the end that was asked for.

    `info`: the error as text, if it is known already.
    """
    if asked is not None:
        return Cancelled(asked)
    if isinstance(error, JobCancelled):
        return Cancelled(_reason(error))
    info = info or describe(error)
    if isinstance(error, Retry):
        return _again(spec, lease, error, info, random, error.delay)
    if isinstance(error, Fail) or not _worth_it(spec, lease, error):
        return Failed(info)
    return _again(spec, lease, error, info, random)


def outcome_of_timeout(
    spec: TaskSpec, lease: Lease, seconds: float | None, random: Random, asked: str | None = None
) -> Outcome:
    """The attempt took longer than it may: a failure like any other, with a `TimeoutError`."""
    if asked is not None:
        return Cancelled(asked)
    text = "The attempt was ended" + ("." if seconds is None else f" after {seconds:g} s.")
    error, info = TimeoutError(text), ErrorInfo("Timeout", text)
    return _again(spec, lease, error, info, random) if _worth_it(spec, lease, error) else Failed(info)


def outcome_of_payload(error: BaseException) -> Outcome:
    """The payload could not be decoded. Kept whole, with the reason; trying again would not help."""
    return Broken(describe(error))


def _worth_it(spec: TaskSpec, lease: Lease, error: BaseException) -> bool:
    """Whether an error of this kind is tried again at all. Where the user's function fails, it is."""
    if spec.retry_rule is None:
        return True
    try:
        return spec.retry_rule.again(error)
    except BaseException as fault:
        _warn(spec, lease, "retry_rule", fault, _asked(spec.retry_rule, spec))
        return True


def _asked(rule: RetryRule, spec: TaskSpec) -> Callable[..., object]:
    """The function of the user's in a rule; where there are only classes, an odd one of them, that of the task."""
    functions = (one for one in (rule.never, rule.on) if callable(one) and not isinstance(one, type))
    return next(functions, spec.function)


def _again(
    spec: TaskSpec, lease: Lease, error: BaseException, info: ErrorInfo, random: Random, delay: object = None
) -> Outcome:
    retries = lease.record.retries if lease.record.retries is not None else spec.retries
    if lease.failures >= retries and not lease.record.shape.persistent:
        return Failed(info)
    # `Retry` has checked it, but the attribute may have been set since, and to raise here would cost the slot.
    if isinstance(delay, (int, float)) and math.isfinite(delay):
        delay_ms = round(max(0.0, delay) * limits.SECOND)
    else:
        delay_ms = _backoff_ms(spec, lease, error, random)
    return Retried(info, min(delay_ms, limits.MAX_DELAY_MS))


def _backoff_ms(spec: TaskSpec, lease: Lease, error: BaseException, random: Random) -> int:
    backoff, failures = spec.backoff, lease.failures + 1
    if isinstance(backoff, OwnBackoff):
        try:
            return backoff.delay_ms(failures, error)
        except BaseException as fault:
            _warn(spec, lease, "backoff", fault, backoff.function)
            return Backoff().delay_ms(failures, random)
    return backoff.delay_ms(failures, random)


def _warn(spec: TaskSpec, lease: Lease, kind: str, error: BaseException, function: Callable[..., object]) -> None:
    """Log once for each task that a function of its options failed. Its jobs ignore the function."""
    if kind not in spec.warned:
        spec.warned.add(kind)
        callback_failed(kind, error, function, queue=lease.record.queue, task=spec.name)


def _encoded(spec: TaskSpec, lease: Lease, value: object) -> bytes:
    """The result as bytes, or a note that says why there is none: the work was done, so it is not run again."""
    try:
        result: object = spec.encode_result(value)
    except PayloadInvalid as error:
        return _dropped(lease, describe(error), error.size)
    except BaseException as error:  # a hostile __iter__ or __str__ must not kill the worker
        return _dropped(lease, describe(error))
    if not isinstance(result, bytes):
        text = f"encode_result gave {type(result).__name__}, expected bytes"
        return _dropped(lease, ErrorInfo("TypeError", text))
    if len(result) > limits.MAX_RESULT:
        text = f"The result has {len(result):,} bytes, the limit is {limits.MAX_RESULT:,}."
        return _dropped(lease, ErrorInfo("ResultTooLarge", text), len(result))
    return result


def _dropped(lease: Lease, error: ErrorInfo, size: int | None = None) -> bytes:
    """Say that a result cannot be kept, and leave a note in its place. `size`: its bytes, where they are too many."""
    record, most = lease.record, None if size is None else limits.MAX_RESULT
    about: dict[str, object] = {"queue": record.queue, "task": record.task, "id": record.id}
    log_event("result_dropped", **about, error=error.type, size=size, most=most)
    return note(error)


def _reason(error: JobCancelled) -> str:
    try:
        return cut(str(error.reason), limits.MAX_ERROR_TEXT)
    except BaseException:  # a subclass that does not call the constructor, or a reason that cannot be printed
        return ""


def note(error: ErrorInfo) -> bytes:
    """What stands in the place of a result that could not be kept."""
    return json.dumps({"leasehold_note": {"type": error.type, "message": error.message}}).encode()
