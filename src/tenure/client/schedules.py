"""Schedules at run time (`app.schedules`)."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from msgspec.structs import replace

from tenure.client.call import RawPayload, TaskCall
from tenure.client.client import JobSource, asynchronous, blocking, new_id
from tenure.client.enqueue import enqueue_all
from tenure.client.handle import JobHandle
from tenure.client.inspect import queue_names
from tenure.client.options import NONE_GIVEN, OF_USING, UsingOptions
from tenure.client.schedule import (
    Policies,
    ScheduleOptions,
    checked_using,
    checked_when,
    given_policies,
    policies_of,
    schedule_name,
    spec_of,
    view_of,
    with_when,
)
from tenure.core import limits, names
from tenure.core.encoding.codec import encode_raw
from tenure.core.engine import Feature
from tenure.core.errors import DuplicateSchedule, InvalidArgument, NotUnique, ScheduleNotFound, TenureError, invalid
from tenure.core.functions import without_warning
from tenure.core.job import NewJob
from tenure.core.schedules import rules
from tenure.core.schedules.schedule import (
    NO_MORE,
    SchedulePort,
    ScheduleSpec,
    ScheduleView,
    StoredSchedule,
    Ticked,
    extra_tick,
)
from tenure.core.schedules.when import When, moment
from tenure.core.steps import Steps

if TYPE_CHECKING:
    from typing import Unpack

    from tenure.client.client import Client

MAX_BACKFILL: Final = 10_000
"""The most jobs of one backfill."""
CHANGES_MOST: Final = 20
"""Attempts at a change while others change the same schedule."""


@runtime_checkable
class Templates(Protocol):
    """A task of the app."""

    def template(self, call: TaskCall[Any]) -> NewJob:
        """Return the job of a call, as schedules enqueue it."""
        ...


class Schedules:
    """Adds, changes and lists schedules. Every method has an async version with an `a` before its name.

    app.schedules.add("nightly", report.call("sales"), Cron("0 2 * * *", tz="Europe/Berlin"))
    app.schedules.pause("reports", "nightly", reason="the disk is full")

    A schedule belongs to a queue, and its name is unique there. Schedules in code (`@app.task(schedule=...)`) can be
    paused, triggered and removed here, and not changed; a removed one returns with the next worker that has it.
    """

    def __init__(self, client: Client, tasks: Mapping[str, Templates]) -> None:
        self._client = client
        self._tasks = tasks

    @blocking
    def add(
        self,
        name: str,
        job: TaskCall[Any] | RawPayload,
        when: When,
        *,
        queue: str | None = None,
        using: UsingOptions | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Steps[ScheduleView]:
        """Add a schedule, for every worker of the queue.

            app.schedules.add("nightly", report.call("sales"), Cron("0 2 * * *", tz="Europe/Berlin"), catch_up="all")
            app.schedules.add("eu", sync.using(lane="eu").call("eu"), Every(minutes=5), overlap="cancel")
            app.schedules.add("poll", b"...", Every(minutes=5), queue="feeds", using={"priority": -5})

        `job`: a call of a task, with the options of `Task.using` except `id`, `delay`, `run_after`, `durable` and
        `persistent`; or the raw payload of a queue, with these options in `using`. The other options are as for
        `Schedule`. The first tick is the next one from now on. Headers are the schedule's own: enqueue middleware does
        not see its jobs.
        Raises `DuplicateSchedule`, `InvalidArgument`, `PayloadInvalid`, `PayloadTooLarge` and `UnsupportedFeature`.
        """
        self._client.require(Feature.SCHEDULES)
        template = self._template(job, queue, using)
        spec = spec_of(schedule_name(name), checked_when(when, "when"), Policies.of(options), template)
        now_ms, known = yield from self._port.schedule(spec.queue, name)
        _check_due(spec, now_ms)
        if known is None and (yield from self._put(spec, "", now_ms, NO_MORE, 0)):
            return (yield from self._view(spec.queue, name))
        raise DuplicateSchedule(spec.queue, name)

    aadd = asynchronous(add)

    @blocking
    def update(
        self,
        queue: str,
        name: str,
        *,
        job: TaskCall[Any] | RawPayload | None = None,
        when: When | None = None,
        using: UsingOptions | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Steps[ScheduleView]:
        """Change a schedule that was added at run time. None, and options left out, keep what it has; `start=None` and
        `end=None` remove them.

            app.schedules.update("reports", "nightly", when=Cron("0 3 * * *", tz="Europe/Berlin"), overlap="allow")

        The next tick is the new definition's next one; a tick that is due now and has not run counts, if the new
        definition has it. Raises `ScheduleNotFound`, and `InvalidArgument`, also for a schedule in code.
        """
        self._client.require(Feature.SCHEDULES)
        given = given_policies(options)
        if using is not None and job is None:
            raise InvalidArgument("using: give the job of these options, too.")
        due = None if when is None else checked_when(when, "when")
        template = None if job is None else self._template(job, names.queue_name(queue), using)
        if template is not None and template.queue != queue:
            raise invalid("job", f"one of queue {queue!r}", f"one of {template.queue!r}", "Add another schedule.")
        for _ in range(CHANGES_MOST):
            now_ms, stored = yield from self._stored(queue, name)
            spec = _readable(stored)
            if spec.source:
                raise InvalidArgument(f"Schedule {name!r} is in the code of {spec.source}: change it there.")
            policies = Policies(**{**_fields(policies_of(spec)), **given})
            base = spec if template is None else spec_of(name, spec.when, policies, template)
            changed = with_when(base, due or spec.when, policies)
            if due is not None or given.keys() & {"start_ms", "end_ms"}:
                _check_due(changed, now_ms)
            state = stored.state
            if (yield from self._put(changed, stored.digest, now_ms, state.planned_ms, state.last_planned_ms)):
                return (yield from self._view(queue, name))
        raise InvalidArgument(f"Schedule {name!r}: other programs keep changing it.")

    aupdate = asynchronous(update)

    @blocking
    def get(self, queue: str, name: str) -> Steps[ScheduleView | None]:
        """Return one schedule; None if it does not exist.

        app.schedules.get("reports", "nightly").next
        """
        self._client.require(Feature.SCHEDULES)
        _, stored = yield from self._port.schedule(names.queue_name(queue), schedule_name(name))
        return None if stored is None else view_of(queue, stored)

    aget = asynchronous(get)

    @blocking
    def pause(self, queue: str, name: str, reason: str = "") -> Steps[bool]:
        """Stop the ticks of a schedule, until `resume`. Returns False if there is no such schedule.

        Jobs that its ticks have enqueued are not affected, and workers that start do not resume it.
        """
        self._client.require(Feature.SCHEDULES)
        text = names.reason(reason)
        return self._port.pause_schedule(names.queue_name(queue), schedule_name(name), text)

    apause = asynchronous(pause)

    @blocking
    def resume(self, queue: str, name: str) -> Steps[bool]:
        """Let the ticks continue from now on, without the ticks of the pause. Returns False if there is no such
        schedule. Does nothing if it is not paused."""
        self._client.require(Feature.SCHEDULES)
        names.queue_name(queue), schedule_name(name)
        for _ in range(CHANGES_MOST):
            now_ms, stored = yield from self._port.schedule(queue, name)
            if stored is None:
                return False
            spec = _readable(stored)
            planned_ms = rules.first(spec, now_ms, last_planned_ms=stored.state.last_planned_ms)
            fire_ms = rules.fire_of(spec, planned_ms)
            if (yield from self._port.resume_schedule(queue, name, stored.digest, planned_ms, fire_ms)):
                return True
        raise InvalidArgument(f"Schedule {name!r}: other programs keep changing it.")

    aresume = asynchronous(resume)

    @blocking
    def trigger(self, queue: str, name: str) -> Steps[JobHandle[Any]]:
        """Enqueue the job of a schedule now, also if it is paused. `overlap` does not apply, and the next tick stays.

            app.schedules.trigger("reports", "nightly").result(timeout=60)

        `Job.scheduled_for` is the time of this call. Raises `ScheduleNotFound`, and what `enqueue` does.
        """
        self._client.require(Feature.SCHEDULES)
        now_ms, stored = yield from self._stored(queue, name)
        job = _readable(stored).job(new_id(), now_ms)
        (answer,) = yield from self._port.tick(queue, [extra_tick(name, job)])
        if isinstance(answer, TenureError):
            raise answer
        if answer is Ticked.STALE:
            raise ScheduleNotFound(queue, name)
        if answer is Ticked.JOINED:
            _, stored = yield from self._stored(queue, name)
            raise NotUnique(queue, stored.state.last_id or "(an id with spaces)")
        return JobHandle(self._client, queue, job.id, created=answer is Ticked.ENQUEUED)

    atrigger = asynchronous(trigger)

    @blocking
    def backfill(self, queue: str, name: str, start: datetime, end: datetime) -> Steps[tuple[JobHandle[Any], ...]]:
        """Enqueue a job for each tick from `start` to `end`, both included, as if it were due now.

            app.schedules.backfill("reports", "nightly", datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 8, ...))

        `Job.scheduled_for` is the time of the tick. Neither `overlap` nor `start` and `end` of the schedule apply, only
        the lane of `overlap="queue"`. A second backfill enqueues them again. Raises `ScheduleNotFound`, and
        `InvalidArgument` for more than 10,000 ticks and for an end in the future.
        """
        self._client.require(Feature.SCHEDULES)
        first_ms, last_ms = moment(start, "start"), moment(end, "end")
        if first_ms is None or last_ms is None or last_ms < first_ms:
            raise invalid("backfill", "from a time to a later one", f"{names.shown(start)}, {names.shown(end)}")
        now_ms, stored = yield from self._stored(queue, name)
        if last_ms > now_ms:
            raise invalid(
                "backfill", "up to now", f"up to {names.shown(end)}", "Later ticks are enqueued in their time."
            )
        spec = _readable(stored)
        planned = tuple(islice(rules.between(spec, first_ms, last_ms), MAX_BACKFILL + 1))
        if len(planned) > MAX_BACKFILL:
            raise invalid("backfill", f"at most {MAX_BACKFILL:,} ticks", "more", "Give a shorter time.")
        jobs = [spec.job(new_id(), at) for at in planned]
        return tuple((yield from enqueue_all(self._client, jobs)))

    abackfill = asynchronous(backfill)

    @blocking
    def remove(self, queue: str, name: str) -> Steps[bool]:
        """Remove a schedule. Its jobs stay. Returns False if it does not exist."""
        self._client.require(Feature.SCHEDULES)
        return self._port.remove_schedule(names.queue_name(queue), schedule_name(name))

    aremove = asynchronous(remove)

    @blocking
    def list(self, queue: str | None = None) -> Steps[tuple[ScheduleView, ...]]:
        """Return the schedules of a queue, or of all queues, by queue and name.

        for schedule in app.schedules.list():
            print(schedule.queue, schedule.name, schedule.explanation, schedule.next)
        """
        self._client.require(Feature.SCHEDULES)
        queues = (yield from queue_names(self._client.engine)) if queue is None else [names.queue_name(queue)]
        found: list[ScheduleView] = []
        for one in queues:
            views = (view_of(one, stored) for stored in (yield from schedules_in(self._port, one)))
            found += (view for view in views if view is not None)
        return tuple(sorted(found, key=lambda view: (view.queue, view.name)))

    alist = asynchronous(list)

    @property
    def _port(self) -> SchedulePort:
        """Raises `UnsupportedFeature` where the protocol has no schedules."""
        return self._client.needed(self._client.engine.schedules, Feature.SCHEDULES)

    def _template(self, job: object, queue: str | None, using: UsingOptions | None) -> NewJob:
        if isinstance(job, TaskCall):
            if using:
                raise InvalidArgument("using: write the options at the call, as in report.using(priority=5).call().")
            if job.task not in self._tasks:
                raise invalid("job", "a call of a task of this app, or a raw payload", f"a call of {job.task}")
            if queue is not None:  # before the limits of the queue are added
                job = replace(job, options=job.options.using(OF_USING, queue=queue))
            return self._tasks[job.task].template(job)
        if isinstance(job, Templates):
            name = getattr(job, "__name__", "task")
            raise invalid("job", "a call of the task", f"the task {name}", f"Write {name}.call(...).")
        if queue is None or job is None or inspect.iscoroutine(job):
            rule = 'a call of a task, or a raw payload with its queue, as in queue="feeds"'
            advice = "Pass report.call(...) for the task `report`; report(...) would run it here."
            raise invalid("job", rule, without_warning(job), advice)
        asked = NONE_GIVEN.using(OF_USING, **checked_using(using or {}))
        return self._client.template(JobSource(names.queue_name(queue)), encode_raw(job), asked)

    def _put(
        self, spec: ScheduleSpec, expected: str, now_ms: int, planned_ms: int, last_planned_ms: int
    ) -> Steps[bool]:
        first_ms = rules.first(spec, now_ms, planned_ms, last_planned_ms)
        fire_ms = rules.fire_of(spec, first_ms)
        return self._port.put_schedule(spec, rules.digest_of(spec), expected, first_ms, fire_ms)

    def _stored(self, queue: str, name: str) -> Steps[tuple[int, StoredSchedule]]:
        now_ms, stored = yield from self._port.schedule(names.queue_name(queue), schedule_name(name))
        if stored is None:
            raise ScheduleNotFound(queue, name)
        return now_ms, stored

    def _view(self, queue: str, name: str) -> Steps[ScheduleView]:
        _, stored = yield from self._stored(queue, name)
        view = view_of(queue, stored)
        if view is None:
            raise ScheduleNotFound(queue, name)
        return view


def schedules_in(port: SchedulePort, queue: str) -> Steps[Iterable[StoredSchedule]]:
    """Return the schedules of a queue, each once although pages repeat some while schedules come and go."""
    found: dict[str, StoredSchedule] = {}
    cursor = 0
    for _ in range(limits.PURGE_ROUNDS):
        page = yield from port.schedule_page(queue, cursor)
        found |= {stored.name: stored for stored in page.schedules}
        cursor = page.cursor
        if not cursor:
            break
    return found.values()


def _check_due(spec: ScheduleSpec, now_ms: int) -> None:
    if rules.first(spec, now_ms) == NO_MORE:
        raise InvalidArgument(
            f"Schedule {spec.name!r} is never due from now on: its end is past, or before its next tick."
        )


def _readable(stored: StoredSchedule) -> ScheduleSpec:
    if stored.spec is None:
        raise InvalidArgument(f"Schedule {stored.name!r}: a newer release has written it. Update Tenure here.")
    return stored.spec


def _fields(policies: Policies) -> dict[str, Any]:
    return {one.name: getattr(policies, one.name) for one in fields(policies)}
