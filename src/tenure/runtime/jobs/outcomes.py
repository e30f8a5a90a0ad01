"""The outcome of an attempt: functions from what a handler returned or raised to what is settled.

They call the functions in a task's options, and log it when one of these fails or a result is dropped.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from types import CoroutineType
from typing import Final

from tenure.core import limits, rates
from tenure.core.backoff import Backoff, OwnBackoff
from tenure.core.encoding.codec import NOTE_KEY
from tenure.core.errors import PayloadInvalid
from tenure.core.features import Feature
from tenure.core.flows import wants_result
from tenure.core.job import ErrorInfo
from tenure.core.outcome import Broken, Cancelled, Completed, Failed, Outcome, Retried
from tenure.core.retries import RetryRule
from tenure.core.signals import Fail, JobCancelled, RateLimited, Retry, Snooze
from tenure.core.task import TaskSpec
from tenure.core.text import cut
from tenure.core.unsupported import unsupported
from tenure.runtime.errors import describe as describe
from tenure.runtime.jobs.held import Held
from tenure.runtime.log import callback_failed, log_event

Random = Callable[[], float]
_NOT_KEPT: Final = Completed(b"", 0)
_NOTE: Final = b'{"%b"' % NOTE_KEY.encode()
"""How a note begins that stands in the place of a result."""
_CHOICES: Final = (Retry, Snooze, RateLimited, Fail, JobCancelled)


def outcome_of_return(held: Held, value: object, random: Random) -> Outcome:
    """The outcome of a returned value. A result counts also after a cancel request.

    Except for a persistent job: it would run again, and returning is how its handler obeys the request.
    """
    if value is not None:
        if isinstance(value, type) and issubclass(value, _CHOICES):
            return outcome_of_error(held, _made(value), random)
        if isinstance(value, _CHOICES):
            return outcome_of_error(held, value, random)
        if isinstance(value, CoroutineType) and closed(value):
            text = "a sync handler returned a coroutine: declare it `async def`"
            return outcome_of_error(held, TypeError(text), random)
    if held.cancelled is not None and held.persistent:
        return Cancelled(held.cancelled)
    if held.spec.result_ttl_ms == 0 and held.spec.on_success is None and not wants_result(held.lease.record.shape):
        return Completed(b"", 0, held.follow, held.flows) if held.follow or held.flows else _NOT_KEPT
    result = _encoded(held, value)
    if result.startswith(_NOTE) and wants_result(held.lease.record.shape):
        return Failed(ErrorInfo("ResultError", "The flow needs the result, which cannot be stored."))
    return Completed(result, held.spec.result_ttl_ms, held.follow, held.flows)


def _made(kind: type[BaseException]) -> BaseException:
    """`return Retry` means `raise Retry`. A class that needs arguments fails as `raise` would."""
    try:
        return kind()
    except BaseException as error:
        return error


def closed(value: object) -> bool:
    """Close the value if it is a coroutine, which no code will await. Return whether it is one."""
    if isinstance(value, CoroutineType):
        value.close()
        return True
    return False


def outcome_of_error(held: Held, error: BaseException, random: Random, info: ErrorInfo | None = None) -> Outcome:
    """The outcome of a raised error: a retry, or the end. `info`: the error as text, if it is known already."""
    if held.cancelled is not None:
        return Cancelled(held.cancelled)
    if isinstance(error, JobCancelled):
        return Cancelled(_reason(error))
    info = info or describe(error)
    if isinstance(error, Retry):
        return _again(held, error, info, random, error.delay)
    if isinstance(error, Snooze):
        if lacking := held.spec.protocol_without_snooze:
            return Failed(describe(unsupported(lacking, Feature.SNOOZE)))
        return Retried(info, _wait_ms(error.seconds, 0, limits.MAX_DELAY_MS), deferred=True)
    if isinstance(error, RateLimited):
        rest_ms = _wait_ms(error.retry_after, 1, rates.MAX_REST_MS)
        return Retried(
            info, rest_ms, deferred=not held.spec.protocol_without_snooze, limit=_limit_of(held, error.limit)
        )
    if isinstance(error, Fail) or not _worth_it(held, error):
        return Failed(info)
    return _again(held, error, info, random)


def outcome_of_timeout(held: Held, random: Random) -> Outcome:
    """The outcome of an attempt that took too long: a failure with a `TimeoutError`."""
    if held.cancelled is not None:
        return Cancelled(held.cancelled)
    text = "The attempt was ended" + ("." if held.timeout_s is None else f" after {held.timeout_s:g} s.")
    error, info = TimeoutError(text), ErrorInfo("Timeout", text)
    return _again(held, error, info, random) if _worth_it(held, error) else Failed(info)


def outcome_of_payload(error: BaseException) -> Outcome:
    """The outcome of a payload that cannot be decoded: the job is kept with the reason, and not retried."""
    return Broken(describe(error))


def _worth_it(held: Held, error: BaseException) -> bool:
    """Whether an error of this kind is retried at all. It is where the user's function fails."""
    rule = held.spec.retry_rule
    if rule is None:
        return True
    try:
        return rule.again(error)
    except BaseException as fault:
        _warn(held, "retry_rule", fault, _function_of(rule, held.spec))
        return True


def _function_of(rule: RetryRule, spec: TaskSpec) -> Callable[..., object]:
    """The user's function in a rule. If the rule has only classes, one of these has failed: the task's function."""
    functions = (one for one in (rule.never, rule.on) if callable(one) and not isinstance(one, type))
    return next(functions, spec.function)


def _again(held: Held, error: BaseException, info: ErrorInfo, random: Random, delay: object = None) -> Outcome:
    own = held.lease.record.retries
    if held.lease.failures >= (held.spec.retries if own is None else own) and not held.persistent:
        return Failed(info)
    # `Retry` has checked it, but the attribute may have been set since, and an error here would cost the slot.
    if isinstance(delay, (int, float)) and math.isfinite(delay):
        delay_ms = round(max(0.0, delay) * limits.SECOND)
    else:
        delay_ms = _backoff_ms(held, error, random)
    return Retried(info, min(delay_ms, limits.MAX_DELAY_MS))


def _limit_of(held: Held, name: object) -> str | None:
    """The limit that is to rest; None for a name that neither the job nor the code has: it is mistyped."""
    if not isinstance(name, str):
        return None
    own, code = held.lease.record.shape.limits, held.spec.limits
    if not code or any(rule.name == name for rule in own) or any(rates.names_limit(one.template, name) for one in code):
        return name
    if "limit" not in held.spec.warned:
        held.spec.warned.add("limit")
        log_event("limit_unknown", queue=held.lease.record.queue, task=held.spec.name, limit=name)
    return None


def _wait_ms(seconds: object, least_ms: int, most_ms: int) -> int:
    """As `Snooze` and `RateLimited` have checked it, unless the attribute has been set since."""
    if not isinstance(seconds, (int, float)) or not math.isfinite(seconds):
        return limits.SECOND
    return min(max(least_ms, round(seconds * limits.SECOND)), most_ms)


def _backoff_ms(held: Held, error: BaseException, random: Random) -> int:
    backoff, failures = held.spec.backoff, held.lease.failures + 1
    if isinstance(backoff, OwnBackoff):
        try:
            return backoff.delay_ms(failures, error)
        except BaseException as fault:
            _warn(held, "backoff", fault, backoff.function)
            return Backoff().delay_ms(failures, random)
    return backoff.delay_ms(failures, random)


def _warn(held: Held, kind: str, error: BaseException, function: Callable[..., object]) -> None:
    """Log once for each task that a function of its options failed. Its jobs ignore the function."""
    spec = held.spec
    if kind not in spec.warned:
        spec.warned.add(kind)
        callback_failed(kind, error, function, queue=held.lease.record.queue, task=spec.name)


def _encoded(held: Held, value: object) -> bytes:
    """The result as bytes, or a note why it has no bytes: the work is done, so the job does not run again."""
    try:
        result: object = held.spec.encode_result(value)
    except PayloadInvalid as error:
        return _dropped(held, value, describe(error), error.size)
    except BaseException as error:  # from a hostile __iter__ or __str__
        return _dropped(held, value, describe(error))
    if not isinstance(result, bytes):
        text = f"encode_result gave {type(result).__name__}, expected bytes"
        return _dropped(held, value, ErrorInfo("TypeError", text))
    if len(result) > limits.MAX_RESULT:
        text = f"The result has {len(result):,} bytes, the limit is {limits.MAX_RESULT:,}."
        return _dropped(held, value, ErrorInfo("ResultTooLarge", text), len(result))
    return result


def _dropped(held: Held, value: object, error: ErrorInfo, size: int | None = None) -> bytes:
    """Log that a result cannot be kept, and return a note in its place. `size`: its bytes, if they are too many."""
    record, most = held.lease.record, None if size is None else limits.MAX_RESULT
    about: dict[str, object] = {"queue": record.queue, "task": record.task, "id": record.id}
    log_event("result_dropped", **about, result=type(value).__qualname__, error=error.type, size=size, most=most)
    return json.dumps({NOTE_KEY: {"type": error.type, "message": error.message}}).encode()


def _reason(error: JobCancelled) -> str:
    try:
        return cut(str(error.reason), limits.MAX_ERROR_TEXT)
    except BaseException:  # a subclass that does not call the constructor, or a reason that cannot be printed
        return ""
