"""What workers and users do with schedules, and the scene for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace as replaced

from tenure.core.schedules import rules
from tenure.core.schedules.schedule import CatchUp, Overlap, ScheduleSpec, extra_tick
from tenure.core.shape import Shape
from tenure.core.steps import Steps
from tenure.core.values import replace
from tests.faults.matrix import Operation, Scene, act
from tests.faults.plain_operations import plain_scene
from tests.support.schedules import STEP, deploy, now_of, put, spec, stored, tick, tick_of
from tests.support.world import World

CODE = spec("code", source="m:app")


def due(name: str, overlap: Overlap, **changes: Any) -> ScheduleSpec:
    """A schedule that has several ticks to catch up."""
    return spec(name, overlap=overlap, catch_up=CatchUp.ALL, **changes)


def schedule_scene(world: World) -> Scene:
    """The plain scene, and schedules that are due. The first jobs of some of them wait."""
    scene = plain_scene(world)
    begin = now_of(world) - 5 * STEP
    for one in (due("s", Overlap.ALLOW), due("lane", Overlap.ALLOW, shape=Shape(lane="l"))):
        assert put(world, one, begin)
    busy = {"c": Overlap.CANCEL, "k": Overlap.SKIP}
    for name, overlap in busy.items():
        assert put(world, due(name, overlap), begin)
        tick(world, f"{name}1", name)
    deploy(world, replaced(CODE, source=""))
    return replace(scene, known=scene.known | {("q", f"{name}1") for name in busy})


def ticking(*names: str) -> Callable[[Scene], Steps[Any]]:
    """Ticks of these schedules in one call, with the jobs `n`, `n2`, ..."""

    def start(scene: Scene) -> Steps[Any]:
        found, now_ms = [stored(scene.world, name) for name in names], now_of(scene.world)
        ticks = [tick_of(one, now_ms, f"n{n}" if n > 1 else "n") for n, one in enumerate(found, 1)]
        return scene.engine.schedules.tick("q", ticks)

    return start


def putting(one: ScheduleSpec, expected: ScheduleSpec | None = None) -> Callable[[Scene], Steps[Any]]:
    digest = "" if expected is None else rules.digest_of(expected)
    later = 4_000_000_000_000
    return lambda scene: scene.engine.schedules.put_schedule(one, rules.digest_of(one), digest, later, later)


S = due("s", Overlap.ALLOW)
JOB = spec().job("n", 5)
SCHEDULE_WRITING: dict[str, Operation] = {
    "tick": Operation(1, ticking("s"), adds=("n",)),
    "tick into a lane": Operation(1, ticking("lane"), adds=("n",)),
    "tick that cancels": Operation(1, ticking("c"), ends=("c1",), adds=("n",)),
    "tick that is left out": Operation(1, ticking("k")),
    "ticks of many schedules": Operation(1, ticking("s", "k", "lane", "c"), ends=("c1",), adds=("n", "n3", "n4")),
    "trigger": Operation(1, lambda scene: scene.engine.schedules.tick("q", [extra_tick("s", JOB)]), adds=("n",)),
    "put a schedule": Operation(1, putting(spec("new"))),
    "replace a schedule": Operation(1, putting(spec("s"), S)),
    "put a schedule of the code": Operation(1, putting(replaced(CODE, name="more"))),
    "pause a schedule": Operation(1, act("schedules.pause_schedule", "q", "s", "why")),
    "resume a schedule": Operation(
        1,
        act("schedules.resume_schedule", "q", "s", rules.digest_of(S), 4_000_000_000_000, 4_000_000_000_000),
        before=lambda world: world.run(world.engine.schedules.pause_schedule("q", "s", "why")),
    ),
    "remove a schedule": Operation(1, act("schedules.remove_schedule", "q", "s")),
    "remove a schedule of the code": Operation(1, act("schedules.remove_schedule", "q", "code")),
    "announce schedules": Operation(
        1, act("schedules.announce_schedules", "q", "m:app", {"code": rules.digest_of(CODE)}, {})
    ),
    "announce others": Operation(1, act("schedules.announce_schedules", "q", "m:app", {"more": "digest"}, {})),
}
SCHEDULE_READING: dict[str, Operation] = {
    "due schedules": Operation(1, act("schedules.due_schedules", "q", 100)),
    "schedule": Operation(1, act("schedules.schedule", "q", "s")),
    "schedules": Operation(1, act("schedules.schedule_page", "q")),
}
