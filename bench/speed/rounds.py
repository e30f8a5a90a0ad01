"""The rounds of a run: every peer is measured once in each, one after the other, so that all meet the same weather."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from traceback import format_exception
from typing import Final

from bench.roster import Adapter, Facts
from bench.speed import drain, enqueue, latency
from bench.speed.results import Missing, Sample
from bench.speed.stage import Failed
from leasehold.testing.server import RedisServer

LEAST: Final = 200
MOST: Final = 200_000


@dataclass(frozen=True)
class Plan:
    """How much is measured. `jobs`: of the round before the first, which only says how fast each is; later a peer gets
    as many as it does in `seconds`. `pings` and `idle_s`: for latency and for the idle worker."""

    rounds: int = 3
    seconds: float = 2.0
    jobs: int = 500
    pings: int = 100
    idle_s: float = 10.0


@dataclass(frozen=True)
class Part:
    """Something that is measured by itself: the figures that it gives, how many jobs it takes from which of them."""

    name: str
    measures: tuple[str, ...]
    rate: str | None
    run: Callable[[Adapter, Facts, RedisServer, int, Plan], dict[str, float]]


def _sized(function: Callable[[Adapter, Facts, RedisServer, int], dict[str, float]]) -> Callable[..., dict[str, float]]:
    return lambda adapter, facts, server, count, plan: function(adapter, facts, server, count)


def _drain(kind: str) -> Callable[..., dict[str, float]]:
    return lambda adapter, facts, server, count, plan: drain.drain(adapter, facts, server, kind, count)


def _quiet(adapter: Adapter, facts: Facts, server: RedisServer, count: int, plan: Plan) -> dict[str, float]:
    return latency.quiet(adapter, facts, server, plan.pings, plan.idle_s)


PARTS: Final = (
    Part("one", ("enqueue_one", "commands_enqueue", "server_enqueue"), "enqueue_one", _sized(enqueue.one_by_one)),
    Part("many", ("enqueue_many",), "enqueue_many", _sized(enqueue.many)),
    Part("memory", ("memory_job",), "enqueue_many", _sized(enqueue.memory)),
    Part("async", ("drain_async", "commands_drain", "server_drain", "worker_drain"), "drain_async", _drain("async")),
    Part("sync", ("drain_sync",), "drain_sync", _drain("sync")),
    Part(
        "quiet",
        ("latency_p50", "latency_p99", "idle_commands", "idle_cpu", "worker_memory", "worker_total"),
        None,
        _quiet,
    ),
)


@dataclass
class Findings:
    """What was found so far."""

    samples: list[Sample] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    rates: dict[tuple[str, str], float] = field(default_factory=dict)


def count_for(findings: Findings, peer: str, part: Part, plan: Plan) -> int:
    """As many jobs as the peer does in the time that is planned; those of the first round when nothing is known."""
    rate = findings.rates.get((peer, part.rate or ""))
    return plan.jobs if rate is None else round(min(max(rate * plan.seconds, LEAST), MOST))


def run_round(
    number: int,
    peers: Sequence[tuple[Adapter, Facts]],
    parts: Sequence[Part],
    server: RedisServer,
    plan: Plan,
    findings: Findings,
) -> None:
    """Round 0 sets the sizes: its values are not kept. Every other round goes the other way through the peers."""
    for adapter, facts in peers if number % 2 == 0 else reversed(peers):
        for part in parts:
            if number == 0 and part.rate is None:
                continue
            count = count_for(findings, adapter.name, part, plan)
            try:
                found = part.run(adapter, facts, server, count, plan)
            # Whatever goes wrong with one peer ends this part of it, and not a run of three quarters of an hour.
            except Exception as error:
                said = error.said if isinstance(error, Failed) else "".join(format_exception(error))
                reason = str(error) if isinstance(error, Failed) else f"failed with {type(error).__name__}"
                told(f"{adapter.name}: {part.name}: {reason}\n{said}".rstrip())
                findings.missing += [Missing(adapter.name, measure, reason) for measure in part.measures]
                continue
            findings.rates |= {(adapter.name, measure): value for measure, value in found.items()}
            if number > 0:
                findings.samples += [Sample(adapter.name, *pair) for pair in _numbered(number, found)]
            figures = ", ".join(f"{measure} {value:,.2f}" for measure, value in found.items())
            told(f"round {number}: {adapter.name} ({count:,}): {figures}")


def _numbered(number: int, found: dict[str, float]) -> list[tuple[str, int, float]]:
    return [(measure, number, value) for measure, value in found.items()]


def told(text: str) -> None:
    """How far the run is."""
    print(text, file=sys.stderr, flush=True)
