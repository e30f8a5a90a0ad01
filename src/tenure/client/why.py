"""Explains why a job does not run: one reason, the most binding first, with what keeps the job and what mends it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from shlex import join
from typing import Final

from msgspec import Struct

from tenure.core.engine import FullEngine
from tenure.core.errors import TenureError, Unreachable
from tenure.core.job import WAITING, JobView, State
from tenure.core.steps import Steps
from tenure.core.values import replace
from tenure.core.why import Culprit, JobFacts, LaneFacts, LimitFacts, OtherJob, Why, WhyCode, WhyCount
from tenure.core.worker_view import WorkerView
from tenure.protocols.registry import entry_of

SILENT_MS: Final = 15_000
"""A worker that was last seen longer ago than this is shown as silent."""
AWAITING: Final = "jobs that wait for the results of other jobs hold all slots"
AWAITING_PAGE: Final = "docs/howto/results.md#a-job-that-waits-for-another"
COUNTED_MAX: Final = 1_000
"""The most waiting jobs of a queue that are explained to count their reasons."""
_LOOK_MAX: Final = 3_000
"""The most jobs that are looked at for these."""
_SAMPLE: Final = 100
_TASKS_SHOWN: Final = 5


class Case(Struct, frozen=True):
    """All that is known about one job. `now_ms`: Redis' clock, if the engine reads it.

    `workers` None: they are not known, since other programs have workers that do not announce themselves, or the user
    may not read them.
    """

    view: JobView
    facts: JobFacts
    workers: Sequence[WorkerView] | None
    now_ms: float

    @property
    def serving(self) -> list[WorkerView]:
        """The living workers of the queue."""
        return serving(self.view.queue, self.workers or (), self.now_ms)

    @property
    def able(self) -> list[WorkerView]:
        """The workers that have the task."""
        task = self.view.task
        return [one for one in self.serving if task is None or one.tasks is None or task in one.tasks]

    def command(self, name: str, *names: str, **options: str) -> str:
        words = [word for option, value in options.items() for word in (f"--{option}", *([value] if value else []))]
        if any(one.startswith("-") for one in names):  # as options do
            return join(["tenure", name, *words, "--", *names])
        return join(["tenure", name, *names, *words])

    def job(self, id: str) -> Culprit:
        return Culprit("job", id, self.view.queue)


def why_of(engine: FullEngine, queue: str, id: str, now_ms: float) -> Steps[Why | None]:
    """Read what is known about a job, and explain it; None: there is no record of it."""
    try:
        case = yield from case_of(engine, queue, id, now_ms)
    except Unreachable as error:
        return Why(WhyCode.UNREACHABLE, str(error), culprit=Culprit("queue", queue))
    return None if case is None else explain(case)


def case_of(engine: FullEngine, queue: str, id: str, now_ms: float) -> Steps[Case | None]:
    """Read what is known about a job; None: there is no record of it."""
    facts = yield from engine.facts(queue, id)
    if facts is None:
        return None
    has_ended = facts.view is not None and facts.view.state.ended
    return _case(queue, id, facts, None if has_ended else (yield from _workers_of(engine)), now_ms)


def reasons_of(engine: FullEngine, queue: str, now_ms: float) -> Steps[WhyCount]:
    """Count the reasons of waiting jobs, of at most 1,000."""
    workers = yield from _workers_of(engine)
    found: Counter[WhyCode] = Counter()
    seen: set[str] = set()
    cursor = "0"
    while True:
        ids, cursor = yield from engine.sample(queue, cursor, _SAMPLE)
        for id in ids:
            if id in seen or found.total() == COUNTED_MAX or len(seen) == _LOOK_MAX:
                continue
            seen.add(id)
            facts = yield from engine.facts(queue, id)
            if facts is not None and (facts.view is None or facts.view.state in WAITING):
                found[explain(_case(queue, id, facts, workers, now_ms)).code] += 1
        is_full = found.total() == COUNTED_MAX or len(seen) >= _LOOK_MAX
        if cursor == "0" or is_full:
            return WhyCount(dict(found.most_common()), found.total(), cursor == "0" and not is_full)


def state_and_reason(engine: FullEngine, view: JobView, now_ms: float) -> Steps[str]:
    """Describe the state of a job that has not ended, as in `It is ready: the queue is paused.`"""
    try:
        why = yield from why_of(engine, view.queue, view.id, now_ms)
    except TenureError:
        why = None
    text = "" if why is None or why.code in (WhyCode.ENDED, WhyCode.UNKNOWN) else f": {why.text}"
    return f"It is {view.state.value}{text}."


def is_living(view: WorkerView, now_ms: float) -> bool:
    """Return whether a worker has announced itself lately."""
    return now_ms - view.seen_ms <= SILENT_MS


def serving(queue: str, workers: Sequence[WorkerView], now_ms: float) -> list[WorkerView]:
    """Return the living workers of a queue."""
    return [one for one in workers if queue in one.queues and is_living(one, now_ms)]


def are_awaiting(workers: Sequence[WorkerView]) -> bool:
    """Return whether each of these workers has announced, for each of its slots, a job that waits for a result."""
    return all(one.awaiting >= one.concurrency for one in workers)


def _workers_of(engine: FullEngine) -> Steps[list[WorkerView] | None]:
    if entry_of(engine).has_foreign_clients:  # their workers do not announce themselves
        return None
    try:
        return (yield from engine.announced())
    except TenureError:  # as for a user who may not read the workers
        return None


def _case(queue: str, id: str, facts: JobFacts, workers: list[WorkerView] | None, now_ms: float) -> Case:
    view = facts.view or JobView(id, queue, State.READY)
    return Case(view, facts, workers, facts.now_ms or now_ms)


def explain(case: Case) -> Why:
    """Return the most binding reason; the others are in `also`."""
    found = [one for rule in _RULES for one in rule(case)]
    first, *others = found or [Why(WhyCode.UNKNOWN, "no reason is known")]
    return replace(first, also=tuple(others))


def _ended(case: Case) -> Iterator[Why]:
    view = case.view
    if view.state.ended:
        command = "" if view.state is State.COMPLETED else case.command("retry", view.queue, view.id)
        yield Why(WhyCode.ENDED, f"it has ended: {view.state}", view.ended_ms, command=command)


def _held(case: Case) -> Iterator[Why]:
    view, facts = case.view, case.facts
    if view.state is not State.ACTIVE or view.worker is None:
        return
    worker = Culprit("worker", view.worker)
    if facts.silent_ms is not None or (facts.lease_ends_ms is not None and facts.lease_ends_ms < case.now_ms):
        text = f"worker {view.worker} holds it and sends no heartbeat: the job returns to the queue soon"
        yield Why(WhyCode.HELD_BY_SILENT, text, view.started_ms, facts.lease_ends_ms, worker)
        if facts.amnesty_ms is not None and facts.amnesty_ms > case.now_ms:
            text = f"Redis was away: no job of a silent worker returns before {_clock(facts.amnesty_ms)}"
            yield Why(WhyCode.AFTER_OUTAGE, text, until_ms=facts.amnesty_ms)
        return
    text = f"worker {view.worker} holds it since {_clock(view.started_ms)}"
    yield Why(WhyCode.HELD, text, view.started_ms, None, worker)
    announced = next((one for one in case.workers or () if one.id == view.worker), None)
    if announced is not None and not is_living(announced, case.now_ms):
        text = f"the event loop of worker {view.worker} is blocked: a handler does not await"
        yield Why(WhyCode.LOOP_BLOCKED, text, announced.seen_ms, None, worker)


def _everywhere(case: Case) -> Iterator[Why]:
    """Explain what keeps all jobs of the queue."""
    view, facts = case.view, case.facts
    queue = Culprit("queue", view.queue)
    if facts.newer_layout is not None:
        text = f"a newer release has written to the queue (layout {facts.newer_layout}): older workers claim nothing"
        yield Why(WhyCode.NEWER_LAYOUT, text, culprit=queue)
    if facts.refusal:
        yield Why(WhyCode.REDIS_REFUSES, f"Redis refuses writes: {facts.refusal}", command=case.command("check"))
    if facts.view is None:
        text = "it is on its way to another server or partition"
        yield Why(WhyCode.MOVING, text, culprit=queue, command=case.command("info", view.queue))
    elif view.state in WAITING:
        if facts.is_paused:
            command = case.command("resume", view.queue)
            yield Why(WhyCode.QUEUE_PAUSED, "the queue is paused", culprit=queue, command=command)
        if facts.is_on_hold:
            yield Why(WhyCode.QUEUE_CANCELLING, "jobs of the queue are being cancelled: none starts until then")


def _later(case: Case) -> Iterator[Why]:
    view, owner = case.view, case.facts.owner
    if view.state is not State.SCHEDULED:
        return
    if owner is not None:
        text = f"it runs after job {owner.id}, which has its unique key and {_doing(owner)}"
        yield Why(WhyCode.AFTER_UNIQUE, text, owner.since_ms, owner.due_ms, case.job(owner.id))
        return
    command = case.command("reschedule", view.queue, view.id, delay="0")
    if view.failures and view.error is not None:
        text = (
            f"attempt {view.failures + view.crashes} failed ({view.error.type}): the next is at {_clock(view.due_ms)}"
        )
        yield Why(WhyCode.BACKOFF, text, view.error.at_ms, view.due_ms, command=command)
    else:
        text = f"its time is {_clock(view.due_ms)}"
        yield Why(WhyCode.SCHEDULED, text, view.enqueued_ms, view.due_ms, command=command)


def _workers(case: Case) -> Iterator[Why]:
    view = case.view
    if case.workers is None or view.state not in WAITING:
        return
    able = case.able
    if not case.serving:
        last = max((one for one in case.workers if view.queue in one.queues), key=lambda one: one.seen_ms, default=None)
        seen = f"; {last.id} was last seen at {_clock(last.seen_ms)}" if last is not None else ""
        text = f"no living worker serves the queue{seen}"
        yield Why(WhyCode.NO_WORKER, text, last.seen_ms if last is not None else None)
    elif not able:
        text = f"no living worker of the queue has task {view.task}: {_tasks(case.serving)}"
        yield Why(WhyCode.NO_TASK, text, culprit=Culprit("worker", case.serving[0].id))
    elif all(one.quiet for one in able):
        quiet = able[0].id
        text = f"worker {quiet} is quiet: it starts no jobs" if len(able) == 1 else "all its workers are quiet"
        yield Why(WhyCode.QUIET, text, culprit=Culprit("worker", quiet), command=case.command("quiet", quiet, undo=""))
    elif view.state is State.UNROUTABLE:
        yield Why(WhyCode.TURN, "a worker with its task came back: it is ready within seconds")


def _ready(case: Case) -> Iterator[Why]:
    view, facts = case.view, case.facts
    if view.state is not State.READY:
        return
    if facts.lane is not None and facts.lane.name:
        yield from _lane(case, facts.lane)
    if facts.limit is not None:
        yield from _limit(case, facts.limit)
    if facts.suspect is not None or (view.waits is not None and facts.limit is None):
        yield Why(WhyCode.SUSPECT, view.waits or "it was running when workers died", culprit=case.job(view.id))
    yield from _slots(case)
    if not _is_stopped(facts):
        yield from _order(case)


def _lane(case: Case, lane: LaneFacts) -> Iterator[Why]:
    view = case.view
    culprit = Culprit("lane", lane.name, view.queue)
    if lane.parked_ms is not None:
        by, command = "a user", case.command("resume", view.queue, lane=lane.name)
        if lane.is_moving:
            by, command = "a move from another server", case.command("info", view.queue)
        elif lane.parked_by:
            by = f"the failure of job {lane.parked_by}"
        yield Why(WhyCode.LANE_PARKED, f"lane {lane.name} is parked by {by}", lane.parked_ms, None, culprit, command)
    if lane.blocked_by:
        text = f"lane {lane.name} is blocked by failed job {lane.blocked_by}"
        command = case.command("retry", view.queue, lane.blocked_by)
        yield Why(WhyCode.LANE_BLOCKED, text, culprit=case.job(lane.blocked_by), command=command)
    if lane.is_on_hold:
        yield Why(WhyCode.QUEUE_CANCELLING, f"jobs of lane {lane.name} are being cancelled", culprit=culprit)
    if lane.busy >= lane.most and not lane.blocked_by:
        who = lane.occupant
        text = f"lane {lane.name} runs {lane.most} at a time" + (f": job {who.id} {_doing(who)}" if who else "")
        yield Why(WhyCode.LANE_LIMIT, text, who.since_ms if who else None, None, case.job(who.id) if who else culprit)
    if lane.place:
        jobs = _amount(case, lane.place, "job is", "jobs are")
        text = f"{jobs} before it in lane {lane.name}; the first is {lane.front}"
        yield Why(WhyCode.LANE_BEHIND, text, culprit=case.job(lane.front))


def _limit(case: Case, limit: LimitFacts) -> Iterator[Why]:
    culprit, command = Culprit("limit", limit.name), case.command("limits", limit.name)
    rule = next((one for one in case.view.shape.limits if one.name == limit.name), None)
    most = limit.most if limit.most is not None else rule.concurrency if rule is not None else None
    if limit.rests_ms is not None and limit.rests_ms > case.now_ms:
        text = f"limit {limit.name} rests until {_clock(limit.rests_ms)}"
        yield Why(WhyCode.LIMIT_RESTING, text, None, limit.rests_ms, culprit, command)
    elif most is not None and limit.taken + min(rule.cost if rule is not None else 1, most) > most:
        holders = [f"job {id}" for id in limit.holding] + [f"jobs of queue {queue}" for queue in limit.holding_queues]
        by = f", by {', '.join(holders)}" if holders else ""
        text = f"limit {limit.name} is full: {limit.taken} of {most} places are taken{by}"
        yield Why(WhyCode.LIMIT_FULL, text, culprit=culprit, command=command)
    else:
        when = f"at {_clock(limit.moment_ms)}" if limit.moment_ms is not None else "soon"
        text = f"limit {limit.name} lets the next job start {when}"
        yield Why(WhyCode.LIMIT_RATE, text, None, limit.moment_ms, culprit, command)


def _slots(case: Case) -> Iterator[Why]:
    able = [one for one in case.able if not one.quiet]
    if not able:
        return
    held, longest = case.facts.held, case.facts.longest
    if are_awaiting(able):
        yield Why(WhyCode.BUSY, AWAITING, culprit=Culprit("worker", able[0].id))
    elif all(max(one.active, held.get(one.id, 0)) >= one.concurrency for one in able):
        workers = "worker" if len(able) == 1 else f"{len(able)} workers"
        text = f"all {sum(one.concurrency for one in able)} slots of its {workers} are taken"
        if longest is None:
            yield Why(WhyCode.BUSY, text, culprit=Culprit("worker", able[0].id))
        else:
            text += f"; job {longest.id} has run longest, since {_clock(longest.since_ms)}"
            yield Why(WhyCode.BUSY, text, longest.since_ms, None, case.job(longest.id))


def _order(case: Case) -> Iterator[Why]:
    facts, lane = case.facts, case.facts.lane
    if lane is not None and lane.share:
        text = f"share {lane.share} has its turn after {_amount(case, lane.turn or 0, 'other', 'others')}"
        yield Why(WhyCode.SHARE, text, culprit=Culprit("share", lane.share))
    if facts.higher:
        one = facts.higher == 1
        text = f"{facts.higher:,} {'job' if one else 'jobs'} of higher priority {'comes' if one else 'come'} first"
        yield Why(WhyCode.PRIORITY, text)
    if lane is not None and not lane.share and not lane.place and lane.turn is not None:
        before = lane.turn and f"{_amount(case, lane.turn, 'lane has its', 'lanes have their')} turn before it"
        yield Why(WhyCode.TURN, before or "its lane is the next one")
    elif facts.before:
        yield Why(WhyCode.TURN, f"{_amount(case, facts.before, 'job is', 'jobs are')} before it")
    elif facts.before == 0 and not facts.higher:
        yield Why(WhyCode.TURN, "it is the next one")


def _is_stopped(facts: JobFacts) -> bool:
    """Return whether more than the order of the queue keeps a job."""
    lane = facts.lane
    stops = lane is not None and (lane.parked_ms is not None or bool(lane.blocked_by) or lane.busy >= lane.most)
    return stops or facts.limit is not None or facts.suspect is not None


_RULES: Final[tuple[Callable[[Case], Iterator[Why]], ...]] = (_ended, _held, _everywhere, _later, _workers, _ready)


def _doing(other: OtherJob) -> str:
    if other.worker:
        return f"runs on worker {other.worker} since {_clock(other.since_ms)}"
    if other.due_ms is not None:
        return f"is tried again at {_clock(other.due_ms)}"
    return f"is {other.state}" if other.state else "has not ended"


def _tasks(workers: Sequence[WorkerView]) -> str:
    known = sorted({task for one in workers for task in one.tasks or ()})
    more = ", ..." if len(known) > _TASKS_SHOWN else ""
    who = workers[0].id if len(workers) == 1 else f"{len(workers)} workers"
    return f"{who} {'has' if len(workers) == 1 else 'have'} {', '.join(known[:_TASKS_SHOWN]) or 'no task'}{more}"


def _amount(case: Case, number: int, one: str, many: str) -> str:
    least = "at least " if number >= case.facts.most_looked > 0 else ""
    return f"{least}{number:,} {one if number == 1 else many}"


def _clock(ms: int | None) -> str:
    """Return a time, with its date unless it is within half a day from now."""
    if ms is None:
        return "an unknown time"
    at = datetime.fromtimestamp(ms / 1000, UTC)
    is_near = abs(at - datetime.now(UTC)) < timedelta(hours=12)
    return f"{at:%H:%M:%S} UTC" if is_near else f"{at:%Y-%m-%d %H:%M:%S} UTC"
