"""Whether a job costs more when many others are there: 1,000 against 1,000,000 that wait, are scheduled, held, failed.

The cost is the time that Redis itself spends in our scripts (INFO commandstats): neither Python nor the network is in
it. SLOWLOG says how long the longest script kept Redis from everybody else.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final, Literal

from bench.speed.gauges import commands, fields, info
from bench.speed.results import Machine, this_machine
from bench.speed.rounds import told
from bench.speed.tables import NONE
from tenure.core import limits
from tenure.core.job import ErrorInfo, Lease, NewJob
from tenure.core.outcome import Completed, Failed
from tenure.core.shape import PLAIN, Shape
from tenure.engines.kit.config import MAX_HOLDERS, TURNS_MOST
from tenure.engines.native.config import NativeConfig
from tenure.engines.native.engine import NativeEngine
from tenure.redis.embedded.binary import find_server
from tenure.redis.sync import SyncDriver
from tenure.runtime.ports import ROUND_MOST
from tenure.testing.server import RedisServer

Crowd = Literal["waiting", "scheduled", "held", "failed"]
CROWDS: Final[tuple[Crowd, ...]] = ("waiting", "scheduled", "held", "failed")
QUEUE: Final = "bench"
PAYLOAD: Final = b"x" * 100
SIZES: Final = (1_000, 1_000_000)
QUICK_SIZES: Final = (1_000, 20_000)
BATCHES: Final = (1, 100, ROUND_MOST)
JOBS: Final = 2_000
"""Of each operation, in each repetition, with batches; one by one it is a tenth of that."""
REPEATED: Final = 7
CALLS: Final = 50
PROBES: Final = 5
HOLDERS: Final = MAX_HOLDERS - 2 * PROBES
HAND_MS: Final = limits.DAY
SLOW_US: Final = 500
"""What is noted in SLOWLOG at all."""
SLOW_KEPT: Final = 10_000
_IDS = itertools.count()


@dataclass(frozen=True)
class Cost:
    """One operation beside a crowd of others. `batch` 0: a call that is for no job.

    us: Redis' time for a job, the least of the repetitions.
    slowest_ms: the longest call of all repetitions; 0: less than SLOWLOG was told to note.
    steady_ms: the longest call of the best repetition. What is slow of itself is slow in each of them; what other
    processes of the machine delayed is not.
    """

    crowd: Crowd
    size: int
    operation: str
    batch: int
    us: float
    slowest_ms: float
    steady_ms: float


@dataclass(frozen=True)
class Flatness:
    machine: Machine
    costs: tuple[Cost, ...]


class Bench:
    """A queue with a crowd, and what is done beside it."""

    def __init__(self, server: RedisServer) -> None:
        self.server = server
        self.driver = SyncDriver(server.url, patience_ms=limits.PATIENCE_MS, reply_timeout_ms=limits.MINUTE)
        self.engine = NativeEngine("bench", NativeConfig(failed_max=2 * SIZES[-1]))

    def enqueue(self, count: int, delay_ms: int = 0, lanes: bool = False) -> None:
        """`lanes`: each job in a lane of its own."""
        ids = [f"{next(_IDS):016x}" for _ in range(count)]
        shapes = [Shape(lane=id) if lanes else PLAIN for id in ids]
        jobs = [
            NewJob(QUEUE, id, PAYLOAD, delay_ms=delay_ms, shape=shape) for id, shape in zip(ids, shapes, strict=True)
        ]
        self.driver.run(self.engine.enqueue(jobs))

    def claim(self, worker: str, count: int, by_hand: bool = False) -> Sequence[Lease]:
        """By hand: the lease has an end of its own, and nobody's heartbeat is needed."""
        lease_ms = HAND_MS if by_hand else None
        return self.driver.run(self.engine.lease(worker, (QUEUE,), count, lease_ms)).leases

    def settle(self, leases: Sequence[Lease], fail: bool = False) -> None:
        end = Failed(ErrorInfo("E", "text", "")) if fail else Completed(b"", 0)
        settled = self.driver.run(self.engine.settle([(lease, end) for lease in leases]))
        assert all(settled), "a job was lost beside the crowd"

    def beat(self, leases: Sequence[Lease] = ()) -> None:
        worker = leases[0].worker if leases else "probe"
        self.driver.run(self.engine.heartbeat(worker, (QUEUE,), [lease.ref for lease in leases]))

    def hold(self, worker: str, count: int) -> list[Lease]:
        """As much as one worker may hold takes several claims."""
        held: list[Lease] = []
        while len(held) < count:
            held += self.claim(worker, min(ROUND_MOST, count - len(held)))
        return held

    def leave(self, worker: str) -> None:
        """Not as crashed: those that crash a second time, in `bury`, would wait to run one by one."""
        self.driver.run(self.engine.leave(worker, (QUEUE,)))

    def bury(self, worker: str) -> None:
        """Whoever comes by next finds that it has been dead for long."""
        for place in ("holders", "suspects"):
            self.server.command("ZADD", f"{self.engine.prefix(QUEUE)}:{place}", 1, worker)

    def maintain_all(self) -> None:
        while self.driver.run(self.engine.maintain((QUEUE,), ())).more:
            pass

    def maintain(self) -> None:
        self.driver.run(self.engine.maintain((QUEUE,), ()))

    def fill(self, crowd: Crowd, size: int) -> None:
        """Put so many jobs into this state."""
        holder = 0
        for done in range(0, size, limits.MAX_BATCH):
            count = min(limits.MAX_BATCH, size - done)
            self.enqueue(count, limits.DAY if crowd == "scheduled" else 0)
            if crowd == "failed":
                self.settle(self.claim("filler", count), fail=True)
            elif crowd == "held":
                # No more workers may hold jobs of a queue, and none of them more jobs, than the limits say.
                holder = min(done // limits.MAX_HELD, HOLDERS - 1)
                if done < HOLDERS * limits.MAX_HELD:
                    self.claim(f"holder-{holder}", count, by_hand=True)
        if crowd == "held":
            self.drop_rest()

    def drop_rest(self) -> None:
        """What no holder could take."""
        while leases := self.claim("filler", limits.MAX_BATCH):
            self.settle(leases)


def operations(bench: Bench, batch: int, jobs: int) -> Iterator[tuple[str, int, Callable[[], None]]]:
    """Name, number of jobs, and what does it: the life of so many jobs, that many at a time."""
    calls = max(1, jobs // batch)
    claimed: list[Sequence[Lease]] = []

    def enqueue() -> None:
        for _ in range(calls):
            bench.enqueue(batch)

    def claim() -> None:
        # Several workers, because one may hold only so many.
        claimed.extend(bench.claim(f"probe-{number % PROBES}", batch) for number in range(calls))

    def settle() -> None:
        while claimed:
            bench.settle(claimed.pop())

    yield "enqueue", calls * batch, enqueue
    yield "claim", calls * batch, claim
    yield "settle", calls * batch, settle


def upkeep(bench: Bench) -> Iterator[tuple[str, int, Callable[[], None]]]:
    """What is done however many jobs there are to do; its cost is that of one call."""

    def beats() -> None:
        for _ in range(CALLS):
            bench.beat()

    def maintains() -> None:
        for _ in range(CALLS):
            bench.maintain()

    yield "heartbeat", CALLS, beats
    yield "maintain", CALLS, maintains


def heavy(bench: Bench, crowd: Crowd) -> Iterator[tuple[str, int, int, Callable[[], None]]]:
    """Name, jobs a call, number of jobs, and what does it: what takes the longest of all, once a repetition.

    What is not measured happens between two of them.
    """
    most = limits.MAX_HELD
    bench.enqueue(most)
    held = bench.hold("heavy", most)
    yield f"heartbeat, {most:,} held", 0, 1, lambda: bench.beat(held)
    yield f"leave, {most:,} held", most, most, lambda: bench.leave("heavy")
    bench.hold("heavy", most)
    bench.bury("heavy")
    yield f"reap, {most:,} held", most, most, bench.maintain_all
    bench.settle(bench.hold("heavy", most))
    yield "enqueue", limits.MAX_BATCH, limits.MAX_BATCH, lambda: bench.enqueue(limits.MAX_BATCH)
    bench.settle(bench.hold("heavy", limits.MAX_BATCH))
    if crowd == "waiting":  # it would take turns with the lanes
        return
    yield "enqueue, lanes", limits.MAX_BATCH, limits.MAX_BATCH, lambda: bench.enqueue(limits.MAX_BATCH, lanes=True)
    taken: list[Lease] = []
    yield (
        "claim, lanes",
        TURNS_MOST,
        TURNS_MOST,
        lambda: taken.extend(bench.claim("heavy", TURNS_MOST)),
    )
    yield "settle, lanes", TURNS_MOST, TURNS_MOST, lambda: bench.settle(taken)
    bench.drop_rest()


def timed(bench: Bench, run: Callable[[], None]) -> tuple[float, float]:
    """The microseconds that Redis spent in scripts, and those of the longest call."""
    bench.server.command("CONFIG", "RESETSTAT")
    bench.server.command("SLOWLOG", "RESET")
    run()
    spent = sum(usec for name, (_, usec) in commands(bench.server).items() if name in ("evalsha", "eval"))
    entries = bench.server.command("SLOWLOG", "GET", SLOW_KEPT)
    ours = [entry[2] for entry in entries if entry[3] and entry[3][0].upper() in (b"EVALSHA", b"EVAL")]
    return spent, max(ours, default=0)


def beside(benches: Mapping[int, Bench], crowd: Crowd) -> list[Cost]:
    """The costs beside crowds of these sizes, in turns, so that all sizes meet the same weather."""
    seen: dict[tuple[int, str, int], list[tuple[float, float]]] = {}
    for batch in (*BATCHES, 0):
        for _ in range(REPEATED):
            for size, bench in benches.items():
                jobs = JOBS if batch > 1 else JOBS // 10
                for name, count, run in operations(bench, batch, jobs) if batch else upkeep(bench):
                    spent, slowest = timed(bench, run)
                    seen.setdefault((size, name, batch), []).append((spent / count, slowest / 1e3))
    for _ in range(REPEATED):
        for size, bench in benches.items():
            for name, batch, count, run in heavy(bench, crowd):
                spent, slowest = timed(bench, run)
                seen.setdefault((size, name, batch), []).append((spent / count, slowest / 1e3))
    return [_cost(crowd, *key, pairs) for key, pairs in seen.items()]


def _cost(crowd: Crowd, size: int, name: str, batch: int, pairs: Sequence[tuple[float, float]]) -> Cost:
    slowest = [ms for _, ms in pairs]
    return Cost(crowd, size, name, batch, min(us for us, _ in pairs), max(slowest), min(slowest))


def measure(quick: bool = False) -> Flatness:
    costs: list[Cost] = []
    version = ""
    for crowd in CROWDS:
        with ExitStack() as stack:
            benches = {size: stack.enter_context(opened()) for size in (QUICK_SIZES if quick else SIZES)}
            for size, bench in benches.items():
                bench.fill(crowd, size)
                told(f"flat: {size:,} {crowd}")
                version = fields(info(bench.server, "server"))["redis_version"]
            costs += beside(benches, crowd)
    return Flatness(this_machine(version), tuple(costs))


@contextmanager
def opened() -> Iterator[Bench]:
    """A queue on a server of its own, which notes what takes long."""
    with RedisServer(find_server(), aof=False) as server:
        server.command("CONFIG", "SET", "slowlog-log-slower-than", SLOW_US)
        server.command("CONFIG", "SET", "slowlog-max-len", SLOW_KEPT)
        bench = Bench(server)
        try:
            yield bench
        finally:
            bench.driver.close()


def table(found: Flatness) -> str:
    """The cost beside the larger crowd, as a ratio to that beside the smaller one."""
    small, large = min(cost.size for cost in found.costs), max(cost.size for cost in found.costs)
    lines = [
        f"| others | operation | jobs a call | cost with {large:,} to cost with {small:,} | µs a job, with {large:,} |"
        " longest call | longest call, best repetition |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for cost in found.costs:
        if cost.size == large:
            (before,) = (
                one
                for one in found.costs
                if (one.size, one.crowd, one.operation, one.batch) == (small, cost.crowd, cost.operation, cost.batch)
            )
            jobs = f"{cost.batch}" if cost.batch else NONE
            lines.append(
                f"| {cost.crowd} | {cost.operation} | {jobs} | {cost.us / before.us:.2f} | {cost.us:.1f} | "
                f"{_ms(cost.slowest_ms)} | {_ms(cost.steady_ms)} |"
            )
    return "\n".join(lines)


def _ms(value: float) -> str:
    return f"{value:.1f} ms" if value else f"< {SLOW_US / 1e3:g} ms"
