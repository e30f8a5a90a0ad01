"""Repairs what originals leave behind, in bounded pages: tasks of dead workers, and markers of unique tasks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from tenure.core.steps import Command, Invoke, Steps
from tenure.engines.kit.encoding import as_text
from tenure.engines.worqr.config import FOREIGN_PAGE, SWEEP_PAGE, SWEEP_STEPS, SWEEP_TASKS_MOST, WorqrConfig
from tenure.engines.worqr.keys import quoted
from tenure.engines.worqr.records import md5_of
from tenure.engines.worqr.scripts import SCRIPTS


def return_processes(prefix: str, config: str) -> Steps[int]:
    """Return tasks of dead workers of the original to the front of a queue."""
    cursor, returned = b"0", 0
    for _ in range(SWEEP_STEPS):
        cursor, count = yield Invoke(SCRIPTS["foreign"], (prefix,), (config, cursor, FOREIGN_PAGE))
        returned += count
        if cursor == b"0":
            break
    return returned


@dataclass(slots=True)
class Sweep:
    """One search through all keys of a prefix: for processes in no set, then for markers of tasks that are nowhere.

    The markers are read first, then the tasks. Race: a producer adds a task and its marker between the two reads; then
    this search knows no marker of the task, so it cannot take the marker for an orphan.
    """

    base: str
    config: WorqrConfig
    cursor: int = 0
    markers: set[str] = field(default_factory=set)
    queues: set[str] = field(default_factory=set)
    processes: list[bytes] = field(default_factory=list)
    done: bool = False

    def step(self) -> Steps[None]:
        """One page of keys; after the last one, the check of the markers."""
        options = ("MATCH", f"{self.base}:*", "COUNT", SWEEP_PAGE)
        following, names = yield Command(("SCAN", self.cursor, *options))
        self.cursor = int(following)
        unlisted: dict[str, list[bytes]] = {}
        for name in names:
            kind, _, rest = name[len(self.base) + 1 :].partition(b":")
            if kind == b"queues":
                self.queues.add(as_text(rest))
            elif kind == b"uniqueTasks":
                self.markers.add(as_text(rest))
            elif kind == b"processes" and b"_" in rest:
                self.processes.append(rest)
                unlisted.setdefault(as_text(rest.rpartition(b"_")[0]), []).append(rest)
        for queue, pids in unlisted.items():
            self.queues.add(queue)
            if queue:
                yield Invoke(SCRIPTS["unlisted"], (self._prefix(queue),), (self.config.as_argument(), *pids))
        self.done = self.cursor == 0
        if self.done and self.markers:
            yield from self._check_markers()

    def _prefix(self, queue: str) -> str:
        return f"{self.base}:tenure:q:{quoted(queue)}"

    def _check_markers(self) -> Steps[None]:
        known = yield from self._tasks()
        if known is None:
            return
        lost = iter(sorted(self.markers - known))
        while page := tuple(islice(lost, SWEEP_PAGE)):
            yield Invoke(SCRIPTS["markers"], (f"{self.base}:tenure",), (self.config.stray_ms, *page))

    def _tasks(self) -> Steps[set[str] | None]:
        """The MD5 of all tasks; None: there are too many.

        Tasks move from a queue to processes, from there to records, and back: so these are read before the queues, and
        once more behind them.
        """
        known: set[str] = set()
        listed = yield Command(("ZRANGE", f"{self.base}:tenure:queues", 0, -1))
        queues = sorted(filter(None, self.queues | set(map(as_text, listed))))
        for read in (self._held, self._waiting, self._held):
            for queue in queues:
                yield from read(queue, known)
        for pid in self.processes:
            _note(known, (yield Command(("LRANGE", f"{self.base}:processes:{as_text(pid)}", 0, 0))))
        return known if len(known) <= SWEEP_TASKS_MOST else None

    def _waiting(self, queue: str, known: set[str]) -> Steps[None]:
        """Read the tasks that wait, from the left end: tasks that come in there push the others on, so none is missed,
        and tasks that leave on the right do not move the others."""
        for start in range(0, SWEEP_TASKS_MOST + SWEEP_PAGE, SWEEP_PAGE):
            tasks = yield Command(("LRANGE", f"{self.base}:queues:{queue}", start, start + SWEEP_PAGE - 1))
            _note(known, tasks)
            if len(tasks) < SWEEP_PAGE:
                break

    def _held(self, queue: str, known: set[str]) -> Steps[None]:
        """Read tasks that run or are aside, that a migration holds and may return, or with markers left to `unmark`."""
        prefix = self._prefix(queue)
        for pid in (yield Command(("SMEMBERS", f"{self.base}:workingProcesses:{queue}"))):
            _note(known, (yield Command(("LRANGE", f"{self.base}:processes:{as_text(pid)}", 0, 0))))
        cursor = b"0"
        for _ in range(SWEEP_TASKS_MOST):
            cursor, tasks = yield Invoke(SCRIPTS["aside"], (prefix,), (cursor, SWEEP_PAGE))
            _note(known, tasks)
            if cursor == b"0" or len(known) > SWEEP_TASKS_MOST:
                break
        _note(known, (yield Command(("LRANGE", f"{prefix}:removed", 0, SWEEP_TASKS_MOST))))


def _note(known: set[str], tasks: Iterable[bytes]) -> None:
    known.update(map(md5_of, tasks))
