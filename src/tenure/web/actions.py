"""What the dashboard changes: one table of actions, with the check of their input."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from tenure.client.call import as_arguments
from tenure.core.engine import Feature
from tenure.core.errors import InvalidArgument, invalid
from tenure.core.names import shown
from tenure.core.schedules.when import Cron, Every, When
from tenure.manage.audit import entry_of
from tenure.manage.bulk import CHANGED_MAX, BulkChange, UnchangedJob
from tenure.manage.documents import Document
from tenure.web.reads import FILTERS, DashboardApp, with_ages
from tenure.web.runs import ChangeRun, Runs

PICKED_MAX: Final = 500
"""The most jobs with their ids in one action."""
UNNOTED: Final = frozenset({"payload", "dry_run", "expect", "rate"})
"""The arguments that the audit does not have."""
RATE: Final = 1_000
"""Jobs that a change of many changes in a second."""


class ActionConflict(Exception):
    """The state is not the one that the caller has seen: 409."""

    def __init__(self, text: str, document: Document | None = None) -> None:
        super().__init__(text)
        self.document = {"error": text, **(document or {})}


class ActionBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of an action. `TABLE` names which of these arguments each action takes.

    `expect`: the number of jobs that a dry run has found.
    """

    select: dict[str, Any] = {}
    dry_run: bool = False
    expect: int | None = None
    reason: str = ""
    rate: int = RATE
    payload: str | None = None
    task: str | None = None
    lane: str | None = None
    priority: int | None = None
    delay: float | None = None
    id: str | None = None
    cron: str | None = None
    tz: str = "UTC"
    every_s: float | None = None
    max_length: int | None = None
    lane_failure: str | None = None
    partitions: int | None = None
    concurrency: int | None = None
    per_second: float | None = None
    per_minute: float | None = None
    per_hour: float | None = None
    per_day: float | None = None
    burst: int | None = None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that are call."""
        plain = ActionBody()
        found = {name: getattr(self, name) for name in self.__struct_fields__ if name != "select"}
        return {name: value for name, value in found.items() if value != getattr(plain, name)}


@dataclass(frozen=True, slots=True)
class ActionCall:
    """An action with its input, and what it needs to run."""

    app: DashboardApp
    runs: Runs
    action: str
    body: ActionBody
    user: str
    address: str

    def chosen(self, *names: str) -> list[str]:
        """Return these parts of the selection; it has no others. Raises `InvalidArgument`."""
        select = self.body.select
        if unknown := sorted(select.keys() - set(names)):
            raise invalid("select", f"{' and '.join(names)}", ", ".join(map(shown, unknown)))
        for name in names:
            if not isinstance(select.get(name), str):
                raise invalid(f"select: {name}", "a text", shown(select.get(name)))
        return [select[name] for name in names]

    def arguments(self, *names: str) -> dict[str, Any]:
        """Return which of these arguments are given, with their values; without names all."""
        given = self.body.arguments()
        return {name: given[name] for name in names or given if name in given}

    async def note(self, count: int, result: str = "done") -> None:
        """Note the action in the audit."""
        selection: dict[str, Any] = dict(self.body.select)
        if picked := selection.pop("jobs", None):
            selection["jobs"] = " ".join(f"{queue}/{id}" for queue, id in picked[:20])
        selection |= {name: value for name, value in self.arguments().items() if name not in UNNOTED}
        entry = entry_of(self.user, self.address, self.action, selection, count, result)
        await self.app.control.anote(entry)


Perform: TypeAlias = Callable[[ActionCall], Awaitable[Document]]


@dataclass(frozen=True, slots=True)
class Action:
    """One action. `feature`: what the wire format must have for it. `takes`: its arguments besides the selection."""

    perform: Perform
    feature: Feature | None = None
    takes: tuple[str, ...] = ()


async def _of_jobs(call: ActionCall) -> Document:
    """Retry, cancel, discard or purge: one job, the picked ones, or all that match."""
    select = call.body.select
    if "id" in select and call.action != "purge":
        queue, id = call.chosen("queue", "id")
        if call.body.dry_run:
            found = int(await call.app.inspect.ajob(queue, id) is not None)
            return {"found": found, "selection": select, "dry_run": True, "expect": found}
        done = bool(await _one(call, queue, id))
        await call.note(int(done), "done" if done else "nothing to do")
        if not done:
            raise ActionConflict(f"Job {id!r} is not in a state for that any more, or is gone.")
        return {"done": 1}
    picked = _picked(select)
    if picked is None and not select:
        raise InvalidArgument("Nothing is selected. Name a queue, a state or a filter, or pass everything: true.")
    dry = None if picked is not None else await _bulk(call, dry_run=True, rate=call.body.rate)
    meant = len(picked or ()) if dry is None else dry.found
    answer: Document = {"found": meant, "selection": select, "cut": dry is not None and dry.is_cut}
    if call.body.dry_run or (call.body.expect is None and meant != 1):
        return answer | {"dry_run": True, "expect": meant}
    if call.body.expect not in (None, meant):
        raise ActionConflict(
            f"There are {meant:,} such jobs now, not {call.body.expect:,}.", answer | {"expect": meant}
        )
    if call.runs.is_full:
        raise ActionConflict("Other changes are running. Wait for one to end, or stop it.")

    async def change(run: ChangeRun) -> None:
        await (_change_matching(call, run) if picked is None else _change_picked(call, run, picked))

    async def ended(run: ChangeRun) -> None:
        await call.note(run.done.total(), f"{run.state}: {run.error}" if run.error else run.state)

    selection = dict(select) if picked is None else {"jobs": len(picked)}
    await call.note(meant, "begun")
    run = call.runs.begin(call.action, call.user, selection, meant, change, ended)
    return answer | {"run": run.id}


def _picked(select: Mapping[str, Any]) -> list[tuple[str, str]] | None:
    """Return the jobs that are named one by one, as pairs of queue and id; None: filters select them."""
    if "jobs" not in select:
        return None
    try:
        jobs = msgspec.convert(select["jobs"], list[tuple[str, str]])
    except msgspec.ValidationError:
        raise invalid("select: jobs", "pairs of a queue and an id", shown(select["jobs"])) from None
    if len(select) > 1 or not 0 < len(jobs) <= PICKED_MAX:
        raise invalid("select: jobs", f"up to {PICKED_MAX} jobs and nothing else", f"{len(jobs):,}")
    return list(dict.fromkeys(jobs))


def _filters(call: ActionCall) -> dict[str, Any]:
    """Return the filters of a selection, with ages as numbers. Raises `InvalidArgument`."""
    select = call.body.select
    if unknown := sorted(select.keys() - {*FILTERS, "everything"}):
        raise invalid("select", f"filters among {', '.join(FILTERS)}", ", ".join(map(shown, unknown)))
    return with_ages({name: value for name, value in select.items() if value not in (None, "")})


async def _bulk(call: ActionCall, **options: Any) -> BulkChange:
    control, filters = call.app.control, _filters(call)
    queue, state = filters.pop("queue", None), filters.pop("state", None)
    if call.action == "purge":
        filters.pop("everything", None)
        return await control.apurge_matching(queue, state, **filters, **options)
    if call.action == "cancel":
        return await control.acancel_matching(queue, state, reason=call.body.reason, **filters, **options)
    change = control.aretry_all if call.action == "retry" else control.adiscard_matching
    return await change(queue, state, **filters, **options)


async def _change_matching(call: ActionCall, run: ChangeRun) -> None:
    """Change as many jobs as were found, portion by portion."""
    while (left := run.meant - run.done.total()) > 0:
        before = Counter(run.done)

        def report(change: BulkChange, before: Counter[str] = before) -> None:
            run.report(before + Counter(change.done))

        change = await _bulk(call, progress=report, limit=min(left, CHANGED_MAX), rate=call.body.rate)
        run.done = before + Counter(change.done)
        run.refuse(change.unchanged)
        if run.done == before:
            break


async def _change_picked(call: ActionCall, run: ChangeRun, picked: list[tuple[str, str]]) -> None:
    for queue, id in picked:
        run.report(run.done)
        if await _one(call, queue, id):
            run.done[call.action] += 1
        else:
            run.refuse([UnchangedJob(queue, id, "it is gone, or its state has changed")])


async def _one(call: ActionCall, queue: str, id: str) -> object:
    control = call.app.control
    if call.action == "retry":
        return await control.aretry(queue, id)
    if call.action == "cancel":
        return await control.acancel(queue, id, call.body.reason)
    return await control.adiscard(queue, id)


async def _edit(call: ActionCall) -> Document:
    """Retry a job with another payload."""
    queue, id = call.chosen("queue", "id")
    if call.body.payload is None:
        raise invalid("payload", "the new payload as text", "nothing")
    done = await call.app.control.aretry(queue, id, payload=call.body.payload)
    return await _did(call, done, f"Job {id!r} has begun, waits in its queue, or is gone: it cannot be changed now.")


async def _enqueue(call: ActionCall) -> Document:
    """Enqueue a call of a task of the app, or a raw payload."""
    (name,) = call.chosen("queue")
    body = call.body
    options = call.arguments("delay", "priority", "lane", "id")
    if body.payload is None:
        raise invalid("payload", "arguments as JSON, or the payload", "nothing")
    if body.task is None:
        handle = await call.app.queue(name).aenqueue(body.payload, **options)
    else:
        task = call.app.tasks.get(body.task)
        if task is None:
            raise InvalidArgument(f"The app of this dashboard has no task {shown(body.task)}.")
        positional, named = as_arguments(body.payload.encode())
        positional, named = task.rebuild(positional, named)
        handle = await task.using(queue=name or None, **options).aenqueue(*positional, **named)
    await call.note(int(handle.created), handle.id)
    return {"done": int(handle.created), "queue": handle.queue, "id": handle.id}


async def _of_queue(call: ActionCall) -> Document:
    (queue,) = call.chosen("queue")
    control = call.app.control
    if call.action == "configure":
        changes = call.arguments()
        if not changes:
            raise invalid("configure", "max_length, lane_failure or partitions", "none of them")
        await control.aconfigure(queue, **changes)
    else:
        await (control.apause(queue) if call.action == "pause" else control.aresume(queue))
    return await _did(call)


async def _of_lane(call: ActionCall) -> Document:
    queue, lane = call.chosen("queue", "lane")
    change = call.app.control.apark_lane if call.action == "park" else call.app.control.aresume_lane
    return await _did(
        call,
        await change(queue, lane),
        f"Lane {lane!r} is parked already." if call.action == "park" else f"Lane {lane!r} is not parked.",
    )


async def _of_flow(call: ActionCall) -> Document:
    (id,) = call.chosen("flow")
    flow = call.app.flow(id)
    if call.action == "flow_retry":
        count = await flow.aretry()
        await call.note(count)
        return {"done": count}
    done = await (flow.aseal() if call.action == "flow_seal" else flow.acancel(call.body.reason))
    return await _did(call, done, f"There is no flow {id!r}, or its record has expired.")


async def _of_schedule(call: ActionCall) -> Document:
    queue, name = call.chosen("queue", "name")
    schedules, body = call.app.schedules, call.body
    missing = f"Queue {queue!r} has no schedule {name!r}."
    if call.action == "schedule_pause":
        return await _did(call, await schedules.apause(queue, name, body.reason), missing)
    if call.action == "schedule_resume":
        return await _did(call, await schedules.aresume(queue, name), missing)
    if call.action == "schedule_remove":
        return await _did(call, await schedules.aremove(queue, name), missing)
    if call.action == "schedule_trigger":
        handle = await schedules.atrigger(queue, name)
        return (await _did(call)) | {"queue": queue, "id": handle.id}
    when: When | None = None if body.cron is None else Cron(body.cron, tz=body.tz)
    if body.every_s is not None:
        when = Every(seconds=body.every_s)
    await schedules.aupdate(queue, name, when=when)
    return await _did(call)


async def _of_limit(call: ActionCall) -> Document:
    (name,) = call.chosen("name")
    if call.action == "limit_clear":
        return await _did(call, await call.app.limits.aclear(name), f"Limit {name!r} has no stored numbers.")
    await call.app.limits.aset(name, **call.arguments())
    return await _did(call)


async def _of_worker(call: ActionCall) -> Document:
    (worker,) = call.chosen("worker")
    if call.action == "stacks":
        found = await call.app.inspect.astacks(worker)
        return await _did(call, found is not None, f"Worker {worker!r} is not there, or did not answer.")
    change = call.app.control.aquiet if call.action == "quiet" else call.app.control.aunquiet
    return await _did(call, await change(worker), f"There is no worker {worker!r}.")


async def _stop(call: ActionCall) -> Document:
    number = call.body.select.get("run")
    if not isinstance(number, int) or len(call.body.select) != 1:
        raise invalid("select: run", "the number of a run", shown(number))
    return await _did(call, call.runs.stop(number), "This change does not run any more.")


async def _did(call: ActionCall, done: bool = True, otherwise: str = "") -> Document:
    """Note an action that is done, or raise why it is not."""
    await call.note(int(done), "done" if done else "nothing to do")
    if not done:
        raise ActionConflict(otherwise)
    return {"done": 1}


_OF_MANY: Final = ("dry_run", "expect", "rate")
_RATES: Final = ("per_second", "per_minute", "per_hour", "per_day", "concurrency", "burst")
_OF_JOB: Final = ("payload", "task", "lane", "priority", "delay", "id")
TABLE: Final[Mapping[str, Action]] = {
    "retry": Action(_of_jobs, Feature.RECORDS, _OF_MANY),
    "cancel": Action(_of_jobs, takes=("reason", *_OF_MANY)),
    "discard": Action(_of_jobs, takes=_OF_MANY),
    "purge": Action(_of_jobs, takes=_OF_MANY),
    "pause": Action(_of_queue, Feature.PAUSE),
    "resume": Action(_of_queue, Feature.PAUSE),
    "configure": Action(_of_queue, Feature.MAX_LENGTH, ("max_length", "lane_failure", "partitions")),
    "park": Action(_of_lane, Feature.LANES),
    "resume_lane": Action(_of_lane, Feature.LANES),
    "flow_cancel": Action(_of_flow, Feature.FLOWS, ("reason",)),
    "flow_retry": Action(_of_flow, Feature.FLOWS),
    "flow_seal": Action(_of_flow, Feature.FLOWS),
    "edit": Action(_edit, Feature.RECORDS, ("payload",)),
    "enqueue": Action(_enqueue, takes=_OF_JOB),
    "schedule_pause": Action(_of_schedule, Feature.SCHEDULES, ("reason",)),
    "schedule_resume": Action(_of_schedule, Feature.SCHEDULES),
    "schedule_trigger": Action(_of_schedule, Feature.SCHEDULES),
    "schedule_remove": Action(_of_schedule, Feature.SCHEDULES),
    "schedule_edit": Action(_of_schedule, Feature.SCHEDULES, ("cron", "tz", "every_s")),
    "limit_set": Action(_of_limit, Feature.LIMITS, _RATES),
    "limit_clear": Action(_of_limit, Feature.LIMITS),
    "quiet": Action(_of_worker, Feature.QUIET),
    "unquiet": Action(_of_worker, Feature.QUIET),
    "stacks": Action(_of_worker, Feature.STACKS),
    "stop": Action(_stop),
}
"""The actions, in the order of the documentation."""


async def perform(call: ActionCall) -> Document:
    """Do an action. Raises `InvalidArgument`, also for an argument that it does not take, and `ActionConflict`."""
    takes = TABLE[call.action].takes
    if unknown := sorted(call.body.arguments().keys() - set(takes)):
        rule = f"arguments among {', '.join(takes)}" if takes else "no arguments"
        raise invalid(call.action, rule, ", ".join(unknown))
    return await TABLE[call.action].perform(call)
