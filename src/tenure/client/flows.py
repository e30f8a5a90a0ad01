"""Flows: many jobs as one, as their users see them."""

from __future__ import annotations

import time
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
)

from tenure.client.client import a_loop_runs, asynchronous, blocking, seconds_or_none
from tenure.client.handle import failure
from tenure.client.unique import public_view
from tenure.core import limits, names
from tenure.core.encoding.codec import decode_json
from tenure.core.engine import Feature
from tenure.core.errors import FlowNotFound, InvalidArgument, JobFailed, ResultTimeout
from tenure.core.flows import FlowState, FlowTree, FlowView, MemberRange, flow_id, member_id
from tenure.core.job import JobView
from tenure.core.steps import Steps
from tenure.core.values import replace

if TYPE_CHECKING:
    from tenure.client.client import Client

WAIT_S: Final = 2.0
"""A caller that waits for the end of a flow looks at least this often, even if messages are lost."""
TREE_MOST: Final = 500
"""Members of a flow that a tree reads, and ranges of them that it has."""


class Flow:
    """A group of jobs, as `group(...).enqueue()` and `app.flow(id)` return it. Every method has an async version.

        flow = group(resize.call(path) for path in paths).enqueue(on_success=publish.call("album"))
        flow.wait(timeout=60).state

    `id`: "<queue>/<key>": the queue that the flow was made in, and its key, with which the ids of its members begin.
    """

    __slots__ = ("_client", "_key", "_queue", "id")

    def __init__(self, client: Client, queue: str, key: str) -> None:
        self.id = flow_id(queue, key)
        self._client = client
        self._queue = queue
        self._key = key

    def __repr__(self) -> str:
        return f"<Flow {self.id!r}>"

    def _view(self) -> Steps[FlowView]:
        view = yield from self._client.flows.flow(self._queue, self._key)
        if view is None:
            raise FlowNotFound(f"There is no flow {self.id!r}, or its record has expired.")
        return view

    @blocking
    def view(self) -> Steps[FlowView]:
        """Return the flow as it is now. Raises `FlowNotFound`.

        view = flow.view()
        print(view.state, f"{view.left} of {view.total} left")
        """
        return self._view()

    aview = asynchronous(view)

    def wait(self, timeout: float | None = None) -> FlowView:
        """Wait until all members have ended, and return the flow. In async code: `wait_async`.

            if flow.wait(timeout=60).failed: ...

        `timeout` in seconds; None: no limit; 0: look once. Raises `ResultTimeout` and `FlowNotFound`.
        """
        if a_loop_runs():
            self._client.blocks_loop("wait", waits=True)
        wait = _Wait(timeout)
        if (view := self._client.run(self._view())).state is not FlowState.OPEN:
            return view
        with self._client.runner.subscribe(self._channel()) as messages:
            while (view := self._client.run(self._view())).state is FlowState.OPEN:
                messages.get(wait.next_s(self, view))
        return view

    async def wait_async(self, timeout: float | None = None) -> FlowView:  # noqa: ASYNC109
        """Async version of `wait`.

        view = await flow.wait_async(timeout=60)
        """
        wait = _Wait(timeout)
        if (view := await self._client.arun(self._view())).state is not FlowState.OPEN:
            return view
        async with self._client.runner.asubscribe(self._channel()) as messages:
            while (view := await self._client.arun(self._view())).state is FlowState.OPEN:
                await messages.get(wait.next_s(self, view))
        return view

    def _channel(self) -> str:
        return self._client.needed(self._client.engine.results, Feature.RESULTS).result_channel(self._queue, self._key)

    @blocking
    def failed(self, after: str = "0") -> Steps[tuple[list[JobView], str | None]]:
        """Return about a hundred members that ended otherwise than in `completed`, and where the next page begins.

            jobs, after = flow.failed()
            while after:
                more, after = flow.failed(after)

        A member may come twice. A member that is a flow gives its own. None: this was the last page.
        """
        members, on = yield from self._failed(after)
        found: list[JobView] = []
        for member, queue in members:
            view = yield from self._client.engine.job(queue, member)
            found += [] if view is None else [public_view(view)]
        return found, None if on == "0" else on

    afailed = asynchronous(failed)

    def _failed(self, after: str = "0") -> Steps[tuple[list[tuple[str, str]], str]]:
        """A page of the jobs that did not complete, each with its queue, those in inner flows too."""
        members, on = yield from self._client.flows.failed_members(self._queue, self._key, after)
        found: list[tuple[str, str]] = []
        for member, queue in members:
            if queue:
                found.append((member, queue))
                continue
            inner, at = Flow(self._client, self._queue, member), "0"
            for _ in range(limits.PURGE_ROUNDS):
                more, at = yield from inner._failed(at)
                found += more
                if at == "0":
                    break
        return found, on

    @blocking
    def results(self, after: int = 0) -> Steps[list[Any]]:
        """Return the results of up to 1,000 members, from the number `after` on, in the order of the calls.

            squares = group([square.call(n) for n in range(3)], results=True).enqueue()
            squares.wait()
            squares.results()                               # [0, 1, 4]

        Plain data; None for a member without one. Raises `FlowNotFound`, and `InvalidArgument` for a wrong number.
        """
        start = names.count(after, "after", most=limits.MAX_QUEUE_LENGTH)
        view = yield from self._view()
        count = max(0, min(limits.MAX_FLOW_RESULTS, view.total - start))
        stored = yield from self._client.flows.member_results(self._queue, self._key, start, count)
        return [decode_json(one) if one else None for one in stored]

    aresults = asynchronous(results)

    def result(self, timeout: float | None = None) -> Any:
        """Wait until a chain has ended, and return the result of its last member. In async code: `aresult`.

            chain(fetch.call(url), parse).enqueue().result(timeout=60)

        Plain data. Raises `JobFailed` with the error of the member that did not complete, `ResultTimeout`,
        `FlowNotFound`, and `InvalidArgument` for a group, which has `results`.
        """
        view = self.wait(timeout)
        return self._client.run(self._last(view))

    async def aresult(self, timeout: float | None = None) -> Any:  # noqa: ASYNC109
        """Async version of `result`.

        await flow.aresult(timeout=60)
        """
        view = await self.wait_async(timeout)
        return await self._client.arun(self._last(view))

    def _last(self, view: FlowView) -> Steps[Any]:
        if not view.is_chain:
            raise InvalidArgument(f"result: flow {self.id!r} is a group: `results` has what its members returned.")
        if view.state is FlowState.COMPLETED:
            [stored] = yield from self._client.flows.member_results(self._queue, self._key, view.total - 1, 1)
            return decode_json(stored) if stored else None
        members, _ = yield from self._failed()
        for member, queue in members:
            job = yield from self._client.engine.job(queue, member)
            if job is not None:
                raise failure(job)
        raise JobFailed(view.state.value, "", view.reason or "a member was removed", id=self.id, task=None)

    @blocking
    def tree(self, most: int = TREE_MOST) -> Steps[FlowTree]:
        """Return the flow with its members, and the members of flows in it.

            for part in flow.tree().members:
                print(part)                                 # MemberRange(first=0, last=41, state='completed')

        The first 500 members of each, in at most `most` ranges. Raises `FlowNotFound`, and `InvalidArgument` for a
        wrong number.
        """
        names.count(most, "most", least=1, most=TREE_MOST)
        view = yield from self._view()
        tree, _ = yield from self._tree(view, most)
        return tree

    atree = asynchronous(tree)

    def _tree(self, view: FlowView, most: int, number: int | None = None) -> Steps[tuple[FlowTree, int]]:
        """The tree, and how many more ranges may be in it."""
        count = min(view.total, TREE_MOST)
        rows = yield from self._client.flows.flow_members(self._queue, self._key, 0, count)
        members: list[MemberRange | FlowTree] = []
        for n, (state, inner) in enumerate(rows):
            last = members[-1] if members else None
            # Members of a chain behind one that did not complete never come.
            state = state or (FlowState.OPEN if view.state is FlowState.OPEN else FlowState.CANCELLED).value
            if inner is None and isinstance(last, MemberRange) and last.state == state:
                members[-1] = replace(last, last=n)
                continue
            if not most:
                return FlowTree(view, tuple(members), True, number), 0
            most -= 1
            if inner is None:
                members.append(MemberRange(n, n, state))
            else:
                one, most = yield from Flow(self._client, self._queue, member_id(self._key, n))._tree(inner, most, n)
                members.append(one)
        return FlowTree(view, tuple(members), view.total > count, number), most

    @blocking
    def cancel(self, reason: str = "") -> Steps[bool]:
        """Cancel the members that have not ended. Workers of the queue complete that for large groups.

            flow.cancel("the album was deleted")

        No member can be added from then on. Return False if there is no such flow.
        """
        return self._client.flows.stop_flow(self._queue, self._key, names.reason(reason))

    acancel = asynchronous(cancel)

    @blocking
    def retry(self) -> Steps[int]:
        """Run the members again that failed, broke or were cancelled. Return how many.

            flow.retry()

        The flow is open again. `on_success` follows if all have completed then and it has not followed yet; `on_end`
        follows each end. A chain that was cancelled while a member of it completed continues with the next one.
        """
        return self._retry()

    aretry = asynchronous(retry)

    def _retry(self) -> Steps[int]:
        count, after = int((yield from self._client.flows.continue_chain(self._queue, self._key))), "0"
        for _ in range(limits.PURGE_ROUNDS):
            members, after = yield from self._client.flows.failed_members(self._queue, self._key, after)
            for member, queue in members:
                inner = Flow(self._client, self._queue, member)
                count += yield from self._client.engine.retry(queue, member) if queue else inner._retry()
            if after == "0":
                break
        return count

    @blocking
    def seal(self) -> Steps[bool]:
        """Let the flow end with the members that it has, when the program that adds them has died.

        flow.seal()
        """
        return self._client.flows.seal_flow(self._queue, self._key, by_hand=True)

    aseal = asynchronous(seal)

    @blocking
    def forget(self) -> Steps[bool]:
        """Remove the record of the flow, and of flows in it; their jobs stay, and nothing follows them.

            flow.forget()

        Return False if it is gone already.
        """
        return self._client.flows.forget_flow(self._queue, self._key)

    aforget = asynchronous(forget)


class _Wait:
    def __init__(self, timeout: float | None) -> None:
        self._limit_s = seconds_or_none(timeout)
        self._until = None if self._limit_s is None else time.monotonic() + self._limit_s

    def next_s(self, flow: Flow, view: FlowView) -> float:
        """Return the seconds until the next look. Raises `ResultTimeout` when none are left."""
        left = WAIT_S if self._until is None else min(WAIT_S, self._until - time.monotonic())
        if left <= 0:
            raise ResultTimeout(
                f"Flow {flow.id!r} did not end within {self._limit_s:g} s: {view.left:,} of {view.total:,} members are "
                "left. Call `wait` again to wait longer."
            )
        return left
