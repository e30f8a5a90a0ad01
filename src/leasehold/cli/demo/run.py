"""The course of the demo: enqueue, work, kill, recover, compare."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from leasehold.cli.demo.files import PACE, QUEUE, RUNS_FILE, Facts, Survey, facts_of
from leasehold.cli.demo.workers import SLOTS, WorkerProcesses
from leasehold.core.errors import LeaseholdError
from leasehold.core.job import JobView, State, WorkerView
from leasehold.core.limits import SECOND

if TYPE_CHECKING:
    from leasehold.app.app import Leasehold
    from leasehold.app.tasks import Task

WORKERS: Final = 2
KILL_AT: Final = 0.25
"""The share of the jobs that is done when one worker is killed."""
FEW: Final = 1_000
FEW_LAST_S: Final = 1.5
"""How long fewer files than that are made to last."""
START_S: Final = 30
FINISH_S: Final = 180
_POLL_S: Final = 0.05


class DemoFailed(LeaseholdError):
    """The demo could not go on; the text has the ends of the workers' logs."""


@dataclass(frozen=True, slots=True)
class DemoReport:
    """What happened, in numbers. `rerun`: jobs that ran more than once. `held_by_dead`: what the killed worker held; of
    these some may not have begun. `recovered_s`: from the kill until the last of them began elsewhere."""

    files: int
    bytes: int
    lines: int
    jobs: int
    runs: int
    rerun: int
    held_by_dead: int
    recovered_s: float
    seconds: float
    lost: int
    completed_twice: int
    compared: int
    different: int

    @property
    def problems(self) -> list[str]:
        found = []
        if self.lost:
            found.append(f"{self.lost} jobs were lost")
        if self.completed_twice:
            found.append(f"{self.completed_twice} jobs were completed twice")
        if self.different:
            found.append(f"{self.different} results differ from a direct pass over the files")
        if self.compared != self.files:
            found.append(f"{self.files - self.compared} results are missing")
        if self.runs < self.jobs:
            found.append(f"{self.jobs - self.runs} jobs completed without a run")
        if not self.held_by_dead:
            found.append("the worker held no job when it was killed, so nothing was shown: try a larger directory")
        return found


@dataclass(frozen=True, slots=True)
class Kill:
    """Which worker was killed, when (ms since 1970), and the jobs it held."""

    pid: int
    at_ms: float
    held: frozenset[str]


Tell = Callable[[str, int, int], None]
"""Told what is going on: a line of text (empty when it is only progress), jobs done, jobs in all."""


def run_demo(
    app: Leasehold,
    look_at: Task[[str], Facts, Facts],
    survey: Survey,
    folder: Path,
    environment: dict[str, str],
    tell: Tell,
) -> DemoReport:
    """Run it all on an app whose Redis is empty. Raises `DemoFailed` when it cannot be brought to its end."""
    runs_file = folder / "runs.txt"
    runs_file.touch()
    total = len(survey.paths)
    pace = pace_for(total)
    environment = {**environment, RUNS_FILE: str(runs_file), PACE: f"{pace:.3f}"}
    with WorkerProcesses(WORKERS, folder, environment) as workers:
        tell(f"{WORKERS} workers are starting", 0, total)
        if pace:
            tell(f"few files: each job takes {pace:.3f} s longer, so that there is something to kill", 0, total)
        _until(lambda: len(app.inspect.workers()) == WORKERS, START_S, "the workers did not start", workers)
        began = time.monotonic()
        tell(f"enqueueing {total:,} jobs, one a file", 0, total)
        handles = look_at.enqueue_many(look_at.call(path) for path in survey.paths)
        kill = _kill_one(app, workers, total, tell)

        def all_ended() -> bool:
            counts = app.inspect.queue(QUEUE).counts
            tell("", counts[State.COMPLETED], total)
            return sum(counts[state] for state in State if state.ended) >= total

        _until(all_ended, FINISH_S, "not all jobs ended", workers, expected_dead=1)
        seconds = time.monotonic() - began
        tell("comparing every result with a direct pass over the files", total, total)
        completed = _completed(app)
        twice = app.inspect.queue(QUEUE).totals.get("completed", 0) - len(completed)
    runs = Counter(runs_file.read_text().split())
    paths = {handle.id: path for handle, path in zip(handles, survey.paths, strict=True)}
    found = {
        paths[id]: msgspec.json.decode(view.result or b"null", type=Facts | None) for id, view in completed.items()
    }
    expected = {path: facts_of(path) for path in survey.paths}
    again = [completed[id].started_ms or 0 for id in kill.held if id in completed]
    return DemoReport(
        files=total,
        bytes=sum(facts.size for facts in expected.values()),
        lines=sum(facts.lines for facts in expected.values()),
        jobs=len(handles),
        runs=runs.total(),
        rerun=sum(1 for count in runs.values() if count > 1),
        held_by_dead=len(kill.held),
        recovered_s=max((ms - kill.at_ms for ms in again), default=0) / SECOND,
        seconds=seconds,
        lost=sum(1 for handle in handles if handle.id not in completed),
        completed_twice=twice,
        compared=len(found),
        different=sum(1 for path, facts in found.items() if facts != expected[path]),
    )


def pace_for(files: int) -> float:
    """Seconds that each job waits: with few files all would be done before a worker could be killed."""
    return min(1.0, FEW_LAST_S * WORKERS * SLOTS / files) if files < FEW else 0.0


def _kill_one(app: Leasehold, workers: WorkerProcesses, total: int, tell: Tell) -> Kill:
    """SIGKILL one worker when a part of the work is done and it holds something."""
    busy: list[WorkerView] = []
    done = 0

    def is_time() -> bool:
        nonlocal done
        done = app.inspect.queue(QUEUE).counts[State.COMPLETED]
        tell("", done, total)
        busy[:] = [worker for worker in app.inspect.workers() if worker.active]
        return done >= total or (done >= int(total * KILL_AT) and bool(busy))

    held, victim = frozenset[str](), workers.pids[0]
    while not held:
        _until(is_time, FINISH_S, "the work did not get going", workers)
        victim = busy[0].pid if busy else workers.pids[0]
        # Stopped for the moment of a look: when it is dead, its keeper has handed everything back before one can look.
        workers.freeze(victim)
        names = {worker.id for worker in busy if worker.pid == victim}
        held = frozenset(view.id for view in _all(app, State.ACTIVE) if view.worker in names)
        if not held and done >= total:
            break
        if not held:  # it had just ended what it held
            workers.thaw(victim)
    at_ms = time.time() * SECOND
    workers.kill(victim)
    done = app.inspect.queue(QUEUE).counts[State.COMPLETED]
    tell(f"killed worker {victim} with SIGKILL; it held {len(held)} jobs", done, total)
    return Kill(victim, at_ms, held)


def _all(app: Leasehold, state: State) -> list[JobView]:
    """The jobs in one state, page by page."""
    page = app.inspect.page(QUEUE, state)
    views = list(page.jobs)
    while page.next:
        page = app.inspect.page(QUEUE, state, after=page.next)
        views += page.jobs
    return views


def _completed(app: Leasehold) -> dict[str, JobView]:
    return {view.id: view for view in _all(app, State.COMPLETED)}


def _until(
    done: Callable[[], bool], seconds: float, problem: str, workers: WorkerProcesses, expected_dead: int = 0
) -> None:
    """Wait for something, for a bounded time, as long as the workers live."""
    until = time.monotonic() + seconds
    while not done():
        if len(workers.ended()) > expected_dead:
            raise DemoFailed(f"A worker ended unexpectedly. Its last words:\n{workers.last_words()}")
        if time.monotonic() > until:
            raise DemoFailed(f"After {seconds:g} s {problem}. The workers' last words:\n{workers.last_words()}")
        time.sleep(_POLL_S)
