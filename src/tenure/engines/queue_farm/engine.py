"""The engine. A namespace of the original clients is one queue of Tenure; each of their queues is a lane of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from tenure.core import limits
from tenure.core.engine import Feature, Maintained, Trait
from tenure.core.errors import InvalidArgument
from tenure.core.job import Dropped, Enqueued, Lease, NewJob
from tenure.core.names import shown
from tenure.core.steps import Command, Reply, Steps
from tenure.core.waiting import Wake
from tenure.engines.kit.chunks import Part, args_of
from tenure.engines.kit.config import META_TTL_MS
from tenure.engines.kit.encoding import as_text
from tenure.engines.kit.engine import ScriptedEngine
from tenure.engines.queue_farm.config import PEEK_MS, QueueFarmConfig
from tenure.engines.queue_farm.control import QueueFarmController
from tenure.engines.queue_farm.inspect import QueueFarmInspector
from tenure.engines.queue_farm.keys import DEFAULT_QUEUE, OURS, check_namespace
from tenure.engines.queue_farm.records import read_record
from tenure.engines.queue_farm.scripts import LAYOUT, SCRIPTS
from tenure.engines.queue_farm.wire import NAME, REASONS, FarmDropped, check_new, naming_key, new_part, outcome_part


class QueueFarmEngine(QueueFarmInspector, QueueFarmController, ScriptedEngine):
    """`manager`: the name that jobs of this producer carry as their managerId."""

    name: ClassVar[str] = NAME
    features: ClassVar[frozenset[Feature]] = frozenset(
        {
            Feature.IDS,
            Feature.OWN_ID,
            Feature.TASKS,
            Feature.TIMEOUT,
            Feature.RETRIES,
            Feature.COUNTS,
            Feature.RECORDS,
            Feature.EXTEND,
            Feature.HEADERS,
            Feature.LANES,
            Feature.PAUSE,
        }
    )
    traits: ClassVar[frozenset[Trait]] = frozenset(
        {Trait.PUBLIC_KEYS, Trait.SUSPECTS, Trait.ENQUEUE_TIME, Trait.GROUPS, Trait.KEPT_WAKE, Trait.SINGLE_WAKE}
    )
    scripts = SCRIPTS
    layout = LAYOUT

    def __init__(self, namespace: str = NAME, config: QueueFarmConfig | None = None, manager: str = "tenure") -> None:
        self.namespace = check_namespace(namespace)
        self.config = config or QueueFarmConfig()
        self.manager = manager
        super().__init__(self.config.timing, self.config.as_argument())
        self.lanes = self.settings = self

    def prefix(self, queue: str) -> str:
        """The beginning of Tenure's keys. Raises `InvalidArgument` for a queue other than `default`."""
        if queue != DEFAULT_QUEUE:
            raise InvalidArgument(
                f"queue must be {DEFAULT_QUEUE!r} with the protocol {NAME!r}, got {shown(queue)}. A queue of "
                "queue-farm is a lane: using(lane=...)."
            )
        return self.shared()

    def shared(self) -> str:
        return f"{self.namespace}:{OURS}"

    _new_part = staticmethod(new_part)
    _outcome_part = staticmethod(outcome_part)

    def _check_new(self, job: NewJob) -> None:
        super()._check_new(job)
        check_new(job)

    def _add(self, jobs: Sequence[NewJob], queue: str, chunk: list[Part], room: int) -> Steps[Iterable[Enqueued]]:
        reply = yield from naming_key(self._act("enqueue", queue, self._config, self.manager, *args_of(chunk)))
        return (Enqueued(jobs[part.position].id, letter == ord("1")) for part, letter in zip(chunk, reply, strict=True))

    def _lease(self, worker: str, queue: str, row: list[Any], alone_ms: int) -> Lease:
        failures, crashes, token, group = int(row[3]), int(row[4]), int(row[12]), row[16].decode()
        return Lease(
            worker, token, read_record(queue, row, self.config.apply_timeouts), failures, crashes, alone_ms, group
        )

    def _dropped(self, queue: str, entry: list[bytes]) -> Dropped:
        id, lane, kind = map(as_text, entry)
        return FarmDropped(queue, id, REASONS[kind], lane, kind)

    def wait(self, worker: str, queues: Sequence[str], timeout_ms: int) -> Wake:
        """Wait for a wake-up of our own clients. Original clients send none, so look for their jobs in between."""
        return Wake(self._wake(queues, timeout_ms))

    def _wake(self, queues: Sequence[str], timeout_ms: int) -> Steps[str | None]:
        keys = {f"{self.prefix(queue)}:wake": queue for queue in queues}
        left = timeout_ms
        while left > 0:
            block_ms = max(limits.MIN_WAIT_MS, min(PEEK_MS, left))
            left -= block_ms
            reply: Reply = yield Command(("BLPOP", *keys, f"{block_ms / limits.SECOND:.3f}"), block_ms=block_ms)
            if reply:
                return keys[as_text(reply[0])]
            if left > 0:
                for queue in queues:
                    yield from self._ask("find", queue, self._config)
        return None

    def _tidy(self, queue: str, tasks: Sequence[str], limit: int) -> Steps[Maintained]:
        reply = yield from self._ask("maintain", queue, self._config, limit, META_TTL_MS, *tasks)
        reclaimed, pruned, unparked, more = reply
        return Maintained(0, reclaimed, pruned, unparked, more == 1)
