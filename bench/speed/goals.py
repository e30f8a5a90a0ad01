"""What Tenure is to reach, and whether it does in what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from bench.environments import NODE
from bench.speed.cluster import ClusterFound
from bench.speed.crowd import CrowdFound
from bench.speed.fairness import LONG_S, Fairness
from bench.speed.flat import Flatness
from bench.speed.measures import BY_NAME
from bench.speed.options import PLAIN, OptionsFound
from bench.speed.results import Run
from bench.speed.starts import Starts
from bench.speed.tables import NONE, best_peer, peers_of

SLOW_MS: Final = 5.0
FLAT_MOST: Final = 1.25
"""What counts as growing: a pair of readings of one and the same thing differs by a fifth on a busy machine."""
WAIT_MOST: Final = 0.05


@dataclass(frozen=True)
class Verdict:
    """One goal. `value` None: it was not measured. `most`: whether the value is to be this at most, or at least."""

    goal: str
    unit: str
    bound: float
    most: bool
    value: float | None

    @property
    def met(self) -> bool | None:
        if self.value is None:
            return None
        return self.value <= self.bound if self.most else self.value >= self.bound


@dataclass(frozen=True)
class Kept:
    """All that was measured; None where a section was not."""

    run: Run | None = None
    flat: Flatness | None = None
    fairness: Fairness | None = None
    crowd: CrowdFound | None = None
    starts: Starts | None = None
    cluster: ClusterFound | None = None
    options: OptionsFound | None = None


def verdicts(kept: Kept) -> list[Verdict]:
    return [
        *_compared(kept.run),
        *_alone(kept.run),
        *_crowded(kept),
        *_started(kept.starts),
        *_optioned(kept.options),
        *_flat(kept.flat),
        *_fair(kept.fairness),
        *_shared_layout(kept.run),
    ]


def _compared(run: Run | None) -> Iterator[Verdict]:
    python = _fastest_drain(run)
    batch = _median(run, "batch", "drain_async")
    ours = {name: _median(run, "tenure", name) for name in BY_NAME}
    yield Verdict(
        "drain, async: to the fastest Python peer, any handlers",
        "times",
        15,
        False,
        _ratio(ours["drain_async"], python),
    )
    yield Verdict(
        "drain, async: to the bare loop, 100 a call", "times", 0.75, False, _ratio(ours["drain_async"], batch)
    )
    yield Verdict("drain, sync: to the fastest Python peer", "times", 8, False, _ratio(ours["drain_sync"], python))
    yield Verdict(
        "drain, async: to the fastest Python peer with async handlers",
        "times",
        30,
        False,
        _ratio(ours["drain_async"], _fastest_drain(run, ("drain_async",))),
    )
    yield Verdict(
        "jobs that wait: to the loop that waits for 100",
        "times",
        0.65,
        False,
        _ratio(ours["drain_io"], _median(run, "batch", "drain_io")),
    )
    yield Verdict(
        "jobs that wait: to taskiq", "times", 9, False, _ratio(ours["drain_io"], _median(run, "taskiq", "drain_io"))
    )
    yield Verdict("start: to the best peer", "times", 2, True, _ratio(ours["start"], _best(run, "start")))
    for name, least in (("enqueue_many", 4), ("enqueue_dicts", 3)):
        title = f"{BY_NAME[name].title.lower()}: to the fastest peer"
        yield Verdict(title, "times", least, False, _ratio(ours[name], _best(run, name)))
    bare = _median(run, "bare", "enqueue_one")
    yield Verdict("enqueue one by one: time, to a bare EVALSHA", "times", 1.2, True, _ratio(bare, ours["enqueue_one"]))
    for name in ("latency_p50", "latency_p99"):
        title = f"pick-up {name[-3:]}: to the best peer"
        yield Verdict(title, "times", 1, True, _ratio(ours[name], _best(run, name)))


def _alone(run: Run | None) -> Iterator[Verdict]:
    for name, title, bound, unit in (
        ("idle_commands", "idle worker: commands", 1.5, "/s"),
        ("idle_cpu", "idle worker: processor", 0.5, "% of a core"),
        ("worker_memory", "worker memory", 45, "MB"),
        ("memory_job", "Redis memory per waiting job", 250, "bytes"),
    ):
        yield Verdict(title, unit, bound, True, _median(run, "tenure", name))


def _crowded(kept: Kept) -> Iterator[Verdict]:
    most = max(kept.crowd.sizes, key=lambda size: size.workers) if kept.crowd else None
    for name, value in (("p50", most.p50 if most else None), ("p99", most.p99 if most else None)):
        title = f"pick-up {name} with {most.workers if most else 100} idle workers: to the best peer with one"
        yield Verdict(title, "times", 1, True, _ratio(value, _best(kept.run, f"latency_{name}")))


def _started(starts: Starts | None) -> Iterator[Verdict]:
    yield Verdict("`import tenure`, beside an empty Python", "ms", 80, True, starts.import_ms() if starts else None)
    shown = starts.median("tenure --help") if starts else None
    yield Verdict("`tenure --help`, in all", "ms", 150, True, shown)


def _optioned(found: OptionsFound | None) -> Iterator[Verdict]:
    for title, figure, bound, most in (
        ("Redis time of its enqueue, to a plain job", "enqueue_us", 1.5, True),
        ("Redis time of its run, to a plain job", "drain_us", 2.0, True),
        ("rate, to plain jobs", "rate", 0.7, False),
    ):
        worst = max if most else min
        names = {one.option for one in found.rounds} - {PLAIN} if found else set()
        value = worst(found.ratio(name, figure) for name in names) if found and names else None
        yield Verdict(f"a job with one option, at worst: {title}", "times", bound, most, value)


def _flat(flat: Flatness | None) -> Iterator[Verdict]:
    growth = slowest = None
    if flat is not None:
        cost = {(one.crowd, one.operation, one.batch, one.size): one.us for one in flat.costs}
        small, large = min(one.size for one in flat.costs), max(one.size for one in flat.costs)
        growth = max(us / cost[(*key, small)] for (*key, size), us in cost.items() if size == large)  # type: ignore[index]
        slowest = max(one.steady_ms for one in flat.costs)
    yield Verdict("most that any cost grows with jobs that are there", "times", FLAT_MOST, True, growth)
    yield Verdict("longest script, best repetition", "ms", SLOW_MS, True, slowest)


def _fair(fairness: Fairness | None) -> Iterator[Verdict]:
    worst = max(one.idle_ms for one in fairness.waits) / (LONG_S * 1e3) if fairness else None
    yield Verdict("worst wait of a short job while a worker is idle: to a long job", "times", WAIT_MOST, True, worst)


def _shared_layout(run: Run | None) -> Iterator[Verdict]:
    original = _median(run, "redisworkqueue", "drain_sync")
    dropin = _ratio(_median(run, "dropin", "drain_sync"), original)
    wire = _ratio(_median(run, "wire", "drain_async"), original)
    yield Verdict("drop-in: to the loop of redis-work-queue", "times", 2, False, dropin)
    yield Verdict("worker on its layout: to the loop of redis-work-queue", "times", 10, False, wire)


def _fastest_drain(run: Run | None, measures: Sequence[str] = ("drain_async", "drain_sync")) -> float | None:
    """Of the peers in Python, whichever kind of handler is faster with them."""
    if run is None:
        return None
    names = [peer.name for peer in peers_of(run) if peer.name not in NODE]
    rates = [run.median(name, measure) for name in names for measure in measures]
    return max((rate for rate in rates if rate is not None), default=None)


def _best(run: Run | None, measure: str) -> float | None:
    peer = best_peer(run, BY_NAME[measure]) if run else None
    return run.median(peer.name, measure) if run and peer else None


def _median(run: Run | None, peer: str, measure: str) -> float | None:
    return run.median(peer, measure) if run else None


def _ratio(value: float | None, base: float | None) -> float | None:
    return value / base if value is not None and base else None


def table(found: Sequence[Verdict]) -> str:
    lines = ["| | goal | measured | |", "|---|---:|---:|---|"]
    for one in found:
        sign = "at most" if one.most else "at least"
        value = NONE if one.value is None else f"{one.value:.2f}"
        word = {None: "not measured", True: "reached", False: "**missed**"}[one.met]
        lines.append(f"| {one.goal} ({one.unit}) | {sign} {one.bound:g} | {value} | {word} |")
    return "\n".join(lines)
