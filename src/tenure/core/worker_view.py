"""A worker as it describes itself, and where its handlers are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tenure.core.latency import Times
from tenure.core.rates import LimitRule


@dataclass(frozen=True, slots=True)
class JobStack:
    """Where the handler of a running job is. `text`: its frames, the innermost last, without local variables."""

    queue: str
    id: str
    task: str | None
    text: str


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker as it last described itself, and how many jobs it holds, without those on a lost node of a cluster.

    `alone`: it claims no jobs for now, because it runs a job alone, or prepares to. `times`: how long the
    jobs of each queue took; `app.inspect.latency` adds them up. `limits`: those that its code names, up to 100.
    `tasks`: those that it runs; None: they are not known, or too many. `awaiting`: how many of its jobs wait for the
    result of another job, in its own process. `stacks`: where its handlers were at `stacks_ms`, for some minutes after
    `app.inspect.stacks` asked. `batches`: how many jobs one slot runs together, of each queue with a batch handler.
    """

    id: str
    queues: tuple[str, ...]
    host: str
    pid: int
    started_ms: int
    seen_ms: int
    concurrency: int
    active: int = 0
    quiet: bool = False
    alone: bool = False
    times: Mapping[str, Times] = field(default_factory=dict)
    limits: tuple[LimitRule, ...] = ()
    tasks: tuple[str, ...] | None = None
    awaiting: int = 0
    stacks: tuple[JobStack, ...] = ()
    stacks_ms: int | None = None
    batches: Mapping[str, int] = field(default_factory=dict)
