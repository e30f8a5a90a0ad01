"""Commands for queues, jobs and workers (`app.control`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from tenure.client.call import TaskCall, as_arguments
from tenure.client.client import asynchronous, blocking
from tenure.client.inspect import state_of
from tenure.client.options import Options
from tenure.client.unique import OF_ARGUMENTS, keyed
from tenure.core import limits, names
from tenure.core.encoding.codec import encode_raw
from tenure.core.engine import Feature
from tenure.core.errors import InvalidArgument, PayloadTooLarge, TenureError, invalid
from tenure.core.job import JobView, NewJob, State
from tenure.core.partitions import MAX_PARTITIONS
from tenure.core.rates import LimitRule
from tenure.core.shape import DIGEST, CancelAnswer, CancelCount, LaneFailure, QueueSettings, Shape, UniqueRule
from tenure.core.steps import Steps
from tenure.core.stores import key_of
from tenure.core.task import TaskSpec
from tenure.core.values import replace

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from tenure.client.client import Client


class RegisteredTask(Protocol):
    """A task of the app."""

    @property
    def spec(self) -> TaskSpec: ...

    def template(self, call: TaskCall[Any]) -> NewJob:
        """Return the job of a call, without enqueue middleware."""
        ...


class Control:
    """Changes queues, jobs and workers. Every method has an async version with an `a` before its name.

    app.control.retry("images", job.id)
    """

    def __init__(self, client: Client, tasks: Mapping[str, RegisteredTask]) -> None:
        self._client = client
        self._tasks = tasks

    @blocking
    def retry(self, queue: str, id: str, *, payload: object = None) -> Steps[bool]:
        """Retry a failed, broken, cancelled, scheduled or unroutable job now, with its attempt counters reset.

            app.control.retry("images", job.id)
            app.control.retry("images", job.id, payload=thumbnail.call("dog.png"))
            app.control.retry("emails", job.id, payload=b"...")

        `payload`: the job's new payload; None keeps the old one. For the job of a task, pass a call of that task, or
        its JSON, `[[positional...], {named...}]`, which the task checks if this app has it. For a raw job, pass what
        `Queue.enqueue` takes. Limits and a share that are named by arguments follow the new ones if this app has the
        task, and so does a unique key that is made from arguments, which is refused without the task, and on a queue
        with partitions; the job keeps its lane and its headers. Returns False if there is no such job, it is in another
        state (see `app.inspect.job`), or else another job has its unique key. Raises `PayloadInvalid`,
        `PayloadTooLarge`, `InvalidArgument`, `UnsupportedFeature`, and `NotUnique` if another job has the key of the
        new arguments.
        """
        queue, id = names.queue_name(queue), names.known_id(id)
        if payload is None:
            return (yield from self._client.engine.retry(queue, id))
        view = yield from self._client.engine.job(queue, id)
        if view is None:
            return False
        if key_of(view.headers) is not None:
            raise InvalidArgument(f"The payload of job {id!r} is in a store and cannot be replaced. Retry it as it is.")
        data = encode_raw(payload) if view.task is None else self._arguments(view.task, payload)
        if len(data) > self._client.payload_limit:
            raise PayloadTooLarge(len(data), self._client.payload_limit)
        return (yield from self._client.engine.retry(queue, id, data, self._reshaped(view, data)))

    aretry = asynchronous(retry)

    @blocking
    def reschedule(
        self,
        queue: str,
        id: str,
        *,
        delay: float | timedelta | None = None,
        run_after: datetime | None = None,
        priority: int | None = None,
    ) -> Steps[bool]:
        """Give a waiting job (ready, scheduled, unroutable) another time, another priority, or both.

            app.control.reschedule("images", job.id, delay=0)                                # now
            app.control.reschedule("images", job.id, run_after=datetime(2026, 3, 1, 9, tzinfo=UTC), priority=5)

        `delay`: seconds from now, or a `timedelta`. `run_after`: a `datetime` with a time zone; a past one means now.
        `priority`: -100 to 100. What is None stays. The job keeps its attempts, its lane and its unique key; a ready
        job that waits again comes after the jobs that are ready when it is due. Returns False if there is no such
        job, it is active or has ended, it waits for the end of the job that has its unique key, or jobs of its queue or
        its lane are just being cancelled. Raises `InvalidArgument`, also for a priority of a job with a lane, limits or
        a share, and `UnsupportedFeature`.
        """
        queue, id = names.queue_name(queue), names.known_id(id)
        if delay is None and run_after is None and priority is None:
            raise InvalidArgument("reschedule needs delay=, run_after= or priority=.")
        delay_ms, run_at_ms = names.due(delay, run_after)
        if priority is not None:
            self._client.require(Feature.PRIORITIES)
            names.count(priority, "priority", least=limits.MIN_PRIORITY, most=limits.MAX_PRIORITY)
        return self._client.needed(self._client.engine.delays, Feature.DELAY).reschedule(
            queue, id, delay_ms=None if delay is None else delay_ms, run_at_ms=run_at_ms, priority=priority
        )

    areschedule = asynchronous(reschedule)

    @blocking
    def discard(self, queue: str, id: str) -> Steps[bool]:
        """Remove a job that is not active, with all its records. Returns False if there is no such job.

        app.control.discard("images", job.id)
        """
        return self._client.engine.discard(names.queue_name(queue), names.known_id(id))

    adiscard = asynchronous(discard)

    @blocking
    def cancel(self, queue: str, id: str, reason: str = "") -> Steps[CancelAnswer]:
        """Cancel a waiting job (ready, scheduled, unroutable), or ask the worker of a running job to end it.

            app.control.cancel("images", job.id, reason="typed by mistake")

        Returns "cancelled", "requested" (the handler decides when the job ends; see `JobView.cancelling`), or "nothing"
        (no such job, or it has ended), which is false in a condition. `reason` is kept with the job, cut to 8 KiB.
        Raises `InvalidArgument`.
        """
        return self._client.engine.cancel(names.queue_name(queue), names.known_id(id), names.reason(reason))

    acancel = asynchronous(cancel)

    @blocking
    def cancel_lane(self, queue: str, lane: str, reason: str = "") -> Steps[CancelCount]:
        """Cancel all jobs of a lane that have not ended, including running ones: see `cancel`.

        app.control.cancel_lane("images", "user:42").cancelled
        """
        self._client.require(Feature.LANES)
        return self._client.engine.cancel_all(names.queue_name(queue), names.lane_name(lane), names.reason(reason))

    acancel_lane = asynchronous(cancel_lane)

    @blocking
    def cancel_all(self, queue: str, reason: str = "") -> Steps[CancelCount]:
        """Cancel all jobs of a queue that have not ended, including running ones: see `cancel`.

        app.control.cancel_all("images", reason="the shop is closed").requested
        """
        return self._client.engine.cancel_all(names.queue_name(queue), None, names.reason(reason))

    acancel_all = asynchronous(cancel_all)

    @blocking
    def purge(self, queue: str, state: State | str) -> Steps[int]:
        """Remove all jobs in one state, and return how many. Active jobs cannot be purged.

        app.control.purge("images", State.FAILED)
        """
        wanted = state_of(state)
        if wanted is State.ACTIVE:
            raise invalid("state", "a state other than 'active'", "'active'", "Workers hold these jobs.")
        return self._client.engine.purge(names.queue_name(queue), wanted)

    apurge = asynchronous(purge)

    @blocking
    def pause(self, queue: str) -> Steps[QueueSettings]:
        """Stop all workers from starting jobs of the queue, until `resume`. Running jobs and enqueues continue.

        app.control.pause("images")
        """
        return self._paused(queue, True)

    apause = asynchronous(pause)

    @blocking
    def resume(self, queue: str) -> Steps[QueueSettings]:
        """Resume a paused queue. Does nothing if the queue is not paused.

        app.control.resume("images")
        """
        return self._paused(queue, False)

    aresume = asynchronous(resume)

    def _paused(self, queue: str, paused: bool) -> Steps[QueueSettings]:
        self._client.require(Feature.PAUSE)
        settings = self._client.needed(self._client.engine.settings, Feature.PAUSE)
        return settings.configure(names.queue_name(queue), paused=paused)

    @blocking
    def configure(
        self,
        queue: str,
        *,
        max_length: int | None = None,
        lane_failure: LaneFailure | str | None = None,
        partitions: int | None = None,
    ) -> Steps[QueueSettings]:
        """Change settings of a queue, for every worker and client. Returns all its settings; None keeps a setting.

            app.control.configure("images", max_length=100_000, lane_failure="park")

        `max_length`: how many jobs that have not ended the queue holds before `enqueue` raises `QueueFull`; 0: no
        limit. `lane_failure`: what happens to a lane when one of its jobs fails for good. "skip" (the default)
        continues, "block" waits until a user retries or discards the job, "park" parks the lane until `resume_lane`.
        `partitions`: begins to spread the queue over 1 to 256 slots of a cluster; workers complete the change, and
        `QueueView.repartition` shows it. Raises `InvalidArgument`, also during a change of the partitions, and
        `UnsupportedFeature`.
        """
        policy = None
        if max_length is not None:
            self._client.require(Feature.MAX_LENGTH)
            names.count(max_length, "max_length", most=limits.MAX_QUEUE_LENGTH)
        if lane_failure is not None:
            self._client.require(Feature.LANES)
            if lane_failure not in tuple(LaneFailure):
                raise invalid("lane_failure", f"one of {', '.join(LaneFailure)}", names.shown(lane_failure))
            policy = LaneFailure(lane_failure)
        if partitions is not None:
            port = self._client.needed(self._client.engine.partitions, Feature.PARTITIONS)
            names.count(partitions, "partitions", least=1, most=MAX_PARTITIONS)
            yield from port.repartition(names.queue_name(queue), partitions)
        settings, queue = self._client.engine.settings, names.queue_name(queue)
        if settings is None:
            return (yield from self._client.engine.settings_of(queue))
        return (yield from settings.configure(queue, max_length=max_length, lane_failure=policy))

    aconfigure = asynchronous(configure)

    @blocking
    def park_lane(self, queue: str, lane: str) -> Steps[bool]:
        """Park a lane: no job of it starts until `resume_lane`. Returns False if it is parked already.

        app.control.park_lane("images", "user:42")
        """
        lanes = self._client.needed(self._client.engine.lanes, Feature.LANES)
        return lanes.park_lane(names.queue_name(queue), names.lane_name(lane))

    apark_lane = asynchronous(park_lane)

    @blocking
    def resume_lane(self, queue: str, lane: str) -> Steps[bool]:
        """Resume a parked lane. Returns False if it is not parked.

        app.control.resume_lane("images", "user:42")
        """
        lanes = self._client.needed(self._client.engine.lanes, Feature.LANES)
        return lanes.resume_lane(names.queue_name(queue), names.lane_name(lane))

    aresume_lane = asynchronous(resume_lane)

    @blocking
    def quiet(self, worker: str) -> Steps[bool]:
        """Ask a worker to finish its running jobs and start no others. Returns False if there is no such worker.

        for worker in app.inspect.workers():
            app.control.quiet(worker.id)
        """
        return self._quiet(worker, True)

    aquiet = asynchronous(quiet)

    @blocking
    def unquiet(self, worker: str) -> Steps[bool]:
        """Let a quiet worker start jobs again. Returns False if there is no such worker."""
        return self._quiet(worker, False)

    aunquiet = asynchronous(unquiet)

    def _quiet(self, worker: str, quiet: bool) -> Steps[bool]:
        presence = self._client.needed(self._client.engine.presence, Feature.QUIET)
        return presence.quiet(names.known_id(worker, "worker"), quiet)

    def _arguments(self, task: str, payload: object) -> bytes:
        """Check the new payload for a task's job, by the task itself if this app has it."""
        if isinstance(payload, TaskCall):
            return payload.payload_for(task)
        data = encode_raw(payload)
        known = self._tasks.get(task)
        check = None if known is None else known.spec.decode
        (check or as_arguments)(data)
        return data

    def _reshaped(self, view: JobView, payload: bytes) -> Shape | None:
        """Return a shape with the limits, the share and the unique key of a job after its arguments changed.

        No key: it keeps its own; None: it keeps all three. Raises `InvalidArgument`.
        """
        limited, unique = self._limited(view, payload), self._rekeyed(view, payload)
        return limited if unique is None else replace(limited or view.shape, unique=unique)

    def _rekeyed(self, view: JobView, payload: bytes) -> UniqueRule | None:
        """Return a rule with the unique key of a job after its arguments changed; None: it keeps its key."""
        rule, task = view.shape.unique, self._tasks.get(view.task or "")
        if rule is None or not rule.key.startswith(DIGEST):
            return None
        unique: UniqueRule | None
        if view.task is None:
            unique = keyed(OF_ARGUMENTS, None, lambda: payload)
        elif task is None:
            raise InvalidArgument(
                f"Job {view.id!r} has a unique key that is made from its arguments by task {view.task}, which this app "
                "does not have. Use the app with the task (--app), or discard the job and enqueue it again."
            )
        else:
            options = Options(queue=view.queue, unique=OF_ARGUMENTS)
            unique = task.template(TaskCall(view.task, payload, options)).shape.unique
        return None if unique is None or unique.key == rule.key else unique

    def _limited(self, view: JobView, payload: bytes) -> Shape | None:
        """Return a shape with the limits and the share of a job after its arguments changed; None: they stay."""
        shape, task = view.shape, self._tasks.get(view.task or "")
        decode = None if task is None else task.spec.decode
        if task is None or decode is None or not (shape.limits or shape.share):
            return None
        options = Options(queue=view.queue)
        after = task.template(TaskCall(view.task or "", payload, options)).shape
        try:
            decode(view.payload or b"")
            before = task.template(TaskCall(view.task or "", view.payload or b"", options)).shape
        except TenureError:  # the old arguments do not fit, so what followed from them is unknown
            return None
        filled = {rule.template: rule.name for rule in after.limits}
        renamed = {rule.name: filled.get(rule.template, rule.name) for rule in before.limits}
        rules: dict[str, LimitRule] = {}
        for rule in shape.limits:
            name = renamed.get(rule.name, rule.name)
            rules.setdefault(name, replace(rule, name=name))
        share = after.share if shape.share == before.share else shape.share
        return Shape(limits=tuple(rules.values()), share=share)
