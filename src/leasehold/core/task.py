"""What a worker needs to know of a task or of a raw handler. The app makes it, the runtime reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

from leasehold.core import limits
from leasehold.core.backoff import Backoff, OwnBackoff
from leasehold.core.retries import RetryRule

Arguments: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and named arguments of one call."""


@dataclass(frozen=True, slots=True)
class BatchRule:
    """That a raw handler takes up to `size` jobs at once, as a list.

    `linger_ms`: for how long a job waits for others to fill the batch. `one_lane`: only jobs that follow each other in
    one lane are put together; they come in its order.
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
    """A registered function, and how its jobs are to be run.

    `name` None: the handler of a queue's raw payloads; `decode` is None then, and the function takes the `Job`.
    `decode` turns a payload into arguments and `encode_result` a return value into bytes; both raise `PayloadInvalid`.
    `timeout_ms` None: no limit. A job that carries its own timeout or retries overrides these. `retry_rule` None: every
    error is tried again. `on_failure` is called with the `Job` and an `ErrorInfo` when a job failed for good or broke.
    `run_in` None: `LOOP` when it is async, else `THREAD`. `max_memory`: bytes that a job in a process of its own may
    take; 0: no limit. `persistent`: its jobs are so by default.
    `warned`: what of its functions (backoff, retry rule) has been told to fail, so that it is told once.
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
    run_in: RunIn | None = None
    max_memory: int = 0
    persistent: bool = False
    warned: set[str] = field(default_factory=set, compare=False, repr=False)
