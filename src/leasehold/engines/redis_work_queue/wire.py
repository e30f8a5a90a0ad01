"""What the scripts are told about jobs and outcomes, cut into calls of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from leasehold.core import limits
from leasehold.core.errors import UnsupportedFeature
from leasehold.core.job import ErrorInfo, Lease, NewJob
from leasehold.core.outcome import (
    Broken,
    Cancelled,
    Completed,
    Crashed,
    Failed,
    Outcome,
    Released,
    Retried,
    Unroutable,
)
from leasehold.core.shape import PLAIN
from leasehold.core.steps import Arg
from leasehold.engines.redis_work_queue.records import RAW, as_bytes, write_data, write_error

NAME = "redis-work-queue"


@dataclass(frozen=True, slots=True)
class Part:
    """What one job contributes to a call for many: where its answer belongs, its arguments, about how many bytes."""

    position: int
    args: tuple[Arg, ...]
    size: int


def unsupported(asked: str) -> UnsupportedFeature:
    return UnsupportedFeature(
        f"The protocol {NAME!r} cannot hold {asked}. Leave it out, or use a protocol that has it, such as the native "
        "one."
    )


def new_part(position: int, job: NewJob) -> Part:
    """id data, as lua/enqueue.lua takes them. Raises `UnsupportedFeature` for what an item cannot hold."""
    shape = job.shape
    if job.delay_ms > 0 or job.run_at_ms is not None:
        raise unsupported("a delay")
    if shape is not PLAIN and shape != PLAIN:
        asked = (
            ("lanes", shape.lane),
            ("priorities", shape.priority),
            ("unique jobs", shape.unique),
            ("persistent jobs", shape.persistent),
        )
        raise unsupported(next((name for name, value in asked if value), "a lane limit"))
    data = write_data(job)
    return Part(position, (as_bytes(job.id), data), len(data))


def outcome_part(position: int, lease: Lease, outcome: Outcome) -> Part:
    """id token kind ms task body, as lua/settle.lua takes them."""
    kind, ms, task, body = _outcome_args(lease, outcome)
    return Part(position, (as_bytes(lease.record.id), lease.token, kind, ms, task, body), len(body))


def _outcome_args(lease: Lease, outcome: Outcome) -> tuple[str, int, str, bytes]:
    match outcome:
        case Completed():
            return "c", 0, "", b""
        case Retried():
            return "r", outcome.delay_ms, "", write_error(outcome.error)
        case Failed():
            return "f", 0, "", write_error(outcome.error)
        case Broken():
            return "b", 0, "", write_error(outcome.error)
        case Released():
            return "l", 0, "", b""
        case Crashed():
            return "k", 0, "", b""
        case Unroutable():
            return "u", 0, lease.record.task or RAW, b""
        case Cancelled():
            return "x", 0, "", write_error(ErrorInfo("Cancelled", outcome.reason))
        case _:
            assert_never(outcome)


def chunks(parts: list[Part]) -> Iterator[list[Part]]:
    """Cut into calls of bounded count and size."""
    chunk: list[Part] = []
    size = 0
    for part in parts:
        if chunk and (len(chunk) >= limits.MAX_BATCH or size + part.size > limits.MAX_CALL_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(part)
        size += part.size
    if chunk:
        yield chunk
