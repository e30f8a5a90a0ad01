"""A queue as a few dictionaries: what the engine should do, said once more, plainly. Times are virtual milliseconds."""

from __future__ import annotations

from copy import deepcopy
from typing import Final

from tenure.core.job import ENDS, Enqueued, State
from tenure.core.outcome import Broken, Cancelled, Completed, Crashed, Failed, Outcome, Released, Retried, Unroutable
from tenure.core.shape import CancelAnswer, CancelCount, LaneFailure, QueueSettings, Until
from tests.property.model_keys import Keys
from tests.property.model_lines import Job, Lines

QUANTUM_MS: Final = 100_000
"""Time passes in such steps. Every span lies half a step off, so that the real time that a history takes decides
nothing: it may take most of a minute."""
LEASE_MS: Final = 250_000
GRACE_MS: Final = 150_000
OUTAGE_MS: Final = 550_000
AMNESTY_MS: Final = 250_000
KEEP_MS: Final = 2_050_000
MAX_CRASHES: Final = 4
STEADY_MS: Final = 65_000
"""Four times and sixteen times as long it is no multiple of a step either."""
ALONE: Final = 2
"""From so many crashes that others may have caused a job waits apart, to run alone."""
NEVER: Final = 10**15


class Model:
    """One queue."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.lines = Lines(self.jobs)
        self.keys = Keys(self.jobs, self.lines)
        self.settings = QueueSettings()
        self.holders: dict[str, int] = {}
        self.suspects: dict[str, int] = {}
        self.seen: int | None = None
        self.amnesty = 0
        self.before = 0
        self.completed = 0
        self.passed = 0
        self.asked = -QUANTUM_MS
        """When a worker was last asked to prepare for a job that is to run alone."""

    # Looking.

    def among(self, state: State) -> list[str]:
        """Ids in one state: scheduled ones by time, those of one time as they were enqueued (those that follow another
        have no time, and are last), others by token. Ready ones are in `lines`."""
        found = [job for job in self.jobs.values() if job.state is state]
        if state is State.READY:
            return self.lines.waiting()
        plain = state is State.SCHEDULED
        found.sort(key=lambda job: (job.follows, job.due) if plain else (job.token, job.id))
        return [job.id for job in found]

    def length(self) -> int:
        return sum(job.state not in ENDS for job in self.jobs.values())

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

    def is_full(self, now: int, jobs: list[tuple[Job, int]]) -> bool:
        """Whether these are too many: those that would be added, not those for which another stands."""
        if not self.settings.max_length:
            return False
        then = deepcopy(self)
        then.enqueue(now, deepcopy(jobs))
        return then.length() > max(self.length(), self.settings.max_length)

    def look_for(self, now: int, ids: list[str]) -> None:
        """Records past their time are forgotten as soon as somebody wants to know whether there are any."""
        for id in ids:
            if id in self.jobs and self.visible(id, now) is None:
                del self.jobs[id]

    def enqueue(self, now: int, jobs: list[tuple[Job, int]]) -> list[Enqueued]:
        """Each with its delay. Lanes come last: they are lined up lane by lane."""
        return [self._add(now, job, delay) for job, delay in jobs]

    def _add(self, now: int, job: Job, delay: int) -> Enqueued:
        if self.visible(job.id, now) is not None:
            return Enqueued(job.id, False)
        self.jobs.pop(job.id, None)
        job.made = now
        rule = job.shape.unique
        answer = self.keys.contend(now, job, rule) if rule else None
        if answer is not None:
            return answer
        self.jobs[job.id] = job
        if job.follows or delay:
            job.state, job.due = State.SCHEDULED, now + delay
        else:
            self.lines.place(job, first=False)
        return Enqueued(job.id, True)

    def claim(
        self, now: int, worker: str, id: str, token: int, by_hand_ms: int, alone: str = "", alone_ms: int = 0
    ) -> None:
        """It is out of line already, see claims.py. `alone`: how it is held, if it runs alone."""
        job = self.jobs[id]
        if alone_ms:
            assert alone_ms == STEADY_MS * 4 ** min(2, job.doubtful - ALONE)
        job.state, job.worker, job.token, job.claimed = State.ACTIVE, worker, token, now
        job.claims.append(token)
        job.claim = "hand" if by_hand_ms else alone if alone_ms else ""
        job.window = 0 if by_hand_ms else alone_ms
        if job.shape.unique and job.shape.unique.until is Until.STARTED:
            self.keys.free(job)
        self.holders[worker] = now + (by_hand_ms or LEASE_MS)
        self.suspects.pop(worker, None)

    def settle(self, now: int, settlements: list[tuple[str, str, int, Outcome]]) -> list[bool]:
        """Worker, id, token and outcome of each. Those that completed leave after all others, released ones come back
        after that."""
        mine = [(self.holds(worker, id, token), worker, outcome) for worker, id, token, outcome in settlements]
        settled = [(job, outcome) for job, _, outcome in mine if job is not None]
        done, released, crashed = [], [], []
        for job, outcome in settled:
            asked = isinstance(outcome, Retried | Unroutable)
            asked = asked or (isinstance(outcome, Completed) and job.shape.persistent)
            if asked and job.cancelling is not None:
                self._end(now, job, State.CANCELLED)
            elif isinstance(outcome, Released | Crashed):
                released.append(job)
                crashed += [job] if isinstance(outcome, Crashed) else []
            elif isinstance(outcome, Completed) and not job.shape.persistent:
                done.append((job, outcome))
            else:
                self._settle(now, job, outcome)
        for job, outcome in done:
            self.completed += 1
            self._end(now, job, State.COMPLETED, outcome.result_ttl_ms)
            if not outcome.result_ttl_ms:
                del self.jobs[job.id]
        self._give_back(now, [], released, crashed, known=True)
        for _, worker, _ in mine:
            self._forget_idle(worker)
        return [job is not None for job, _, _ in mine]

    def _settle(self, now: int, job: Job, outcome: Outcome) -> None:
        match outcome:
            case Completed():
                self._rested(job)
                job.failures = job.crashes = job.doubtful = 0
                self.lines.place(job, first=False)
            case Retried():
                self._rested(job)
                job.failures += 1
                if outcome.delay_ms:
                    job.state, job.due = State.SCHEDULED, now + outcome.delay_ms
                elif job.doubtful >= ALONE and job.lane is None:
                    self.lines.isolate(job, first=False)
                else:
                    self.lines.place_again(job)
            case Unroutable():
                self._rested(job)
                job.state = State.UNROUTABLE
            case Failed():
                job.failures += 1
                self._end(now, job, State.FAILED)
            case Broken():
                self._end(now, job, State.BROKEN)
            case Cancelled():
                self._end(now, job, State.CANCELLED)
            case _:
                raise AssertionError(outcome)

    def _rested(self, job: Job) -> None:
        job.cancelling = job.progress = None

    def _end(self, now: int, job: Job, state: State, keep_ms: int = KEEP_MS) -> None:
        """End a job, with what that means for its lane and its key."""
        self._rested(job)
        job.state, job.expires = state, now + keep_ms
        occupies, policy = self.lines.occupies(job), self.settings.lane_failure
        bad = state in {State.FAILED, State.BROKEN} and occupies
        if bad and policy is LaneFailure.BLOCK and job.lane:
            # It keeps its key, too: else a job behind it could take the key, and then it could not be retried.
            job.expires = NEVER
            self.lines.lane(job.lane).blockers.append(job.id)
            return
        self.lines.remove(job)
        if bad and policy is LaneFailure.PARK and job.lane:
            lane = self.lines.lane(job.lane)
            lane.parked = job.id if lane.parked is None else lane.parked
        self.keys.free(job, gone=state is State.CANCELLED)

    def beat(self, now: int, worker: str) -> None:
        if self.held_by(worker):
            self.holders[worker] = now + LEASE_MS
            self.suspects.pop(worker, None)
        self.tend(now)

    def extend(self, now: int, worker: str, id: str, token: int, ms: int, by_hand: bool) -> bool:
        job = self.holds(worker, id, token)
        if job is None:
            return False
        if by_hand:
            self.holders[worker] = now + ms
            self.suspects.pop(worker, None)
        return True

    def leave(self, now: int, worker: str, crashed: bool) -> int:
        held = self.held_by(worker)
        self._give_back(now, [worker], held, held if crashed else [])
        return len(held)

    def maintain(self, now: int, tasks: list[str]) -> None:
        self.tend(now)
        for id in [id for id, job in self.jobs.items() if job.state in ENDS and job.expires <= now]:
            del self.jobs[id]
        self.keys.prune(now)
        for task in tasks:
            parked = [self.jobs[id] for id in self.among(State.UNROUTABLE) if (self.jobs[id].task or "*") == task]
            for job in sorted(parked, key=lambda job: -job.token):
                self.lines.place(job, first=True)

    def tend(self, now: int) -> None:
        seen = now if self.seen is None else self.seen
        if now - seen > OUTAGE_MS:
            self.amnesty, self.before = now + AMNESTY_MS, seen
        self.seen = now
        for id in self.among(State.SCHEDULED):
            if self.jobs[id].due <= now and not self.jobs[id].follows:
                self.lines.place_again(self.jobs[id])
        dead = []
        for worker, deadline in sorted(self.holders.items(), key=lambda item: item[1]):
            if deadline > now:
                break
            verdict = self.suspects.setdefault(worker, now) + GRACE_MS
            if deadline > self.before - OUTAGE_MS:
                verdict = max(verdict, self.amnesty)
            if now >= verdict:
                dead.append(worker)
        theirs = [job for worker in dead for job in self.held_by(worker)]
        self._give_back(now, dead, theirs, theirs)

    def _give_back(
        self, now: int, workers: list[str], jobs: list[Job], crashed: list[Job], known: bool = False
    ) -> None:
        """To the front, in the order of their claims. `known`: nothing else can have caused it."""
        lonely = {job.worker for job in jobs if self._runs_alone(now, job)}
        isolated = []
        for job in sorted(jobs, key=lambda job: -job.token):
            if self._is_cleared(now, job):
                job.crashes = job.doubtful = 0
            guilty = job in crashed and self._count(now, job, known, lonely)
            if job.cancelling is not None:
                self._end(now, job, State.CANCELLED)
            elif guilty:
                self._end(now, job, State.BROKEN)
            else:
                self._rested(job)
                if job.doubtful >= ALONE and job.lane is None:
                    isolated.append(job)
                else:
                    self.lines.place(job, first=True)
        for job in reversed(isolated):
            self.lines.isolate(job, first=True)
        for worker in workers:
            self._forget_idle(worker)

    def _runs_alone(self, now: int, job: Job) -> bool:
        return job.claim == "alone" and not self.is_steady(now, job)

    def is_steady(self, now: int, job: Job) -> bool:
        return now - job.claimed > (job.window or STEADY_MS)

    def _is_cleared(self, now: int, job: Job) -> bool:
        return job.shape.persistent and now - job.claimed > STEADY_MS

    def _count(self, now: int, job: Job, known: bool, lonely: set[str]) -> bool:
        """Count a crash, if it is the job's. Answers whether that ends it in broken."""
        alone, known = self._runs_alone(now, job), known or job.claim == "hand"
        if not known and not alone and job.worker in lonely:
            return False
        job.crashes += 1
        job.doubtful += not (known or alone)
        if job.claim == "beside" and not known and not self.is_steady(now, job):
            return job.crashes >= MAX_CRASHES + 2
        own = job.crashes - job.doubtful
        return (known or alone) and job.crashes >= MAX_CRASHES and own >= 2

    def has_young(self, now: int, worker: str) -> bool:
        """Whether a worker holds something that began lately, so that no job can run alone beside it."""
        return any(not self.is_steady(now, job) for job in self.held_by(worker))

    def has_old_suspect(self, now: int, worker: str) -> bool:
        """Whether something that has run for long may be to blame all the same."""
        return any(job.doubtful >= ALONE and not self._is_cleared(now, job) for job in self.held_by(worker))

    def _forget_idle(self, worker: str) -> None:
        if not self.held_by(worker):
            self.holders.pop(worker, None)
            self.suspects.pop(worker, None)

    # Acting from outside.

    def retry(self, now: int, id: str, payload: bytes | None = None) -> bool:
        job = self.visible(id, now)
        if job is None or job.state in {State.READY, State.ACTIVE, State.COMPLETED} or job.follows:
            return False
        if job.state in ENDS and not self.keys.take(now, job):
            return False
        job.failures = job.crashes = job.doubtful = 0
        job.payload = job.payload if payload is None else payload
        parked = job.lane is not None and self.lines.lane(job.lane).parked == id
        if parked and not self.lines.occupies(job):
            self.lines.to_the_head(job)
        else:
            self.lines.place_again(job)
        return True

    def discard(self, now: int, id: str) -> bool:
        job = self.visible(id, now)
        if job is None or job.state is State.ACTIVE:
            return False
        self._remove(job)
        return True

    def cancel(self, now: int, id: str, reason: str = "") -> CancelAnswer:
        job = self.visible(id, now)
        if job is None or job.state in ENDS:
            return CancelAnswer.NOTHING
        if job.state is State.ACTIVE:
            job.cancelling = reason
            return CancelAnswer.REQUESTED
        job.follows = False
        self._end(now, job, State.CANCELLED)
        return CancelAnswer.CANCELLED

    def cancel_all(self, now: int, lane: str | None) -> CancelCount:
        """Those that follow another come first: so they are not started by its end."""
        wanted = [job for job in self.jobs.values() if lane is None or job.lane == lane]
        wanted.sort(key=lambda job: (not job.follows, job.state is State.READY, job.due))
        answers = [self.cancel(now, job.id) for job in wanted]
        return CancelCount(answers.count(CancelAnswer.CANCELLED), answers.count(CancelAnswer.REQUESTED))

    def purge(self, state: State) -> int:
        """Those that follow another come first here, too. One that is made ready by a purge of ready jobs is next."""
        removed = 0
        while found := [self.jobs[id] for id in self.among(state)]:
            for job in sorted(found, key=lambda job: not job.follows):
                self._remove(job)
            removed += len(found)
        return removed

    def _remove(self, job: Job) -> None:
        job.follows = False
        self.lines.remove(job)
        del self.jobs[job.id]
        self.keys.free(job, gone=True)
        if job.lane and job.state in ENDS and self.lines.lane(job.lane).parked == job.id:
            self.lines.lane(job.lane).parked = ""
