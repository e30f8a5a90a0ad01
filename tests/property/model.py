"""A queue as a few dictionaries: what the engine should do, said once more, plainly. Times are virtual milliseconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from leasehold.core import limits
from leasehold.core.job import ENDS, State
from leasehold.core.outcome import Broken, Cancelled, Completed, Failed, Outcome, Released, Retried, Unroutable

QUANTUM_MS: Final = 10_000
"""Time passes in such steps. Every span below lies half a step off, so that the real time which a test takes decides
nothing."""
LEASE_MS: Final = 25_000
GRACE_MS: Final = 15_000
OUTAGE_MS: Final = 55_000
AMNESTY_MS: Final = 25_000
KEEP_MS: Final = 205_000
MAX_CRASHES: Final = 4
ISOLATE: Final = 2


@dataclass(slots=True)
class Job:
    """A job that was acknowledged, or what is left of it."""

    id: str
    payload: bytes
    task: str | None
    timeout_ms: int
    state: State = State.READY
    failures: int = 0
    crashes: int = 0
    due: int = 0
    token: int = 0
    worker: str = ""
    deadline: int = 0
    expires: int = 0
    claims: list[int] = field(default_factory=list)


class Model:
    """One queue."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.ready: list[str] = []
        self.isolated: list[str] = []
        self.holders: dict[str, int] = {}
        self.suspects: dict[str, int] = {}
        self.seen: int | None = None
        self.amnesty = 0
        self.before = 0
        self.completed = 0

    # Looking.

    def among(self, state: State) -> list[str]:
        """Ids in one state: ready ones in order, scheduled ones by time, others by token."""
        found = [job for job in self.jobs.values() if job.state is state]
        if state is State.READY:
            return [*self.isolated, *self.ready]
        found.sort(key=lambda job: (job.due, job.id) if state is State.SCHEDULED else (job.token, job.id))
        return [job.id for job in found]

    def held_by(self, worker: str) -> list[Job]:
        found = [job for job in self.jobs.values() if job.state is State.ACTIVE and job.worker == worker]
        return sorted(found, key=lambda job: job.token)

    def visible(self, id: str, now: int) -> Job | None:
        job = self.jobs.get(id)
        return None if job is None or (job.state in ENDS and job.expires <= now) else job

    def holds(self, worker: str, id: str, token: int) -> Job | None:
        job = self.jobs.get(id)
        mine = job is not None and job.state is State.ACTIVE and (job.worker, job.token) == (worker, token)
        return job if mine else None

    # What producers and workers do.

    def enqueue(self, now: int, id: str, payload: bytes, task: str | None, delay: int, timeout: int) -> bool:
        if self.visible(id, now) is not None:
            return False
        job = self.jobs[id] = Job(id, payload, task, timeout)
        if delay:
            job.state, job.due = State.SCHEDULED, now + delay
        else:
            self.ready.append(id)
        return True

    def choose(self, now: int, worker: str, limit: int) -> list[str]:
        """The ids that a claim must get now: one of the isolated, if it holds none, before or after the others."""
        self.tend(now)
        free = not any(job.crashes >= ISOLATE for job in self.held_by(worker))
        chosen = self.isolated[: min(1, limit)] if free else []
        free = free and not chosen
        for id in list(self.ready):
            if len(chosen) == limit:
                break
            if self.jobs[id].crashes >= ISOLATE:
                self.ready.remove(id)
                self.isolated.append(id)
            else:
                chosen.append(id)
        if free and len(chosen) < limit:
            chosen += self.isolated[:1]
        return chosen

    def claim(self, now: int, worker: str, id: str, token: int, by_hand_ms: int) -> None:
        job = self.jobs[id]
        self._out_of_line(id)
        job.state, job.worker, job.token = State.ACTIVE, worker, token
        job.deadline = now + job.timeout_ms + limits.OVERDUE_GRACE_MS if job.timeout_ms else 0
        if by_hand_ms:
            job.deadline = now + by_hand_ms
        job.claims.append(token)
        self.holders[worker] = now + (by_hand_ms or LEASE_MS)
        self.suspects.pop(worker, None)

    def settle(self, now: int, settlements: list[tuple[str, str, int, Outcome]]) -> list[bool]:
        """Worker, id, token and outcome of each."""
        answers: list[bool] = []
        released: list[Job] = []
        workers = set()
        for worker, id, token, outcome in settlements:
            job = self.holds(worker, id, token)
            answers.append(job is not None)
            if job is None:
                continue
            workers.add(worker)
            if isinstance(outcome, Released):
                released.append(job)
                job.state = State.READY
            else:
                self._end(now, job, outcome)
        self._to_the_front(released)
        for worker in workers:
            self._forget_idle(worker)
        return answers

    def _end(self, now: int, job: Job, outcome: Outcome) -> None:
        match outcome:
            case Completed():
                self.completed += 1
                job.state, job.expires = State.COMPLETED, now + outcome.result_ttl_ms
                if not outcome.result_ttl_ms:
                    del self.jobs[job.id]
            case Retried():
                job.failures += 1
                job.state, job.due = (State.SCHEDULED, now + outcome.delay_ms) if outcome.delay_ms else (State.READY, 0)
                if not outcome.delay_ms:
                    (self.isolated if job.crashes >= ISOLATE else self.ready).append(job.id)
            case Unroutable():
                job.state = State.UNROUTABLE
            case Failed():
                job.failures += 1
                job.state, job.expires = State.FAILED, now + KEEP_MS
            case Broken():
                job.state, job.expires = State.BROKEN, now + KEEP_MS
            case Cancelled():
                job.state, job.expires = State.CANCELLED, now + KEEP_MS
            case _:
                raise AssertionError(outcome)

    def beat(self, now: int, worker: str) -> None:
        if self.held_by(worker):
            self.holders[worker] = now + LEASE_MS
            self.suspects.pop(worker, None)
            overdue = [job for job in self.held_by(worker) if job.deadline and job.deadline <= now]
            self._give_back(now, [worker], overdue, crashed=True)
        self.tend(now)

    def extend(self, now: int, worker: str, id: str, token: int, ms: int, by_hand: bool) -> bool:
        job = self.holds(worker, id, token)
        if job is None:
            return False
        if by_hand:
            self.holders[worker] = now + ms
            self.suspects.pop(worker, None)
        if job.deadline:
            job.deadline = now + ms + (0 if by_hand else limits.OVERDUE_GRACE_MS)
        return True

    def leave(self, now: int, worker: str) -> int:
        held = self.held_by(worker)
        self._give_back(now, [worker], held, crashed=False)
        return len(held)

    def maintain(self, now: int, tasks: list[str]) -> None:
        self.tend(now)
        for id in [id for id, job in self.jobs.items() if job.state in ENDS and job.expires <= now]:
            del self.jobs[id]
        for task in tasks:
            parked = [self.jobs[id] for id in self.among(State.UNROUTABLE) if (self.jobs[id].task or "*") == task]
            for job in sorted(parked, key=lambda job: -job.token):
                job.state = State.READY
                self.ready.insert(0, job.id)

    def tend(self, now: int) -> None:
        seen = now if self.seen is None else self.seen
        if now - seen > OUTAGE_MS:
            self.amnesty, self.before = now + AMNESTY_MS, seen
        self.seen = now
        for id in self.among(State.SCHEDULED):
            if self.jobs[id].due <= now:
                self.jobs[id].state = State.READY
                self.ready.append(id)
        dead = []
        for worker, deadline in sorted(self.holders.items(), key=lambda item: item[1]):
            if deadline > now:
                break
            verdict = self.suspects.setdefault(worker, now) + GRACE_MS
            if deadline > self.before - OUTAGE_MS:
                verdict = max(verdict, self.amnesty)
            if now >= verdict:
                dead.append(worker)
        self._give_back(now, dead, [job for worker in dead for job in self.held_by(worker)], crashed=True)

    def _give_back(self, now: int, workers: list[str], jobs: list[Job], *, crashed: bool) -> None:
        front = []
        for job in jobs:
            job.crashes += crashed
            if crashed and job.crashes >= MAX_CRASHES:
                job.state, job.expires = State.BROKEN, now + KEEP_MS
            else:
                front.append(job)
        self._to_the_front(front)
        for worker in workers:
            self._forget_idle(worker)

    def _out_of_line(self, id: str) -> None:
        for line in (self.isolated, self.ready):
            if id in line:
                line.remove(id)

    def _to_the_front(self, jobs: list[Job]) -> None:
        for job in sorted(jobs, key=lambda job: -job.token):
            job.state = State.READY
            (self.isolated if job.crashes >= ISOLATE else self.ready).insert(0, job.id)

    def _forget_idle(self, worker: str) -> None:
        if not self.held_by(worker):
            self.holders.pop(worker, None)
            self.suspects.pop(worker, None)

    # Acting from outside.

    def retry(self, now: int, id: str) -> bool:
        job = self.visible(id, now)
        if job is None or job.state in {State.READY, State.ACTIVE, State.COMPLETED}:
            return False
        job.state, job.failures, job.crashes = State.READY, 0, 0
        self.ready.append(id)
        return True

    def discard(self, now: int, id: str) -> bool:
        job = self.visible(id, now)
        if job is None or job.state is State.ACTIVE:
            return False
        self._remove(job)
        return True

    def cancel(self, now: int, id: str) -> bool:
        job = self.visible(id, now)
        if job is None or job.state not in {State.READY, State.SCHEDULED, State.UNROUTABLE}:
            return False
        if job.state is State.READY:
            self._out_of_line(id)
        job.state, job.expires = State.CANCELLED, now + KEEP_MS
        return True

    def purge(self, state: State) -> int:
        found = [job for job in self.jobs.values() if job.state is state]
        for job in found:
            self._remove(job)
        return len(found)

    def _remove(self, job: Job) -> None:
        if job.state is State.READY:
            self._out_of_line(job.id)
        del self.jobs[job.id]
