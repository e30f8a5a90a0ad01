"""What a queue may do, said once more without Redis: which changes of the jobs each call may cause.

The model sees all jobs after each call, and the operation that made the call. It fails at the first change that this
operation may not cause at this time. What only time may cause (a job becomes due, a dead worker loses its jobs, a
record expires) may come with any call. Times are virtual milliseconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import count
from typing import Final

from tenure.core.job import ENDS, WAITING, NewJob, State
from tenure.core.outcome import Broken, Completed, Crashed, Failed, Outcome, Retried
from tenure.core.rates import LimitRule
from tenure.core.shape import Conflict, Until
from tests.simulation.values import ENDED_BY, Doing, Group, Job, Seen, Violation, require

GONE: Final = None
"""The state of a job that is not there."""


class Model:
    """All queues. `may`: settings by name, each with the values that it may have while a change of it is under way."""

    def __init__(self, silence_ms: int, max_crashes: int, has_results: bool) -> None:
        self.silence_ms, self.max_crashes, self.has_results = silence_ms, max_crashes, has_results
        self.jobs: dict[str, Job] = {}
        self.births = count()
        self.lines: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        self.signs: dict[tuple[str, str], int] = {}
        self.may: defaultdict[tuple[str, str], set[int | bool]] = defaultdict(lambda: {False})
        self.rates: dict[str, tuple[float, int]] = {}
        self.groups: dict[str, Group] = {}
        self.expected: dict[str, NewJob] = {}
        """Jobs that may come with any call: those that follow the completion of another."""
        self.ticks: set[tuple[str, int]] = set()
        self.first_ticks: dict[str, int] = {}
        self.moving = False
        """Whether the jobs move to other partitions: one on its way is not seen."""

    def note(self, worker: str, queues: Iterable[str], now: int) -> None:
        """The worker gave a sign of life at this time or later."""
        for queue in queues:
            self.signs[worker, queue] = max(now, self.signs.get((worker, queue), 0))

    def is_held_by(self, worker: str, id: str, token: int | str | None = None) -> bool:
        """Whether the worker holds the job, with this token."""
        seen = self.jobs[id].seen if id in self.jobs else None
        return seen is not None and seen.worker == worker and token in (None, seen.token)

    def is_moving(self) -> bool:
        return self.moving

    def drop(self, id: str) -> None:
        """The job was removed where it was not seen."""
        self.jobs[id].seen = None
        self._out_of_line(self.jobs[id])

    def alive(self) -> list[str]:
        """Jobs that have not ended."""
        return [id for id, job in self.jobs.items() if job.state is not GONE and job.state not in ENDS]

    def observe(self, doing: Doing, seen: Mapping[str, Seen], now: int) -> None:
        """Compare all jobs with those before the last call. Raises `Violation`."""
        changed = [id for id, job in self.jobs.items() if job.seen != seen.get(id)]
        if self.moving:
            changed = [id for id in changed if id in seen or self.jobs[id].state is State.ACTIVE]
        was = {id: self.jobs[id].seen for id in changed}
        born = [id for id in seen if id not in self.jobs or (self.jobs[id].seen is None and id in doing.adds)]
        changed = [id for id in changed if id not in born]
        for id in sorted(changed, key=self._order):
            self._change(doing, id, self.jobs[id], seen.get(id), now)
        for id in sorted(born, key=list(doing.adds).index) if set(born) <= set(doing.adds) else born:
            self._add(doing, id, seen[id], now)
        claimed = [id for id in changed if id in seen and seen[id].state is State.ACTIVE]
        claimed = [id for id in claimed if (before := was[id]) is None or before.token != seen[id].token]
        for id in sorted(claimed, key=self._position):
            self._claim(doing, id, now)
        self._check_keys()

    def _order(self, id: str) -> tuple[int, int, int]:
        """Those that return to the front of their line come first, and of these the last one."""
        job = self.jobs[id]
        return (0, 0, -job.number) if job.begun else (1, job.due, job.number)

    # One job.

    def _add(self, doing: Doing, id: str, after: Seen, now: int) -> None:
        new = doing.adds.get(id) if not doing.over else None
        if new is None:
            new = self.expected.pop(id, None) or self._flow_job(id, now)
        else:
            doing.did.add(id)
        if new is None:
            raise Violation(f"{id} came from nowhere")
        if new.scheduled_ms is not None:
            tick = (new.payload.decode(), new.scheduled_ms)
            require(tick not in self.ticks, f"tick {tick} came twice")
            require(new.scheduled_ms <= now, f"tick {tick} came early")
            self.ticks.add(tick)
        require(after.state in WAITING, f"{id} began as {after.state}")
        follows = after.state is State.SCHEDULED and not new.delay_ms
        job = self.jobs[id] = Job(new, next(self.births), after, now + new.delay_ms)
        require(after.state is not State.READY or not new.delay_ms, f"{id} is ready before its time")
        require(not follows or _reruns(new), f"{id} waits for no reason")
        if after.state is State.READY:
            self._line_up(job)

    def _flow_job(self, id: str, now: int) -> NewJob | None:
        """The job that follows the end of a flow, or the next one of a chain, if its time has come."""
        for group in self.groups.values():
            ids = [one.id for one in group.members]
            states = [self.jobs[one].state if one in self.jobs else "never" for one in ids]
            good = [one in self.jobs and self.jobs[one].ends[State.COMPLETED] > 0 for one in ids]
            if id in ids:
                number = ids.index(id)
                require(group.is_chain and all(good[:number]), f"{id} of a chain came early")
                return group.members[number]
            for after in (group.success, group.end):
                if id in (after.id, f"{after.id}-1"):
                    ended = [state in ENDS or state is GONE for state in states if state != "never"]
                    broken_off = group.is_chain and not all(good[: len(ended)])
                    is_over = all(ended) and ("never" not in states or broken_off or group.may_stop(now))
                    require(is_over, f"{id} came before the end of its flow: {states}")
                    require(after is group.end or all(good), f"{id} followed a flow without success: {states}")
                    return after
        return None

    def _change(self, doing: Doing, id: str, job: Job, after: Seen | None, now: int) -> None:
        before, job.seen = job.seen, after
        if before is None:
            raise Violation(f"{id} is there again, in {after and after.state}")
        if after and (after.state, after.token, after.worker) == (before.state, before.token, before.worker):
            return
        what = f"{doing.kind} of {doing.actor}: {id} from {before.state} to {after.state if after else 'nowhere'}"
        if before.state is State.ACTIVE:
            self._leave(doing, id, job, before, after, now, what)
        elif before.state in WAITING:
            self._unqueue(doing, id, job, before, after, now, what)
        else:
            self._after_end(doing, id, before, after, now, what)
        if after and after.state in ENDS:
            job.ends[after.state] += 1
            require(job.ends[State.COMPLETED] <= 1, f"{id} completed twice")

    def _leave(self, doing: Doing, id: str, job: Job, before: Seen, after: Seen | None, now: int, what: str) -> None:
        """A lease ends: by its own settlement, because the worker leaves, or because it is dead."""
        token, outcome = doing.settles.get(id, (None, None))
        state = after.state if after else GONE
        if outcome is not None and token == before.token and not doing.over and id not in doing.did:
            doing.did.add(id)
            self._settled(job, outcome, before, state, now, what)
            return
        left = doing.kind == "leave" and doing.actor == before.worker and not doing.over
        if left:
            doing.did.add(id)
        sign = self.signs.get((before.worker or "", job.new.queue), 0)
        require(left or now - sign >= self.silence_ms, f"{what}, {now - sign} ms after the last sign of its worker")
        broken = state is State.BROKEN and after is not None and after.crashes >= self.max_crashes
        cancelled = state is State.CANCELLED and before.is_cancelling
        require(broken or cancelled or state in (State.READY, State.ACTIVE), what)
        if state in (State.READY, State.ACTIVE):
            self._line_up(job, first=True)

    def _settled(self, job: Job, outcome: Outcome, before: Seen, state: State | None, now: int, what: str) -> None:
        expected = {ENDED_BY[type(outcome)]}
        if isinstance(outcome, Completed):
            expected = {State.COMPLETED} if outcome.result_ttl_ms and self.has_results else {GONE}
            job.ends[State.COMPLETED] += state is GONE
            self.expected.update((new.id, new) for new in outcome.follow)
        elif isinstance(outcome, Retried):
            job.due = now + outcome.delay_ms
            expected = {State.SCHEDULED if outcome.delay_ms and not outcome.limit else State.READY}
        elif isinstance(outcome, Crashed):
            expected |= {State.BROKEN}
        if before.is_cancelling and not isinstance(outcome, (Completed, Failed, Broken)):
            expected |= {State.CANCELLED}
        require(state in expected, f"{what}, after {type(outcome).__name__}")
        if state is State.READY:
            self._line_up(job, first=True)

    def _unqueue(self, doing: Doing, id: str, job: Job, before: Seen, after: Seen | None, now: int, what: str) -> None:
        """A job that waits is claimed, becomes ready, or is taken away."""
        state = after.state if after else GONE
        asked = id in doing.ids and not doing.over
        if state in (GONE, State.CANCELLED):
            kinds = ("discard",) if state is GONE else ("cancel",)
            flows = [group for group in self.groups.values() if job.new in group.members]
            stopped = state is State.CANCELLED and any(group.may_stop(now) for group in flows)
            require((asked and doing.kind in kinds) or stopped, what)
            doing.did |= {id} if asked else set()
            self._out_of_line(job)
            return
        require(state in (State.READY, State.ACTIVE), what)
        if before.state is State.READY:
            return
        if asked and doing.kind == "retry":
            doing.did.add(id)
        elif before.state is State.SCHEDULED and not _reruns(job.new):
            require(job.due <= now, f"{what}, {job.due - now} ms early")
        self._line_up(job, first=job.begun)

    def _after_end(self, doing: Doing, id: str, before: Seen, after: Seen | None, now: int, what: str) -> None:
        """A record expires or is removed, or a person lets the job run again."""
        asked = id in doing.ids and not doing.over
        if after is None:
            has_expired = before.expires_ms is not None and before.expires_ms <= now
            require(has_expired or (asked and doing.kind in ("discard", "purge")), what)
            doing.did |= {id} if asked else set()
            return
        require(asked and doing.kind == "retry" and before.state is not State.COMPLETED, what)
        doing.did.add(id)
        job = self.jobs[id]
        job.begun = False
        self._line_up(job)

    # Lines, limits and keys.

    def _line_of(self, job: Job) -> list[str]:
        return self.lines[job.new.queue, job.new.shape.lane or ""]

    def _line_up(self, job: Job, first: bool = False) -> None:
        """`first`: in front, but behind those that were before it and have returned, too."""
        if job.new.shape.lane is not None:
            line = self._line_of(job)
            job.number = job.number if first else next(self.births)
            before = [one.begun and one.number < job.number for one in map(self.jobs.__getitem__, line)]
            line.insert([*before, False].index(False) if first else len(line), job.new.id)

    def _out_of_line(self, job: Job) -> None:
        if job.new.id in (line := self._line_of(job)):
            line.remove(job.new.id)

    def _position(self, id: str) -> int:
        line = self._line_of(self.jobs[id])
        return line.index(id) if id in line else 0

    def _claim(self, doing: Doing, id: str, now: int) -> None:
        job = self.jobs[id]
        seen, shape = job.seen, job.new.shape
        assert seen is not None and seen.token is not None  # noqa: PT018
        require(doing.kind == "claim" and not doing.over, f"{doing.kind} of {doing.actor} started {id}")
        require(seen.worker == doing.actor, f"{id} is held by {seen.worker}, claimed by {doing.actor}")
        require(self.may["paused", job.new.queue] != {True}, f"{id} started on a paused queue")
        require(not job.ends[State.COMPLETED], f"{id} started after its completion")
        require(seen.token not in job.tokens, f"{id} has a token that it had before")
        numbers = [token for token in [*job.tokens, seen.token] if isinstance(token, int)]
        require(numbers == sorted(numbers), f"the tokens of {id} do not grow")
        job.tokens.append(seen.token)
        job.begun = True
        doing.did.add(id)
        self.note(doing.actor, [job.new.queue], now)
        if shape.lane is not None:
            self._claim_of_lane(job, shape.lane)
        for rule in shape.limits:
            self._claim_of_limit(id, rule, now)

    def _claim_of_lane(self, job: Job, lane: str) -> None:
        id, line = job.new.id, self._line_of(job)
        require(self.may[f"parked {job.new.queue}", lane] != {True}, f"{id} of a parked lane started")
        if job.new.shape.lane_limit == 1:
            require(line[:1] == [id], f"{id} started before {line[:1]} of its lane")
        line.remove(id)
        same = [one for one in self.jobs.values() if (one.new.queue, one.new.shape.lane) == (job.new.queue, lane)]
        busy = [one.new.id for one in same if one.state is State.ACTIVE]
        most = job.new.shape.lane_limit
        assert job.seen is not None
        together = all(one.seen and one.seen.worker == job.seen.worker for one in same if one.state is State.ACTIVE)
        require(len(busy) <= most or (most == 1 and together), f"{busy} of lane {lane} run at a time")
        waits = [one.new.id for one in same if one.begun and one.state is State.SCHEDULED]
        require(most > 1 or not waits, f"{id} started while {waits} of its lane waits for its retry")

    def _claim_of_limit(self, id: str, rule: LimitRule, now: int) -> None:
        if rule.concurrency is not None:
            most = max(number or rule.concurrency for number in self.may["limit", rule.name])
            running = [job for job in self.jobs.values() if job.state is State.ACTIVE]
            costs = [one.cost for job in running for one in job.new.shape.limits if one.name == rule.name]
            used = sum(min(cost, most) for cost in costs)
            require(used <= most, f"{id} started: {used} places of {rule.name}, allowed are {most}")
        if rule.interval_us is not None:
            level, since = self.rates.get(rule.name, (float(rule.burst), now))
            level = min(rule.burst, level + 1000 * (now - since) / rule.interval_us) - min(rule.cost, rule.burst)
            require(level >= -1e-6, f"{id} started before the rate of {rule.name} allows it")
            self.rates[rule.name] = level, now

    def _check_keys(self) -> None:
        """At most one job that has not ended has a key; one that is to run after it has its own place."""
        owners: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for id in self.alive():
            rule = self.jobs[id].new.shape.unique
            if rule is None or _reruns(self.jobs[id].new):
                continue
            if rule.until is Until.ENDED or not self.jobs[id].begun:
                owners[self.jobs[id].new.queue, rule.key].append(id)
        for (queue, key), ids in owners.items():
            require(len(ids) == 1, f"key {key} of {queue} is held by {ids}")


def _reruns(new: NewJob) -> bool:
    return new.shape.unique is not None and new.shape.unique.conflict is Conflict.RERUN
