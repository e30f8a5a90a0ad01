"""Schedules as workers add, read and move them on, with planned times that a test chooses."""

from __future__ import annotations

from typing import Any, Final, cast

from msgspec.structs import replace as replaced

from tenure.core import limits
from tenure.core.errors import TenureError
from tenure.core.schedules import rules
from tenure.core.schedules.rules import digest_of
from tenure.core.schedules.schedule import Announced, ScheduleSpec, StoredSchedule, Tick, Ticked, extra_tick
from tests.support.world import World

__all__ = [
    "STEP",
    "announce",
    "deploy",
    "digest_of",
    "due",
    "make",
    "make_trigger",
    "now_of",
    "put",
    "spec",
    "stored",
    "tick",
    "tick_of",
]

STEP: Final = limits.MINUTE


def now_of(world: World) -> int:
    seconds, micros = world.command("TIME")
    return int(seconds) * 1000 + int(micros) // 1000


def spec(name: str = "s", **changes: Any) -> ScheduleSpec:
    return ScheduleSpec(
        **{"name": name, "queue": "q", "every_ms": STEP, "window_ms": limits.HOUR, "payload": b"p", **changes}
    )


def put(world: World, one: ScheduleSpec, planned_ms: int, expected: str = "") -> bool:
    """Add a schedule whose next tick is at this time."""
    fire_ms = rules.fire_of(one, planned_ms)
    done: bool = world.run(world.engine.schedules.put_schedule(one, digest_of(one), expected, planned_ms, fire_ms))
    return done


def stored(world: World, name: str = "s") -> StoredSchedule:
    _, found = world.run(world.engine.schedules.schedule("q", name))
    assert found is not None
    return found


def tick_of(found: StoredSchedule, now_ms: int, id: str) -> Tick:
    """The tick that a worker that read the schedule would make."""
    one, planned_ms = found.spec, found.state.planned_ms
    assert one is not None
    chosen = rules.decide(one, planned_ms, now_ms)
    return Tick(
        found.name,
        found.digest,
        planned_ms,
        None if chosen.run_ms is None else one.job(id, chosen.run_ms),
        rules.fire_of(one, chosen.run_ms or planned_ms),
        chosen.next_ms,
        rules.fire_of(one, chosen.next_ms),
        chosen.missed,
        one.overlap,
    )


def make(world: World, one: Tick) -> Ticked | TenureError:
    """Make one tick, in a call of its own."""
    (done,) = world.run(world.engine.schedules.tick("q", [one]))
    return cast(Ticked | TenureError, done)


def tick(world: World, id: str, name: str = "s") -> Ticked | TenureError:
    return make(world, tick_of(stored(world, name), now_of(world), id))


def make_trigger(world: World, id: str, scheduled_ms: int = 5, name: str = "s") -> Ticked | TenureError:
    return make(world, extra_tick(name, spec().job(id, scheduled_ms)))


def due(world: World) -> list[str]:
    return [one.name for one in world.run(world.engine.schedules.due_schedules("q", 100)).schedules]


def announce(world: World, *specs: ScheduleSpec, source: str = "m:app") -> Announced:
    digests = {one.name: digest_of(one) for one in specs}
    earlier = {one.name: one.earlier for one in specs}
    reply: Announced = world.run(world.engine.schedules.announce_schedules("q", source, digests, earlier))
    return reply


def deploy(world: World, *specs: ScheduleSpec, source: str = "m:app") -> Announced:
    """Announce as a worker does, and put what Redis lacks."""
    given = [replaced(one, source=source) for one in specs]
    reply = announce(world, *given, source=source)
    for wanted in reply.wanted:
        (one,) = [one for one in given if one.name == wanted.name]
        first = rules.first(one, reply.now_ms, wanted.planned_ms, wanted.last_planned_ms)
        assert put(world, one, first, wanted.current)
    return reply
