"""Keys that stay behind: none without an end in time."""

from __future__ import annotations

from typing import Any

from tenure.core.job import NewJob, State
from tenure.core.outcome import Completed
from tenure.core.steps import Command, Invoke, Reply, Steps
from tenure.core.worker_view import WorkerView
from tests.support.stepping import Send, Session, send_with, step
from tests.support.world import World


def test_the_counters_of_an_idle_queue_are_forgotten_in_the_end(world: World) -> None:
    world.put("a")
    world.drain()
    world.leave("drainer")
    world.maintain()
    assert world.lasting() == set()


def test_every_call_names_a_key_of_its_queue(world: World) -> None:
    """So that a driver can route it."""
    engine, prefix, shared = world.engine, world.engine.prefix("q"), world.engine.shared()
    named: list[str] = []
    session = Session("s")

    def note(number: int, call: Command | Invoke, send: Send) -> Reply:
        named.extend(call.keys if isinstance(call, Invoke) else map(str, call.args[1:2]))
        return send(call)

    def run(steps: Steps[Any]) -> Any:
        return step(steps, session, send_with(world.driver), note)

    run(engine.enqueue([NewJob("q", id, b"") for id in "abc"]))
    lease, *_ = run(engine.lease("w", ["q"], 2)).leases
    run(engine.heartbeat("w", ["q"], [lease.ref]))
    run(engine.settle([(lease, Completed(b"", 0))]))
    run(engine.leave("w", ["q"]))
    run(engine.maintain(["q"], []))
    run(engine.announce(WorkerView("w", ("q",), "h", 1, 1, 1, 1)))
    run(engine.queue("q"))
    run(engine.page("q", State.READY))
    run(engine.cancel("q", "a"))
    run(engine.purge("q", State.READY))
    assert len(named) > 12
    assert all(name.startswith((prefix, shared)) for name in named if not name.isdigit()), named
