"""How jobs and outcomes are written for the scripts, and how the answer of an enqueue is read."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, TypeAlias

from tenure.core.errors import QueueFull, ReplyError
from tenure.core.flows import Callback, Element, NewFlow, home_of, is_only_member
from tenure.core.job import Enqueued, JobRecord, Lease, NewJob
from tenure.core.outcome import Completed, Outcome, Retried
from tenure.core.shape import PLAIN, Conflict, Until
from tenure.core.steps import Arg
from tenure.engines.kit.chunks import Part, args_of, weight_of
from tenure.engines.kit.config import LARGE_BYTES
from tenure.engines.kit.encoding import as_bytes, as_text
from tenure.engines.kit.outcomes import encode_outcome
from tenure.engines.native.keys import encoded
from tenure.engines.native.records import head_of, write_record

_LETTERS: Final = {
    Conflict.REJECT: "j",
    Conflict.EXISTING: "e",
    Conflict.REPLACE: "p",
    Conflict.RERUN: "a",
    Conflict.POSTPONE: "d",
}
_ELSEWHERE: Final = ord("?")
_CONFLICTS: Final = {ord(letter): conflict for conflict, letter in _LETTERS.items()}


WOKE: Final = b"!"
"""The end of the answer of lua/enqueue.lua when the queue had no jobs to claim before."""
OUTDATED: Final = "TNMAP"
"""The first word of the error of lua/lib/noted.lua for a caller with an old map of the queue's partitions."""
MOVES: Final = "TNMOVES"
"""That of a job that has to arrive in its partition first."""
NOT_PARTED: Final = "TNPARTS"
"""That of lua/retry.lua for a job that no queue with partitions can have."""
NOT_HERE: Final = Enqueued("", False)
"""The answer for a job that belongs to another partition: see lua/lib/asked.lua."""
TOO_LONG: Final = "TNFULL"
"""The first word of the error of lua/enqueue.lua for a queue that would become longer than it may."""


def too_long(queue: str, error: ReplyError | str) -> QueueFull:
    """Make the error from three numbers: how many jobs the queue has, may have, and was to get."""
    have, most, more = map(int, str(error).removeprefix(TOO_LONG).split())
    full = QueueFull(
        f"Queue {queue!r} is full: it has {have:,} of at most {most:,} jobs (max_length), and the call adds {more:,}. "
        "Nothing was added to it. Try again later, run more workers, or raise its max_length."
    )
    full.queue = queue
    return full


def new_part(position: int, job: NewJob) -> Part:
    """id record, or id record due rule: see lua/enqueue.lua."""
    record, id = write_record(job), job.id.encode("utf-8", "surrogateescape")  # `as_bytes`, without a call for each job
    is_plain = job.shape is PLAIN or is_only_member(job.shape)
    if is_plain and not job.own_id and job.delay_ms <= 0 and job.run_at_ms is None:  # as most are
        return Part(position, (id, record), len(record))
    due = _due(job)
    return Part(position, (id, record, due, _rule(job)), len(record), 1 + (due != "") + weight_of(job.shape))


def whole(part: Part) -> tuple[Arg, ...]:
    """id record due rule, of any job."""
    return part.args if len(part.args) == 4 else (*part.args, "", "0")


def enqueue_call(
    chunk: list[Part], room: int, version: int | None = None, asks: bool = False
) -> tuple[str, Arg, Iterable[Arg]]:
    """The script that adds these jobs, its `room`, and the arguments of the jobs.

    `version`: of the queue's map of partitions, as the caller knows it; 0: it knows that there is none; None: it has
    not asked. Then jobs that are next in line, with ids that were drawn, are added without a look at the map. `asks`:
    only jobs whose lane, key or id is there already are added.
    """
    if not asks and all(len(part.args) == 2 for part in chunk):
        return "enqueue", room if version is None else f"{room} {version} 2", args_of(chunk)
    rows = [whole(part) for part in chunk]
    if asks or any(row[-1] not in ("0", "1") for row in rows):
        long_room = f"{room} {version}{'?' if asks else ''}"
        return "enqueue_shaped", room if version is None else long_room, chain.from_iterable(rows)
    return "enqueue", f"{room} {version or 0} 4", chain.from_iterable(rows)


def _rule(job: NewJob) -> str:
    """What lua/enqueue.lua is to do with a job: see there."""
    own = str(int(job.own_id))
    if job.shape is PLAIN or job.shape == PLAIN:
        return own
    unique = job.shape.unique
    if unique is None:
        return f"{own}-"
    window = f"w{unique.window_ms}" if unique.until is Until.WINDOW else ""
    wait = unique.wait_ms if unique.conflict is Conflict.POSTPONE else ""
    return f"{own}{window}{_LETTERS[unique.conflict]}{wait}"


def read_enqueued(jobs: Sequence[NewJob], chunk: list[Part], reply: bytes) -> Iterable[Enqueued]:
    """The answers to one call."""
    if reply.startswith(b"1" * len(chunk)):
        return [Enqueued(jobs[part.position].id, True) for part in chunk]
    return _read_each(jobs, chunk, reply)


def _read_each(jobs: Sequence[NewJob], chunk: list[Part], reply: bytes) -> Iterator[Enqueued]:
    """A letter of each job, with the ids of other jobs that follow them all."""
    rest = reply[len(chunk) :]
    for part, letter in zip(chunk, reply, strict=False):
        conflict = _CONFLICTS.get(letter)
        if letter == _ELSEWHERE:
            yield NOT_HERE
        elif conflict is None:
            yield Enqueued(jobs[part.position].id, letter == ord("1"))
        else:
            size, _, rest = rest.partition(b":")
            yield Enqueued(as_text(rest[: int(size)]), False, conflict)
            rest = rest[int(size) :]


def _due(job: NewJob) -> str:
    if job.run_at_ms is not None:
        return str(job.run_at_ms)
    return f"+{job.delay_ms}" if job.delay_ms > 0 else ""


_BAD_ENDS, _BAD_END_WEIGHT = frozenset("fbx"), 5
"""Failed, broken, cancelled, as lua/settle.lua calls them: the whole record is kept, and each is written by itself."""


def follow_args(job: NewJob | NewFlow) -> tuple[str | bytes, ...]:
    """queue id record due rule, as lua/flows/lib/sending.lua has them."""
    if isinstance(job, NewFlow):
        return encoded(job.queue), as_bytes(job.id), write_element(job), str(job.keep_ms), "start"
    return encoded(job.queue), as_bytes(job.id), write_record(job), _due(job), _rule(job)


def _follow_row(job: NewJob | NewFlow, member: JobRecord) -> tuple[str | bytes, ...]:
    """What follows a job; or, without an id, one more member of the flow that the completed job is in."""
    if job.id:
        return follow_args(job)
    definition = write_element(job if isinstance(job, NewFlow) else Callback(job))
    return encoded(home_of(member.shape.flow)), as_bytes(member.id), definition, "", "add"


def write_element(element: Element | None) -> bytes:
    """A part of a flow as lua/flows/lib/flow.lua has it. The record of a call that takes results is in two parts."""
    if element is None:
        return b""
    if isinstance(element, NewFlow):
        kind = "chain" if element.is_chain else "group"
        return packed(("", element.id, kind, str(int(element.results)), *map(write_element, element.members)))
    queue, id, record, due, rule = follow_args(element.job)
    if not element.takes_results:
        return packed((queue, id, record, due, rule))
    head = write_record(element.job).partition(b"\n")[0]
    return packed((queue, id, head + b"\n[[", due, rule, b"],{}]"))


def _is_plain(row: tuple[str | bytes, ...]) -> bool:
    """Whether a follow-up job needs no more than a place in `ready`. With its time, its record is not a large one."""
    return row[3:] == ("", "0") and len(row[2]) <= LARGE_BYTES - 20


Packable: TypeAlias = "str | bytes | tuple[Packable, ...]"


def packed(value: Packable) -> bytes:
    """MessagePack for Lua. Its decoder knows no type for bytes: they go as strings."""
    if isinstance(value, tuple):
        return b"\xdd" + struct.pack("!I", len(value)) + b"".join(map(packed, value))
    data = as_bytes(value) if isinstance(value, str) else value
    return b"\xdb" + struct.pack("!I", len(data)) + data


def outcome_part(position: int, lease: Lease, outcome: Outcome) -> Part:
    """id token kind ms head body, as lua/settle.lua takes them."""
    kind, ms, body = encode_outcome(outcome)
    record, head = lease.record, ""
    size, weight = len(body), 1 if is_only_member(record.shape) else 1 + weight_of(record.shape)
    if type(outcome) is Completed:
        head = head_of(record) if ms else ""  # of an end that is not kept, nothing is
        if outcome.follow or outcome.flows:
            parts: tuple[NewJob | NewFlow, ...] = (*outcome.follow, *outcome.flows)
            rows = tuple(_follow_row(one, record) for one in parts)
            is_plain = record.shape is PLAIN and not lease.partition and all(map(_is_plain, rows))
            is_here = is_plain and {row[0] for row in rows} == {encoded(record.queue)}
            kind, body = "n" if is_here else "t", packed((body, *rows))
            size, weight = len(body), weight + sum([2 + weight_of(job.shape) for job in outcome.jobs_after()])
    elif kind in _BAD_ENDS:
        size, weight = size + len(record.payload), weight + _BAD_END_WEIGHT
    elif isinstance(outcome, Retried) and outcome.deferred:
        kind, head, body = "d", encoded(outcome.limit or ""), b""
    return Part(position, (as_bytes(record.id), lease.token, kind, ms, head, body), size, weight)
