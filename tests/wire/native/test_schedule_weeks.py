"""Simulated weeks of schedules: many workers that die between any two calls, deploys, outages, and clocks that change.

Redis' clock is a number that the test sets. TENURE_WEEKS=n simulates n weeks with each seed instead of three days.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, TypeVar

import pytest
from msgspec.structs import replace as replaced

from tenure.core import limits
from tenure.core.outcome import Completed
from tenure.core.schedules import rules
from tenure.core.schedules.schedule import CatchUp, Overlap, ScheduleSpec
from tenure.core.steps import Command, Invoke, Reply, Script, Steps
from tenure.engines.native import NativeEngine
from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer
from tests.support.schedules import tick_of
from tests.support.stepping import Crashed, Send, Session, attempt, send_with, step
from tests.support.world import NAMESPACE

T = TypeVar("T")

DAYS: Final = 7 * int(os.environ.get("TENURE_WEEKS", "0")) or 3
EVES: Final = ((3, 7), (3, 28), (4, 4), (10, 3), (10, 24), (10, 31))
"""The days before the nights of 2026 in which clocks change: New York, Berlin, Lord Howe."""
WORKERS: Final = 50
HOUR, MINUTE = limits.HOUR, limits.MINUTE
TIME: Final = "local now = call('TIME')"
CLOCK: Final = f"{{{NAMESPACE}:q}}:clock"
FAKE: Final = f"local now = {{ call('HGET', '{CLOCK}', 's'), call('HGET', '{CLOCK}', 'us') }}"
DEATHS: Final = 0.08
"""How often a worker dies at a call: half of the time after Redis has executed it."""


class Untimed(NativeEngine):
    """An engine whose scripts read the time from a key."""

    scripts: ClassVar = {name: Script(name, one.text.replace(TIME, FAKE)) for name, one in NativeEngine.scripts.items()}


def schedules() -> Iterator[ScheduleSpec]:
    """One for each zone, policy and kind."""
    crons = (
        ("30 2 * * *", "America/New_York"),
        ("15,45 1,2,3 * * *", "Australia/Lord_Howe"),
        ("*/20 * * * *", "Europe/Berlin"),
        ("0 9 * * mon-fri", "Asia/Kathmandu"),
    )
    for n, (cron, tz) in enumerate(crons):
        for catch_up in CatchUp:
            jitter_ms = 40_000 if n % 2 else 0
            yield schedule(f"{catch_up} {cron}", cron=cron, tz=tz, catch_up=catch_up, jitter_ms=jitter_ms)
    yield schedule("all 17 minutes", every_ms=17 * MINUTE, catch_up=CatchUp.ALL)


def schedule(name: str, **changes: Any) -> ScheduleSpec:
    shared: dict[str, Any] = {"queue": "q", "window_ms": HOUR, "overlap": Overlap.ALLOW, "payload": name.encode()}
    return ScheduleSpec(name=name, **{**shared, **changes})


class Simulation:
    """Fifty workers, of which one after the other looks for due ticks, and a virtual clock."""

    def __init__(self, server: RedisServer, driver: SyncDriver, seed: int) -> None:
        self.server, self.rand, self.engine = server, random.Random(seed), Untimed(NAMESPACE)
        self.send = send_with(driver)
        self.now_ms = int(datetime(2026, *EVES[seed % len(EVES)], tzinfo=UTC).timestamp()) * 1000
        self.ran: Counter[tuple[str, int]] = Counter()
        self.latest: dict[tuple[str, int], int] = {}
        self.deaths = self.ids = 0
        self.workers = [Session(f"worker-{n}") for n in range(WORKERS)]
        self.set_clock()

    def set_clock(self) -> None:
        self.server.command("HSET", CLOCK, "s", self.now_ms // 1000, "us", self.now_ms % 1000 * 1000)

    def run(self, steps: Steps[T], worker: int | None = None) -> T:
        """Run an operation. A worker, and no other caller, may die at each call; `Crashed` then ends what it did."""

        def fate(number: int, call: Command | Invoke, send: Send) -> Reply:
            if worker is None or self.rand.random() >= DEATHS:
                return send(call)
            if self.rand.random() < 0.5:
                attempt(send, call)
            self.deaths += 1
            self.workers[worker] = Session(f"worker-{worker}-{self.deaths}")
            raise Crashed

        session = Session(f"outside-{self.rand.random()}") if worker is None else self.workers[worker]
        return step(steps, session, self.send, fate)

    def put(self, spec: ScheduleSpec) -> None:
        first = rules.first(spec, self.now_ms)
        steps = self.engine.put_schedule(spec, rules.digest_of(spec), "", first, rules.fire_of(spec, first))
        assert self.run(steps)

    def look(self, worker: int) -> None:
        """What a worker does when it believes that a tick is due, until there is no more."""
        try:
            while found := self.run(self.engine.due_schedules("q", 100), worker).schedules:
                for stored in found:
                    self.ids += 1
                    tick = tick_of(stored, self.now_ms, f"j{self.ids}")
                    self.run(self.engine.tick("q", [tick]), worker)
        except Crashed:
            return

    def announce(self, worker: int, spec: ScheduleSpec) -> None:
        """What a worker does with the schedule of its code."""
        digest = rules.digest_of(spec)
        try:
            reply = self.run(self.engine.announce_schedules("q", spec.source, {spec.name: digest}, {}), worker)
            for wanted in reply.wanted:
                first = rules.first(spec, reply.now_ms, wanted.planned_ms, wanted.last_planned_ms)
                fire_ms = rules.fire_of(spec, first)
                self.run(self.engine.put_schedule(spec, digest, wanted.current, first, fire_ms), worker)
        except Crashed:
            return

    def consume(self) -> None:
        """Note and complete all jobs."""
        while leases := self.run(self.engine.lease("consumer", ["q"], 100)).leases:
            for lease in leases:
                name, planned_ms = lease.record.payload.decode(), lease.record.scheduled_ms
                assert planned_ms is not None
                self.ran[name.partition("|")[0], planned_ms] += 1
                self.latest[name.partition("|")[0], planned_ms] = self.now_ms
            self.run(self.engine.settle([(lease, Completed(b"", 0)) for lease in leases]))


def versions(simulation: Simulation) -> tuple[ScheduleSpec, ScheduleSpec]:
    old = schedule("code", every_ms=7 * MINUTE, source="m:app", catch_up=CatchUp.ALL)
    return old, replaced(old, payload=b"code|new")


@pytest.mark.parametrize("seed", range(2))
def test_no_tick_is_doubled_and_none_within_the_window_is_missed(
    server: RedisServer, driver: SyncDriver, seed: int
) -> None:
    server.command("FLUSHALL")
    simulation = Simulation(server, driver, seed)
    rand, begin = simulation.rand, simulation.now_ms
    specs = list(schedules())
    for spec in specs:
        simulation.put(spec)
    old, new = versions(simulation)
    simulation.run(simulation.engine.put_schedule(old, rules.digest_of(old), "", *[rules.first(old, begin)] * 2))
    end = begin + DAYS * limits.DAY
    absence: tuple[int, ...] = ()
    deploy_from, deploy_to = begin + DAYS * limits.DAY // 3, begin + DAYS * limits.DAY // 2
    while simulation.now_ms < end:
        looks = 4
        # Workers come soon, or after some time in which none of them or no Redis was there; once after half a day.
        simulation.now_ms += rand.choice([2_000, 30_000, 5 * MINUTE, 9 * MINUTE, 15 * MINUTE])
        if not absence and simulation.now_ms > deploy_to:
            absence = simulation.now_ms, simulation.now_ms + limits.DAY // 2
            simulation.now_ms += limits.DAY // 2
            looks = 40  # with many due ticks, many workers die before all of them are made
        for _ in range(looks):
            simulation.now_ms += 1_100  # so that what a dead worker has read is due again
            simulation.set_clock()
            worker = rand.randrange(WORKERS)
            is_new = simulation.now_ms > deploy_to or (simulation.now_ms > deploy_from and rand.random() < 0.5)
            simulation.announce(worker, new if is_new else old)
            simulation.look(worker)
        simulation.consume()
    check(simulation, [*specs, old], begin, absence)


def check(simulation: Simulation, specs: list[ScheduleSpec], begin: int, absence: tuple[int, ...]) -> None:
    """Every planned tick ran once, or was counted as left out. With `all` only ticks of the absence are left out."""
    assert simulation.deaths > 10 * DAYS
    assert {tick: count for tick, count in simulation.ran.items() if count > 1} == {}
    for spec in specs:
        _, stored = simulation.run(simulation.engine.schedule("q", spec.name))
        assert stored is not None
        state = stored.state
        planned = list(between(spec, begin, state.planned_ms))
        ran = sorted(at for name, at in simulation.ran if name == spec.name)
        assert set(ran) <= set(planned), spec.name
        assert state.runs == len(ran)
        assert state.runs + state.missed == len(planned), spec.name
        left_out = sorted(set(planned) - set(ran))
        if spec.catch_up is CatchUp.ALL:
            assert all(absence[0] - HOUR < at < absence[1] - HOUR + MINUTE for at in left_out), (
                spec.name,
                left_out[0],
                left_out[-1],
                absence,
            )
        window_ms = rules.SKIP_WINDOW_MS if spec.catch_up is CatchUp.SKIP else spec.window_ms
        assert all(simulation.latest[spec.name, at] - rules.fire_of(spec, at) <= window_ms + MINUTE for at in ran)


def between(spec: ScheduleSpec, begin: int, end: int) -> Iterator[int]:
    for at in rules.ticks(spec, begin):
        if at >= end:
            return
        yield at
