"""Reads queues, jobs and workers (`app.inspect`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenure.client.client import asynchronous, blocking
from tenure.client.handle import with_public_view
from tenure.client.unique import public_view
from tenure.core import limits, names
from tenure.core.engine import Feature
from tenure.core.errors import invalid
from tenure.core.flows import FlowView
from tenure.core.job import NEXT_LOOKED, JobView, Page, QueueView, State, with_next
from tenure.core.latency import Latency, latency_of
from tenure.core.minutes import Minutes
from tenure.core.ports import needed
from tenure.core.shape import LanePage, LaneState, LaneView, QueueSettings
from tenure.core.steps import Steps
from tenure.core.values import replace
from tenure.core.worker_view import WorkerView

if TYPE_CHECKING:
    from tenure.client.client import Client
    from tenure.core.engine import FullEngine

LISTED = (LaneState.READY, LaneState.BUSY, LaneState.BLOCKED, LaneState.PARKED)
LANES_MAX = 1_000_000
"""The most lanes of one listing."""
CURSOR_MAX = 2**64 - 1
"""The cursors of Redis are 64-bit numbers."""


class Inspect:
    """Reads queues, jobs and workers; changes nothing. Every method has an async version with an `a` before its name.

    app.inspect.queue("images").counts[State.READY]
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    @blocking
    def queues(self) -> Steps[list[str]]:
        """Return the names of the queues that exist."""
        return queue_names(self._client.engine)

    aqueues = asynchronous(queues)

    @blocking
    def queue(self, name: str) -> Steps[QueueView]:
        """Return a queue: how many jobs are in each state, and how many events of each kind there were.

        On a cluster that has lost a node: without the partitions that are `unreachable`. Raises `Unreachable` when
        that is all of the queue.
        """
        return full_view(self._client.engine, names.queue_name(name))

    aqueue = asynchronous(queue)

    @blocking
    def job(self, queue: str, id: str) -> Steps[JobView | None]:
        """Return one job; None if there is no record of it."""
        return with_public_view(self._client.engine.job(names.queue_name(queue), names.known_id(id)))

    ajob = asynchronous(job)

    @blocking
    def page(
        self,
        queue: str,
        state: State | str,
        offset: int = 0,
        limit: int = limits.PAGE_MAX,
        *,
        lane: str | None = None,
        after: str | None = None,
    ) -> Steps[Page]:
        """Return up to `limit` (at most 100) jobs in one state, in the order they will run or ended (newest first).

            app.inspect.page("images", State.FAILED).jobs
            app.inspect.page("images", "ready", lane="user:42").jobs

        Only the next job of each lane is ready. With `lane`, and only for "ready": the jobs that wait in that lane, in
        its order.

            page = app.inspect.page("images", "failed")
            while page.next:
                page = app.inspect.page("images", "failed", after=page.next)

        `after`: the cursor of the previous page. Such a walk returns each job that stays in the state once, and each
        ready job at least once, while other jobs come and go. Any page may have fewer jobs than `limit`, or none.
        `offset` skips jobs at the beginning: pages by `offset` repeat or omit jobs while jobs come and go. Raises
        `InvalidArgument`.
        """
        names.count(offset, "offset", most=limits.PAGE_OFFSET_MAX)
        names.count(limit, "limit", least=1, most=limits.PAGE_MAX)
        wanted = state_of(state)
        if lane is not None:
            self._client.require(Feature.LANES)
            names.lane_name(lane)
            if wanted is not State.READY:
                raise invalid("state", "'ready' with lane=", repr(wanted.value))
        page = yield from self._client.engine.page(names.queue_name(queue), wanted, offset, limit, lane, after)
        return replace(page, jobs=tuple(map(public_view, page.jobs)))

    apage = asynchronous(page)

    @blocking
    def lane(self, queue: str, lane: str) -> Steps[LaneView]:
        """Return one lane: its state, and how many jobs it has. A lane without jobs is `idle`.

        app.inspect.lane("images", "user:42").waiting
        """
        lanes = self._client.needed(self._client.engine.lanes, Feature.LANES)
        return lanes.lane(names.queue_name(queue), names.lane_name(lane))

    alane = asynchronous(lane)

    @blocking
    def flows(self, queue: str, offset: int = 0, limit: int = limits.PAGE_MAX) -> Steps[list[FlowView]]:
        """Return up to `limit` (at most 100) flows that were made in a queue, the newest first.

            [(flow.id, flow.state, flow.left) for flow in app.inspect.flows("images")]

        Raises `InvalidArgument` and `UnsupportedFeature`.
        """
        names.count(offset, "offset", most=limits.PAGE_OFFSET_MAX)
        names.count(limit, "limit", least=1, most=limits.PAGE_MAX)
        return (yield from self._client.flows.flow_page(names.queue_name(queue), offset, limit))

    aflows = asynchronous(flows)

    @blocking
    def lanes(
        self, queue: str, state: LaneState | str, cursor: int = 0, limit: int = limits.PAGE_MAX
    ) -> Steps[LanePage]:
        """Return up to `limit` (at most 100) lanes in one state: "ready" (next first), "busy", "blocked" or "parked".

            page = app.inspect.lanes("images", LaneState.BLOCKED)
            [(lane.name, lane.blocked_by) for lane in page.lanes]

        `cursor`: from the previous page, 0 for the first. The last page has the cursor 0.
        """
        lanes = self._client.needed(self._client.engine.lanes, Feature.LANES)
        if state not in LISTED:
            raise invalid("state", f"one of {', '.join(LISTED)}", names.shown(state))
        names.count(cursor, "cursor", most=CURSOR_MAX)
        names.count(limit, "limit", least=1, most=limits.PAGE_MAX)
        return lanes.lane_page(names.queue_name(queue), LaneState(state), cursor, limit)

    alanes = asynchronous(lanes)

    @blocking
    def settings(self, queue: str) -> Steps[QueueSettings]:
        """Return the settings of a queue; see `app.control.configure`.

        app.inspect.settings("images").paused
        """
        return self._client.engine.settings_of(names.queue_name(queue))

    asettings = asynchronous(settings)

    @blocking
    def latency(self, queue: str) -> Steps[Latency]:
        """Return how long the jobs of a queue waited and ran lately, by what its workers announced.

            app.inspect.latency("images").wait.p95

        The workers' last five to ten minutes; each announces itself every ten seconds. A wait is measured by the
        worker's clock. `wait` or `run` is None without such jobs, or if no worker lives.
        """
        names.queue_name(queue)
        workers = yield from self._client.engine.workers()
        return latency_of(worker.times[queue] for worker in workers if queue in worker.times)

    alatency = asynchronous(latency)

    @blocking
    def minutes(self, queue: str) -> Steps[Minutes]:
        """Return how many jobs of a queue ended in each minute of the last 24 hours, and how long they waited and ran.

            app.inspect.minutes("images").counts[-1].completed
            app.inspect.minutes("images").latency[-1].run.p95

        Workers add their counts every ten seconds and when they stop. A worker that is killed does not add its last
        ones. Raises `UnsupportedFeature` for the formats of other programs.
        """
        history = self._client.needed(self._client.engine.history, Feature.HISTORY)
        return history.minutes(names.queue_name(queue))

    aminutes = asynchronous(minutes)

    @blocking
    def workers(self) -> Steps[list[WorkerView]]:
        """Return the workers that sent a heartbeat lately."""
        return self._client.engine.workers()

    aworkers = asynchronous(workers)


def queue_names(engine: FullEngine) -> Steps[list[str]]:
    """Return the names of the queues that exist."""
    found = yield from engine.queues()
    return [name for name in found if names.is_queue_name(name)]  # another program may have added others


def full_view(engine: FullEngine, name: str) -> Steps[QueueView]:
    """Return a queue with the times of the job that is next."""
    view = yield from engine.queue(name)
    if view.oldest_ms is not None or not view.counts[State.READY]:
        return view
    return with_next(view, (yield from engine.page(name, State.READY, limit=NEXT_LOOKED, heads=True)))


def lanes_in(engine: FullEngine, queue: str, state: LaneState, most: int = LANES_MAX) -> Steps[list[LaneView]]:
    """Return about `most` lanes in one state, each once although pages repeat some while lanes come and go."""
    lanes = needed(engine.name, engine.lanes, Feature.LANES)
    found: dict[str, LaneView] = {}
    cursor = 0
    while len(found) < most:
        page = yield from lanes.lane_page(queue, state, cursor)
        found |= {lane.name: lane for lane in page.lanes if lane.name not in found}
        cursor = page.cursor
        if not cursor:
            break
    return list(found.values())


def state_of(value: State | str) -> State:
    """Return the state of this name. Raises `InvalidArgument`."""
    try:
        return State(value)
    except ValueError:
        raise invalid("state", f"one of {', '.join(State)}", names.shown(value)) from None
