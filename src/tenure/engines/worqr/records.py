"""How a job is written as a task of worqr, and how what lies beside a task is read.

A raw payload is the task, as it is. A call is the JSON envelope that all formats share. A persistent job is an envelope
with a mark of its own right behind the version, since the wire has none:

    {"tenure":1,"persistent":true,"task":"shop.watch","args":[],"kwargs":{}}
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from msgspec import json, structs

from tenure.core.job import JobRecord, JobView, NewJob, State
from tenure.core.shape import PLAIN, Shape
from tenure.engines.kit import envelope
from tenure.engines.kit.encoding import as_text, message_of, number_of, read_error
from tenure.engines.kit.suspects import why_it_waits

_HEAD: Final = b'{"tenure":1,'
_PERSISTENT: Final = b'"persistent":true,'
_MARKED: Final = _HEAD + _PERSISTENT
"""How the task of a persistent job begins: lua/lib/jobs.lua knows it, too."""
_PERSISTENT_SHAPE: Final = Shape(persistent=True)


def name_of(task: bytes) -> str:
    """The id of a job that waits."""
    return hashlib.sha1(task, usedforsecurity=False).hexdigest()


def md5_of(task: bytes) -> str:
    """What the marker of a unique task is named by."""
    return hashlib.md5(task, usedforsecurity=False).hexdigest()


def write_task(job: NewJob | JobRecord) -> bytes:
    """The task that holds this job."""
    data = envelope.write_data(job)
    if not job.shape.persistent:
        return data
    if not data.startswith(_HEAD):
        data = _HEAD + b'"text":' + json.encode(data.decode()) + b"}"
    return _MARKED + data.removeprefix(_HEAD)


def read_task(queue: str, id: str, task: bytes) -> JobRecord:
    """The job of a task. An envelope that cannot be read is `malformed`, and comes back whole."""
    if not task.startswith(_MARKED):
        return envelope.read_record(queue, id.encode("utf-8", "surrogateescape"), task)
    record = envelope.read_record(queue, b"", _HEAD + task.removeprefix(_MARKED))
    if record.malformed:
        return structs.replace(record, id=id, payload=task)
    return structs.replace(record, id=id, shape=_PERSISTENT_SHAPE)


def md5_of_record(record: JobRecord) -> str:
    """The MD5 of the task that this record was read from, if Tenure wrote it."""
    return md5_of(record.payload if record.malformed else write_task(record))


def read_view(queue: str, row: list[Any], alone_from: int) -> JobView:
    """A row of lua/lib/view.lua. `alone_from`: from how many crashes on a job runs alone."""
    id, state, task, failures, crashes, doubtful, error, due, worker, token, started, ended, expires, cancel = row
    record = read_task(queue, as_text(id), task)
    ready = state == State.READY.value.encode()
    return JobView(
        record.id,
        queue,
        State(state.decode()),
        task=record.task,
        payload=record.payload,
        timeout_ms=record.timeout_ms,
        failures=failures,
        crashes=crashes,
        due_ms=int(float(due)) if due else None,
        worker=as_text(worker) or None,
        token=number_of(token),
        started_ms=number_of(started),
        ended_ms=number_of(ended),
        expires_ms=number_of(expires),
        error=read_error(error) if error else None,
        shape=record.shape if record.shape.persistent else PLAIN,
        cancelling=message_of(cancel) if cancel else None,
        waits=why_it_waits(doubtful, alone_from) if ready else None,
    )
