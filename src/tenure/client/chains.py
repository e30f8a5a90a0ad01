"""Chains: calls that are enqueued one after the other, each when the one before it has completed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from tenure.client.call import TaskCall
from tenure.client.client import asynchronous, blocking
from tenure.client.flows import Flow
from tenure.client.groups import KEEP_S, AnyTask, Follows, Rules, as_member, client_of, taking
from tenure.client.outgoing import surrounded
from tenure.core.errors import InvalidArgument, invalid
from tenure.core.flows import Callback, member_id, membership
from tenure.core.shape import Shape
from tenure.core.steps import Steps

if TYPE_CHECKING:
    from datetime import timedelta

STEPS_MOST: Final = 1_000
"""Members of a chain."""


class Chain:
    """Calls that are to be enqueued as one chain: see `chain`."""

    def __init__(self, steps: Sequence[TaskCall[Any] | AnyTask]) -> None:
        self._steps = steps
        self._client = client_of(steps[0], "chain")

    @blocking
    def enqueue(
        self, on_success: Follows = None, on_end: Follows = None, *, keep: float | timedelta = KEEP_S
    ) -> Steps[Flow]:
        """Enqueue the first call; each of the others follows the completion of the one before it.

            flow = chain(fetch.call(url), parse, store.call("x")).enqueue(on_end=report.call())

        The arguments are as for `Group.enqueue`. Raises `InvalidArgument` (also for a member with an id of its own, a
        unique key, or `persistent`), `PayloadTooLarge`, `UnsupportedFeature` and the errors of Redis.
        """
        calls = [self._call(n, step) for n, step in enumerate(self._steps)]
        jobs = [self._client.job_of_call(call, "chain") for call in calls]
        flow = Rules(on_success, on_end, "wait", True, keep).flow(self._client, jobs[0].queue)
        shape = Shape(flow=membership(flow.queue, results=True))
        numbered = [
            structs.replace(as_member(job, shape, "chain"), id=member_id(flow.id, n)) for n, job in enumerate(jobs)
        ]
        made = Flow(self._client, flow.queue, flow.id)
        with surrounded(self._client.around, numbered) as members:
            elements = [
                Callback(job, takes_results=isinstance(step, AnyTask))
                for job, step in zip(members, self._steps, strict=True)
            ]
            yield from self._client.durably(self._client.flows.open_chain(flow, elements), made.id)
        return made

    aenqueue = asynchronous(enqueue)

    def _call(self, number: int, step: TaskCall[Any] | AnyTask) -> TaskCall[Any]:
        if isinstance(step, AnyTask):
            if not number:
                raise InvalidArgument(f"chain: the first element has no result before it: write {step.name}.call(...).")
            return taking(step, "chain", "the result before it")
        return step


def chain(*steps: TaskCall[Any] | AnyTask) -> Chain:
    """Return calls as a chain: each is enqueued in the step that completes the one before it.

        flow = chain(fetch.call(url), parse, store.call("x")).enqueue()
        flow.result(timeout=60)

    A call runs as it is. A task, in place of a call, takes the result before it as its only argument. The elements have
    queues, lanes, delays and retries of their own. When one does not complete, those behind it never come; after a
    retry of it (`Flow.retry`, `tenure retry`) they do. 2 to 1,000 elements. Raises `InvalidArgument`.
    """
    if not 2 <= len(steps) <= STEPS_MOST:
        raise invalid("chain", f"2 to {STEPS_MOST:,} calls or tasks", f"{len(steps):,}")
    for step in steps:
        client_of(step, "chain")
    return Chain(steps)
