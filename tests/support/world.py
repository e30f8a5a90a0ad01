"""One engine on one server, with the short words that the tests speak."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from tenure.core.engine import Feature, HeartbeatReply, Maintained
from tenure.core.job import Enqueued, ErrorInfo, JobView, Lease, Leased, NewJob, State
from tenure.core.outcome import Completed, Outcome
from tenure.core.shape import (
    CancelAnswer,
    CancelCount,
    Conflict,
    LaneState,
    LaneView,
    QueueSettings,
    Shape,
    UniqueRule,
    Until,
)
from tenure.core.steps import Command, Steps
from tenure.core.waiting import Lead, Listen, calls_of
from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer
from tests.support.engines import GRACE_MS, LEASE_MS, Entry, Options
from tests.support.keyspace import keys
from tests.support.named import Named

T = TypeVar("T")

NAMESPACE: Final = "test"
BOOM: Final = ErrorInfo("Boom", "it broke", "line 1\nline 2")
POLL_S: Final = 0.005
PAGES_MOST: Final = 1_000


class World:
    """Helpers around an engine. `q` is the queue and `w` the worker where a test names none."""

    def __init__(self, entry: Entry, server: RedisServer, driver: SyncDriver, options: Options | None = None) -> None:
        self.entry = entry
        self.server = server
        self.driver = driver
        self.options = options or Options()
        self.engine = entry.make(NAMESPACE, self.options)
        if Feature.IDS not in entry.features:
            self.engine = Named(self.engine)

    def with_options(self, **changes: Any) -> World:
        """The same server, seen by an engine with other numbers."""
        world = World(self.entry, self.server, self.driver, Options(**changes))
        if isinstance(self.engine, Named):
            world.engine = Named(world.engine.unnamed, self.engine.names)
        return world

    def run(self, steps: Steps[T]) -> T:
        return self.driver.run(steps)

    def command(self, *args: Any) -> Any:
        return self.server.command(*args)

    def key(self, suffix: str, queue: str = "q") -> str:
        return f"{self.engine.prefix(queue)}:{suffix}"

    # What producers and workers do.

    def put(self, *ids: str, queue: str = "q", payload: bytes = b"p", **options: Any) -> list[bool]:
        if Feature.OWN_ID not in self.engine.features:
            options.pop("own_id", None)
        jobs = [NewJob(queue, id, payload, **options) for id in ids]
        return [answer.created for answer in self.enqueue(jobs)]

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        return self.run(self.engine.enqueue(jobs))

    def put_in(self, lane: str, *ids: str, limit: int = 1, **options: Any) -> list[bool]:
        """Jobs of a lane."""
        return self.put(*ids, shape=Shape(lane=lane, lane_limit=limit), **options)

    def put_at(self, priority: int, *ids: str, **options: Any) -> list[bool]:
        """Jobs of a priority."""
        return self.put(*ids, shape=Shape(priority=priority), **options)

    def put_only(
        self,
        id: str,
        key: str = "k",
        until: Until = Until.ENDED,
        conflict: Conflict = Conflict.REJECT,
        *,
        window_ms: int = 0,
        wait_ms: int = 0,
        lane: str | None = None,
        payload: bytes = b"p",
        **options: Any,
    ) -> Enqueued:
        """A job that is to be the only one of its key."""
        shape = Shape(lane=lane, unique=UniqueRule(key, until, conflict, window_ms, wait_ms))
        (answer,) = self.enqueue([NewJob("q", id, payload, shape=shape, **options)])
        return answer

    def take(
        self,
        limit: int = 10,
        worker: str = "w",
        queues: Sequence[str] = ("q",),
        lease_ms: int | None = None,
        of_lane: int = 1,
        **options: Any,
    ) -> list[Lease]:
        """Claim. `options`: as those of the engine's `lease`."""
        return list(self.lease(limit, worker, queues, lease_ms=lease_ms, of_lane=of_lane, **options).leases)

    def lease(
        self, limit: int = 10, worker: str = "w", queues: Sequence[str] = ("q",), of_lane: int = 1, **options: Any
    ) -> Leased:
        """Claim, and say all that the engine answers."""
        together = dict.fromkeys(queues, of_lane)
        leased: Leased = self.run(self.engine.lease(worker, queues, limit, of_lane=together, **options))
        return leased

    def take_ids(self, limit: int = 10, worker: str = "w", **options: Any) -> list[str]:
        """Claim, and say what."""
        return [lease.record.id for lease in self.take(limit, worker, **options)]

    def take_one(self, worker: str = "w", queue: str = "q") -> Lease:
        (lease,) = self.take(1, worker, (queue,))
        return lease

    def wait(self, queues: Sequence[str], timeout_ms: int, worker: str = "w") -> str | None:
        """Wait as the engine says: the queue that may have work, None for none."""
        wait = self.engine.wait(worker, queues, timeout_ms)
        if isinstance(wait, Lead):
            return self._led(worker, queues, timeout_ms)
        if isinstance(wait, Listen):
            (channel,) = wait.channels
            with self.driver.subscribe(channel) as messages:
                message = messages.get(timeout_ms / 1000)
            return None if message is None else wait.parse(channel, message)
        calls = calls_of(wait)
        return None if calls is None else self.run(calls)

    def _led(self, worker: str, queues: Sequence[str], timeout_ms: int) -> str | None:
        """Where a claim waits first: the waits alone, one after the other."""
        end, turns = time.monotonic() + timeout_ms / 1000, itertools.cycle(queues)
        while (left := end - time.monotonic()) > 0:
            first = next(turns)
            others = [queue for queue in queues if queue != first]
            calls = calls_of(self.engine.wait(worker, [first, *others], round(left * 1000)))
            if calls is not None and (queue := self.run(calls)) is not None:
                return queue
        return None

    def settle(self, lease: Lease, outcome: Outcome | None = None) -> bool:
        (answer,) = self.run(self.engine.settle([(lease, outcome or Completed(b"r"))]))
        return answer

    def settle_each(self, leases: Sequence[Lease], *outcomes: Outcome) -> None:
        """Every lease with its own outcome, in one call; all must be settled."""
        assert all(self.run(self.engine.settle(list(zip(leases, outcomes, strict=True)))))

    def finish(self, *leases: Lease) -> None:
        """Complete them; no record is kept."""
        assert all(self.run(self.engine.settle([(lease, Completed(b"", 0)) for lease in leases])))

    def beat(self, worker: str, leases: Sequence[Lease] = (), queues: Sequence[str] = ("q",)) -> HeartbeatReply:
        heartbeat: HeartbeatReply = self.run(self.engine.heartbeat(worker, queues, [lease.ref for lease in leases]))
        return heartbeat

    def leave(self, worker: str = "w", crashed: bool = False) -> int:
        back: int = self.run(self.engine.leave(worker, ["q"], crashed))
        return back

    def maintain(self, tasks: Sequence[str] = (), queue: str = "q", **limit: int) -> Maintained:
        return self.run(self.engine.maintain([queue], tasks, **limit))

    # What people do.

    def cancel(self, id: str, reason: str = "") -> CancelAnswer:
        answer: CancelAnswer = self.run(self.engine.cancel("q", id, reason))
        return answer

    def cancel_all(self, lane: str | None = None, reason: str = "") -> CancelCount:
        count: CancelCount = self.run(self.engine.cancel_all("q", lane, reason))
        return count

    def retry(self, id: str) -> bool:
        answer: bool = self.run(self.engine.retry("q", id))
        return answer

    def discard(self, id: str) -> bool:
        answer: bool = self.run(self.engine.discard("q", id))
        return answer

    def purge(self, state: State) -> int:
        removed: int = self.run(self.engine.purge("q", state))
        return removed

    def remove(self, act: str, id: str) -> None:
        """Take a waiting job away by `cancel`, `discard` or `purge`; the last takes all that are in its state."""
        if act == "purge":
            assert self.purge(self.view(id).state) >= 1
        else:
            assert self.run(getattr(self.engine, act)("q", id))

    def configure(self, **changes: Any) -> QueueSettings:
        settings: QueueSettings = self.run(self.engine.settings.configure("q", **changes))
        return settings

    def resume_lane(self, lane: str) -> bool:
        answer: bool = self.run(self.engine.lanes.resume_lane("q", lane))
        return answer

    # Time.

    def spoil(self, queue: str) -> None:
        """Write another program's data into the queue, so that the engine refuses it."""
        self.entry.spoil(self.server, NAMESPACE, queue)

    def repair(self, queue: str) -> None:
        """Remove what `spoil` has written."""
        start = self.engine.prefix(queue).encode()
        for name, key in keys(self.server).items():
            if name.startswith(start) and key.kind == "string" and key.value == b"x":
                self.command("DEL", name)

    def set_layout(self, version: int | None, queue: str = "q") -> None:
        self.entry.set_layout(self.server, NAMESPACE, queue, version)

    def pass_time(self, ms: int, queue: str = "q") -> None:
        self.entry.pass_time(self.server, NAMESPACE, queue, ms)

    def silence(self, queue: str = "q") -> int:
        """Whoever does not beat is noticed: lease, suspicion, grace. Answers how many jobs came back."""
        self.pass_time(LEASE_MS + 50, queue)
        first = self.maintain(queue=queue).reclaimed
        self.pass_time(GRACE_MS + 50, queue)
        return first + self.maintain(queue=queue).reclaimed

    def until(self, condition: Callable[[], T], seconds: float = 120.0) -> T:
        """Ask until the answer is true, with a deadline."""
        end = time.monotonic() + seconds
        while not (answer := condition()):
            assert time.monotonic() < end, "it did not come true in time"
            time.sleep(POLL_S)
        return answer

    # Looking.

    def job(self, id: str, queue: str = "q") -> JobView | None:
        view: JobView | None = self.run(self.engine.job(queue, id))
        return view

    def view(self, id: str, queue: str = "q") -> JobView:
        view = self.job(id, queue)
        assert view is not None, f"there is no job {id!r}"
        return view

    def state(self, id: str, queue: str = "q") -> State | None:
        view = self.job(id, queue)
        return view.state if view else None

    def ids(self, state: State, queue: str = "q") -> list[str]:
        return [job.id for job in self.run(self.engine.page(queue, state)).jobs]

    def counts(self, queue: str = "q") -> dict[str, int]:
        """States with at least one job."""
        view = self.run(self.engine.queue(queue))
        return {state.value: count for state, count in view.counts.items() if count}

    def lane(self, name: str) -> LaneView:
        view: LaneView = self.run(self.engine.lanes.lane("q", name))
        return view

    def lanes(self, state: LaneState, limit: int = 100) -> list[str]:
        """The names of all lanes in a state, page by page."""
        names: list[str] = []
        cursor = 0
        for _ in range(PAGES_MOST):
            page = self.run(self.engine.lanes.lane_page("q", state, cursor, limit))
            names += [lane.name for lane in page.lanes]
            cursor = page.cursor
            if cursor == 0:
                return names
        raise AssertionError("the pages have no end")

    def in_lane(self, lane: str) -> list[str]:
        """What waits in a lane, in its order."""
        return [job.id for job in self.run(self.engine.page("q", State.READY, lane=lane)).jobs]

    def is_free(self, key: str = "k") -> bool:
        """Whether a job would get this unique key: one is tried, and taken away again."""
        probe = self.put_only("probe", key, own_id=True)
        return probe.created and self.discard("probe")

    def left(self) -> set[bytes]:
        """The keys of the queue by their suffix, but for its counters and a wake-up that waits."""
        start = self.key("").encode()
        names = {name.removeprefix(start) for name in self.dump() if name.startswith(start)}
        return names - {b"meta", b"wake"}

    def calls_of(self, steps: Steps[Any]) -> int:
        """How many commands Redis runs for these steps, those within scripts included."""
        self.command("CONFIG", "RESETSTAT")
        self.run(steps)
        lines = self.command("INFO", "commandstats").decode().splitlines()
        counts = {line.split(":")[0]: int(line.split("calls=")[1].split(",")[0]) for line in lines if "calls=" in line}
        return sum(count for name, count in counts.items() if not name.startswith(("cmdstat_config", "cmdstat_info")))

    def lasting(self) -> set[bytes]:
        """The names of all keys without a time to live."""
        return {name for name, key in keys(self.server).items() if key.ttl_ms < 0}

    def expire(self, ms: int) -> None:
        """Delete the keys that Redis would delete within `ms`."""
        for name, key in keys(self.server).items():
            if 0 <= key.ttl_ms <= ms:
                self.command("DEL", name)

    def totals(self, queue: str = "q") -> dict[str, int]:
        totals: dict[str, int] = self.run(self.engine.queue(queue)).totals
        return totals

    def dump(self) -> dict[bytes, Any]:
        return self.entry.dump(self.server)

    def audit(self) -> None:
        wrong = self.entry.audit(self.server, NAMESPACE)
        assert not wrong, "\n".join(wrong)

    def drain(self, *queues: str, worker: str = "drainer") -> list[str]:
        """Complete all that is ready, and answer the ids in the order of their claims."""
        done: list[str] = []
        while leases := self.take(100, worker, queues or ("q",)):
            answers = self.run(self.engine.settle([(lease, Completed(b"", 0)) for lease in leases]))
            assert all(answers)
            done += [lease.record.id for lease in leases]
        return done


def plain(*args: Any) -> Steps[Any]:
    """One command as steps."""
    return (yield Command(args))
