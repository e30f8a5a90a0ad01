"""The course of the demo: enqueue, work, kill a worker, recover, compare. Its import makes the app of the demo."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from tenure.bootstrap import command_of
from tenure.cli.demo.jobs import PACE, QUEUE, RUNS_FILE, Facts, app, facts_of, look_at
from tenure.core.errors import TenureError
from tenure.core.job import JobView, State
from tenure.core.limits import SECOND

if TYPE_CHECKING:
    from rich.progress import Progress

APP: Final = "tenure.cli.demo.jobs:app"
WORKERS: Final = 2
SLOTS: Final = 4
"""Jobs that each worker runs at one time."""
KILL_AT: Final = 0.25
"""The share of the jobs that is done when one worker is killed."""
FEW: Final = 10_000
FEW_LAST_S: Final = 2.0
"""How long fewer files than `FEW` take at least, so that there is time to kill a worker."""
START_S: Final = 30
FINISH_S: Final = 180
_STOP_S: Final = 10
_POLL_S: Final = 0.05
_LOG_LINES: Final = 30


class DemoFailed(TenureError):
    """The demo could not be completed. The text has the end of the workers' log."""


@dataclass(frozen=True, slots=True)
class DemoReport:
    """The numbers of one demo.

    `rerun`: jobs that ran more than once. `held_by_dead`: jobs that the killed worker held; some may not have begun.
    `recovered_s`: the time from the kill until the last of them began elsewhere.
    """

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
        checks = {
            f"{self.lost} jobs were lost": self.lost,
            f"{self.completed_twice} jobs were completed twice": self.completed_twice,
            f"{self.different} results differ from a direct pass over the files": self.different,
            f"{self.files - self.compared} results are missing": self.compared != self.files,
            f"{self.jobs - self.runs} jobs completed without a run": self.runs < self.jobs,
            "the killed worker held no job, so nothing was shown: use a larger directory": not self.held_by_dead,
        }
        return [problem for problem, is_so in checks.items() if is_so]


def run_demo(paths: Sequence[str], folder: Path, progress: Progress) -> DemoReport:
    """Run the demo on an empty Redis. Raises `DemoFailed`."""
    runs_file = folder / "runs.txt"
    runs_file.touch()
    total = len(paths)
    pace = min(1.0, FEW_LAST_S * WORKERS * SLOTS / total) if total < FEW else 0.0
    os.environ.update({RUNS_FILE: str(runs_file), PACE: f"{pace:.3f}"})
    shown = progress.add_task("jobs", total=total)

    def done() -> int:
        counts = app.inspect.queue(QUEUE).counts
        ended = sum(counts[state] for state in State if state.ended)
        progress.update(shown, completed=ended)
        return ended

    with _workers(folder / "workers.log") as wait:
        say = progress.console.print
        say(f"  starting {WORKERS} workers")
        wait(lambda: len(app.inspect.workers()) == WORKERS, START_S, "the workers had not started")
        began = time.monotonic()
        say(f"  enqueueing {total:,} jobs, one for each file" + (f"; each waits {pace:.3f} s" if pace else ""))
        handles = look_at.enqueue_many(look_at.call(path) for path in paths)
        killed_ms, held = _kill_one(wait, done, total)
        say(f"  killed a worker with SIGKILL after {done():,} jobs; it held {len(held)} jobs")
        wait(lambda: done() >= total, FINISH_S, "not all jobs had ended")
        seconds = time.monotonic() - began
    say("  comparing every result with a direct pass over the files")
    completed = {view.id: view for view in _all_in(State.COMPLETED)}
    runs = Counter(runs_file.read_text().split())
    expected = {handle.id: facts_of(path) for handle, path in zip(handles, paths, strict=True)}
    found = {id: msgspec.json.decode(view.result or b"null", type=Facts | None) for id, view in completed.items()}
    again = [completed[id].started_ms or 0 for id in held if id in completed]
    return DemoReport(
        files=total,
        bytes=sum(facts.size for facts in expected.values()),
        lines=sum(facts.lines for facts in expected.values()),
        jobs=len(handles),
        runs=runs.total(),
        rerun=sum(count > 1 for count in runs.values()),
        held_by_dead=len(held),
        recovered_s=max((ms - killed_ms for ms in again), default=0) / SECOND,
        seconds=seconds,
        lost=len(expected.keys() - completed.keys()),
        completed_twice=app.inspect.queue(QUEUE).totals.get("completed", 0) - len(completed),
        compared=len(found),
        different=sum(facts != expected[id] for id, facts in found.items()),
    )


Wait = Callable[[Callable[[], bool], float, str], None]


@contextmanager
def _workers(log: Path) -> Iterator[Wait]:
    """Run the workers. Yields a function that waits for a condition, up to a limit; its text names the problem."""
    words = command_of("tenure", "worker", APP)
    words += ["--processes", str(WORKERS), "-c", str(SLOTS)]
    with log.open("wb") as output:
        # In its own session: Ctrl-C is for the demo, which then stops the workers.
        parent = subprocess.Popen(  # noqa: S603 - our own command
            words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )

    def wait(is_so: Callable[[], bool], seconds: float, problem: str) -> None:
        until = time.monotonic() + seconds
        while not is_so():
            if parent.poll() is not None or time.monotonic() > until:
                why = f"After {seconds:g} s {problem}" if parent.poll() is None else "The workers ended"
                lines = log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
                raise DemoFailed("\n".join([f"{why}. The end of their log:", *lines]))
            time.sleep(_POLL_S)

    try:
        yield wait
    finally:
        parent.terminate()
        try:
            parent.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            parent.kill()
            parent.wait()


@contextmanager
def dashboard() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Serve the dashboard of the demo. Yields what it printed, which has its URL, and its process."""
    words = [*command_of("tenure", "dashboard", APP, "--port", "0")]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own command
        try:
            assert process.stderr is not None
            printed = process.stderr.readline()
            if "http://" not in printed:
                raise DemoFailed(printed.strip() or "The dashboard did not start.")
            yield printed.strip(), process
        finally:
            process.terminate()


def _kill_one(wait: Wait, done: Callable[[], int], total: int) -> tuple[float, set[str]]:
    """Kill a worker while it holds jobs, after a quarter of the work. Return the time (ms) and these jobs."""

    def is_time() -> bool:
        return done() >= total or (done() >= total * KILL_AT and any(one.active for one in app.inspect.workers()))

    while True:
        wait(is_time, FINISH_S, "the workers had not done a quarter of the jobs")
        worker = max(app.inspect.workers(), key=lambda view: view.active)
        # Stopped while its jobs are counted: its parent releases them as soon as it is dead.
        os.kill(worker.pid, signal.SIGSTOP)
        held = {view.id for view in _all_in(State.ACTIVE) if view.worker == worker.id}
        if held or done() >= total:
            killed_ms = time.time() * SECOND
            os.kill(worker.pid, signal.SIGKILL)
            return killed_ms, held
        os.kill(worker.pid, signal.SIGCONT)


def _all_in(state: State) -> Iterator[JobView]:
    page = app.inspect.page(QUEUE, state)
    yield from page.jobs
    while page.next:
        page = app.inspect.page(QUEUE, state, after=page.next)
        yield from page.jobs
