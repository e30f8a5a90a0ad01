"""Reads queues, jobs and workers, and searches jobs (`app.inspect`)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Final

from tenure.client.client import asynchronous, blocking
from tenure.client.inspect import LANES_MAX, Inspect, lanes_in, queue_names, state_of
from tenure.client.unique import public_view
from tenure.client.why import case_of, explain, reasons_of, why_of
from tenure.core import limits, names
from tenure.core.engine import Feature, FullEngine
from tenure.core.errors import RedisError, is_silent
from tenure.core.job import WAITING, JobView, State
from tenure.core.shape import LaneState, LaneView
from tenure.core.steps import Steps, Work
from tenure.core.values import replace
from tenure.core.why import Why, WhyCode, WhyCount
from tenure.core.worker_view import JobStack, WorkerView
from tenure.manage.audit import AuditEntry, entries
from tenure.manage.failures import ErrorGroups, grouped
from tenure.manage.load import load_of, load_queues
from tenure.manage.overview import QUEUES_SHOWN, Overview, overview_of
from tenure.manage.search import NO_SELECTION, ORDER, QUEUES_MAX, Found, Search, Selection, queues_meant
from tenure.scale import Sample

FOUND_MAX: Final = 1_000
"""The largest `limit` of a search."""
STACK_LOOKS: Final = 20
"""How often `stacks` reads what the worker has announced."""
STACK_LOOK_S: Final = 0.25
STACK_ASKS: Final = 4
"""The worker is asked again with each fourth look."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Jobs by their states. `left_out`: how many queues were not read."""

    found: Mapping[State, Found]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Explained:
    """A job, and why it does not run. `awaiting`: how many jobs of its worker wait for the result of another job."""

    view: JobView
    why: Why
    awaiting: int = 0


@dataclass(frozen=True, slots=True)
class Places:
    """The queues with a record of one job. `refused`: queues that Redis refused to read. `queues`: all queues."""

    found: tuple[str, ...]
    queues: tuple[str, ...]
    refused: Mapping[str, RedisError] = field(default_factory=dict)


class JobSearch(Inspect):
    """Reads queues, jobs and workers, and searches jobs."""

    @blocking
    def find(
        self,
        queue: str | None = None,
        state: State | str | None = None,
        *,
        task: str | None = None,
        error: str | None = None,
        lane: str | None = None,
        older_than: float | timedelta | None = None,
        newer_than: float | timedelta | None = None,
        place: str | None = None,
        limit: int = limits.PAGE_MAX,
        after: str | None = None,
    ) -> Steps[Found]:
        """Return up to `limit` (at most 1,000) jobs that pass all filters.

            app.inspect.find("images", "failed", error="ConnectionError", newer_than=3600).jobs

            found = app.inspect.find(task="shop.send")
            while found.next:
                found = app.inspect.find(task="shop.send", after=found.next)

        `queue` None: all queues, by name. `state` None: all states, from active to completed. `error`: the type of the
        last error, with or without its module. `place`: where it was raised, as in `errors`. `older_than` and
        `newer_than`: seconds (or a `timedelta`) since the end of the job, or since its enqueue if it has not ended.
        Jobs of one state come as in `page`: only the next job of each lane is ready, and with `lane` all jobs that wait
        in it. They have no payload and no result where the format can leave them out: `job` has them.

        `after`: the cursor of the previous answer to the same filters. A call reads at most 10,000 jobs, so any answer
        may have fewer jobs than `limit`, or none, and yet a cursor. Raises `InvalidArgument` and `UnsupportedFeature`.
        """
        engine, states = self._client.engine, ORDER if state is None else (state_of(state),)
        names.count(limit, "limit", least=1, most=FOUND_MAX)
        selection = Selection.of(
            task=task, error=error, lane=lane, older_than=older_than, newer_than=newer_than, place=place
        )
        selection.check(engine, states)
        only = None if queue is None else names.queue_name(queue)
        return Search(engine, selection, _now_ms()).walk(only, states, limit, after)

    afind = asynchronous(find)

    @blocking
    def listing(
        self,
        queue: str | None,
        states: Sequence[State],
        selection: Selection = NO_SELECTION,
        *,
        limit: int,
        offset: int = 0,
        after: str | None = None,
    ) -> Steps[Listing]:
        """Return up to `limit` jobs in each of these states: of one queue page by page, or of all queues.

        `offset` and `after`, a cursor of `page`, are for one queue. In each state of each queue, a selection reads at
        most 10,000 jobs.
        """
        if queue is not None:
            names.queue_name(queue)
        if selection.lane is not None:
            self._client.require(Feature.LANES)
            names.lane_name(selection.lane)
        search = Search(self._client.engine, selection, _now_ms())
        queues, left_out = yield from queues_meant(self._client.engine, queue)
        found: dict[State, Found] = {}
        for state in states:
            if queue is None:
                found[state] = yield from search.in_all(queues, state, limit)
            else:
                found[state] = yield from search.look(queue, state, limit, offset=offset, after=after)
        return Listing(found, left_out)

    alisting = asynchronous(listing)

    @blocking
    def places(self, id: str) -> Steps[Places]:
        """Return the queues with a record of this job, among the first 1,000 by name."""
        engine, id = self._client.engine, names.known_id(id)
        queues = sorted((yield from queue_names(engine)))
        found: list[str] = []
        refused: dict[str, RedisError] = {}
        for queue in queues[:QUEUES_MAX]:
            try:
                if (yield from engine.job(queue, id)) is not None:
                    found.append(queue)
            except RedisError as error:
                if is_silent(error):
                    raise
                refused[queue] = error  # as when another program has a key of this queue
        return Places(tuple(found), tuple(queues), refused)

    aplaces = asynchronous(places)

    @blocking
    def errors(self, queue: str | None = None) -> Steps[ErrorGroups]:
        """Group failed and broken jobs by queue, task, type of error and place, of one queue or of all.

            for group in app.inspect.errors().groups:
                print(group.count, group.task, group.error, group.place)

        It looks at the newest 2,000 of these jobs. Raises `InvalidArgument`.
        """
        engine = self._client.engine
        queues, left_out = yield from queues_meant(engine, None if queue is None else names.queue_name(queue))
        found = yield from grouped(engine, Search(engine, NO_SELECTION, _now_ms()), queues)
        return replace(found, is_whole=found.is_whole and not left_out)

    aerrors = asynchronous(errors)

    @blocking
    def overview(self, queue: str | None = None, *, after: str = "", limit: int = QUEUES_SHOWN) -> Steps[Overview]:
        """Return the queues by name (at most 1,000) and all workers, or one queue and the workers that serve it.

            app.inspect.overview().without_worker

        `after`: without the queues up to this name. `limit`: the most queues.
        """
        return overview_of(
            self._client.engine, None if queue is None else names.queue_name(queue), _now_ms(), after, limit
        )

    aoverview = asynchronous(overview)

    @blocking
    def audit(self) -> Steps[list[AuditEntry]]:
        """Return the last 1,000 actions of operators in the dashboard, the newest first; they are kept for 90 days.

        [(entry.user, entry.action, entry.count) for entry in app.inspect.audit()]

        Empty for the formats of other programs.
        """
        return entries(self._client.engine)

    aaudit = asynchronous(audit)

    @blocking
    def explained(self, queue: str, id: str) -> Steps[Explained | None]:
        """Return a job, and why it does not run now; None if there is no record of it."""
        case = yield from case_of(self._client.engine, names.queue_name(queue), names.known_id(id), _now_ms())
        if case is None:
            return None
        view, why = public_view(case.view), explain(case)
        if view.state in WAITING:
            view = replace(view, waits=None if why.code is WhyCode.UNKNOWN else why.text)
        return Explained(view, why, sum(one.awaiting for one in case.workers or () if one.id == view.worker))

    aexplained = asynchronous(explained)

    @blocking
    def why(self, queue: str, id: str) -> Steps[Why | None]:
        """Return why a job does not run now, the most binding reason first; None if there is no record of it.

            why = app.inspect.why("orders", job.id)
            print(why.text, why.command)

        Two calls to Redis on a queue without partitions, however many jobs it has. Raises `InvalidArgument`.
        """
        return why_of(self._client.engine, names.queue_name(queue), names.known_id(id), _now_ms())

    awhy = asynchronous(why)

    @blocking
    def reasons(self, queue: str) -> Steps[WhyCount]:
        """Count the reasons why jobs of a queue wait, of up to 1,000 jobs in no particular order.

            app.inspect.reasons("orders").reasons  # {WhyCode.LIMIT_FULL: 812, WhyCode.LANE_BLOCKED: 96}

        It takes a call to Redis for each of these jobs. In a format of other programs, only ready jobs count. Raises
        `InvalidArgument`.
        """
        return reasons_of(self._client.engine, names.queue_name(queue), _now_ms())

    areasons = asynchronous(reasons)

    @blocking
    def stacks(self, worker: str) -> Steps[tuple[JobStack, ...] | None]:
        """Ask a worker where its running handlers are. Those that have run longest come first.

            for one in app.inspect.stacks("host-1-8f3a"):
                print(one.queue, one.id, one.text)

        The texts have files, lines and functions, no local variables, and at most 32 kB together. None if there is no
        such worker, or it does not answer within five seconds, as one with a blocked event loop. Raises
        `InvalidArgument`, and `UnsupportedFeature` for the formats of other programs.
        """
        presence = self._client.needed(self._client.engine.presence, Feature.STACKS)
        engine, name = self._client.engine, names.known_id(worker, "worker")
        before = yield from _worker(engine, name)
        if before is None:
            return None
        for look in range(STACK_LOOKS):
            if look % STACK_ASKS == 0:  # the message is lost on a worker that has started but does not listen yet
                yield from presence.ask_stacks(name)
            yield Work(partial(time.sleep, STACK_LOOK_S))
            view = yield from _worker(engine, name)
            if view is not None and view.stacks_ms not in (None, before.stacks_ms):
                return view.stacks
        return None

    astacks = asynchronous(stacks)

    @blocking
    def load(self, queues: Sequence[str], due_within: float = 20.0) -> Steps[Sample]:
        """Return the load of some queues, for `tenure.scale.desired`.

            sample = app.inspect.load(["orders", "mails"])

        `due_within`: jobs that are due within this time, in seconds, count. `later.after(earlier)` has the arrivals
        between two samples. Raises `InvalidArgument`, also for a queue that is named twice.
        """
        checked = load_queues(self._client.engine, queues)
        due_ms = names.duration_ms(due_within, "due_within", least_ms=0)
        return load_of(self._client.engine, checked, due_ms, _now_ms(), time.monotonic())

    aload = asynchronous(load)

    @blocking
    def all_lanes(self, queue: str, state: LaneState, most: int = LANES_MAX) -> Steps[tuple[list[LaneView], bool]]:
        """Return at most `most` lanes in one state, and whether there are more."""
        self._client.require(Feature.LANES)
        found = yield from lanes_in(self._client.engine, names.queue_name(queue), state, most + 1)
        return found[:most], len(found) > most

    aall_lanes = asynchronous(all_lanes)


def _worker(engine: FullEngine, name: str) -> Steps[WorkerView | None]:
    workers = yield from engine.announced()
    return next((view for view in workers if view.id == name), None)


def _now_ms() -> float:
    return time.time() * limits.SECOND
