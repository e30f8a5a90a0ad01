"""The faults of a run, one after the other by a seed: kills and stops of workers, and kills of Redis."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tenure.core.job import State
from tenure.testing.server import RedisServer
from tests.faults.harness import jobs
from tests.faults.harness.fleet import Fleet
from tests.faults.harness.history import Diary, Event, Op, Tail
from tests.faults.harness.torn import forget_torn_end

STOP_S: Final = (3.4, 4.5)
"""Longer than it takes until a silent worker's jobs are taken over: 2.6 s."""
FRESH: Final = 0.4
"""A job is fit to be hit while not more than this part of its time has passed."""
LEAST_MS: Final = 60
WAIT_S: Final = 2.0
"""After this time without a job to hit a fault asks for more work."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The seconds between two faults of a kind, on average (None: no such faults). `most`: after so many a kind has had
    enough (None: never). `least`: so many of each there must have been before all is over. `spare`: so many workers
    that have started are left alone, to go on with the work of the others."""

    kill_s: float | None = None
    stop_s: float | None = None
    restart_s: float | None = None
    most: int | None = None
    least: int = 1
    spare: int = 0


@dataclass(slots=True)
class _Kind:
    """One kind of fault: what it does (False: there was nothing to hit), and when it is next."""

    do: Callable[[], bool]
    every_s: float
    next_at: float = 0.0
    done: int = 0
    waiting_since: float | None = None


@dataclass(frozen=True, slots=True)
class Sites:
    """What can be hit."""

    server: RedisServer
    fleet: Fleet
    tail: Tail
    diary: Diary
    ask_for_work: Callable[[], None] = field(default=lambda: None)


class Chaos:
    """Call `go_on` again and again. A worker is hit while it holds a job that has only just begun to run."""

    def __init__(self, plan: Plan, sites: Sites, url: str, draw: random.Random) -> None:
        self._plan = plan
        self._sites = sites
        self._draw = draw
        self._app = jobs.make_app(url)
        self._to_go_on: dict[int, float] = {}
        self.ceased = False
        """No new faults: at the end they would hit the same few jobs again and again."""
        now = time.monotonic()
        all_kinds = {
            "kills": (self._kill, plan.kill_s),
            "stops": (self._stop, plan.stop_s),
            "restarts": (self._restart, plan.restart_s),
        }
        self._kinds = {name: _Kind(do, every_s) for name, (do, every_s) in all_kinds.items() if every_s is not None}
        for kind in self._kinds.values():
            kind.next_at = now + self._pause(kind)

    @property
    def tail(self) -> Tail:
        return self._sites.tail

    def summary(self) -> str:
        """How often each kind has hit."""
        return ", ".join(f"{kind.done} {name}" for name, kind in self._kinds.items())

    @property
    def enough(self) -> bool:
        """Whether each kind has hit often enough, and nobody is stopped."""
        return not self._to_go_on and all(kind.done >= self._plan.least for kind in self._kinds.values())

    def go_on(self) -> None:
        """Do what is due."""
        now = time.monotonic()
        for pid, at in list(self._to_go_on.items()):
            if at <= now:
                del self._to_go_on[pid]
                self._sites.fleet.let_go_on(pid)
        self._sites.fleet.look_after()
        for kind in [] if self.ceased else self._kinds.values():
            if kind.next_at <= now and (self._plan.most is None or kind.done < self._plan.most):
                self._try(kind, now)

    def end(self) -> None:
        """No more of it: everybody goes on."""
        for pid in list(self._to_go_on):
            del self._to_go_on[pid]
            self._sites.fleet.let_go_on(pid)
        self._app.close()

    def _try(self, kind: _Kind, now: float) -> None:
        if kind.waiting_since is None:
            kind.waiting_since = now
            self._sites.ask_for_work()
        if kind.do():
            kind.done += 1
            kind.waiting_since = None
            kind.next_at = time.monotonic() + self._pause(kind)
        elif now - kind.waiting_since > WAIT_S:
            kind.waiting_since = None

    def _pause(self, kind: _Kind) -> float:
        return self._draw.uniform(0.5, 1.5) * kind.every_s

    def _victim(self, least_ms: int = LEAST_MS) -> int | None:
        """A worker that runs a job which will take a while yet."""
        if self._plan.spare >= len(self._sites.fleet.running) - len(self._sites.fleet.starting):
            return None
        self._sites.tail.poll()
        now = time.monotonic_ns()
        running = self._sites.tail.running
        fit = [
            pid
            for pid in self._sites.fleet.running
            if any(
                one.ms >= least_ms and (now - one.mono_ns) / 1e6 < one.ms * FRESH
                for one in running.get(pid, {}).values()
            )
        ]
        return self._draw.choice(fit) if fit else None

    def _kill(self) -> bool:
        pid = self._victim()
        if pid is not None:
            self._sites.fleet.kill(pid, family=self._draw.random() < 0.5)
        return pid is not None

    def _stop(self) -> bool:
        # One at a time: the others are to take its jobs over.
        pid = None if self._to_go_on else self._victim()
        if pid is not None:
            self._sites.fleet.stop(pid)
            self._to_go_on[pid] = time.monotonic() + self._draw.uniform(*STOP_S)
        return pid is not None

    def _restart(self) -> bool:
        if self._sites.fleet.starting:
            # A worker that is just starting may give up when Redis is away for seconds, and says so.
            return False
        held = self._app.inspect.queue(jobs.QUEUE).counts[State.ACTIVE]
        if held == 0:
            return False
        self._sites.diary.write(Event(Op.RESTART, phase="invoke", n=held))
        self._sites.server.restart(kill=True)
        forget_torn_end(self._sites.server)
        self._sites.diary.write(Event(Op.RESTART, phase="ok"))
        return True
