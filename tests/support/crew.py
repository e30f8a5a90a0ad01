"""A parent with worker processes that are played by a test."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

from tenure.processes.config import ParentConfig
from tenure.processes.messages import StatusReport, WorkerState
from tenure.processes.parent import Parent


class Played:
    """A worker process that does what the test says."""

    def __init__(self, crew: Crew, slot: int) -> None:
        self.slot, self.pid, self.began_at = slot, len(crew.all) + 1, float(len(crew.all))
        self.age_s = 3600.0
        self.status = StatusReport(self.pid, WorkerState.STARTING, 0.0)
        self.was_ready = self.is_leaving = self.retires = False
        self.keeping: asyncio.Task[Any] | None = None
        self.killed = asyncio.Event()

    def follow(self, heard: Callable[[Any], None], ended: Callable[[Any, int], None], measured: object) -> None:
        self._heard, self._ended = heard, ended

    def stop(self, *, hard: bool = False, retires: bool = False) -> None:
        self.is_leaving, self.retires = True, retires

    def kill(self) -> None:
        self.killed.set()

    def ready(self, active: int = 0) -> None:
        self.report(WorkerState.RUNNING, active)

    def report(self, state: WorkerState, active: int = 0) -> None:
        self.status = StatusReport(self.pid, state, 0.0, active)
        self._heard(self)

    def end(self, status: int = 0) -> None:
        self._ended(self, status)


class Crew:
    """A parent and all processes that it has started so far."""

    def __init__(self, processes: int, **options: Any) -> None:
        self.all: list[Played] = []
        config = ParentConfig(lambda descriptor: [], processes, grace_s=0, hard_s=0, kill_s=0.01, **options)
        self.parent = Parent(config)
        self._started = asyncio.Event()
        self.running: asyncio.Task[int]

    async def start(self, slot: int, _spawned: object, _drivers: object) -> Played:
        self.all.append(Played(self, slot))
        self._started.set()
        return self.all[-1]

    async def next(self) -> Played:
        """The process that is started next."""
        return await self.started(len(self.all) + 1)

    async def started(self, count: int) -> Played:
        """The process with this number, from 1, when it has been started."""
        async with asyncio.timeout(30):
            while len(self.all) < count:
                self._started.clear()
                await self._started.wait()
        await asyncio.sleep(0)  # the parent has it in hand
        return self.all[count - 1]

    def hup(self) -> None:
        self.parent._signalled(signal.SIGHUP)

    @property
    def current(self) -> list[int | None]:
        return [None if slot.current is None else slot.current.pid for slot in self.parent._slots]
