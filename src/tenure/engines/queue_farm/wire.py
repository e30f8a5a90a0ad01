"""How jobs and outcomes are written for the scripts."""

from __future__ import annotations

from typing import Final, TypeVar

from tenure.core.errors import InvalidArgument, ReplyError, WrongState
from tenure.core.job import Dropped, Lease, NewJob
from tenure.core.outcome import Outcome
from tenure.core.steps import Steps
from tenure.engines.kit.chunks import Part
from tenure.engines.kit.encoding import RAW, as_bytes
from tenure.engines.kit.outcomes import encode_outcome
from tenure.engines.queue_farm.keys import check_lane
from tenure.engines.queue_farm.records import numbers_of, write_data

NAME: Final = "queue-farm"
T = TypeVar("T")
WRONG_KEY: Final = "TNKEY"
"""The first word of the error of a script that found another program's data in place of a lane."""
DELETED: Final = "deleted"
RETRY_LIMIT: Final = "retry-limit"
SPOILED: Final = "spoiled"
REASONS: Final = {
    DELETED: "it was deleted, or has no data",
    SPOILED: "the key holds data of another program, not a list: its lane is parked until the key is gone",
    RETRY_LIMIT: "it was started as often as it may be; see the failed jobs",
}


class FarmDropped(Dropped, frozen=True):
    """A job that a claim ended (`kind`: `DELETED` or `RETRY_LIMIT`), or the key of a lane that holds another program's
    data (`SPOILED`)."""

    lane: str = ""
    kind: str = ""


def naming_key(steps: Steps[T]) -> Steps[T]:
    """Raise `WrongState` with the key where a script found another program's data in place of a lane."""
    try:
        return (yield from steps)
    except ReplyError as error:
        if error.prefix != WRONG_KEY:
            raise
        key = str(error).removeprefix(f"{WRONG_KEY} ")
        raise WrongState(
            f"The key {key!r} holds data of another program, not the list of a queue. Other queues are not affected. "
            "Rename or delete the key, or use another namespace."
        ) from error


def new_part(position: int, job: NewJob, as_original: bool = False) -> Part:
    """id lane data timeout maxAttempts own, as lua/enqueue.lua takes them. `as_original`: the timeout limits no run."""
    data = write_data(job)
    timeout, attempts, own = numbers_of(job)
    args = as_bytes(job.id), as_bytes(job.shape.lane or ""), data, timeout, attempts, "" if as_original else own
    return Part(position, args, len(data))


def check_new(job: NewJob) -> None:
    """Raise `InvalidArgument` for a job without a lane, or with a limit of its lane."""
    check_lane(job.shape.lane)
    if job.shape.lane_limit != 1:
        raise InvalidArgument(
            f"A lane of queue-farm runs one batch at a time; lane_limit must be 1, not {job.shape.lane_limit}."
        )


def outcome_part(position: int, lease: Lease, outcome: Outcome) -> Part:
    """id token kind ms body, as lua/settle.lua takes them."""
    kind, ms, body = encode_outcome(outcome)
    if kind == "c":
        ms, body = 0, b""  # no result has a place here
    elif kind == "u":
        body = as_bytes(lease.record.task or RAW)
    args = (as_bytes(lease.record.id), lease.token, kind, ms, body)
    size = len(body) + (len(lease.record.payload) if kind in "fbx" else 0)
    return Part(position, args, size, group=lease.group)
