"""What a worker needs to know of a task or of a raw handler. The app makes it, the runtime reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from leasehold.core import limits
from leasehold.core.backoff import Backoff

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


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """A registered function, and how its jobs are to be run.

    `name` None: the handler of a queue's raw payloads; `decode` is None then, and the function takes the `Job`.
    `decode` turns a payload into arguments and `encode_result` a return value into bytes; both raise `PayloadInvalid`.
    `timeout_ms` None: no limit. A job that carries its own timeout or retries overrides these.
    """

    name: str | None
    queue: str
    function: Callable[..., Any]
    is_async: bool
    encode_result: Callable[[Any], bytes]
    decode: Callable[[bytes], Arguments] | None = None
    timeout_ms: int | None = limits.DEFAULT_TIMEOUT_MS
    retries: int = limits.DEFAULT_RETRIES
    backoff: Backoff = field(default_factory=Backoff)
    result_ttl_ms: int = limits.COMPLETED_TTL_MS
    batch: BatchRule | None = None
