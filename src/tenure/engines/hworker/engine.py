"""The engine for the wire format of hworker: what producers and workers need. A transition is one script."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from tenure.core import limits
from tenure.core.engine import Feature, Maintained, Trait
from tenure.core.job import Dropped, Enqueued, Lease, NewJob
from tenure.core.outcome import Outcome
from tenure.core.steps import Arg, Command, Steps
from tenure.core.waiting import Lead, Poll
from tenure.engines.hworker.config import POLL_MS, HworkerConfig
from tenure.engines.hworker.control import HworkerController
from tenure.engines.hworker.inspect import NAME
from tenure.engines.hworker.keys import DEFAULT_QUEUE, JOBS, OURS, check_name, other_queue
from tenure.engines.hworker.records import read_job, write_job
from tenure.engines.hworker.rights import rules_of
from tenure.engines.hworker.scripts import LAYOUT, SCRIPTS
from tenure.engines.kit.acl import AclRules
from tenure.engines.kit.chunks import Part, args_of
from tenure.engines.kit.config import META_TTL_MS
from tenure.engines.kit.encoding import RAW, as_bytes
from tenure.engines.kit.engine import ScriptedEngine
from tenure.engines.kit.outcomes import encode_outcome


class HworkerEngine(ScriptedEngine, HworkerController):
    """A pool that workers of hworker share: engine, inspector and controller.

        engine = HworkerEngine("printer")
        driver.run(engine.enqueue([NewJob("default", id, b'{"page":1}')]))       # hworker-jobs-printer

    Raises `InvalidArgument` for a name that no pool can have.
    """

    name: ClassVar[str] = NAME
    features: ClassVar[frozenset[Feature]] = frozenset(
        {
            Feature.IDS,
            Feature.TASKS,
            Feature.TIMEOUT,
            Feature.RETRIES,
            Feature.COUNTS,
            Feature.RECORDS,
            Feature.UNROUTABLE,
            Feature.EXTEND,
            Feature.HEADERS,
        }
    )
    traits: ClassVar[frozenset[Trait]] = frozenset(
        {
            Trait.KEPT_WAKE,
            Trait.PASSED_RAW,
            Trait.PUBLIC_KEYS,
            Trait.RETRY_DELAY,
            Trait.SUSPECTS,
            Trait.UNLANED,
        }
    )
    scripts = SCRIPTS
    layout = LAYOUT

    def __init__(self, pool: str, config: HworkerConfig | None = None) -> None:
        self.pool = check_name(pool)
        self.config = config or HworkerConfig()
        super().__init__(self.config.timing, self.config.as_argument())
        self._pauses: dict[tuple[str, str], int] = {}
        """How long a worker pauses instead of a wait for the list of a queue, in ms."""

    def pool_of(self, queue: str) -> str:
        """The name of the pool, as originals know it. Raises `InvalidArgument` for a queue other than `default`."""
        if queue != DEFAULT_QUEUE:
            raise other_queue(queue, self.pool)
        return self.pool

    def prefix(self, queue: str) -> str:
        """The beginning of the keys of Tenure. The scripts derive the originals' keys from it."""
        return f"{OURS}{self.pool_of(queue)}"

    def shared(self) -> str:
        return f"{OURS}{self.pool}"

    @staticmethod
    def _new_part(position: int, job: NewJob) -> Part:
        data = write_job(job.id, job)
        return Part(position, (data,), len(data))

    def _add(self, jobs: Sequence[NewJob], queue: str, chunk: list[Part], room: int) -> Steps[Iterable[Enqueued]]:
        yield from self._act("enqueue", queue, *args_of(chunk))
        return [Enqueued(jobs[part.position].id, True) for part in chunk]

    def _lease(self, worker: str, queue: str, row: list[Any], alone_ms: int) -> Lease:
        id, data, token, failures, crashes = row
        return Lease(worker, int(token), read_job(queue, id, data), failures, crashes, alone_ms)

    def _dropped(self, queue: str, entry: bytes) -> Dropped:
        return Dropped(queue, entry.decode(), "an idle worker of hworker wrote it, and its monitor took it for a job")

    @staticmethod
    def _outcome_part(position: int, lease: Lease, outcome: Outcome) -> Part:
        """id token kind ms task body mark, as kit/lists/lua/settle.lua takes them; there are no marks."""
        kind, ms, body = encode_outcome(outcome)
        task = lease.record.task or RAW if kind == "u" else ""
        body = b"" if kind == "c" else body  # no result has a place here
        return Part(position, (as_bytes(lease.record.id), lease.token, kind, ms, task, body, ""), len(body))

    def _note_claim(self, worker: str, queue: str, next_ms: int, notes: Sequence[int]) -> None:
        """Whether the next job is a raw payload that this worker leaves to others, or originals have nothing to do."""
        note = notes[0] if notes else 0  # none when the claim was sent again
        if note:
            self._pauses[worker, queue] = limits.SECOND if note == 1 else POLL_MS
        else:
            self._pauses.pop((worker, queue), None)

    def wait(self, worker: str, queues: Sequence[str], timeout_ms: int) -> Lead | Poll:
        """Take a job out of the list, and claim it: workers of the original ask every 10 ms. See decision 0021.

        If raw payloads without a handler come first, a worker pauses instead: the wait would take one of them. While
        originals have nothing to do, the worker asks as often as they do, so that they get their share.
        """
        queue = queues[0]
        if pause_ms := self._pauses.get((worker, queue)):
            return Poll(min(timeout_ms, pause_ms))
        block_ms = max(limits.MIN_WAIT_MS, min(timeout_ms, self.timing.lease_ms // 2))
        jobs, taken = f"{JOBS}{self.pool_of(queue)}", f"{self.prefix(queue)}:taken"
        words = ("BLMOVE", jobs, taken, "RIGHT", "LEFT", f"{block_ms / limits.SECOND:.3f}")
        return Lead(Command(words, block_ms=block_ms), queue)

    def _tidy(self, queue: str, tasks: Sequence[str], limit: int) -> Steps[Maintained]:
        args: tuple[Arg, ...] = (self._config, limit, META_TTL_MS, *tasks)
        promoted, reclaimed, pruned, unparked, more, _ = yield from self._ask("maintain", queue, *args)
        return Maintained(promoted, reclaimed, pruned, unparked, more == 1)

    def rules(self) -> AclRules:
        """The rights that this engine needs of a user of Redis."""
        return rules_of(self.pool)
