"""The parts of flows: calls, tasks that take what came before them, and flows in flows."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar, get_origin, runtime_checkable

from msgspec import structs

from tenure.client.call import Built, TaskCall
from tenure.client.client import new_id
from tenure.client.outgoing import surrounded
from tenure.core import limits
from tenure.core.encoding.signature import Signature
from tenure.core.errors import InvalidArgument, invalid
from tenure.core.features import Feature
from tenure.core.flows import (
    Callback,
    Element,
    NewFlow,
    as_member,
    is_only_member,
    jobs_of,
    membership,
    numbered,
    with_jobs,
)
from tenure.core.steps import Steps
from tenure.core.task import not_a_call

if TYPE_CHECKING:
    from tenure.client.client import Client
    from tenure.client.options import Options

E = TypeVar("E", bound=Element)
PARTS_MOST: Final = 1_000
"""Jobs of a chain, or of a flow that is part of another one."""
KEEP_S: Final = 86_400
"""How long the record of a flow stays after its end."""
_IN_JSON: Final[dict[Any, str]] = {
    **dict.fromkeys((list, tuple, set), "list"),
    str: "text",
    int: "integer",
    float: "number",
    bool: "bool",
    dict: "object",
    type(None): "null",
}
"""What these types become."""
DEPTH_MOST: Final = 8
"""Flows in one another."""


@runtime_checkable
class AnyTask(Built, Protocol):
    """A task of an app, in place of a call: it takes what came before it."""

    name: str
    __wrapped__: Any

    @property
    def options(self) -> Options: ...

    @property
    def _signature(self) -> Signature: ...


class Place(NamedTuple):
    """Where a flow is made: the client of its app, its queue, how long its record stays, and how deep it is."""

    client: Client
    queue: str
    keep_ms: int
    depth: int = 1


class FlowPart(ABC):
    """A group or a chain that is not enqueued, so that it can be part of another flow."""

    is_flow = True
    _gives_list: bool | None = None
    """Whether it gives the list of its results; None: it gives one result."""

    def following(self, client: Client, field: str, home: str = "", depth: int = 0) -> NewFlow:
        """Return it as a flow that follows a job, or as one more member of a flow: see `FlowCall`.

        Raises `InvalidArgument`, `PayloadTooLarge` and `UnsupportedFeature`.
        """
        client.require(Feature.FLOWS)
        if home:
            return seen(client, self._new(Place(client, home, KEEP_S * limits.SECOND, depth + 1)))
        first = self._begins_with()
        if first is None:
            raise InvalidArgument(f"{field}: it has no calls: there is nothing to do.")
        place = Place(client, queue_of(client, first, field), KEEP_S * limits.SECOND)
        return seen(client, numbered(self._new(place), new_id()))

    @abstractmethod
    def _begins_with(self) -> TaskCall[Any] | AnyTask | None:
        """Return the first call in it; None: it has none."""

    @abstractmethod
    def _new(self, place: Place) -> NewFlow:
        """Return it as a flow with all of its members, which have no ids. Raises `InvalidArgument`."""


Member: TypeAlias = "TaskCall[Any] | FlowPart"
Step: TypeAlias = "TaskCall[Any] | AnyTask | FlowPart"
"""A part of a flow that something comes before."""


def flow_with(place: Place, parts: Iterable[Step], *, results: bool, is_chain: bool) -> NewFlow:
    """Return a flow with these members, which have no ids. Raises `InvalidArgument`, also for too many jobs."""
    field = "chain" if is_chain else "group"
    if place.depth > DEPTH_MOST:
        raise InvalidArgument(f"{field}: flows go at most {DEPTH_MOST} deep.")
    of_member, inner = membership(place.queue, results, is_chain), place._replace(depth=place.depth + 1)
    members: list[Element] = []
    left, before = PARTS_MOST, None
    for n, one in enumerate(parts):
        if is_chain and isinstance(one, AnyTask):
            _check_types(before, one)
        members.append(member(inner, one, of_member, field, "the result before it" if is_chain and n else None))
        before = one.source if isinstance(one, TaskCall) else one
        left -= max(1, sum(1 for _ in jobs_of(members[-1])))
        if left < 0:
            raise invalid(field, f"at most {PARTS_MOST:,} jobs in a chain, or in a flow within another one", "more")
    return NewFlow(place.queue, "", place.keep_ms, results, is_chain=is_chain, members=tuple(members))


def member(inner: Place, step: Step, membership: str, field: str, before: str | None = None) -> Element:
    """Return a member of a flow, without an id. `inner`: where flows in it are made. Raises `InvalidArgument`."""
    if isinstance(step, FlowPart):
        return step._new(inner)
    made = callback(inner.client, step, field, before)
    return Callback(as_member(made.job, membership, field), made.takes_results)


def members(inner: Place, steps: Iterable[Member], membership: str, field: str) -> list[Element]:
    """Return members of a group as `member` does. Most calls have the options of the call before them: their jobs are
    copies of its job with other arguments."""
    made: list[Element] = []
    source, options, job = None, None, None  # of the last call, if copies of its job are right
    most = inner.client.payload_limit if inner.client.makes_copies else -1
    for step in steps:
        if (
            job is not None
            and isinstance(step, TaskCall)
            and step.source is source
            and step.options is options
            and len(step.payload) <= most
        ):
            made.append(Callback(structs.replace(job, payload=step.payload)))
            continue
        one = member(inner, step, membership, field)
        made.append(one)
        source, options, job = None, None, None
        if isinstance(step, TaskCall) and isinstance(one, Callback) and is_only_member(one.job.shape):
            source, options, job = step.source, step.options, one.job
    return made


def _check_types(before: object, one: AnyTask) -> None:
    """Refuse a result that cannot be the argument, by the hints. Only types that differ in JSON are compared."""
    name, given = "a group", list[Any]
    if isinstance(before, AnyTask):
        name, given = before.name, before._signature.returns
    elif not isinstance(before, FlowPart) or before._gives_list is None:
        return
    elif not before._gives_list:
        raise InvalidArgument(f"chain: {one.name} takes the results of the group before it: set results=True there.")
    taken = one._signature.takes
    kinds = tuple(_IN_JSON.get(get_origin(hint) or hint) for hint in (given, taken))
    if None not in kinds and kinds[0] != kinds[1] and kinds != ("integer", "number"):
        takes, returns = map(inspect.formatannotation, (taken, given))
        raise InvalidArgument(f"chain: {one.name} takes {takes}, and {name} before it returns {returns}.")


def callback(client: Client, step: TaskCall[Any] | AnyTask, field: str, before: str | None) -> Callback:
    """Return the job of a call, or of a task that takes what comes before it. Raises `InvalidArgument`."""
    if isinstance(step, TaskCall) or not isinstance(step, AnyTask):  # the first is quick, and most are calls
        return Callback(client.job_of_call(step, field))
    if before is None:
        raise InvalidArgument(f"{field}: {step.name} has no result before it: write {step.name}.call(...).")
    try:
        inspect.signature(step.__wrapped__).bind(None)
    except TypeError as error:
        raise InvalidArgument(f"{field}: {step.name} cannot take {before}: {error}.") from None
    call = TaskCall[Any](step.name, b"[[null],{}]", step.options, step)
    return Callback(client.job_of_call(call, field), takes_results=True)


def seen(client: Client, element: E) -> E:
    """Return a part of a flow as instruments leave it."""
    with surrounded(client.around, list(jobs_of(element))) as jobs:
        return with_jobs(element, iter(jobs))


def started(client: Client, flow: NewFlow) -> Steps[None]:
    """Start a flow that has all of its members."""
    with surrounded(client.around, list(jobs_of(flow))) as jobs:
        yield from client.flows.start_flow(with_jobs(flow, iter(jobs)))


def first_of(steps: Iterable[Step | None]) -> TaskCall[Any] | AnyTask | None:
    """Return the first call in these parts; None: they have none."""
    for step in steps:
        first = step._begins_with() if isinstance(step, FlowPart) else step
        if first is not None:
            return first
    return None


def client_of(step: object, field: str) -> Client:
    """Return the client of the app of a call, or of a task. Raises `InvalidArgument` for anything else."""
    client: Client | None = getattr(step.source if isinstance(step, TaskCall) else step, "_client", None)
    if client is None:
        raise not_a_call(step, field)
    return client


def queue_of(client: Client, step: TaskCall[Any] | AnyTask, field: str) -> str:
    """Return the queue of a call, where the flow is that begins with it. Raises `InvalidArgument`."""
    return callback(client, step, field, "what comes before it").job.queue
