"""How an attempt ended, as an outcome: pure functions from what a handler returned or raised to what is settled."""

from __future__ import annotations

import json
import math
import traceback
from collections.abc import Callable, Iterator
from types import CoroutineType

from leasehold.core import limits
from leasehold.core.errors import Fail, JobCancelled, Retry
from leasehold.core.job import ErrorInfo, Lease
from leasehold.core.outcome import Broken, Cancelled, Completed, Failed, Outcome, Retried
from leasehold.core.task import TaskSpec
from leasehold.core.text import cut

Random = Callable[[], float]
CHAIN_MAX = 5
"""Causes and members of groups that are described beside the error itself."""
FRAMES_MAX = 30


def judge_value(spec: TaskSpec, lease: Lease, value: object, random: Random, asked: str | None = None) -> Outcome:
    """What a returned value means. `asked`: the job was to be cancelled, for this reason; a result counts all the same.

    Not that of a persistent job: it would be run again, and to return is how its handler does what it was asked for.
    """
    if isinstance(value, (Retry, Fail, JobCancelled)):
        return judge_error(spec, lease, value, random, asked)
    if isinstance(value, CoroutineType) and closed(value):
        error = TypeError("a sync handler returned a coroutine: declare it `async def`")
        return judge_error(spec, lease, error, random, asked)
    if asked is not None and lease.record.shape.persistent:
        return Cancelled(asked)
    if spec.result_ttl_ms == 0:
        return Completed(b"", 0)
    return Completed(_encoded(spec, value), spec.result_ttl_ms)


def closed(value: object) -> bool:
    """Whether the value is a coroutine, which is closed then: nobody will await it."""
    if isinstance(value, CoroutineType):
        value.close()
        return True
    return False


def judge_error(
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
    if isinstance(error, Fail):
        return Failed(info)
    return _again(spec, lease, info, random, error.delay if isinstance(error, Retry) else None)


def judge_timeout(
    spec: TaskSpec, lease: Lease, seconds: float | None, random: Random, asked: str | None = None
) -> Outcome:
    """The attempt took longer than it may: a failure like any other."""
    if asked is not None:
        return Cancelled(asked)
    after = "" if seconds is None else f" after {seconds:g} s"
    return _again(spec, lease, ErrorInfo("Timeout", f"The attempt was ended{after}."), random, None)


def judge_payload(error: BaseException) -> Outcome:
    """The payload could not be decoded. Kept whole, with the reason; trying again would not help."""
    return Broken(describe(error))


def _again(spec: TaskSpec, lease: Lease, info: ErrorInfo, random: Random, delay: object) -> Outcome:
    retries = lease.record.retries if lease.record.retries is not None else spec.retries
    if lease.failures >= retries and not lease.record.shape.persistent:
        return Failed(info)
    # `Retry` has checked it, but the attribute may have been set since, and to raise here would cost the slot.
    if isinstance(delay, (int, float)) and math.isfinite(delay):
        delay_ms = round(max(0.0, delay) * limits.SECOND)
    else:
        delay_ms = spec.backoff.delay_ms(lease.failures + 1, random)
    return Retried(info, min(delay_ms, limits.MAX_DELAY_MS))


def _encoded(spec: TaskSpec, value: object) -> bytes:
    """The result as bytes, or a note that says why there is none: the work was done, so it is not run again."""
    try:
        result: object = spec.encode_result(value)
    except BaseException as error:  # a hostile __iter__ or __str__ must not kill the worker
        return note(describe(error))
    if not isinstance(result, bytes):
        return note(ErrorInfo("TypeError", f"encode_result gave {type(result).__name__}, expected bytes"))
    if len(result) > limits.MAX_RESULT:
        text = f"The result has {len(result):,} bytes, the limit is {limits.MAX_RESULT:,}."
        return note(ErrorInfo("ResultTooLarge", text))
    return result


def _reason(error: JobCancelled) -> str:
    try:
        return cut(str(error.reason), limits.MAX_ERROR_TEXT)
    except Exception:  # a subclass that does not call the constructor, or a reason that cannot be printed
        return ""


def note(error: ErrorInfo) -> bytes:
    """What stands in the place of a result that could not be kept."""
    return json.dumps({"leasehold_note": {"type": error.type, "message": error.message}}).encode()


def describe(error: BaseException) -> ErrorInfo:
    """The error as bounded text. Survives an error that cannot be printed."""
    try:
        return ErrorInfo(_name(error), _message(error), _traceback(error))
    except BaseException:
        return ErrorInfo("Error", "an error that cannot be described")


def _name(error: BaseException) -> str:
    kind = type(error)
    name = (
        kind.__qualname__
        if kind.__module__ in ("builtins", "leasehold.core.errors")
        else f"{kind.__module__}.{kind.__qualname__}"
    )
    return cut(name, limits.MAX_NAME)


def _message(error: BaseException) -> str:
    try:
        return cut(str(error), limits.MAX_ERROR_TEXT)
    except BaseException:
        return f"<{type(error).__qualname__} cannot be printed>"


def _traceback(error: BaseException) -> str:
    own = error.__traceback__
    if own is not None:
        own = own.tb_next  # the first frame is the worker's
    blocks = []
    for link, trace in [(error, own), *((other, other.__traceback__) for other in _related(error))]:
        frames = "".join(traceback.format_tb(trace, limit=-FRAMES_MAX))
        blocks.append(f"{frames}{_name(link)}: {_message(link)[:1000]}")
    if own is None and len(blocks) == 1:
        return ""
    return cut("\n\nwith or caused by:\n".join(blocks), limits.MAX_TRACEBACK)


def _related(error: BaseException) -> Iterator[BaseException]:
    """Members of a group, then causes, the nearest first; at most `CHAIN_MAX`, and each once."""
    seen, line = {id(error)}, [error]
    for link in line:
        members = list(link.exceptions[:CHAIN_MAX]) if isinstance(link, BaseExceptionGroup) else []
        cause = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
        for other in [*members, *([cause] if cause is not None else [])]:
            if id(other) not in seen and len(seen) <= CHAIN_MAX:
                seen.add(id(other))
                line.append(other)
                yield other
