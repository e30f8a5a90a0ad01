"""How a job is written as the data of the original clients, and how it is read.

Data is JSON. A task is the envelope that all JSON protocols share. A raw payload is written as it is; one that is no
JSON is wrapped in such an envelope, for original workers would end it.
"""

from __future__ import annotations

import json
from typing import Any, Final

from msgspec import structs

from tenure.core.encoding.codec import is_json
from tenure.core.job import JobRecord, JobView, NewJob, State
from tenure.core.shape import Shape
from tenure.engines.kit.encoding import as_text, number_of, read_error
from tenure.engines.kit.envelope import read_record as read_envelope
from tenure.engines.kit.envelope import write_data as write_envelope
from tenure.engines.kit.suspects import why_it_waits
from tenure.engines.queue_farm.config import DEFAULT_ATTEMPTS, DEFAULT_TIMEOUT_MS, QueueFarmConfig

_LIMIT: Final = "l"
"""The caller set the timeout, so that it ends a run. Another client's timeout serves the search for stalled batches."""
_NO_TIMEOUT: Final = "t"
_NO_RETRIES: Final = "r"


def write_data(job: NewJob | JobRecord) -> bytes:
    """The data of this job."""
    bare = structs.replace(job, timeout_ms=None, retries=None)
    data = write_envelope(bare)
    if is_json(data):
        return data
    # The number makes the writer wrap the payload; readers do not need it.
    return write_envelope(structs.replace(bare, retries=0))


def numbers_of(job: NewJob) -> tuple[int, int, str]:
    """The timeout and the attempts on the wire, and how Tenure workers take them (`tenure:own`)."""
    own = (_NO_TIMEOUT if job.timeout_ms is None else _LIMIT) + (_NO_RETRIES if job.retries is None else "")
    timeout = DEFAULT_TIMEOUT_MS if job.timeout_ms is None else job.timeout_ms
    return timeout, DEFAULT_ATTEMPTS if job.retries is None else job.retries + 1, own


def read_record(queue: str, row: list[Any], apply_timeouts: bool) -> JobRecord:
    """The job in a row of lua/lib/jobs.lua. `apply_timeouts`: whether the timeout of another client's job limits it."""
    _, id, data, _, _, queued, timeout, attempts, own, lane = row[:10]
    record = read_envelope(queue, id, data)
    malformed = record.malformed
    if record.task is None and not malformed and not is_json(data) and not _is_json_of_node(data):
        malformed = "The data is not JSON."
    most = _whole(attempts)
    return structs.replace(
        record,
        enqueued_ms=number_of(queued) or 0,
        timeout_ms=_whole(timeout) if _LIMIT.encode() in own or (apply_timeouts and not own) else None,
        retries=None if _NO_RETRIES.encode() in own or most is None else max(0, most - 1),
        malformed=malformed,
        shape=Shape(lane=as_text(lane)),
    )


def _is_json_of_node(data: bytes) -> bool:
    """Whether Node reads the data: its JSON may have half of a surrogate pair, as in text that was cut."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        json.loads(data, parse_constant=refuse)
    except (ValueError, RecursionError):
        return False
    return True


def read_view(queue: str, row: list[Any], config: QueueFarmConfig) -> JobView:
    state, _, _, failures, crashes = row[:5]
    error, worker, token, started, ended, expires = row[10:16]
    record = read_record(queue, row, config.apply_timeouts)
    return JobView(
        record.id,
        queue,
        State(state.decode()),
        task=record.task,
        payload=record.payload,
        failures=int(failures),
        crashes=int(crashes),
        enqueued_ms=record.enqueued_ms or None,
        worker=as_text(worker) or None,
        token=number_of(token),
        started_ms=number_of(started),
        ended_ms=number_of(ended),
        expires_ms=number_of(expires),
        error=read_error(error) if error else None,
        shape=record.shape,
        timeout_ms=record.timeout_ms,
        headers=record.headers,
        waits=why_it_waits(int(row[17]), config.alone_from) if state == b"ready" else None,
    )


def _whole(text: bytes) -> int | None:
    """A number of another program; None for what is no whole number from 0 on."""
    return int(text) if text.isdigit() and len(text) <= 15 else None
