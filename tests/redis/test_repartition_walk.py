"""Random histories of a queue whose number of partitions changes: many processes, each with the map that it knows."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
from collections.abc import Iterator
from typing import Any

import pytest

from tenure.core.errors import InvalidArgument
from tenure.core.job import Lease, NewJob, State
from tenure.core.outcome import Completed, Failed, Outcome, Retried
from tenure.core.partitions import place_of
from tenure.core.shape import CancelAnswer, Shape, Until
from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer
from tests.support.engines import NATIVE
from tests.support.native import audit
from tests.support.stepping import stop_after
from tests.support.world import BOOM, NAMESPACE, World

STEPS = 250
SEEDS = range(int(os.environ.get("TENURE_WALKS", "6")))
NUMBERS = (1, 2, 3, 5, 8)
NAMES = [f"n{n}" for n in range(6)]
DAY_MS = 86_400_000
LATE_MS = 3_600_000
OUTCOMES: dict[str, Outcome] = {"c": Completed(b"r", 30 * DAY_MS), "f": Failed(BOOM), "r": Retried(BOOM, LATE_MS)}


class Walk:
    """What must hold: a lane has one active job, and runs its jobs in order; an id and a key exist once."""

    def __init__(self, server: RedisServer, driver: SyncDriver, seed: int) -> None:
        self.draw = random.Random(seed)
        self.server = server
        self.driver = driver
        self.processes = [World(NATIVE, server, driver) for _ in range(4)]
        self.numbers = itertools.count()
        self.waiting: dict[str, list[str]] = {}
        """Lane -> ids in order, until they have ended."""
        self.lane_of: dict[str, str] = {}
        self.late: set[str] = set()
        self.keys: dict[str, str] = {}
        """Key -> id of the job that has it."""
        self.windows: dict[str, int] = {}
        """Name -> for how many hours its key is taken."""
        self.known: set[str] = set()
        self.held: dict[str, tuple[World, Lease]] = {}
        self.failed: set[str] = set()
        self.completed: set[str] = set()
        self.parked: set[str] = set()
        self.deaths = itertools.count()
        self.known.add("first")
        self.one.put("first")

    @property
    def one(self) -> World:
        return self.draw.choice(self.processes)

    def step(self) -> None:
        acts = [self.put] * 6 + [self.take] * 6 + [self.end] * 5 + [self.move] * 3
        self.draw.choice(
            [*acts, self.change, self.change, self.retry, self.pass_time, self.renew, self.cancel, self.park]
        )()

    def put(self) -> None:
        name, n, delay_ms = self.draw.choice(NAMES), next(self.numbers), self.draw.choice([0, 0, 0, LATE_MS])
        kind = self.draw.choice(["lane", "lane", "key", "id", "plain", "window"])
        if kind == "lane":
            id = f"lane {name} {n:05}"
            assert self.one.put_in(name, id, delay_ms=delay_ms) == [True]
            self.lane_of[id] = name
            if delay_ms:
                self.late.add(id)
            else:
                self.waiting.setdefault(name, []).append(id)
        elif kind == "key":
            id = f"key {name} {n}"
            created = self.one.put_only(id, name, delay_ms=delay_ms).created
            assert created == (name not in self.keys), f"{name} is of {self.keys.get(name)}"
            if not created:
                return
            self.keys[name] = id
        elif kind == "window":
            id = f"window {name} {n}"
            options: dict[str, Any] = {"until": Until.WINDOW, "window_ms": 3 * LATE_MS, "delay_ms": delay_ms}
            created = self.one.put_only(id, f"window {name}", **options).created
            assert created == (name not in self.windows), f"{name} is of {self.windows.get(name)}"
            if not created:
                return
            self.windows[name] = 3
        elif kind == "id":
            id = f"id {name} {n // 40}"
            assert self.one.put(id, own_id=True, delay_ms=delay_ms) == [id not in self.known]
        else:
            id = f"plain {n}"
            self.one.put(id, delay_ms=delay_ms)
        self.known.add(id)

    def take(self) -> None:
        world = self.one
        for lease in world.take(self.draw.randint(1, 4), f"w{self.processes.index(world)}"):
            id, lane = lease.record.id, lease.record.shape.lane
            assert id in self.known
            assert id not in self.held
            assert id not in self.completed
            if lane is not None:
                assert lane not in self.parked
                assert lane not in {held.record.shape.lane for _, held in self.held.values()}, "one at a time"
                if id not in self.late:
                    assert self.waiting[lane][0] == id, "in order"
            self.held[id] = world, lease

    def end(self) -> None:
        if not self.held:
            return
        id = self.draw.choice(list(self.held))
        _, lease = self.held.pop(id)
        outcome: Outcome = OUTCOMES[self.draw.choice("ccfr")]
        if isinstance(outcome, Completed) and self.draw.random() < 0.3:
            self.complete_and_follow(lease)
        else:
            assert self.one.settle(lease, outcome)
        if isinstance(outcome, Retried):
            return
        if isinstance(outcome, Completed):
            self.completed.add(id)
        if id in self.lane_of and id not in self.late:
            self.waiting[self.lane_of[id]].remove(id)
        self.keys = {key: owner for key, owner in self.keys.items() if owner != id}
        if isinstance(outcome, Failed) and not id.startswith("window "):
            self.failed.add(id)

    def complete_and_follow(self, lease: Lease) -> None:
        """Two jobs follow this one. The worker may die before they are where they belong: then they come later."""
        name, n = self.draw.choice(NAMES), next(self.numbers)
        plain, laned = f"plain {n}", f"lane {name} {n:05}"
        jobs = NewJob("q", plain, b"p"), NewJob("q", laned, b"p", shape=Shape(lane=name))
        settling = self.one.engine.settle([(lease, Completed(b"r", 30 * DAY_MS, jobs))])
        calls = self.draw.choice([1, 2, 3, 4, 5, 6, 99])
        if stop_after(calls, settling, self.driver, f"settler-{next(self.deaths)}"):
            self.waiting.setdefault(name, []).append(laned)
        else:
            self.late.add(laned)
        self.lane_of[laned] = name
        self.known |= {plain, laned}

    def retry(self) -> None:
        """A failed job again: it comes behind those of its lane."""
        if not self.failed:
            return
        id = self.draw.choice(list(self.failed))
        key = id.split()[1] if id.startswith("key ") else None
        assert self.one.retry(id) == (key not in self.keys)
        if key in self.keys:
            return
        self.failed.remove(id)
        if key is not None:
            self.keys[key] = id
        self.late.add(id)

    def cancel(self) -> None:
        """Cancel a job that waits."""
        waiting = [id for ids in self.waiting.values() for id in ids if id not in self.held]
        waiting += [id for id in self.keys.values() if id not in self.held]
        if not waiting:
            return
        id = self.draw.choice(sorted(waiting))
        assert self.one.cancel(id) is CancelAnswer.CANCELLED
        if id in self.lane_of:
            self.waiting[self.lane_of[id]].remove(id)
        self.keys = {key: owner for key, owner in self.keys.items() if owner != id}

    def park(self) -> None:
        """Park a lane; or resume one that is parked."""
        lane = self.draw.choice(NAMES)
        parked = lane in self.parked
        assert self.one.run((self.one.engine.resume_lane if parked else self.one.engine.park_lane)("q", lane))
        self.parked ^= {lane}

    def change(self) -> None:
        steps = self.one.engine.partitions.repartition("q", self.draw.choice(NUMBERS))
        with contextlib.suppress(InvalidArgument):  # another change is under way
            stop_after(self.draw.choice([2, 5, 8, 99]), steps, self.driver, f"changer-{next(self.deaths)}")

    def move(self) -> None:
        """A worker sends a heartbeat, and maintains the queue; it may die meanwhile."""
        world = self.one
        world.beat("idle")
        for place in range(max(NUMBERS)):
            self.server.command("HDEL", self.one.key("mover", place_of("q", place)), "rest")
        self.server.command("DEL", self.one.key("mover_is"))
        calls = self.draw.choice([5, 20, 40, 1_000, 1_000])
        stop_after(calls, world.engine.maintain(["q"], ()), self.driver, f"mover-{next(self.deaths)}")

    def pass_time(self) -> None:
        while self.held:  # else their leases would lapse
            self.end()
        for place in range(max(NUMBERS)):
            self.one.pass_time(LATE_MS + 1, place_of("q", place))
        self.windows = {name: left - 1 for name, left in self.windows.items() if left > 1}

    def renew(self) -> None:
        """Another process: it knows nothing."""
        self.processes[self.draw.randrange(len(self.processes))] = World(NATIVE, self.server, self.driver)

    def finish(self) -> None:
        """Run all that is left, and end the change."""
        for lane in self.parked:
            assert self.one.resume_lane(lane)
        self.parked.clear()
        for _ in range(2_000):
            self.move()
            self.take()
            for _ in range(len(self.held)):
                self.end()
            view = self.one.run(self.one.engine.queue("q"))
            if view.counts[State.SCHEDULED]:
                self.pass_time()
            on_their_way = self.server.command("KEYS", "*}:outs")
            if (
                view.repartition is None
                and not on_their_way
                and not any(view.counts[state] for state in (State.READY, State.SCHEDULED, State.ACTIVE))
            ):
                break
        else:
            raise AssertionError(view)
        assert not any(self.waiting.values())
        assert not self.keys


@pytest.fixture
def driver(server: RedisServer) -> Iterator[SyncDriver]:
    driver = SyncDriver(server.url)
    yield driver
    driver.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_walk(server: RedisServer, driver: SyncDriver, seed: int) -> None:
    walk = Walk(server, driver, seed)
    for _ in range(STEPS):
        walk.step()
    walk.finish()
    assert audit(server, NAMESPACE) == []
    for id in walk.known:
        assert walk.one.view(id).state.ended, id
