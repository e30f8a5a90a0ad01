"""How a job is written as the bytes of hworker, and how bytes are read.

A job is a JSON array of two, its id and a value: `["7d1c...", {"to": "a@example.org"}]`. The value is a raw payload as
it is, or the JSON envelope that the formats share: of a task, or of a payload that is no JSON.
"""

from __future__ import annotations

import json
from typing import Final

import msgspec
from msgspec import structs

from tenure.core.encoding.codec import is_json
from tenure.core.job import JobRecord, NewJob
from tenure.engines.kit import envelope
from tenure.engines.kit.encoding import as_text

NO_PAIR: Final = "It is not a JSON array of an id and a value."
_decode_pair = msgspec.json.Decoder(tuple[str, msgspec.Raw]).decode
_encode_id = msgspec.json.Encoder().encode
_lenient = json.JSONDecoder()


def write_job(id: str, job: NewJob | JobRecord) -> bytes:
    """The bytes of this job."""
    data = envelope.write_data(job)
    if not is_json(data):
        # The number makes the writer wrap the payload; readers do not need it.
        data = envelope.write_data(structs.replace(job, retries=0 if job.retries is None else job.retries))
    return b"[" + _encode_id(id) + b"," + data + b"]"


def read_job(queue: str, id: bytes, data: bytes) -> JobRecord:
    """The job of these bytes. Bytes that are no pair are `malformed`, and come back whole."""
    value = value_of(data)
    if value is None:
        return JobRecord(as_text(id), queue, data, 0, malformed=NO_PAIR)
    return envelope.read_record(queue, id, value)


def value_of(data: bytes) -> bytes | None:
    """The second member of a pair, as it was written; None for what is no pair."""
    try:
        return bytes(_decode_pair(data)[1])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    # Originals ignore what follows behind the array.
    try:
        text = data.decode()
        start = len(text) - len(text.lstrip(" \t\r\n"))
        _, end = _lenient.raw_decode(text, start)
        return bytes(_decode_pair(text[start:end].encode())[1]) if end < len(text) else None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
