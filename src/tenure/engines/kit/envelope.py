"""The JSON envelope that formats share which keep a job as one text or byte string.

A raw payload is the data, as it is. The call of a task is JSON that other clients can read and write:

    {"tenure":1,"task":"shop.thumbnail","args":["cat.png"],"kwargs":{"size":64}}

with `timeout_ms`, `retries` and `headers` (an object of texts) where the job has its own. `text` or `base64` stand for
a payload that is no call. A raw payload is wrapped in this way only when it has a timeout, retries or headers of its
own, or when it would be taken for such an envelope. What has a version (a whole number) but no task, text or base64 is
other data, and left as it is. Data that begins like an envelope but is not JSON was an envelope that is cut short: it
is malformed, and never a raw payload.
"""

from __future__ import annotations

import base64
import binascii
import re
from functools import lru_cache
from typing import Final

import msgspec

from tenure.core import limits, names
from tenure.core.encoding.codec import Misfit, check_depth
from tenure.core.job import JobRecord, NewJob
from tenure.engines.kit.encoding import as_text

_VERSION: Final = 1
"""Of the envelope: the number that its key `tenure` has."""
_MARK: Final = b'"tenure"'
_HEAD: Final = b'{"tenure":1,'
"""How an envelope begins that Tenure has written."""
_BEGINNING: Final = re.compile(rb'[ \t\r\n]*\{[ \t\r\n]*"tenure"[ \t\r\n]*:[ \t\r\n]*-?\d+[ \t\r\n]*(?:,|\Z)')
"""How an envelope begins whose first field is its version, also if it is cut off after that."""
_WHOLE: Final = re.compile(rb"-?\d+")
_TASK: Final = re.compile(r"[A-Za-z0-9_.:][A-Za-z0-9_.:-]*")
_encode_json = msgspec.json.Encoder().encode


class _Envelope(msgspec.Struct):
    tenure: int
    task: str | None = None
    timeout_ms: int | None = None
    retries: int | None = None
    headers: dict[str, str] | None = None
    args: msgspec.Raw = msgspec.Raw(b"[]")
    kwargs: msgspec.Raw = msgspec.Raw(b"{}")
    text: str | None = None
    base64: str | None = None


class _Own(_Envelope, forbid_unknown_fields=True):
    """One with nothing else in it."""


_PAYLOADS: Final = ("task", "text", "base64")
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_own = msgspec.json.Decoder(_Own).decode
_decode_call = msgspec.json.Decoder(tuple[msgspec.Raw, msgspec.Raw]).decode


def write_data(job: NewJob | JobRecord) -> bytes:
    """The data of this job."""
    payload = job.payload
    bare = job.task is None and job.timeout_ms is None and job.retries is None and not job.headers
    if bare and not _is_envelope(payload):
        return payload
    words = ['{"tenure":1']
    if job.timeout_ms is not None:
        words.append(f'"timeout_ms":{job.timeout_ms}')
    if job.retries is not None:
        words.append(f'"retries":{job.retries}')
    if job.headers:
        words.append(f'"headers":{_json(dict(job.headers))}')
    if job.task is not None:
        words.append(f'"task":{_json(job.task)}')
    return ",".join(words).encode() + b"," + _body(payload, job.task is not None) + b"}"


def read_record(queue: str, id: bytes, data: bytes) -> JobRecord:
    """The job of data. An envelope that cannot be read is `malformed`, and comes back whole."""
    name = as_text(id)
    if data.startswith(_HEAD):
        # Most are as Tenure writes them: a second look at their form is saved.
        try:
            return _record(name, queue, _decode_own(data), data)
        except (msgspec.MsgspecError, Misfit, ValueError, RecursionError):
            pass
    if not _is_envelope(data):
        return JobRecord(name, queue, data, 0)
    try:
        return _record(name, queue, _decode_envelope(data), data)
    except (msgspec.MsgspecError, Misfit, ValueError, RecursionError) as error:
        ours = isinstance(error, Misfit) or type(error) is ValueError
        reason = str(error) if ours else "it is cut short, or not what an envelope is made of"
        return JobRecord(name, queue, data, 0, malformed=f"The envelope cannot be read: {reason}.")


def _record(id: str, queue: str, envelope: _Envelope, data: bytes) -> JobRecord:
    check_depth(data)
    if envelope.tenure != _VERSION:
        raise ValueError(f"its version is {names.shown(envelope.tenure)}; expected {_VERSION}")
    payload = _payload(envelope)
    if envelope.task is not None and not _names_a_task(envelope.task):
        raise ValueError("its task has no name that a task can have")
    timeout_ms = _within(envelope.timeout_ms, limits.MAX_TIMEOUT_MS, "timeout_ms")
    retries = _within(envelope.retries, limits.MAX_RETRIES, "retries")
    return JobRecord(
        id,
        queue,
        payload,
        0,
        task=envelope.task,
        timeout_ms=timeout_ms,
        retries=retries,
        headers=envelope.headers or None,
    )


@lru_cache(maxsize=256)
def _names_a_task(name: str) -> bool:
    return bool(_TASK.fullmatch(name)) and len(name) <= limits.MAX_NAME


def _is_envelope(data: bytes) -> bool:
    """Whether it has the form of one, of any version: an object with a whole number at `tenure`, and a payload.

    If it is not JSON (cut short), or is nested too deeply, its beginning decides.
    """
    if _MARK not in data or not data.lstrip(b" \t\r\n").startswith(b"{"):
        return False
    try:
        fields = _decode_fields(data)
    except (msgspec.ValidationError, UnicodeDecodeError):
        return False
    except (msgspec.DecodeError, RecursionError):
        return _BEGINNING.match(data) is not None
    version = _WHOLE.fullmatch(bytes(fields.get("tenure", b"")))
    return version is not None and any(bytes(fields.get(name, b"")).startswith(b'"') for name in _PAYLOADS)


def _body(payload: bytes, call: bool) -> bytes:
    if call:
        try:
            args, kwargs = _decode_call(payload)
            if bytes(args).startswith(b"[") and bytes(kwargs).startswith(b"{"):
                return b'"args":' + bytes(args) + b',"kwargs":' + bytes(kwargs)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            pass
    try:
        return b'"text":' + _encode_json(payload.decode())
    except UnicodeDecodeError:
        return b'"base64":"' + base64.b64encode(payload) + b'"'


def _payload(envelope: _Envelope) -> bytes:
    if envelope.task is None and envelope.text is None and envelope.base64 is None:
        raise ValueError("it holds neither a call nor a payload")
    if envelope.text is not None:
        return envelope.text.encode()
    if envelope.base64 is not None:
        try:
            return base64.b64decode(envelope.base64, validate=True)
        except binascii.Error:
            raise ValueError("its base64 is none") from None
    return b"[" + bytes(envelope.args) + b"," + bytes(envelope.kwargs) + b"]"


def _within(number: int | None, most: int, field: str) -> int | None:
    if number is not None and not 0 <= number <= most:
        raise ValueError(f"its {field} is not between 0 and {most}")
    return number


def _json(value: str | dict[str, str]) -> str:
    return _encode_json(value).decode()
