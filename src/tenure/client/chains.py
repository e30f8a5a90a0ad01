"""Chains: calls that are enqueued one after the other, each when the one before it has completed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tenure.client.client import asynchronous, blocking
from tenure.client.flows import Flow
from tenure.client.groups import Follows, Rules
from tenure.client.parts import (
    KEEP_S,
    PARTS_MOST,
    AnyTask,
    FlowPart,
    Place,
    Step,
    client_of,
    first_of,
    flow_with,
    queue_of,
    started,
)
from tenure.core.errors import InvalidArgument, invalid
from tenure.core.flows import NewFlow, numbered
from tenure.core.steps import Steps

if TYPE_CHECKING:
    from datetime import timedelta

    from tenure.client.call import TaskCall
    from tenure.client.client import Client


class Chain(FlowPart):
    """Calls that are to be enqueued as one chain: see `chain`."""

    def __init__(self, steps: Sequence[Step], client: Client) -> None:
        self._steps = steps
        self._client = client

    def _begins_with(self) -> TaskCall[Any] | AnyTask | None:
        return first_of(self._steps)

    def _new(self, place: Place) -> NewFlow:
        return flow_with(place, self._steps, results=True, is_chain=True)

    @blocking
    def enqueue(
        self, on_success: Follows = None, on_end: Follows = None, *, keep: float | timedelta = KEEP_S
    ) -> Steps[Flow]:
        """Enqueue the first call; each of the others follows the completion of the one before it.

            flow = chain(fetch.call(url), parse, store.call("x")).enqueue(on_end=report.call())

        The arguments are as for `Group.enqueue`. Raises `InvalidArgument` (also for a member with an id of its own, a
        unique key, or `persistent`), `PayloadTooLarge`, `UnsupportedFeature` and the errors of Redis.
        """
        rules = Rules(on_success, on_end, "wait", True, keep)
        client, first = self._client, self._begins_with()
        assert first is not None  # or it would have no client
        rest = rules.flow(client, queue_of(client, first, "chain"))
        whole = self._new(Place(client, rest.queue, rest.keep_ms))
        flow = replace(numbered(whole, rest.id), on_success=rest.on_success, on_end=rest.on_end)
        made = Flow(client, flow.queue, flow.id)
        yield from client.durably(started(client, flow), made.id)
        return made

    aenqueue = asynchronous(enqueue)


def chain(*steps: Step) -> Chain:
    """Return calls as a chain: each is enqueued in the step that completes the one before it.

        flow = chain(fetch.call(url), parse, store.call("x")).enqueue()
        flow.result(timeout=60)

    A call runs as it is. A task, in place of a call, takes the result before it as its only argument. A group or a
    chain is an element as well: its result is the list of its results, or the last one. The elements have queues,
    lanes, delays and retries of their own. When one does not complete, those behind it never come; after a retry of it
    (`Flow.retry`, `tenure retry`) they do. 2 to 1,000 elements. Raises `InvalidArgument`.
    """
    if not 2 <= len(steps) <= PARTS_MOST:
        raise invalid("chain", f"2 to {PARTS_MOST:,} calls or tasks", f"{len(steps):,}")
    for step in steps:
        if not isinstance(step, FlowPart):
            client_of(step, "chain")
    first = first_of(steps)
    if first is None:
        raise InvalidArgument("chain: none of its groups has a call.")
    return Chain(steps, client_of(first, "chain"))
