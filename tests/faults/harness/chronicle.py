"""The history of a run put together: jobs with their attempts, lanes in the order of enqueue, and the faults."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.faults.harness.history import Event, Op

ZOMBIE_MS = 2_000
"""For so long after it was let go on, a stopped worker may start jobs that it had claimed before and lost since."""
BY_HAND = "hand"


@dataclass(frozen=True, slots=True)
class Finish:
    """An end that counted, or that a human saw: in which state, and the token of the attempt."""

    state: str
    token: int

    @property
    def bad(self) -> bool:
        return self.state == "failed"


@dataclass(frozen=True, slots=True)
class Act:
    """What was done about a job that had failed for good. `ns`: just before it was asked for."""

    kind: str
    ns: int
    done: bool


@dataclass(slots=True)
class Settle:
    """A lease by hand was to be ended or extended. `yes` None: nobody knows whether it was."""

    kind: str
    token: int
    asked_ns: int
    yes: bool | None = None


@dataclass(slots=True)
class Attempt:
    """A run of a handler, or a lease by hand. `end_ns` infinite: nobody wrote that it ended; `valid_ns`: how long a
    lease by hand was given."""

    job: str
    lane: str
    token: int
    pid: int
    start_ns: int
    end_ns: float = math.inf
    phase: str = ""
    runs: int = 1
    valid_ns: float = math.inf

    @property
    def until_ns(self) -> float:
        """Nobody else may have begun before this."""
        return min(self.end_ns, self.valid_ns)


@dataclass(slots=True)
class Job:
    """A job, from its enqueue to its end."""

    id: str
    lane: str
    n: int
    meant: str
    asked_ns: int
    acked: bool = False
    acked_ns: int = 0
    refused: bool = False
    attempts: list[Attempt] = field(default_factory=list)
    finals: list[Finish] = field(default_factory=list)
    stands: list[Finish] = field(default_factory=list)
    acts: list[Act] = field(default_factory=list)
    settles: list[Settle] = field(default_factory=list)

    @property
    def discarded(self) -> bool:
        return any(act.kind == "discard" and act.done for act in self.acts)

    @property
    def finish(self) -> Finish | None:
        """The end that counts. Of a discarded job, what was seen before it was discarded."""
        if self.finals:
            return self.finals[-1]
        return self.stands[-1] if self.discarded and self.stands else None

    @property
    def counted(self) -> Attempt | None:
        """The attempt that ended it."""
        finish = self.finish
        return next((one for one in self.attempts if finish is not None and one.token == finish.token), None)

    @property
    def repeats(self) -> int:
        """How often it was run again although no attempt had asked for it."""
        answered = sum(one.phase in ("retry", "fail") for one in self.attempts[:-1])
        return max(0, len(self.attempts) - 1 - answered)


@dataclass(frozen=True, slots=True)
class Restart:
    """Of Redis: when it was killed, when it answered again, and how many jobs were held."""

    from_ns: int
    to_ns: float
    held: int


@dataclass(slots=True)
class Chronicle:
    """See the module."""

    jobs: dict[str, Job] = field(default_factory=dict)
    lanes: dict[str, list[Job]] = field(default_factory=dict)
    unknown: list[Event] = field(default_factory=list)
    """Attempts and ends of jobs that nobody enqueued."""
    killed: dict[int, int] = field(default_factory=dict)
    stopped: dict[int, list[tuple[int, float]]] = field(default_factory=dict)
    died: dict[int, Event] = field(default_factory=dict)
    restarts: list[Restart] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    totals: dict[str, int] = field(default_factory=dict)
    healed: list[int] = field(default_factory=list)
    drained: list[int] = field(default_factory=list)
    samples: list[Event] = field(default_factory=list)
    keys: list[Event] = field(default_factory=list)
    windows: list[tuple[float, float, str]] = field(default_factory=list)
    """From when until when writes may be gone, and which were spared."""
    expected: list[Event] = field(default_factory=list)

    @property
    def attempts(self) -> Iterable[Attempt]:
        return (one for job in self.jobs.values() for one in job.attempts)

    def zombie(self, one: Attempt) -> bool:
        """Whether it may have gone on without a lease: its process was stopped meanwhile, or its claim is gone."""
        spans = self.stopped.get(one.pid, ())
        return any(begin <= one.end_ns and one.start_ns <= end + ZOMBIE_MS * 1_000_000 for begin, end in spans) or any(
            begin <= one.start_ns <= end for begin, end, _ in self.windows
        )

    def may_be_gone(self, job: Job) -> bool:
        """Whether its enqueue was answered, and nothing else would have kept it."""
        return any(begin <= job.acked_ns <= end and spared == "" for begin, end, spared in self.windows)


def chronicle(events: Iterable[Event]) -> Chronicle:
    """Put the events of all processes together. One pass over them, after they are sorted by time."""
    told = Chronicle()
    for event in sorted(events, key=lambda one: (one.mono_ns, one.pid, one.seq)):
        if event.op is Op.ENQUEUE:
            _enqueue(told, event)
        elif event.job:
            job = told.jobs.get(event.job)
            if job is None:
                told.unknown.append(event)
            else:
                _of_job(job, event)
        else:
            _fault(told, event)
    for job in told.jobs.values():
        if job.lane:
            told.lanes.setdefault(job.lane, []).append(job)
        job.attempts.sort(key=lambda one: one.token)
        for one in job.attempts:
            # A killed process has written no end: that of its attempts was the kill.
            one.end_ns = min(one.end_ns, max(told.killed.get(one.pid, math.inf), one.start_ns))
    for lane in told.lanes.values():
        lane.sort(key=lambda job: job.n)
    return told


def _enqueue(told: Chronicle, event: Event) -> None:
    if event.phase == "invoke":
        told.jobs.setdefault(event.job, Job(event.job, event.lane, event.n, event.note, event.mono_ns))
    elif event.job in told.jobs:
        job = told.jobs[event.job]
        job.refused = event.phase == "fail"
        if event.phase == "ok":
            job.acked, job.acked_ns = True, event.mono_ns


def _of_job(job: Job, event: Event) -> None:
    match event.op:
        case Op.START:
            _start(job, event)
        case Op.END:
            known = _attempt(job, event)
            if known is not None:
                known.end_ns, known.phase = event.mono_ns, event.phase
        case Op.SETTLE:
            _settle(job, event)
        case Op.FINAL:
            job.finals.append(Finish(event.note, event.token))
        case Op.STAND:
            job.stands.append(Finish("failed", event.token))
        case Op.ACT if event.phase == "invoke":
            job.acts.append(Act(event.note, event.mono_ns, False))
        case Op.ACT:
            job.acts[-1] = Act(event.note, job.acts[-1].ns, True)


def _start(job: Job, event: Event) -> None:
    known = _attempt(job, event)
    if known is not None:
        known.runs += 1
        return
    valid = event.mono_ns + event.ms * 1e6 if event.note == BY_HAND else math.inf
    job.attempts.append(Attempt(job.id, event.lane, event.token, event.pid, event.mono_ns, valid_ns=valid))


def _settle(job: Job, event: Event) -> None:
    if event.phase == "invoke":
        job.settles.append(Settle(event.note, event.token, event.mono_ns))
        return
    asked = next(one for one in reversed(job.settles) if (one.kind, one.token) == (event.note, event.token))
    asked.yes = event.n == 1
    known = _attempt(job, event)
    if known is not None and event.note == "extend" and asked.yes:
        known.valid_ns = event.mono_ns + event.ms * 1e6


def _attempt(job: Job, event: Event) -> Attempt | None:
    return next((one for one in job.attempts if one.token == event.token), None)


def _fault(told: Chronicle, event: Event) -> None:
    match event.op:
        case Op.KILL:
            told.killed[event.target] = event.mono_ns
        case Op.STOP:
            told.stopped.setdefault(event.target, []).append((event.mono_ns, math.inf))
        case Op.CONT:
            spans = told.stopped[event.target]
            spans[-1] = (spans[-1][0], event.mono_ns)
        case Op.DIED:
            told.died[event.target] = event
        case Op.RESTART if event.phase == "invoke":
            told.restarts.append(Restart(event.mono_ns, math.inf, event.n))
        case Op.RESTART:
            told.restarts[-1] = Restart(told.restarts[-1].from_ns, event.mono_ns, told.restarts[-1].held)
        case Op.FAULT:
            told.faults[event.note] += event.n
        case Op.TOTAL:
            told.totals[event.note] = told.totals.get(event.note, 0) + event.n
        case Op.WINDOW:
            told.windows.append((event.mono_ns - event.ms * 1e6, event.mono_ns, event.phase))
        case Op.HEAL:
            told.healed.append(event.mono_ns)
        case Op.DRAINED:
            told.drained.append(event.mono_ns)
        case Op.SAMPLE:
            told.samples.append(event)
        case Op.KEY:
            told.keys.append(event)
        case Op.EXPECT:
            told.expected.append(event)
