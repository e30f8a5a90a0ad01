"""How a job, its history and its end are written as text, and read back. Lua reads the first lines only.

record   <enqueued_ns> <task or *>[ h=<headers>][ t=<timeout_ms>][ r=<retries>][ d=1][ s=<planned_ms>][ <shape>]
         \\n<payload> (enqueued_ns: by Lua; headers: as the query of a URL; planned_ms: of a schedule's tick)
shape    [p=<priority>][ l=<lane>][ n=<lane limit>][ u=<mode>:<unique key>][ k=1][ m=<limits>][ g=<share>]
         [ x=<deadline>][ o=<the job that follows a bad end>]
         [ f=m/<the queue of its group>] (k: persistent; limits: see lua/limits/lib/limits.lua)
tries    <failures> <crashes>[ <crashes that only it can have caused>][\\n<errors>]
claim    <token> <claimed_ms> <slots; h: by hand; x<ms>, y<ms>: it runs alone for this time>[ <shape>]
end      <state> <ended_ms> <expires_ms> <failures> <crashes> <token> <worker> <claimed_ms>\\n<head>\\n<result or
         errors>
errors   of the failed attempts, the newest first, one a line; JSON: {"attempt", "at", "type", "message", "traceback"}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlencode

from msgspec.structs import replace

from tenure.core import limits
from tenure.core.job import ErrorInfo, JobRecord, JobView, NewJob, State
from tenure.core.rates import LimitRule
from tenure.core.shape import PLAIN, Progress, Shape, UniqueRule, Until
from tenure.engines.kit.encoding import RAW, as_text, message_of, number_of, read_error
from tenure.engines.kit.suspects import why_it_waits
from tenure.engines.native.config import HEADS_KEPT
from tenure.engines.native.keys import decoded, encoded


def write_record(job: NewJob) -> bytes:
    """The record of a new job, but for its time, which Redis' clock gives."""
    head = job.task or RAW
    if job.headers:
        head += f" h={urlencode(job.headers)}"
    if job.timeout_ms is not None:
        head += f" t={job.timeout_ms}"
    if job.retries is not None:
        head += f" r={job.retries}"
    if job.delay_ms or job.run_at_ms is not None:
        head += " d=1"
    if job.scheduled_ms is not None:
        head += f" s={job.scheduled_ms}"
    if job.shape is not PLAIN:
        head += _shape_words(job.shape)
    return head.encode() + b"\n" + job.payload


_HEADERS: Final = b" h="
_SCHEDULED: Final = b" s="
_EQUALS: Final = ord("=")
_MODES: Final = {Until.STARTED: "s", Until.ENDED: "e", Until.WINDOW: "w"}
_UNTILS: Final = {mode: until for until, mode in _MODES.items()}


@lru_cache(maxsize=HEADS_KEPT)
def _shape_words(shape: Shape) -> str:
    found = ((word, getattr(shape, word.field)) for word in _SHAPE_WORDS)
    return "".join([f" {word.letter}={word.write(value)}" for word, value in found if value != word.plain])


def _unique_word(rule: UniqueRule) -> str:
    return f"{_MODES[rule.until]}:{encoded(rule.key)}"


def _read_unique(word: str) -> UniqueRule | None:
    """The rule of a record. What an enqueue does on a conflict is not kept."""
    mode, _, key = word.partition(":")
    return UniqueRule(decoded(key), _UNTILS.get(mode, Until.ENDED)) if mode else None


def limit_words(limits: Iterable[LimitRule]) -> str:
    return ",".join(map(_limit_word, limits))


def _limit_word(rule: LimitRule) -> str:
    """As lua/lib/limits.lua reads it."""
    rate = f"{rule.interval_us}:{rule.burst}" if rule.interval_us is not None else ":"
    return f"{encoded(rule.name)}:{rule.cost}:{rule.concurrency or ''}:{rate}"


def _read_limit(word: str) -> LimitRule:
    name, cost, concurrency, interval, burst = word.split(":")
    most = int(concurrency) if concurrency else None
    return LimitRule(decoded(name), int(cost), most, int(interval) if interval else None, int(burst or 1))


def _read_limits(words: str) -> tuple[LimitRule, ...]:
    return tuple(map(_read_limit, words.split(",")))


def _flow_word(membership: str) -> str:
    """The letter in front of the slash stays: it is about the result of the member."""
    return membership[:2] + encoded(membership[2:])


class _Word(NamedTuple):
    """How a field of a shape stands in a record: `letter`=text, if it has another value than `plain`."""

    letter: str
    field: str
    write: Callable[[Any], str]
    read: Callable[[str], Any]
    plain: Any = None


_SHAPE_WORDS: Final = (
    _Word("p", "priority", str, int, 0),
    _Word("l", "lane", encoded, decoded),
    _Word("n", "lane_limit", str, int, 1),
    _Word("u", "unique", _unique_word, _read_unique),
    _Word("k", "persistent", lambda _: "1", lambda _: True, False),
    _Word("m", "limits", limit_words, _read_limits, ()),
    _Word("g", "share", encoded, decoded),
    _Word("x", "expires", str, str),
    _Word("o", "on_failed", str, str, ""),
    _Word("f", "flow", _flow_word, decoded, ""),
    _Word("a", "at_most_once", lambda _: "1", lambda _: True, False),
)


def read_record(queue: str, id: bytes, raw: bytes) -> JobRecord:
    """The record of a job. A malformed one is all payload, with the reason in `malformed`."""
    head, newline, payload = raw.partition(b"\n")
    enqueued, _, words = head.partition(b" ")
    name = id.decode("utf-8", "surrogateescape")  # `as_text`, without a call for each job
    own: dict[str, Any] | None = None
    if _EQUALS in words:  # most have no such word; looking for a byte costs little
        if words.find(_HEADERS) >= 0:
            words, text = _cut(words, _HEADERS)
            own = {"headers": dict(parse_qsl(as_text(text), keep_blank_values=True))}
        if words.find(_SCHEDULED) >= 0:
            words, text = _cut(words, _SCHEDULED)
            own = {**(own or {}), "scheduled_ms": number_of(text)}
    try:
        if not newline or not words:
            raise ValueError
        record = _read_words(words)
        if own:
            record = replace(record, **own)
        return replace(record, id=name, queue=queue, payload=payload, enqueued_ms=int(enqueued) // 1_000_000)
    except ValueError:
        return JobRecord(name, queue, raw, 0, malformed="the job's record does not begin as a record does")


def _cut(words: bytes, word: bytes) -> tuple[bytes, bytes]:
    """Take out a word that differs from job to job: `_read_words` would keep each line for nothing."""
    before, _, rest = words.partition(word)
    text, space, after = rest.partition(b" ")
    return before + space + after, text


@lru_cache(maxsize=HEADS_KEPT)
def _read_words(words: bytes) -> JobRecord:
    """A record with what the first lines of most jobs have in common."""
    task, *options = words.decode().split(" ")
    values = dict(option.split("=", 1) for option in options)
    shape = {word.field: word.read(values[word.letter]) for word in _SHAPE_WORDS if word.letter in values}
    return JobRecord(
        "",
        "",
        b"",
        0,
        delayed="d" in values,
        task=None if task == RAW else task,
        timeout_ms=_timeout(values["t"]) if "t" in values else None,
        retries=int(values["r"]) if "r" in values else None,
        shape=Shape(**shape) if shape else PLAIN,
    )


def _timeout(text: str) -> int:
    """Raises `ValueError` for what cannot be a timeout: a worker could not count with it."""
    timeout_ms = int(text)
    if not 0 <= timeout_ms <= limits.MAX_TIMEOUT_MS:
        raise ValueError
    return timeout_ms


def head_of(record: JobRecord) -> str:
    """The first line of a record, as far as it is worth keeping when the job has completed."""
    scheduled = "" if record.scheduled_ms is None else f" s={record.scheduled_ms}"
    words = "" if record.shape is PLAIN else _shape_words(record.shape)  # most are
    return f"{record.enqueued_ms}000000 {record.task or RAW}{scheduled}{words}"


def read_tries(raw: bytes | None) -> tuple[int, int, int, list[ErrorInfo]]:
    """Failures, crashes, those of them that others may have caused, and the errors, the newest first."""
    head, _, errors = (raw or b"").partition(b"\n")
    failures, crashes, known = ([number_of(word) or 0 for word in head.split(b" ")] + [0, 0, 0])[:3]
    return failures, crashes, crashes - known, _read_errors(errors)


def _read_errors(raw: bytes) -> list[ErrorInfo]:
    return [error for line in raw.split(b"\n") if line and (error := read_error(line)) is not None]


def read_view(queue: str, state: State, id: bytes, row: list[Any], alone_from: int) -> JobView:
    """A job as the inspecting scripts answer it: record, tries, due, worker, claim, end, progress, cancelling.

    Empty where not applicable. `alone_from`: from how many crashes on a job runs alone.
    """
    raw, tries, due, worker, claim, end, progress, cancelling, *more = row
    record = read_record(queue, id, raw) if raw else None
    if end:
        return _read_end(queue, state, id, record, end)
    failures, crashes, doubtful, errors = read_tries(tries)
    waits = None
    if state is State.READY:
        waits = why_it_waits(doubtful, alone_from)
        waits = _why_it_is_stopped(more[0]) or waits if more and more[0] else waits
    parts: list[bytes] = claim.split(b" ") if claim else []
    token, claimed, *_ = [*parts, b"", b""]
    return JobView(
        as_text(id),
        queue,
        state,
        task=record.task if record else None,
        payload=record.payload if record else None,
        timeout_ms=record.timeout_ms if record else None,
        failures=failures,
        crashes=crashes,
        enqueued_ms=record.enqueued_ms if record else None,
        due_ms=int(float(due)) if due else None,
        worker=as_text(worker) if worker else None,
        token=number_of(token),
        started_ms=number_of(claimed),
        error=errors[0] if errors else None,
        earlier_errors=tuple(errors[1:]),
        shape=record.shape if record else PLAIN,
        progress=read_progress(progress),
        cancelling=message_of(cancelling) if cancelling else None,
        waits=waits,
        headers=record.headers if record else None,
        delayed=record is not None and record.delayed,
        scheduled_for_ms=record.scheduled_ms if record else None,
    )


def _why_it_is_stopped(stop: bytes) -> str:
    """Why a job waits at a limit, as lua/lib/stopped.lua answers it."""
    name, taken, moment = as_text(stop).split(" ")
    waits = f"waits for limit {decoded(name)!r}"
    at_ms = int(float(moment))
    if at_ms:
        return f"{waits}, which lets the next job start at {datetime.fromtimestamp(at_ms / 1000, UTC):%H:%M:%S} UTC"
    return f"{waits}: jobs that run hold {int(taken):,} {'place' if taken == '1' else 'places'} of it"


def write_progress(progress: Progress) -> bytes:
    """All but its time, which Redis' clock gives."""
    total = "-" if progress.total is None else f"{progress.total:.17g}"
    return f"{progress.current:.17g} {total} {progress.text}".encode("utf-8", "surrogateescape")


def read_progress(raw: bytes) -> Progress | None:
    """None when there is none, or when it is malformed."""
    try:
        at, current, total, text = as_text(raw).split(" ", 3)
        return Progress(float(current), None if total == "-" else float(total), text, int(at))
    except ValueError:
        return None


def _read_end(queue: str, state: State, id: bytes, record: JobRecord | None, end: bytes) -> JobView:
    line, _, rest = end.partition(b"\n")
    head, _, body = rest.partition(b"\n")
    fields = [*line.split(b" "), *[b""] * 8][:8]
    if record is None:
        record = read_record(queue, id, head + b"\n")
    completed = state is State.COMPLETED
    errors = [] if completed else _read_errors(body)
    return JobView(
        as_text(id),
        queue,
        state,
        task=record.task,
        payload=None if completed else record.payload,
        failures=number_of(fields[3]) or 0,
        crashes=number_of(fields[4]) or 0,
        enqueued_ms=record.enqueued_ms,
        worker=as_text(fields[6]) if fields[6] not in (b"", b"-") else None,
        token=number_of(fields[5]),
        started_ms=number_of(fields[7]),
        ended_ms=number_of(fields[1]),
        expires_ms=number_of(fields[2]),
        result=body if completed else None,
        error=errors[0] if errors else None,
        earlier_errors=tuple(errors[1:]),
        shape=record.shape,
        headers=record.headers,
        scheduled_for_ms=record.scheduled_ms,
    )
