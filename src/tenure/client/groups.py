"""Groups: calls that are enqueued as one flow, with calls that follow when all of them have ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, get_args

from tenure.client.call import TaskCall
from tenure.client.client import a_loop_runs, asynchronous, blocking, new_id
from tenure.client.enqueue import enqueue_all
from tenure.client.flows import Flow
from tenure.client.parts import (
    KEEP_S,
    PARTS_MOST,
    AnyTask,
    FlowPart,
    Member,
    Place,
    callback,
    client_of,
    first_of,
    flow_with,
    members,
    queue_of,
    seen,
    started,
)
from tenure.core import limits, names
from tenure.core.errors import GroupEnded, InvalidArgument, invalid
from tenure.core.flows import Callback, Element, NewFlow, member_id, membership, numbered
from tenure.core.functions import without_warning
from tenure.core.steps import Steps

if TYPE_CHECKING:
    from datetime import timedelta
    from types import TracebackType

    from tenure.client.client import Client

PAGE: Final = limits.MAX_BATCH
"""Members that are enqueued together."""
OPEN_S: Final = 7 * 86_400
"""How long a group may stay open for more members."""
_BROKEN_OFF: Final = "its enqueue was broken off"
IfOneFails: TypeAlias = Literal["wait", "cancel"]
Follows: TypeAlias = "TaskCall[Any] | AnyTask | FlowPart | None"
"""What follows a group: a call, a group or a chain, or a task that takes the results."""


class _Maker:
    """Makes one flow: its operations are steps, for sync and async callers."""

    def __init__(self, client: Client, new: NewFlow) -> None:
        self.client = client
        self.new = new
        self.flow = Flow(client, new.queue, new.id)
        self._total = 0
        self._queues: set[str] = set()
        self._membership = membership(new.queue, new.results)

    def begin(self) -> Steps[None]:
        return self.client.flows.open_flow(self.new)

    def page(self, calls: Iterable[Member]) -> list[Element]:
        """Return members without their ids. Sends nothing. Raises what an enqueue refuses."""
        inner = Place(self.client, self.new.queue, self.new.keep_ms, depth=2)
        return members(inner, calls, self._membership, "group")

    def add(self, page: Sequence[Element]) -> Steps[None]:
        """Enqueue members. Raises `GroupEnded`, and what an enqueue raises: then the flow is to be stopped."""
        if not page:
            return
        queues = {one.job.queue for one in page if isinstance(one, Callback)}
        self._total += len(page)
        most = limits.MAX_FLOW_RESULTS
        if self.new.results and self._total > most and self.takes_results:
            raise invalid("group", f"at most {most:,} calls, as a task takes the results", f"{self._total:,}")
        first = yield from self.client.flows.grow_flow(self.new.queue, self.new.id, len(page), queues - self._queues)
        if first is None:
            raise GroupEnded(f"Flow {self.flow.id!r} has ended, or is sealed or gone: no member can be added.")
        self._queues |= queues
        with_ids = [numbered(one, member_id(self.new.id, n)) for n, one in enumerate(page, first)]
        yield from enqueue_all(self.client, [one.job for one in with_ids if isinstance(one, Callback)])
        for one in with_ids:
            if isinstance(one, NewFlow):
                yield from started(self.client, one)

    @property
    def takes_results(self) -> bool:
        return any(isinstance(one, Callback) and one.takes_results for one in (self.new.on_success, self.new.on_end))

    def end(self) -> Steps[Flow]:
        sealing = self.client.flows.seal_flow(self.new.queue, self.new.id)
        yield from self.client.durably(sealing, self.flow.id)  # for all that was written here before it, too
        return self.flow

    def stop(self) -> Steps[bool]:
        return self.client.flows.stop_flow(self.new.queue, self.new.id, _BROKEN_OFF, has_all=True)


class Group(FlowPart):
    """Calls that are to be enqueued as one flow: see `group`."""

    def __init__(self, calls: Iterable[Member], results: bool) -> None:
        self._calls: Iterator[Member] = iter(calls)
        self._results = self._gives_list = results
        self._is_read = False
        self._parts: tuple[Member, ...] | None = None
        """Its calls once it is part of another flow or follows a job, which it may do again."""

    def _begins_with(self) -> TaskCall[Any] | AnyTask | None:
        if self._parts is not None:
            return first_of(self._parts)
        first = list(islice(self._calls, PAGE))
        self._calls = chain(first, self._calls)
        return first_of(first)

    def _new(self, place: Place) -> NewFlow:
        if self._parts is None:
            self._parts = tuple(islice(self._read(), PARTS_MOST + 1))
        return flow_with(place, self._parts, results=self._results, is_chain=False)

    def _read(self) -> Iterator[Member]:
        if self._is_read:
            raise InvalidArgument("group: it has been enqueued, and its calls have been read. Make another one.")
        self._is_read = True
        return self._calls

    def enqueue(
        self,
        on_success: Follows = None,
        on_end: Follows = None,
        if_one_fails: IfOneFails = "wait",
        *,
        keep: float | timedelta = KEEP_S,
    ) -> Flow:
        """Enqueue the calls, and what follows them. In async code: `aenqueue`.

            group(resize.call(path) for path in paths).enqueue(on_success=publish.call("album"))
            group([square.call(n) for n in range(3)], results=True).enqueue(on_success=total)

        `on_success`: a call that is enqueued when all have completed, in the step that notes the last end. `on_end`:
        when all have ended, however they did. A task instead of a call takes the list of results as its argument: then
        there are at most 1,000 calls, and `results=True`. `if_one_fails`: "cancel" cancels the others after the first
        that does not complete. `keep`: seconds for which the record of the flow stays after its end.

        The calls are read page by page, so there may be millions. If the enqueue fails in between, the flow is
        cancelled. Raises `InvalidArgument` (also for a member with an id of its own, a unique key, or `persistent`),
        and what `Task.enqueue` raises.
        """
        # Not steps, as elsewhere: a caller that is cancelled must still stop the group.
        maker, first, pages = self._begin(on_success, on_end, if_one_fails, keep)
        if a_loop_runs():
            maker.client.blocks_loop("enqueue")
        run = maker.client.run
        run(maker.begin())
        try:
            run(maker.add(first))
            for page in pages:
                run(maker.add(maker.page(page)))
        except BaseException:
            run(maker.stop())
            raise
        return run(maker.end())

    async def aenqueue(
        self,
        on_success: Follows = None,
        on_end: Follows = None,
        if_one_fails: IfOneFails = "wait",
        *,
        keep: float | timedelta = KEEP_S,
    ) -> Flow:
        """Async version of `enqueue`.

        flow = await group(resize.call(path) for path in paths).aenqueue()
        """
        maker, first, pages = self._begin(on_success, on_end, if_one_fails, keep)
        run = maker.client.arun
        await run(maker.begin())
        try:
            await run(maker.add(first))
            for page in pages:
                await run(maker.add(maker.page(page)))
        except BaseException:
            await run(maker.stop())
            raise
        return await run(maker.end())

    def _begin(
        self, on_success: Follows, on_end: Follows, if_one_fails: IfOneFails, keep: object
    ) -> tuple[_Maker, list[Element], Iterator[list[Member]]]:
        """The group, its first members, which are checked before anything is sent, and the others."""
        calls = self._read()
        pages = iter(lambda: list(islice(calls, PAGE)), [])
        first = next(pages, [])
        begin = first_of((*first, on_success, on_end))
        if begin is None:
            raise InvalidArgument("group: it has no calls, and nothing follows it: there is nothing to do.")
        client = client_of(begin, "group")
        queue = queue_of(client, begin, "group")
        rules = Rules(on_success, on_end, if_one_fails, self._results, keep)
        maker = _Maker(client, rules.flow(client, queue))
        return maker, maker.page(first), pages


def group(calls: Iterable[Member], *, results: bool = False) -> Group:
    """Return calls as a group: enqueued as one flow, it enqueues what follows when all have ended.

        flow = group(resize.call(path) for path in paths).enqueue(on_success=publish.call("album"))

    `calls`: any iterable, read at the enqueue, of calls of tasks of one app, for any queues, or of groups and chains.
    `results`: keep the results with the flow, for `Flow.results` and for a task that follows; a chain gives its last
    one, a group the list of its own. Raises `InvalidArgument`.
    """
    if isinstance(calls, (TaskCall, FlowPart, str, bytes)) or not isinstance(calls, Iterable):
        raise invalid("group", "a list of calls, as in [report.call(day) for day in days]", without_warning(calls))
    return Group(calls, names.flag(results, "results"))


class OpenGroup:
    """A group that gets its members one by one: see `app.open_group`.

    with app.open_group("images") as group:
        for path in walk():
            group.add(resize.call(path))
    """

    def __init__(self, client: Client, new: NewFlow) -> None:
        self._client = client
        self._maker = _Maker(client, new)
        self._waiting: list[Element] = []
        self._is_open = False
        self.flow = self._maker.flow

    def __repr__(self) -> str:
        return f"<OpenGroup of {self.flow!r}>"

    @blocking
    def add(self, call: Member) -> Steps[None]:
        """Add a call, a group or a chain. Members go to Redis together, 500 at a time and at the end.

            group.add(resize.call("cat.png"))

        Raises `GroupEnded`, `InvalidArgument`, and what `Task.enqueue` raises.
        """
        if not self._is_open:
            raise GroupEnded(f"Flow {self.flow.id!r} takes members within its `with` block only.")
        self._waiting += self._maker.page([call])
        if len(self._waiting) >= PAGE:
            yield from self._flush()

    aadd = asynchronous(add)

    def _flush(self) -> Steps[None]:
        page, self._waiting = self._waiting, []
        yield from self._maker.add(page)

    def _end(self, failed: bool) -> Steps[None]:
        self._is_open = False
        if failed:
            yield from self._maker.stop()
            return
        try:
            yield from self._flush()
        except Exception:
            yield from self._maker.stop()
            raise
        yield from self._maker.end()

    def __enter__(self) -> OpenGroup:
        self._client.run(self._maker.begin())
        self._is_open = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, tb: TracebackType | None) -> None:
        self._client.run(self._end(kind is not None))

    async def __aenter__(self) -> OpenGroup:
        await self._client.arun(self._maker.begin())
        self._is_open = True
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: object, tb: TracebackType | None) -> None:
        await self._client.arun(self._end(kind is not None))


class Rules(NamedTuple):
    """What follows a group, as the user gave it."""

    on_success: Follows
    on_end: Follows
    if_one_fails: str
    results: bool
    keep: object
    open_for: object = OPEN_S

    def flow(self, client: Client, queue: str) -> NewFlow:
        """Return the flow to make, in this queue. Raises `InvalidArgument`."""
        if self.if_one_fails not in get_args(IfOneFails):
            raise invalid("if_one_fails", "'wait' or 'cancel'", repr(self.if_one_fails))
        keep_ms = names.duration_ms(self.keep, "keep", most_ms=limits.MAX_DELAY_MS)
        place = Place(client, queue, keep_ms)
        success = self._follow(place, self.on_success, "on_success")
        end = self._follow(place, self.on_end, "on_end")
        open_ms = names.duration_ms(self.open_for, "open_for", most_ms=limits.MAX_DELAY_MS)
        stops = self.if_one_fails == "cancel"
        return NewFlow(queue, new_id(), keep_ms, self.results, stops, success, end, open_ms)

    def _follow(self, place: Place, follows: Follows, field: str) -> Element | None:
        if follows is None:
            return None
        if isinstance(follows, FlowPart):
            return seen(place.client, numbered(follows._new(place), new_id()))
        if isinstance(follows, AnyTask) and not self.results:
            raise InvalidArgument(f"{field}: the task {follows.name} takes the results of the group: set results=True.")
        return seen(place.client, callback(place.client, follows, field, "the list of results"))
