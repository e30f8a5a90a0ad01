"""The engine for the wire format of redis-work-queue: what producers and workers need. A transition is one script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from tenure.core import limits
from tenure.core.engine import Feature, Maintained, Trait
from tenure.core.job import Enqueued, Lease, NewJob
from tenure.core.steps import Arg, Steps
from tenure.core.waiting import Lead
from tenure.engines.kit.chunks import Part, args_of
from tenure.engines.kit.config import META_TTL_MS
from tenure.engines.kit.engine import ScriptedEngine
from tenure.engines.kit.envelope import read_record
from tenure.engines.redis_work_queue.clean import ItemSearch, requeue_leftovers, requeue_unleased, requeue_unlisted
from tenure.engines.redis_work_queue.config import CLEAN_STEPS, WAIT_SLICE_MS, RedisWorkQueueConfig
from tenure.engines.redis_work_queue.control import RedisWorkQueueController
from tenure.engines.redis_work_queue.inspect import RedisWorkQueueInspector
from tenure.engines.redis_work_queue.keys import (
    DEFAULT_QUEUE,
    SHARED,
    check_prefix,
    check_queues,
    check_suffix,
    shared_prefix,
)
from tenure.engines.redis_work_queue.scripts import LAYOUT, SCRIPTS
from tenure.engines.redis_work_queue.wire import NAME, new_part, outcome_part, take_while_waiting


class RedisWorkQueueEngine(ScriptedEngine, RedisWorkQueueInspector, RedisWorkQueueController):
    """Queues that clients of redis-work-queue share: engine, inspector and controller.

    engine = RedisWorkQueueEngine("jobs")
    driver.run(engine.enqueue([NewJob("default", "id-1", b"...")]))       # jobs:queue, jobs:item:id-1

    The queue `default` has the keys of the prefix, `jobs:queue`; another one lies under it, `jobs:images:queue`, or
    where `queues` names its prefix: `queues={"images": "pictures"}` is `pictures:queue`. Raises
    `InvalidArgument` if two queues would share keys.
    """

    name: ClassVar[str] = NAME
    features: ClassVar[frozenset[Feature]] = frozenset(
        {
            Feature.IDS,
            Feature.OWN_ID,
            Feature.TASKS,
            Feature.BYTES,
            Feature.TEXT,
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
        {Trait.KEPT_WAKE, Trait.PUBLIC_KEYS, Trait.RETRY_DELAY, Trait.SUSPECTS, Trait.UNLANED}
    )
    scripts = SCRIPTS
    layout = LAYOUT
    _new_part = staticmethod(new_part)
    _outcome_part = staticmethod(outcome_part)

    def __init__(
        self, base: str, config: RedisWorkQueueConfig | None = None, queues: Mapping[str, str] | None = None
    ) -> None:
        self.base = check_prefix(base)
        self.named = check_queues(self.base, queues)
        self._owners = {prefix: name for name, prefix in self.named.items()}
        self.config = config or RedisWorkQueueConfig()
        super().__init__(self.config.timing, self.config.as_argument())
        self._searches: dict[str, ItemSearch] = {}

    def prefix(self, queue: str) -> str:
        """The beginning of all keys of a queue.

        Raises `InvalidArgument` if the keys would belong to another queue.
        """
        if queue in self.named:
            return self.named[queue]
        prefix = self.base if queue == DEFAULT_QUEUE else f"{self.base}:{check_suffix(queue)}"
        if prefix in self._owners:
            raise shared_prefix(queue, self._owners[prefix], prefix)
        return prefix

    def shared(self) -> str:
        return f"{self.base}:{SHARED}"

    def _add(self, jobs: Sequence[NewJob], queue: str, chunk: list[Part], room: int) -> Steps[Iterable[Enqueued]]:
        reply = yield from self._act("enqueue", queue, self.config.stray_ms, *args_of(chunk))
        return (Enqueued(jobs[part.position].id, letter == ord("1")) for part, letter in zip(chunk, reply, strict=True))

    def _lease(self, worker: str, queue: str, row: list[Any], alone_ms: int) -> Lease:
        id, data, token, failures, crashes = row
        return Lease(worker, int(token), read_record(queue, id, data), failures, crashes, alone_ms)

    def wait(self, worker: str, queues: Sequence[str], timeout_ms: int) -> Lead:
        """Take an id out of the first queue, and claim it: see decision 0021. Redis waits for one list in this way, so
        a worker of several queues waits for one after the other, and claims from the others in between."""
        queue = queues[0]
        most_ms = self.timing.lease_ms // 2 if len(queues) == 1 else WAIT_SLICE_MS
        block_ms = max(limits.MIN_WAIT_MS, min(timeout_ms, most_ms))
        return Lead(take_while_waiting(self.prefix(queue), block_ms), queue)

    def _tidy(self, queue: str, tasks: Sequence[str], limit: int) -> Steps[Maintained]:
        prefix = self.prefix(queue)
        search = self._searches.get(queue)
        is_searching = search is not None and not search.is_done
        deep_ms = 0 if is_searching else self.config.deep_ms
        args: tuple[Arg, ...] = (self._config, limit, META_TTL_MS, deep_ms, *tasks)
        *numbers, more, deep = yield from self._ask("maintain", queue, *args)
        promoted, reclaimed, pruned, unparked = numbers
        yield from requeue_leftovers(prefix, self.config)
        unleased = yield from requeue_unleased(prefix, self.config, CLEAN_STEPS)
        if deep and not is_searching:
            search = self._searches[queue] = ItemSearch(prefix, self.config, search.turn + 1 if search else 0)
        if search is not None:
            yield from search.run()
        unlisted, next_ms = yield from requeue_unlisted(prefix, self.config)
        reclaimed += unleased.requeued + unlisted.requeued
        return Maintained(promoted, reclaimed, pruned, unparked, more == 1, next_ms=next_ms)
