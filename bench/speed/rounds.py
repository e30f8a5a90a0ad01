"""The rounds of a run: every peer is measured once in each, one after the other, so that all meet the same weather."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from traceback import format_exception
from typing import Final, TypeAlias

from bench.roster import FAST, Adapter, Facts
from bench.speed import drain, enqueue, latency
from bench.speed.measures import BY_NAME
from bench.speed.results import Missing, Sample, percentile
from bench.speed.stage import Failed
from tenure.testing.server import RedisServer

LEAST: Final = 200
MOST: Final = 200_000
FEW_PINGS: Final = 40
"""Jobs of the first round, which choose between settings."""


@dataclass(frozen=True)
class Plan:
    """How much is measured. `jobs`: of the round before the first, which only says how fast each is; later a peer gets
    as many as it does in `seconds`. `pings` and `idle_s`: for latency and for the idle worker. A p99 needs 1,000 pings
    in all rounds."""

    rounds: int = 3
    seconds: float = 2.0
    jobs: int = 500
    pings: int = 340
    idle_s: float = 10.0


Found: TypeAlias = dict[str, float | list[float]]
"""Figures by measure. A list: single values, of which the run takes a percentile when all rounds have ended."""
Measured: TypeAlias = Callable[[Adapter, Facts, RedisServer, int, Plan], Found]


@dataclass(frozen=True)
class Part:
    """Something that is measured by itself: the figures that it gives, and the rate that says how many jobs it takes.

    `first`: what the first round measures instead. `chosen_by`: its figure that says which setting of a peer is best.
    """

    name: str
    measures: tuple[str, ...]
    rate: str
    run: Measured
    chosen_by: str
    first: Measured | None = None


def _sized(function: Callable[[Adapter, Facts, RedisServer, int], dict[str, float]]) -> Measured:
    return lambda adapter, facts, server, count, plan: {**function(adapter, facts, server, count)}


def _drain(kind: str) -> Measured:
    return lambda adapter, facts, server, count, plan: {**drain.drain(adapter, facts, server, kind, count)}


def _quiet(adapter: Adapter, facts: Facts, server: RedisServer, count: int, plan: Plan) -> Found:
    return latency.quiet(adapter, facts, server, plan.pings, plan.idle_s)


def _pick_up(adapter: Adapter, facts: Facts, server: RedisServer, count: int, plan: Plan) -> Found:
    return {**latency.pick_up(adapter, facts, server, FEW_PINGS)} if facts.sweep else {}


PARTS: Final = (
    Part(
        "one",
        ("enqueue_one", "commands_enqueue", "server_enqueue"),
        "enqueue_one",
        _sized(enqueue.one_by_one),
        "enqueue_one",
    ),
    Part("many", ("enqueue_many",), "enqueue_many", _sized(enqueue.many), "enqueue_many"),
    Part("dicts", ("enqueue_dicts",), "enqueue_many", _sized(enqueue.many_dicts), "enqueue_dicts"),
    Part("memory", ("memory_job",), "enqueue_many", _sized(enqueue.memory), "memory_job"),
    Part(
        "async",
        ("drain_async", "commands_drain", "server_drain", "worker_drain"),
        "drain_async",
        _drain("async"),
        "drain_async",
    ),
    Part("sync", ("drain_sync",), "drain_sync", _drain("sync"), "drain_sync"),
    Part("io", ("drain_io",), "drain_io", _sized(drain.waiting), "drain_io"),
    Part("start", ("start",), "", _sized(drain.first_job), "start"),
    Part(
        "quiet",
        ("latency_p50", "latency_p99", "idle_commands", "idle_cpu", "worker_memory", "worker_total"),
        "",
        _quiet,
        "latency_p50",
        _pick_up,
    ),
)


@dataclass
class Findings:
    """What was found so far. `settings`: the best variant of a peer for a part. `values`: single values by peer and
    measure."""

    samples: list[Sample] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    rates: dict[tuple[str, str], float] = field(default_factory=dict)
    settings: dict[tuple[str, str], str] = field(default_factory=dict)
    values: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    def add(self, peer: str, number: int, found: Found) -> None:
        """Keep the figures of a round."""
        for measure, value in found.items():
            if isinstance(value, list):
                self.values.setdefault((peer, measure), []).extend(value)
            else:
                self.rates[peer, measure] = value
                self.samples += [Sample(peer, measure, number, value)] if number > 0 else []

    def end(self) -> None:
        """Take the p99 of the values of all rounds."""
        for (peer, measure), values in self.values.items():
            self.samples.append(Sample(peer, measure, 0, percentile(values, 0.99)))


def count_for(findings: Findings, peer: str, part: Part, plan: Plan) -> int:
    """As many jobs as the peer does in the time that is planned; those of the first round when nothing is known."""
    rate = findings.rates.get((peer, part.rate))
    return plan.jobs if rate is None else round(min(max(rate * plan.seconds, LEAST), MOST))


def swept(findings: Findings, peer: str, facts: Facts) -> str:
    """Which other settings of a peer were tried, and the parts that they were best for."""
    said = []
    for variant in facts.sweep:
        parts = [part.name for part in PARTS if findings.settings.get((peer, part.name)) == variant.name]
        said.append(f"{variant.settings}: {'best for ' + ', '.join(parts) if parts else 'not better'}")
    return "; ".join(said)


def run_round(
    number: int,
    peers: Sequence[tuple[Adapter, Facts]],
    parts: Sequence[Part],
    server: RedisServer,
    plan: Plan,
    findings: Findings,
) -> None:
    """Round 0 finds the sizes and settings: its values are not kept. Every other round has the opposite order."""
    for adapter, facts in peers if number % 2 == 0 else reversed(peers):
        for part in parts:
            if any((one.peer, one.measure) == (adapter.name, part.measures[0]) for one in findings.missing):
                continue  # it has failed, which may take minutes
            count = count_for(findings, adapter.name, part, plan)
            try:
                if number == 0:
                    found = choose(adapter, facts, part, server, count, plan, findings)
                else:
                    chosen = replace(adapter, fast=findings.settings.get((adapter.name, part.name), FAST))
                    found = part.run(chosen, facts, server, count, plan)
            # Whatever goes wrong with one peer ends this part of it, and not a run of three quarters of an hour.
            except Exception as error:
                said = error.said if isinstance(error, Failed) else "".join(format_exception(error))
                reason = str(error) if isinstance(error, Failed) else f"failed with {type(error).__name__}"
                told(f"{adapter.name}: {part.name}: {reason}\n{said}".rstrip())
                findings.missing += [Missing(adapter.name, measure, reason) for measure in part.measures]
                continue
            findings.add(adapter.name, number, found)
            told(f"round {number}: {adapter.name} ({count:,}): {_figures(found)}")


def choose(
    adapter: Adapter,
    facts: Facts,
    part: Part,
    server: RedisServer,
    count: int,
    plan: Plan,
    findings: Findings,
) -> Found:
    """Measure a part with each setting of a peer, and note the best one."""
    sign = 1 if BY_NAME[part.chosen_by].better == "more" else -1
    best: Found = {}
    for fast in (FAST, *(variant.name for variant in facts.sweep)):
        found = (part.first or part.run)(replace(adapter, fast=fast), facts, server, count, plan)
        now, before = found.get(part.chosen_by), best.get(part.chosen_by)
        if isinstance(now, float) and (not isinstance(before, float) or sign * now > sign * before):
            best, findings.settings[adapter.name, part.name] = found, fast
    return best


def _figures(found: Found) -> str:
    return ", ".join(
        f"{measure} {len(value):,} values" if isinstance(value, list) else f"{measure} {value:,.2f}"
        for measure, value in found.items()
    )


def told(text: str) -> None:
    """How far the run is."""
    print(text, file=sys.stderr, flush=True)
