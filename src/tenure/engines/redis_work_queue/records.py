"""How the notes about an item are read. Its data is the envelope of `engines.kit.envelope`, or a raw payload.

attempts <failures> <crashes> <hash of the data>[ <crashes that only it can have caused>]
         [ e<expired leases of the drop-in>][\\n<error>]
leased   <token> <deadline_ms> <claimed_ms> <slots, h, n, x<ms> or y<ms>> <hash> <worker>  (x, y: alone)
lease    <token> <worker>, or ~<due_ms> of a retry, or the value of another client
ended    <state> <ended_ms> <expires_ms> <failures> <crashes> <token> <claimed_ms> <worker or task>\\n<error>
"""

from __future__ import annotations

from typing import Any

from tenure.core.job import JobRecord, JobView, State
from tenure.engines.kit.encoding import as_text, number_of, read_error
from tenure.engines.kit.envelope import read_record
from tenure.engines.kit.suspects import why_it_waits


def read_view(queue: str, id: bytes, row: list[Any], alone_from: int) -> JobView:
    """Read what `show` and `page` return for one item: state, data, attempts, due, lease, claim, end.
    A missing part is empty. `alone_from`: a job with this number of crashes runs alone."""
    state, data, attempts, due, lease, claim, end = row
    record = read_record(queue, id, data)
    if end:
        return _read_end(record, end)
    head, _, error = attempts.partition(b"\n")
    failures, crashes, _, known = ([number_of(word) or 0 for word in head.split(b" ")] + [0] * 4)[:4]
    ready = state == State.READY.value.encode()
    worker, token, started = _holder(lease, claim)
    return JobView(
        record.id,
        queue,
        State(state.decode()),
        task=record.task,
        payload=record.payload,
        headers=record.headers,
        timeout_ms=record.timeout_ms,
        failures=failures,
        crashes=crashes,
        due_ms=int(float(due)) if due else None,
        worker=worker,
        token=token,
        started_ms=started,
        error=read_error(error) if error else None,
        waits=why_it_waits(crashes - known, alone_from) if ready else None,
    )


def _holder(lease: bytes, claim: bytes) -> tuple[str | None, int | None, int | None]:
    """Worker, token and start. The worker of another client is the value of its lease."""
    fields = claim.split(b" ", 5)
    if len(fields) == 6 and (not lease or lease.startswith(fields[0] + b" ")):
        return as_text(fields[5]), number_of(fields[0]), number_of(fields[2])
    if not lease or lease.startswith(b"~"):
        return None, None, None
    return as_text(lease), None, None


def _read_end(record: JobRecord, end: bytes) -> JobView:
    line, _, body = end.partition(b"\n")
    state, ended, expires, failures, crashes, token, claimed, *who = [*line.split(b" ", 7), *[b""] * 7][:8]
    parked = state == State.UNROUTABLE.value.encode()
    worker = as_text(who[0]) if who and who[0] not in (b"", b"-") and not parked else None
    return JobView(
        record.id,
        record.queue,
        State(state.decode()),
        task=record.task,
        payload=record.payload,
        headers=record.headers,
        failures=number_of(failures) or 0,
        crashes=number_of(crashes) or 0,
        worker=worker,
        token=None if parked else number_of(token),
        started_ms=None if parked else number_of(claimed),
        ended_ms=None if parked else number_of(ended),
        expires_ms=None if parked else number_of(expires),
        error=read_error(body) if body else None,
    )
