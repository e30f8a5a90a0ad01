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
from tenure.web.access import Visitor
from tenure.web.reads import FILTERS, DashboardApp, with_ages
from tenure.web.runs import Run, Runs

NOTED: Final = (
    *("reason", "task", "lane", "priority", "delay", "id", "cron", "every_s", "max_length", "lane_failure"),
    *("partitions", "concurrency", "per_second", "per_minute", "per_hour", "per_day", "burst"),
)
"""The arguments that the audit has."""
PICKED_MAX: Final = 500
"""Jobs that one action names by their ids."""
RATE: Final = 1_000
"""Jobs that a change of many changes in a second."""


class Conflict(Exception):
    """The state is not the one that the caller has seen: 409."""

    def __init__(self, text: str, document: Document | None = None) -> None:
        super().__init__(text)
        self.document = {"error": text, **(document or {})}


class Asked(msgspec.Struct, forbid_unknown_fields=True):
    """The body of an action. `expect`: the number of jobs that a dry run has found. The others are its arguments."""

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


@dataclass(frozen=True, slots=True)
class Given:
    """An action with its input, and what it needs to run."""

    app: DashboardApp
    runs: Runs
    action: str
    asked: Asked
    visitor: Visitor
    address: str

    def chosen(self, *names: str) -> list[str]:
        """Return these parts of the selection; it has no others. Raises `InvalidArgument`."""
        select = self.asked.select
        if unknown := sorted(select.keys() - set(names)):
            raise invalid("select", f"{' and '.join(names)}", ", ".join(map(shown, unknown)))
        for name in names:
            if not isinstance(select.get(name), str):
                raise invalid(f"select: {name}", "a text", shown(select.get(name)))
        return [select[name] for name in names]

    def numbers(self, *names: str) -> dict[str, Any]:
        """Return which of these arguments are given, with their values."""
        return {name: value for name in names if (value := getattr(self.asked, name)) is not None}

    async def note(self, count: int, result: str = "done") -> None:
        """Note the action in the audit."""
        selection: dict[str, Any] = dict(self.asked.select)
        if picked := selection.pop("jobs", None):
            selection["jobs"] = " ".join(f"{queue}/{id}" for queue, id in picked[:20])
        selection |= {name: value for name in NOTED if (value := getattr(self.asked, name)) not in (None, "")}
        entry = entry_of(self.visitor.name, self.address, self.action, selection, count, result)
        await self.app.control.anote(entry)


Perform: TypeAlias = Callable[[Given], Awaitable[Document]]


@dataclass(frozen=True, slots=True)
class Action:
    """One action. `feature`: what the wire format must have for it. It is noted in the audit by its answer's `done`."""

    perform: Perform
    feature: Feature | None = None


async def _of_jobs(given: Given) -> Document:
    """Retry, cancel, discard or purge: one job, the picked ones, or all that match."""
    select = given.asked.select
    if "id" in select and given.action != "purge":
        queue, id = given.chosen("queue", "id")
        if given.asked.dry_run:
            return {"found": 1, "selection": select, "dry_run": True, "expect": 1}
        done = bool(await _one(given, queue, id))
        await given.note(int(done), "done" if done else "nothing to do")
        if not done:
            raise Conflict(f"Job {id!r} is not in a state for that any more, or is gone.")
        return {"done": 1}
    picked = _picked(select)
    if picked is None and not select:
        raise InvalidArgument("Nothing is selected. Name a queue, a state or a filter, or pass everything: true.")
    dry = None if picked is not None else await _bulk(given, dry_run=True)
    meant = len(picked or ()) if dry is None else dry.found
    found: Document = {"found": meant, "selection": select, "cut": dry is not None and dry.is_cut}
    if given.asked.dry_run or (given.asked.expect is None and meant != 1):
        return found | {"dry_run": True, "expect": meant}
    if given.asked.expect not in (None, meant):
        raise Conflict(f"There are {meant:,} such jobs now, not {given.asked.expect:,}.", found | {"expect": meant})
    if given.runs.is_full:
        raise Conflict("Other changes are running. Wait for one to end, or stop it.")

    async def change(run: Run) -> None:
        await (_change_matching(given, run) if picked is None else _change_picked(given, run, picked))

    async def ended(run: Run) -> None:
        await given.note(run.done.total(), f"{run.state}: {run.error}" if run.error else run.state)

    selection = dict(select) if picked is None else {"jobs": len(picked)}
    await given.note(meant, "begun")
    run = given.runs.begin(given.action, given.visitor.name, selection, meant, change, ended)
    return found | {"run": run.id}


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


def _filters(given: Given) -> dict[str, Any]:
    """Return the filters of a selection, with ages as numbers. Raises `InvalidArgument`."""
    select = given.asked.select
    if unknown := sorted(select.keys() - {*FILTERS, "everything"}):
        raise invalid("select", f"filters among {', '.join(FILTERS)}", ", ".join(map(shown, unknown)))
    return with_ages({name: value for name, value in select.items() if value not in (None, "")})


async def _bulk(given: Given, **options: Any) -> BulkChange:
    control, filters = given.app.control, _filters(given)
    queue, state = filters.pop("queue", None), filters.pop("state", None)
    if given.action == "purge":
        filters.pop("everything", None)
        return await control.apurge_matching(queue, state, **filters, **options)
    if given.action == "cancel":
        return await control.acancel_matching(queue, state, reason=given.asked.reason, **filters, **options)
    change = control.aretry_all if given.action == "retry" else control.adiscard_matching
    return await change(queue, state, **filters, **options)


async def _change_matching(given: Given, run: Run) -> None:
    """Change as many jobs as were found, portion by portion."""
    while (left := run.meant - run.done.total()) > 0:
        before = Counter(run.done)

        def report(change: BulkChange, before: Counter[str] = before) -> None:
            run.report(before + Counter(change.done))

        change = await _bulk(given, progress=report, limit=min(left, CHANGED_MAX), rate=given.asked.rate)
        run.done = before + Counter(change.done)
        run.refuse(change.unchanged)
        if run.done == before:
            break


async def _change_picked(given: Given, run: Run, picked: list[tuple[str, str]]) -> None:
    for queue, id in picked:
        run.report(run.done)
        if await _one(given, queue, id):
            run.done[given.action] += 1
        else:
            run.refuse([UnchangedJob(queue, id, "it is gone, or its state has changed")])


async def _one(given: Given, queue: str, id: str) -> object:
    control = given.app.control
    if given.action == "retry":
        return await control.aretry(queue, id)
    if given.action == "cancel":
        return await control.acancel(queue, id, given.asked.reason)
    return await control.adiscard(queue, id)


async def _edit(given: Given) -> Document:
    """Retry a job with another payload."""
    queue, id = given.chosen("queue", "id")
    if given.asked.payload is None:
        raise invalid("payload", "the new payload as text", "nothing")
    done = await given.app.control.aretry(queue, id, payload=given.asked.payload)
    return await _did(given, done, f"Job {id!r} has begun, waits in its queue, or is gone: it cannot be changed now.")


async def _enqueue(given: Given) -> Document:
    """Enqueue a call of a task of the app, or a raw payload."""
    (name,) = given.chosen("queue")
    asked = given.asked
    options = given.numbers("delay", "priority", "lane", "id")
    if asked.payload is None:
        raise invalid("payload", "arguments as JSON, or the payload", "nothing")
    if asked.task is None:
        handle = await given.app.queue(name).aenqueue(asked.payload, **options)
    else:
        task = given.app.tasks.get(asked.task)
        if task is None:
            raise InvalidArgument(f"The app of this dashboard has no task {shown(asked.task)}.")
        positional, named = as_arguments(asked.payload.encode())
        positional, named = task.rebuild(positional, named)
        handle = await task.using(queue=name or None, **options).aenqueue(*positional, **named)
    await given.note(int(handle.created), handle.id)
    return {"done": int(handle.created), "queue": handle.queue, "id": handle.id}


async def _of_queue(given: Given) -> Document:
    (queue,) = given.chosen("queue")
    control = given.app.control
    if given.action == "configure":
        changes = given.numbers("max_length", "lane_failure", "partitions")
        if not changes:
            raise invalid("configure", "max_length, lane_failure or partitions", "none of them")
        await control.aconfigure(queue, **changes)
    else:
        await (control.apause(queue) if given.action == "pause" else control.aresume(queue))
    return await _did(given)


async def _of_lane(given: Given) -> Document:
    queue, lane = given.chosen("queue", "lane")
    change = given.app.control.apark_lane if given.action == "park" else given.app.control.aresume_lane
    return await _did(
        given,
        await change(queue, lane),
        f"Lane {lane!r} is parked already." if given.action == "park" else f"Lane {lane!r} is not parked.",
    )


async def _of_schedule(given: Given) -> Document:
    queue, name = given.chosen("queue", "name")
    schedules, asked = given.app.schedules, given.asked
    missing = f"Queue {queue!r} has no schedule {name!r}."
    if given.action == "schedule_pause":
        return await _did(given, await schedules.apause(queue, name, asked.reason), missing)
    if given.action == "schedule_resume":
        return await _did(given, await schedules.aresume(queue, name), missing)
    if given.action == "schedule_remove":
        return await _did(given, await schedules.aremove(queue, name), missing)
    if given.action == "schedule_trigger":
        handle = await schedules.atrigger(queue, name)
        return (await _did(given)) | {"queue": queue, "id": handle.id}
    when: When | None = None if asked.cron is None else Cron(asked.cron, tz=asked.tz)
    if asked.every_s is not None:
        when = Every(seconds=asked.every_s)
    await schedules.aupdate(queue, name, when=when)
    return await _did(given)


async def _of_limit(given: Given) -> Document:
    (name,) = given.chosen("name")
    if given.action == "limit_clear":
        return await _did(given, await given.app.limits.aclear(name), f"Limit {name!r} has no stored numbers.")
    rates = given.numbers("per_second", "per_minute", "per_hour", "per_day", "concurrency", "burst")
    await given.app.limits.aset(name, **rates)
    return await _did(given)


async def _of_worker(given: Given) -> Document:
    (worker,) = given.chosen("worker")
    change = given.app.control.aquiet if given.action == "quiet" else given.app.control.aunquiet
    return await _did(given, await change(worker), f"There is no worker {worker!r}.")


async def _stop(given: Given) -> Document:
    number = given.asked.select.get("run")
    if not isinstance(number, int) or len(given.asked.select) != 1:
        raise invalid("select: run", "the number of a run", shown(number))
    return await _did(given, given.runs.stop(number), "This change does not run any more.")


async def _did(given: Given, done: bool = True, otherwise: str = "") -> Document:
    """Note an action that is done, or raise why it is not."""
    await given.note(int(done), "done" if done else "nothing to do")
    if not done:
        raise Conflict(otherwise)
    return {"done": 1}


OF_MANY: Final = frozenset({"retry", "cancel", "discard", "purge"})
"""The actions that can change many jobs. The others have no dry run."""
TABLE: Final[Mapping[str, Action]] = {
    "retry": Action(_of_jobs, Feature.RECORDS),
    "cancel": Action(_of_jobs),
    "discard": Action(_of_jobs),
    "purge": Action(_of_jobs),
    "pause": Action(_of_queue, Feature.PAUSE),
    "resume": Action(_of_queue, Feature.PAUSE),
    "configure": Action(_of_queue, Feature.MAX_LENGTH),
    "park": Action(_of_lane, Feature.LANES),
    "resume_lane": Action(_of_lane, Feature.LANES),
    "edit": Action(_edit, Feature.RECORDS),
    "enqueue": Action(_enqueue),
    "schedule_pause": Action(_of_schedule, Feature.SCHEDULES),
    "schedule_resume": Action(_of_schedule, Feature.SCHEDULES),
    "schedule_trigger": Action(_of_schedule, Feature.SCHEDULES),
    "schedule_remove": Action(_of_schedule, Feature.SCHEDULES),
    "schedule_edit": Action(_of_schedule, Feature.SCHEDULES),
    "limit_set": Action(_of_limit, Feature.LIMITS),
    "limit_clear": Action(_of_limit, Feature.LIMITS),
    "quiet": Action(_of_worker, Feature.QUIET),
    "unquiet": Action(_of_worker, Feature.QUIET),
    "stop": Action(_stop),
}
"""The actions, named as in `access.ACTIONS`."""
