"""What the crash matrix is made of: scenes, operations, and what must hold when an operation was cut."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

from tenure.core.errors import QueueFull
from tenure.core.job import Lease, LeaseRef, NewJob, State
from tenure.core.outcome import Completed, Outcome
from tenure.core.shape import LaneFailure, LaneState
from tenure.core.steps import Command, Invoke, Reply, Steps
from tests.support.engines import GRACE_MS, LEASE_MS
from tests.support.stepping import Fate, Send, Session, send_with, step
from tests.support.world import World

QUEUES: Final = ("q", "p")


@dataclass(frozen=True, slots=True)
class Scene:
    """A world with jobs in every place; the worker `w` holds `held`.

    `known`: all jobs that were acknowledged, by queue. `ended` are over. `stopping`: somebody wants them to end, so
    they may. `lasting` never complete. `lanes`: jobs of each lane with an order, in that order.
    """

    world: World
    held: dict[str, Lease]
    known: set[tuple[str, str]]
    ended: tuple[str, ...] = ()
    stopping: tuple[str, ...] = ()
    lasting: tuple[str, ...] = ()
    lanes: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def engine(self) -> Any:
        return self.world.engine


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation, how many calls it makes, which jobs it may end or remove, or add, and what comes before it."""

    calls: int
    start: Callable[[Scene], Steps[Any]]
    ends: tuple[str, ...] = ()
    adds: tuple[str, ...] = ()
    before: Callable[[World], object] = lambda world: None


def settle(**outcomes: Outcome) -> Callable[[Scene], Steps[Any]]:
    """Held jobs by name, in one call."""
    return lambda scene: scene.engine.settle([(scene.held[id], outcome) for id, outcome in outcomes.items()])


def new(*ids: str, queue: str = "q", **options: Any) -> Callable[[Scene], Steps[Any]]:
    return lambda scene: scene.engine.enqueue([NewJob(queue, id, b"new", own_id=True, **options) for id in ids])


def act(name: str, *args: Any, **options: Any) -> Callable[[Scene], Steps[Any]]:
    return lambda scene: attrgetter(name)(scene.engine)(*args, **options)


def refs(scene: Scene, *ids: str) -> list[LeaseRef]:
    return [scene.held[id].ref for id in ids]


def run(scene: Scene, operation: Operation, fate: Fate, nonces: Session | None = None) -> Any:
    """Run it, each call through `fate`. A full queue is an answer, too."""
    operation.before(scene.world)
    try:
        return step(operation.start(scene), nonces or Session("s"), send_with(scene.world.driver), fate)
    except QueueFull as error:
        return error


def through(number: int, call: Command | Invoke, send: Send) -> Reply:
    return send(call)


def comparable(call: Command | Invoke, reply: Reply) -> Reply:
    """A reply without what depends on the moment: when to look again, and what was dropped."""
    if isinstance(call, Invoke) and call.script.name in ("claim", "claim_full") and isinstance(reply, list):
        return reply[1]
    if isinstance(call, Invoke) and call.script.name == "schedule_announce":
        return reply[1:]
    return reply


def recover(scene: Scene) -> None:
    """Another worker maintains until there is nothing more to do. Nobody else does anything."""
    for queue in (*QUEUES, "new", "hand"):
        for ms in (LEASE_MS + 50, GRACE_MS + 50, 60_000):
            scene.world.pass_time(ms, queue)
            while scene.world.maintain(["t"], queue).more:
                pass


def check_nothing_is_lost(scene: Scene, operation: Operation) -> None:
    world = scene.world
    allowed = {(queue, id) for queue in QUEUES for id in operation.ends}
    for queue, id in scene.known - allowed:
        _check_place(world, queue, id)
    for queue in QUEUES:
        _let_all_run(scene, queue)
    completed = {queue: world.totals(queue).get("completed", 0) for queue in QUEUES}
    ran = {queue: world.drain(queue) for queue in (*QUEUES, "new")}
    for queue, ids in ran.items():
        assert len(ids) == len(set(ids)), f"ran twice: {ids}"
        known = {id for place, id in scene.known if place == queue}
        assert set(ids) <= known | set(operation.adds)
    for queue in QUEUES:
        ends = {id for place, id in scene.known - allowed if place == queue}
        missing = {id for id in ends if id not in ran[queue]} - {*scene.ended, *scene.stopping, *scene.lasting}
        assert not missing, f"never ran: {missing}"
        # At most one completion of each job ever was True.
        assert world.totals(queue).get("completed", 0) == completed[queue] + len(ran[queue])
        late = [(lease, Completed(b"r")) for lease in scene.held.values()]
        assert not any(world.run(scene.engine.settle(late)))
    for lane in scene.lanes.values():
        assert _in_order(lane, ran["q"]), f"the order of a lane: {lane}, ran as {ran['q']}"
    world.audit()
    assert all(state in {"completed", "failed", "broken", "cancelled"} for state in world.counts())


def _check_place(world: World, queue: str, id: str) -> None:
    view = world.job(id, queue)
    assert view is not None, f"{id} on {queue} is lost"
    follows = view.state is State.SCHEDULED and view.due_ms is None
    assert view.state.ended or view.state is State.READY or follows, f"{id} on {queue} is {view.state}"


def _let_all_run(scene: Scene, queue: str) -> None:
    """Whatever holds work back is taken away, as somebody would: parked and blocked lanes, a pause, what lasts."""
    world, engine = scene.world, scene.engine
    for id in scene.lasting:
        world.run(engine.cancel(queue, id))
    world.run(engine.settings.configure(queue, paused=False, max_length=0, lane_failure=LaneFailure.SKIP))
    for lane in world.run(engine.lanes.lane_page(queue, LaneState.PARKED)).lanes:
        assert world.run(engine.lanes.resume_lane(queue, lane.name))
    for state in (State.FAILED, State.BROKEN):
        world.run(engine.purge(queue, state))


def _in_order(lane: Iterable[str], ran: list[str]) -> bool:
    places = [ran.index(id) for id in lane if id in ran]
    return places == sorted(places)
