"""How a job is written as a task of worqr, and how the notes about a task are read.

A raw payload is the task, as it is. A call is the JSON envelope that all formats share. A persistent job is an envelope
with a mark of its own right behind the version, since the wire has none:

    {"tenure":1,"persistent":true,"task":"shop.watch","args":[],"kwargs":{}}
"""

from __future__ import annotations

import hashlib
from typing import Final

from msgspec import json, structs

from tenure.core.job import JobRecord, NewJob
from tenure.core.shape import Shape
from tenure.engines.kit import envelope

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
