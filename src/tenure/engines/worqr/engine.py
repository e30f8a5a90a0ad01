"""The engine for the wire format of worqr: what producers and workers need. A transition is one script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from tenure.core.engine import Feature, Maintained, Trait
from tenure.core.job import Enqueued, Lease, NewJob
from tenure.core.outcome import Outcome
from tenure.core.shape import Conflict
from tenure.core.steps import Arg, Steps
from tenure.core.waiting import Listen
from tenure.core.worker_view import WorkerView
from tenure.engines.kit.chunks import Part, args_of
from tenure.engines.kit.config import META_TTL_MS, PRESENCE_TTL_MS
from tenure.engines.kit.encoding import RAW, as_bytes, as_text, cancelled
from tenure.engines.kit.engine import ScriptedEngine
from tenure.engines.kit.outcomes import encode_outcome
from tenure.engines.worqr.clean import Sweep, return_processes
from tenure.engines.worqr.config import SWEEP_STEPS, WorqrConfig
from tenure.engines.worqr.control import WorqrController
from tenure.engines.worqr.inspect import NAME
from tenure.engines.worqr.keys import channel, check_prefix, quoted
from tenure.engines.worqr.records import md5_of, md5_of_record, name_of, read_task, write_task
from tenure.engines.worqr.scripts import LAYOUT, SCRIPTS

FOREIGN_FORMS_MOST = 10_000
"""Claimed jobs with envelopes that another program wrote, so that their bytes must be remembered."""


class WorqrEngine(ScriptedEngine, WorqrController):
    """Queues that clients of worqr share: engine, inspector and controller.

        engine = WorqrEngine("worqr")
        driver.run(engine.enqueue([NewJob("images", "", b"cat.png")]))       # worqr:queues:images

    A job that waits is named by the SHA-1 of its task, one that was claimed by its process id. Raises `InvalidArgument`
    for a prefix that originals cannot use.
    """

    name: ClassVar[str] = NAME
    features: ClassVar[frozenset[Feature]] = frozenset(
        {
            Feature.TASKS,
            Feature.TEXT,
            Feature.TIMEOUT,
            Feature.RETRIES,
            Feature.COUNTS,
            Feature.RECORDS,
            Feature.UNROUTABLE,
            Feature.EXTEND,
            Feature.CANCEL,
            Feature.PERSISTENT,
            Feature.UNIQUE,
        }
    )
    traits: ClassVar[frozenset[Trait]] = frozenset(
        {Trait.PASSED_RAW, Trait.PUBLIC_KEYS, Trait.RETRY_DELAY, Trait.SUSPECTS, Trait.UNLANED}
    )
    scripts = SCRIPTS
    layout = LAYOUT

    def __init__(self, base: str = NAME, config: WorqrConfig | None = None) -> None:
        self.base = check_prefix(base)
        self.config = config or WorqrConfig()
        super().__init__(self.config.timing, self.config.as_argument())
        self.requests = self
        self._md5s: dict[str, str] = {}
        self._sweep: Sweep | None = None

    def prefix(self, queue: str) -> str:
        """The beginning of the keys of Tenure for a queue. The scripts make the others of it."""
        return f"{self.base}:tenure:q:{quoted(queue)}"

    def shared(self) -> str:
        return f"{self.base}:tenure"

    @staticmethod
    def _new_part(position: int, job: NewJob) -> Part:
        task = write_task(job)
        return Part(position, (md5_of(task) if job.shape.unique else "", task), len(task))

    def _add(self, jobs: Sequence[NewJob], queue: str, chunk: list[Part], room: int) -> Steps[Iterable[Enqueued]]:
        reply = yield from self._act("enqueue", queue, *args_of(chunk))
        return [_enqueued(part, letter == ord("1")) for part, letter in zip(chunk, reply, strict=True)]

    def _lease(self, worker: str, queue: str, row: list[Any], alone_ms: int) -> Lease:
        pid, task, token, failures, crashes = row
        record = read_task(queue, as_text(pid), task)
        if (md5 := md5_of(task)) != md5_of_record(record):
            if len(self._md5s) >= FOREIGN_FORMS_MOST:
                del self._md5s[next(iter(self._md5s))]  # the oldest one; the sweep finds its marker
            self._md5s[record.id] = md5
        return Lease(worker, int(token), record, failures, crashes, alone_ms)

    def _outcome_part(self, position: int, lease: Lease, outcome: Outcome) -> Part:  # type: ignore[override]
        """pid token kind ms task body md5, as kit/lists/lua/settle.lua takes them."""
        record = lease.record
        kind, ms, body = encode_outcome(outcome)
        if kind == "c" and record.shape.persistent:
            kind, body = "p", b""
        task = record.task or RAW if kind == "u" else ""
        md5 = self._md5s.get(record.id, "") or md5_of_record(record)
        return Part(position, (as_bytes(record.id), lease.token, kind, ms, task, body, md5), len(body))

    def wait(self, worker: str, queues: Sequence[str], timeout_ms: int) -> Listen:
        """Producers publish how many tasks came. All workers of the queue receive the message, and claim."""
        names = {channel(self.base, queue, "work"): queue for queue in queues}
        return Listen(tuple(names), lambda channel, message: names.get(channel))

    def announce(self, worker: WorkerView) -> Steps[bool]:
        lasting = (PRESENCE_TTL_MS, META_TTL_MS, self.config.timer_ms)
        shown: tuple[Arg, ...] = (as_bytes(worker.id), msgspec.json.encode(worker), *lasting)
        yield from self._of_all("announce", *shown, *map(as_bytes, worker.queues))
        return False

    def _tidy(self, queue: str, tasks: Sequence[str], limit: int) -> Steps[Maintained]:
        args: tuple[Arg, ...] = (self._config, limit, META_TTL_MS, *tasks)
        promoted, reclaimed, pruned, unparked, more, removed = yield from self._ask("maintain", queue, *args)
        if removed:
            yield from self._unmark(queue)
        reclaimed += yield from return_processes(self.prefix(queue), self._config)
        yield from self._search()
        return Maintained(promoted, reclaimed, pruned, unparked, more == 1)

    def _search(self) -> Steps[None]:
        """Some steps of a search through all keys, if it is time for one or one has begun."""
        if self._sweep is None or self._sweep.done:
            if not (yield from self._of_all("begin_sweep", max(1, self.config.sweep_ms))):
                return
            self._sweep = Sweep(self.base, self.config)
        for _ in range(SWEEP_STEPS):
            if self._sweep.done:
                break
            yield from self._sweep.step()

    def request_channels(self, queues: Sequence[str]) -> Mapping[str, str]:
        """Originals publish the task that is to end, and keep it nowhere."""
        return {channel(self.base, queue, "cancel"): queue for queue in queues}

    def note_request(self, worker: str, queue: str, message: bytes) -> Steps[bool]:
        args = (as_bytes(worker), cancelled(""), message)
        found: int = yield from self._ask("note_cancel", queue, *args)
        return found > 0


def _enqueued(part: Part, added: bool) -> Enqueued:
    task = part.args[1]
    assert isinstance(task, bytes)
    return Enqueued(name_of(task), added, None if added else Conflict.REJECT)
