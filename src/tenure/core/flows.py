"""Groups of jobs as values: a flow that is to be made, and one as it is shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Final, TypeAlias, TypeVar

from msgspec import Struct, structs

from tenure.core import limits
from tenure.core.errors import InvalidArgument
from tenure.core.job import NewJob
from tenure.core.shape import PLAIN, Shape
from tenure.core.values import replace

PRODUCER_MS: int = 30_000
"""How long a producer has between the numbers of members of a group and their enqueue."""
_CHAIN: Final = "c/"
_WITH_RESULT: Final = "r/"
_PLAIN: Final = "m/"


class FlowState(StrEnum):
    """The state of a flow.

    - `open`: members have not ended, or more may come
    - `completed`: all members have completed
    - `failed`, `cancelled`: all have ended, some of them otherwise; `cancelled`: the flow was cancelled
    """

    OPEN = "open"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Callback(Struct, frozen=True, gc=False, tag=True):
    """A call of a flow. `takes_results`: its only argument is what came before it: the results of a group, or the one
    of the member of a chain."""

    job: NewJob
    takes_results: bool = False


class NewFlow(Struct, frozen=True, gc=False, tag=True):
    """A flow to make. `keep_ms`: how long its record stays after its end. `stops`: its first failure cancels the rest.
    `open_ms`: it is cancelled if it is not sealed by then. `members`: of a chain, or of a flow that is
    part of another one, all of them; other flows get theirs later."""

    queue: str
    id: str
    keep_ms: int
    results: bool = False
    stops: bool = False
    on_success: Element | None = None
    on_end: Element | None = None
    open_ms: int = limits.MAX_DELAY_MS
    is_chain: bool = False
    members: tuple[Element, ...] = ()


Element: TypeAlias = Callback | NewFlow
"""What a flow is made of."""
E = TypeVar("E", bound=Element)


def jobs_of(*elements: Element | None) -> Iterator[NewJob]:
    """All jobs of these parts of a flow, in their order."""
    for element in elements:
        if isinstance(element, NewFlow):
            yield from jobs_of(*element.members)
        elif element is not None:
            yield element.job


def with_jobs(element: E, jobs: Iterator[NewJob]) -> E:
    """A part of a flow with other jobs, in the order of `jobs_of`."""
    if isinstance(element, NewFlow):
        return structs.replace(element, members=tuple(with_jobs(one, jobs) for one in element.members))
    return structs.replace(element, job=next(jobs))


def numbered(element: E, id: str) -> E:
    """A part of a flow under this id, with all of its members."""
    if isinstance(element, NewFlow):
        members = tuple(numbered(one, member_id(id, n)) for n, one in enumerate(element.members))
        return structs.replace(element, id=id, members=members)
    return structs.replace(element, job=structs.replace(element.job, id=id))


@dataclass(frozen=True, slots=True)
class FlowView:
    """A flow as the inspector shows it.

        view = flow.view()
        print(view.state, f"{view.completed} of {view.total}")

    `failed`: members that ended in `failed` or `broken`; `cancelled`: those that were cancelled or removed, or have
    expired. `sealed`: no member can come any more. `reason`: why it was cancelled. `is_chain`: its members come one
    after the other; those that do not come, as one before them has not completed, count as cancelled. Times are
    milliseconds since 1970 by Redis' clock.
    """

    id: str
    queue: str
    state: FlowState
    total: int
    completed: int
    failed: int
    cancelled: int
    sealed: bool
    made_ms: int
    ended_ms: int | None = None
    reason: str | None = None
    is_chain: bool = False

    @property
    def left(self) -> int:
        """How many members have not ended."""
        return self.total - self.completed - self.failed - self.cancelled

    @property
    def made_at(self) -> datetime:
        """Return `made_ms` as a `datetime` (UTC)."""
        return datetime.fromtimestamp(self.made_ms / limits.SECOND, UTC)

    @property
    def ended_at(self) -> datetime | None:
        """Return `ended_ms` as a `datetime` (UTC)."""
        return None if self.ended_ms is None else datetime.fromtimestamp(self.ended_ms / limits.SECOND, UTC)


@dataclass(frozen=True, slots=True)
class MemberRange:
    """Members of a flow with neighbouring numbers that are in one state.

    `state`: `completed`, `failed`, `broken`, `cancelled`, `expired`, `discarded`, or `open` (they have not ended).
    """

    first: int
    last: int
    state: str


@dataclass(frozen=True, slots=True)
class FlowTree:
    """A flow with its members, and the members of flows in it.

    `number`: which member of the outer flow it is. `members`: in their order. `has_more`: only the first are here.
    """

    view: FlowView
    members: tuple[MemberRange | FlowTree, ...]
    has_more: bool = False
    number: int | None = None


def wants_result(shape: Shape) -> bool:
    """Whether a job sends its result to its group."""
    return shape.flow.startswith((_WITH_RESULT, _CHAIN))


def is_in_group(flow: str) -> bool:
    """Whether this `Shape.flow` is one of a flow that takes more members."""
    return bool(flow) and not flow.startswith(_CHAIN)


def home_of(flow: str) -> str:
    """The queue of a flow, of which this is a `Shape.flow`.

    >>> home_of("m/images")
    'images'
    """
    return flow[len(_PLAIN) :]


def membership(queue: str, results: bool, is_chain: bool = False) -> str:
    """What `Shape.flow` of a member is. `queue`: where its flow is.

    >>> membership("images", results=True)
    'r/images'
    """
    return f"{_CHAIN if is_chain else _WITH_RESULT if results else _PLAIN}{queue}"


@lru_cache(maxsize=64)
def _member_shape(flow: str) -> Shape:
    """The shape of members that have no other. The members of a group share it."""
    return Shape(flow=flow)


def is_only_member(shape: Shape) -> bool:
    """Whether a job waits as plain jobs do, and its shape only names its group."""
    return bool(shape.flow) and shape == _member_shape(shape.flow)


def as_member(job: NewJob, flow: str, field: str) -> NewJob:
    """Return a job as a member of a flow. `flow`: its membership. Raises `InvalidArgument`."""
    if job.own_id:
        raise InvalidArgument(f"{field}: a member cannot have an id of its own: the flow gives it one.")
    if job.shape is PLAIN:
        return structs.replace(job, shape=_member_shape(flow))
    if job.shape.persistent:
        raise InvalidArgument(f"{field}: a persistent job never ends, so the flow would not either.")
    if job.shape.unique is not None:
        raise InvalidArgument(f"{field}: a member cannot be unique: another job could stand for it.")
    return structs.replace(job, shape=replace(job.shape, flow=flow))


def as_added(part: NewJob | NewFlow, flow: str) -> NewJob | NewFlow:
    """Return a part as one more member of a flow, which gives it its number. Raises `InvalidArgument`."""
    return part if isinstance(part, NewFlow) else structs.replace(as_member(part, flow, "group"), id="")


def flow_id(queue: str, key: str) -> str:
    """The id of a flow, for users.

    >>> flow_id("images", "Kx3")
    'images/Kx3'
    """
    return f"{queue}/{key}"


def flow_of(id: str, shape: Shape) -> str | None:
    """The id of the flow that a job is a member of; None: of none.

    >>> flow_of("Kx3.7", Shape(flow="m/images")), flow_of("Kx3.7", Shape())
    ('images/Kx3', None)
    """
    return flow_id(home_of(shape.flow), id.rpartition(".")[0]) if shape.flow else None


def member_id(flow: str, number: int) -> str:
    """The id of a member.

    >>> member_id("Kx3", 7)
    'Kx3.7'
    """
    return f"{flow}.{number}"
