"""Schedules as values: what users define, what Redis keeps, what they see, and the operations of an engine on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from tenure.core.errors import TenureError
from tenure.core.job import JobSpec, NewJob
from tenure.core.schedules.when import Cron, Every, When, from_ms, to_ms
from tenure.core.steps import Steps

NO_MORE: Final = 0
"""Instead of a planned time: the schedule is over."""


class CatchUp(StrEnum):
    """What happens to ticks that nothing could run in time, because no worker or no Redis was there.

    one   the latest of them runs, unless it is later than the window
    all   each of them runs, in order, unless it is later than the window
    skip  none runs; a tick that is up to a minute late does
    """

    ONE = "one"
    ALL = "all"
    SKIP = "skip"


class Overlap(StrEnum):
    """What happens at a tick while the schedule's previous job has not ended (it waits, runs, or waits for a retry).

    skip    the tick is left out
    allow   the new job is enqueued all the same
    queue   the new job waits until the previous one has ended
    cancel  the previous job is cancelled, and the new one is enqueued
    """

    SKIP = "skip"
    ALLOW = "allow"
    QUEUE = "queue"
    CANCEL = "cancel"


class ScheduleSpec(JobSpec, frozen=True, omit_defaults=True):
    """A schedule as Redis keeps it: when it is due, its policies, and its job. See docs/reference/native-layout.md.

    Either `cron` with `tz`, or `every_ms`. `source`: the app whose code has it, `MODULE:APP`; empty: it was added at
    run time. `earlier`: names that it had before its task was renamed. Its JSON has the fields in this order, then
    those of `JobSpec`: workers compare digests of it.
    """

    name: str
    queue: str
    cron: str = ""
    tz: str = "UTC"
    every_ms: int = 0
    catch_up: CatchUp = CatchUp.ONE
    window_ms: int = 0
    overlap: Overlap = Overlap.SKIP
    jitter_ms: int = 0
    start_ms: int | None = None
    end_ms: int | None = None
    source: str = ""
    earlier: tuple[str, ...] = ()
    payload: bytes = b""

    @property
    def when(self) -> When:
        """Raises `InvalidArgument` for a time zone that this machine does not know."""
        return Cron(self.cron, self.tz) if self.cron else Every(seconds=self.every_ms / 1000)

    def job(self, id: str, planned_ms: int) -> NewJob:
        """Return the job of a tick."""
        return NewJob(self.queue, id, self.payload, scheduled_ms=planned_ms, **self.spec())


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(ScheduleSpec)


def encode_spec(spec: ScheduleSpec) -> bytes:
    """Return the definition as JSON."""
    return _encoder.encode(spec)


def decode_spec(raw: bytes) -> ScheduleSpec | None:
    """Return the definition; None if a newer release, or another program, has written it."""
    try:
        return _decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


class ScheduleState(Struct, frozen=True):
    """What changes with every tick. Times are milliseconds since 1970 by Redis' clock, 0 for none.

    `planned_ms`: the next tick; 0: the schedule is over. `fire_ms`: when it is due, which is later by its jitter.
    `skipped`: ticks left out because the previous job had not ended; `missed`: ticks left out because they were late.
    `last_planned_ms`, `ran_ms`, `last_id`: the last tick that had a job, when, and its job. `paused_ms`: since when it
    is paused. `before`: when the runs before the last one were, and their jobs, the newest first.
    """

    planned_ms: int
    fire_ms: int
    runs: int = 0
    skipped: int = 0
    missed: int = 0
    last_planned_ms: int = 0
    ran_ms: int = 0
    last_id: str | None = None
    paused_ms: int = 0
    reason: str = ""
    before: tuple[tuple[int, str], ...] = ()


class StoredSchedule(Struct, frozen=True):
    """A schedule in Redis. `digest` names its definition. `spec` None: this release cannot read the definition."""

    name: str
    digest: str
    spec: ScheduleSpec | None
    state: ScheduleState


class DueSchedules(Struct, frozen=True):
    """Schedules that are due, at most as many as one call reads. `next_ms`: how long until the next one; None: no
    schedule of the queue has a next tick. `now_ms`: Redis' clock."""

    now_ms: int
    next_ms: int | None
    schedules: tuple[StoredSchedule, ...]


class Wanted(Struct, frozen=True):
    """A definition of the code that Redis lacks: `current` is the digest of the one that it has; empty: none."""

    name: str
    current: str
    planned_ms: int
    last_planned_ms: int


class Announced(Struct, frozen=True):
    """The reply to an announcement. `refused`: names that other sources with workers, or users, have. `ended`: names of
    this source that no worker announces any more."""

    now_ms: int
    wanted: tuple[Wanted, ...] = ()
    refused: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()


class Tick(Struct, frozen=True):
    """What one tick does to a schedule: see `core.schedules.rules.decide`.

    `expected_ms`: the planned time that the caller saw; None: enqueue the job now, and do not move on. `job`: None if
    nothing is to run. `run_fire_ms`: when its tick is due. `next_ms`, `next_fire_ms`: the tick that follows; 0: none.
    `missed`: how many ticks are left out.
    """

    name: str
    digest: str
    expected_ms: int | None
    job: NewJob | None
    run_fire_ms: int
    next_ms: int
    next_fire_ms: int
    missed: int = 0
    overlap: Overlap = Overlap.SKIP


def extra_tick(name: str, job: NewJob) -> Tick:
    """Make a tick that enqueues a job now. The planned time of the schedule stays."""
    return Tick(name, "", None, job, 0, NO_MORE, NO_MORE, overlap=Overlap.ALLOW)


class Ticked(StrEnum):
    """What became of a tick. `stale`: another worker was first, or the schedule has changed. `early`: by Redis' clock
    it is not due. `moved`: nothing was to run. `skipped`: the previous job has not ended. `joined`: another job has the
    unique key."""

    ENQUEUED = "enqueued"
    STALE = "stale"
    EARLY = "early"
    MOVED = "moved"
    SKIPPED = "skipped"
    JOINED = "joined"


class SchedulePage(Struct, frozen=True):
    """Some schedules of a queue. `cursor`: where the next page begins; 0: this is the last page."""

    now_ms: int
    schedules: tuple[StoredSchedule, ...]
    cursor: int


@dataclass(frozen=True, slots=True)
class ScheduleView:
    """A schedule as users see it. Times are in UTC, None if it has none.

    `explanation`: when it is due, in English. `when` None: this machine does not know the time zone. `task` None: a raw
    payload for the queue's handler. `source`: the app whose code has it; None: it was added at run time. `next`: the
    next tick, without its jitter; None: it is paused or over. `last`: the last tick that had a job, and `last_id` that
    job. `runs`: ticks that were not left out, and triggers; with `unique` also those that added no job, because another
    job has the key. `skipped`: ticks left out because the previous job had not ended. `missed`: ticks
    left out because they were late. `paused`: since when. `end`: after which there are no ticks. `recent`: when up to
    five jobs were enqueued, and their ids, the newest first.
    """

    name: str
    queue: str
    task: str | None
    when: When | None
    explanation: str
    source: str | None
    next: datetime | None
    last: datetime | None
    last_id: str | None
    runs: int
    skipped: int
    missed: int
    paused: datetime | None
    reason: str
    catch_up: CatchUp
    overlap: Overlap
    end: datetime | None = None
    recent: tuple[tuple[datetime, str], ...] = ()

    def upcoming(self, count: int = 5) -> tuple[datetime, ...]:
        """Return the next ticks, without jitter; none while it is paused."""
        if self.when is None or self.next is None:
            return ()
        next_ms = to_ms(self.next)
        rest = self.when.after(next_ms, next_ms) if isinstance(self.when, Every) else self.when.after(next_ms)
        each = (self.next, *map(from_ms, islice(rest, count - 1)))
        return tuple(at for at in each if self.end is None or at <= self.end)


class SchedulePort(Protocol):
    """`Feature.SCHEDULES`."""

    def announce_schedules(
        self, queue: str, source: str, digests: Mapping[str, str], earlier: Mapping[str, Sequence[str]]
    ) -> Steps[Announced]:
        """State that a worker of `source` lives and has these schedules (name → digest) in its code.

        `earlier`: name → the names that the schedule had in earlier code. Ends schedules of the same source that no
        worker has announced for a while.
        """
        ...

    def put_schedule(
        self, spec: ScheduleSpec, digest: str, expected: str, planned_ms: int, fire_ms: int
    ) -> Steps[bool]:
        """Add a schedule (`expected` empty), or replace the definition with the digest `expected`.

        A schedule of the same source under one of its earlier names ends, and the new one has its counters. False:
        Redis has another definition, or the tick `planned_ms` has run, and nothing was changed. A paused schedule stays
        paused.
        """
        ...

    def due_schedules(self, queue: str, limit: int) -> Steps[DueSchedules]:
        """Read up to `limit` schedules that are due, and keep them from other workers for half a second."""
        ...

    def tick(self, queue: str, ticks: Sequence[Tick]) -> Steps[list[Ticked | TenureError]]:
        """Move schedules on and enqueue their jobs, where the planned time is still the expected one and is due.

        `ticks` has each schedule once. Returns an error in place of the answer where one tick was refused, as
        `QueueFull`: it has changed nothing.
        """
        ...

    def schedule(self, queue: str, name: str) -> Steps[tuple[int, StoredSchedule | None]]:
        """Read one schedule, with Redis' clock."""
        ...

    def schedule_page(self, queue: str, cursor: int = 0) -> Steps[SchedulePage]: ...

    def pause_schedule(self, queue: str, name: str, reason: str) -> Steps[bool]:
        """Stop its ticks. False: no such schedule."""
        ...

    def resume_schedule(self, queue: str, name: str, digest: str, planned_ms: int, fire_ms: int) -> Steps[bool]:
        """Let its ticks continue, with this one. False: no such schedule, or its definition has changed."""
        ...

    def remove_schedule(self, queue: str, name: str) -> Steps[bool]: ...
