"""How jobs and outcomes are written for the scripts."""

from __future__ import annotations

from typing import Final

from tenure.core import limits
from tenure.core.job import Lease, NewJob
from tenure.core.outcome import Outcome
from tenure.core.steps import Command
from tenure.engines.kit.chunks import Part
from tenure.engines.kit.encoding import RAW, as_bytes
from tenure.engines.kit.envelope import write_data
from tenure.engines.kit.outcomes import encode_outcome

NAME: Final = "redis-work-queue"


def take_while_waiting(prefix: str, block_ms: int) -> Command:
    """Wait for an id in the queue, and move it to where the claim behind this command takes it first."""
    text = f"{block_ms / limits.SECOND:.3f}"
    return Command(("BLMOVE", f"{prefix}:queue", f"{prefix}:taken", "RIGHT", "LEFT", text), block_ms=block_ms)


def new_part(position: int, job: NewJob) -> Part:
    """id data, as lua/enqueue.lua takes them."""
    data = write_data(job)
    return Part(position, (as_bytes(job.id), data), len(data))


def outcome_part(position: int, lease: Lease, outcome: Outcome) -> Part:
    """id token kind ms task body size, as lua/settle.lua takes them."""
    kind, ms, body = encode_outcome(outcome)
    if kind == "c":
        ms, body = 0, b""  # of what is completed nothing is kept
    task = lease.record.task or RAW if kind == "u" else ""
    size = len(lease.record.payload)
    return Part(position, (as_bytes(lease.record.id), lease.token, kind, ms, task, body, size), len(body))
