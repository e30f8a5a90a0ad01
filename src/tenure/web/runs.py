"""Changes of many jobs that run in the background of the dashboard, in this process."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from tenure.core import limits
from tenure.core.errors import TenureError
from tenure.manage.bulk import UNCHANGED_MAX, UnchangedJob

RUNS_MAX: Final = 4
"""Changes that run at the same time. A further one is refused."""
NEWS_S: Final = 2.0
"""How often the open pages read how far a change is."""
KEPT_MAX: Final = 20
"""Runs that are shown after their end."""


class Stopped(Exception):
    """A user has stopped the run."""


@dataclass(slots=True)
class ChangeRun:
    """A change of many jobs. `meant`: how many jobs it is about. `state`: running, finished, stopped or failed."""

    id: int
    action: str
    user: str
    selection: dict[str, Any]
    meant: int
    changed: Callable[[], None]
    state: str = "running"
    error: str = ""
    done: Counter[str] = field(default_factory=Counter)
    unchanged: list[UnchangedJob] = field(default_factory=list)
    began_ms: int = field(default_factory=lambda: round(time.time() * limits.SECOND))
    ended_ms: int | None = None
    is_to_stop: bool = False
    next_news: float = 0.0

    def report(self, done: Counter[str]) -> None:
        """Show what it has done so far. Raises `Stopped` when it must end."""
        self.done = done
        if time.monotonic() >= self.next_news:
            self.next_news = time.monotonic() + NEWS_S
            self.changed()
        if self.is_to_stop:
            raise Stopped

    def refuse(self, jobs: Iterable[UnchangedJob]) -> None:
        """Show the first jobs that it could not change."""
        self.unchanged = [*self.unchanged, *jobs][:UNCHANGED_MAX]

    def document(self) -> dict[str, Any]:
        """Return the run as JSON shows it."""
        names = ("id", "action", "user", "selection", "meant", "state", "error", "began_ms", "ended_ms")
        unchanged = [{"queue": one.queue, "id": one.id, "reason": one.reason} for one in self.unchanged]
        count = self.done.total()
        return {name: getattr(self, name) for name in names} | {"done": count, "unchanged": unchanged}


class Runs:
    """The runs of one dashboard. `changed` is called at each change of one."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._runs: dict[int, ChangeRun] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = changed
        self._number = 0

    def all(self) -> list[ChangeRun]:
        """The runs, the newest first."""
        return list(self._runs.values())[::-1]

    @property
    def is_full(self) -> bool:
        """Whether no further run may begin."""
        return sum(run.state == "running" for run in self._runs.values()) >= RUNS_MAX

    def begin(
        self,
        action: str,
        user: str,
        selection: dict[str, Any],
        meant: int,
        change: Callable[[ChangeRun], Awaitable[None]],
        ended: Callable[[ChangeRun], Awaitable[None]],
    ) -> ChangeRun:
        """Begin a change of `meant` jobs. `ended` is called after it."""
        self._number += 1
        run = self._runs[self._number] = ChangeRun(self._number, action, user, selection, meant, self._changed)
        over = [one.id for one in self._runs.values() if one.state != "running"]
        for old in over[: max(0, len(self._runs) - KEPT_MAX)]:
            del self._runs[old]
        task = asyncio.create_task(self._change(run, change, ended))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return run

    def stop(self, id: int) -> bool:
        """Stop a run before its next job. False: it does not run."""
        run = self._runs.get(id)
        if run is None or run.state != "running":
            return False
        run.is_to_stop = True
        return True

    async def _change(
        self,
        run: ChangeRun,
        change: Callable[[ChangeRun], Awaitable[None]],
        ended: Callable[[ChangeRun], Awaitable[None]],
    ) -> None:
        state, why = "failed", "The dashboard was stopped, or has a fault: see its log."
        try:
            await change(run)
            state, why = "finished", ""
        except Stopped:
            state, why = "stopped", ""
        except TenureError as error:
            why = str(error)
        finally:
            run.state, run.error, run.ended_ms = state, why, round(time.time() * limits.SECOND)
            self._changed()
            await ended(run)
