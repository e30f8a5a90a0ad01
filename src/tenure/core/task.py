"""How the runtime sees a task or a raw handler. The app builds these values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from tenure.core import limits
from tenure.core.backoff import Backoff, OwnBackoff
from tenure.core.errors import InvalidArgument, invalid
from tenure.core.flows import NewFlow
from tenure.core.functions import without_warning
from tenure.core.job import NewJob
from tenure.core.rates import LimitRule
from tenure.core.retries import RetryRule

Arguments: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and named arguments of one call."""


class Call(Protocol):
    """A call of a task, not yet enqueued."""

    @property
    def task(self) -> str: ...
    @property
    def payload(self) -> bytes: ...


@runtime_checkable
class FlowCall(Protocol):
    """A group or a chain, not yet enqueued."""

    is_flow: bool

    def following(self, client: Any, field: str, home: str = "", depth: int = 0) -> NewFlow:
        """Return it as a flow that follows a job. `home`, `depth`: of the flow that gets it as one more member."""


class BatchRule(Struct, frozen=True):
    """A raw handler with batches: it takes up to `size` jobs at once, as a list.

    `linger_ms`: how long a job waits for others to fill the batch. `one_lane`: a batch has only consecutive jobs of one
    lane, in their order.
    """

    size: int
    linger_ms: int = 0
    one_lane: bool = False


class RunIn(StrEnum):
    """Where a handler runs: on the worker's event loop, in one of its threads, or in a process that can be killed."""

    LOOP = "loop"
    THREAD = "thread"
    PROCESS = "process"


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """A registered function and its options.

    `name` None: the handler of a queue's raw payloads; `decode` is None then, and the function takes the `Job`.
    `decode` turns a payload into arguments and `encode_result` a return value into bytes; both raise `PayloadInvalid`.
    `timeout_ms` None: no limit. A job's own timeout or retries override these. `retry_rule` None: every error is
    retried. `on_failure` is called with the `Job` and an `ErrorInfo` after the job ended in `failed` or `broken`,
    `on_success` with the `Job` and the result, by `decode_result`, after it ended in `completed`.
    `run_in` None: `LOOP` if the function is async, else `THREAD`. `max_memory`: the most bytes that a job process may
    use; 0: no limit. `persistent`: the default of its jobs. `warned`: which of the user's functions (backoff, retry
    rule) have failed and were logged, so that each is logged once. `limits`: those in the code of the whole app, with
    their names as there. `protocol_without_snooze`: the wire format, if it cannot hold a `Snooze`; else empty.
    `follow` makes the job of a call that is to follow one of these jobs; it raises what the app refuses.
    """

    name: str | None
    queue: str
    function: Callable[..., Any]
    is_async: bool
    encode_result: Callable[[Any], bytes]
    decode: Callable[[bytes], Arguments] | None = None
    timeout_ms: int | None = limits.DEFAULT_TIMEOUT_MS
    retries: int = limits.DEFAULT_RETRIES
    backoff: Backoff | OwnBackoff = field(default_factory=Backoff)
    result_ttl_ms: int = limits.COMPLETED_TTL_MS
    batch: BatchRule | None = None
    retry_rule: RetryRule | None = None
    on_failure: Callable[..., object] | None = None
    on_success: Callable[..., object] | None = None
    decode_result: Callable[[bytes], Any] | None = None
    run_in: RunIn | None = None
    max_memory: int = 0
    persistent: bool = False
    warned: set[str] = field(default_factory=set, compare=False, repr=False)
    limits: tuple[LimitRule, ...] = ()
    protocol_without_snooze: str = ""
    follow: Callable[[Call | FlowCall, str, str, int], NewJob | NewFlow] | None = None


def not_a_call(value: object, field: str) -> InvalidArgument:
    """Return the error for something else in place of a call. For a group or a chain it names what to do instead."""
    rule = "a call of a task, as in report.call(...)"
    if getattr(value, "is_flow", False):
        kind = type(value).__name__.lower()
        return invalid(
            field, rule, f"a {kind}", f"Write a task that enqueues the {kind}, and give a call of this task."
        )
    return invalid(field, rule, without_warning(value))
