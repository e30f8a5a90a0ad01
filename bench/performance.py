"""Measure Tenure beside its peers, on this machine, in one run.

    python -m bench.performance [--only NAME,...] [--rounds N] [--seconds S] [--quick] [--keep] [--page] [--cache DIR]

NAME is a peer (default: all), or one of the sections flat, fairness, crowd, starts and cluster, which measure Tenure
alone. A run of everything replaces the pages docs/explanation/performance.md, its picture, and scale.md, and the
results they are made from; a run of some only prints, unless --keep says that its sections are to be kept. --page
writes the pages from what was kept.
"""

from __future__ import annotations

import argparse
import compileall
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from uuid import uuid4

import tenure
from bench.environments import CACHE, Unavailable, known_pins
from bench.processes import end_with_all_that_was_started
from bench.roster import ALL, Adapter, Facts, adapters
from bench.speed import page, sections
from bench.speed.gauges import fields, info
from bench.speed.results import Described, Missing, Run, save, this_machine
from bench.speed.rounds import PARTS, Findings, Plan, run_round, swept, told
from bench.speed.stage import Failed
from bench.speed.tables import summary
from tenure.core.errors import TenureError
from tenure.redis.embedded.binary import find_server
from tenure.testing.server import RedisServer

MAX_ROUNDS: Final = 100
MAX_SECONDS: Final = 60.0
QUICK: Final = Plan(rounds=1, seconds=0.7, jobs=300, pings=30, idle_s=3.0)


@dataclass(frozen=True)
class Wanted:
    """What was asked for. `whole`: everything, so that the page may say it was one run."""

    peers: tuple[str, ...]
    sections: tuple[str, ...]
    parts: tuple[str, ...]

    @property
    def whole(self) -> bool:
        return (self.peers, self.sections, self.parts) == (ALL, sections.NAMES, tuple(part.name for part in PARTS))


def parse_only(text: str, parts: str = "") -> Wanted:
    """`rq,flat`: these peers and sections. "": all. `parts`: what is measured of the peers, as in `async,quiet`."""
    words = [word for word in text.split(",") if word]
    measured = tuple(part.name for part in PARTS)
    _refuse(sorted(set(words) - {*ALL, *sections.NAMES}), "--only", (*ALL, *sections.NAMES))
    _refuse(sorted(set(filter(None, parts.split(","))) - set(measured)), "--parts", measured)
    return Wanted(
        tuple(name for name in ALL if name in words or not words),
        tuple(name for name in sections.NAMES if name in words or not words),
        tuple(name for name in measured if not parts or name in parts.split(",")),
    )


def _refuse(unknown: Sequence[str], option: str, known: Sequence[str]) -> None:
    if unknown:
        raise ValueError(f"{option}: no {', '.join(unknown)}: expected some of {', '.join(known)}")


def at_hand(names: Sequence[str], cache: Path, run: str) -> tuple[list[tuple[Adapter, Facts]], dict[str, str]]:
    """The peers that can be run here, and of the others why not."""
    found, absent = [], {}
    for name in names:
        try:
            (adapter,) = adapters([name], known_pins(), cache, run)
            found.append((adapter, adapter.facts()))
        except (Unavailable, RuntimeError) as error:
            told(f"{name} is left out: {error}")
            absent[name] = str(error).splitlines()[0]
    return found, absent


def measure(wanted: Wanted, plan: Plan, cache: Path, name_of_run: str) -> Run:
    """All rounds, on one server."""
    peers, absent = at_hand(wanted.peers, cache, name_of_run)
    # The packages of the peers were compiled when they were installed.
    compileall.compile_dir(str(Path(tenure.__file__).parent), quiet=1)
    parts = [part for part in PARTS if part.name in wanted.parts]
    began, findings = os.getloadavg()[0], Findings()
    with RedisServer(find_server(), aof=False, tcp=True) as server:
        version = fields(info(server, "server"))["redis_version"]
        for number in range(plan.rounds + 1):
            run_round(number, peers, parts, server, plan, findings)
    findings.end()
    said = {(one.peer, one.measure): one for one in findings.missing}
    gone = [Missing(name, one, reason) for name, reason in absent.items() for part in parts for one in part.measures]
    return Run(
        this_machine(version, (began, os.getloadavg()[0])),
        plan.rounds,
        plan.seconds,
        tuple(
            Described(adapter.name, facts.title, facts.versions, facts.fast, swept(findings, adapter.name, facts))
            for adapter, facts in peers
        ),
        tuple(findings.samples),
        (*said.values(), *gone),
    )


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.performance", description=__doc__)
    parser.add_argument("--only", default="", metavar="NAME,...", help=f"some of {', '.join((*ALL, *sections.NAMES))}")
    parser.add_argument("--parts", default="", metavar="PART,...", help="of the peers, only: one, many, async, ...")
    parser.add_argument("--rounds", type=int, help="rounds that count (3)")
    parser.add_argument("--seconds", type=float, help="about how long each part of a round takes (2)")
    parser.add_argument("--jobs", type=int, help="jobs of the first round, which finds out how fast each is (500)")
    parser.add_argument("--quick", action="store_true", help="one short round: to see whether it works")
    parser.add_argument("--keep", action="store_true", help="keep the results, also of a run of some")
    parser.add_argument("--page", action="store_true", help="measure nothing: write the page from what was kept")
    parser.add_argument("--cache", type=Path, default=CACHE, help="where the environments are (.bench)")
    return parser


def plan_of(asked: argparse.Namespace) -> Plan:
    plan = QUICK if asked.quick else Plan()
    said = {name: getattr(asked, name) for name in ("rounds", "seconds", "jobs")}
    plan = replace(plan, **{name: value for name, value in said.items() if value is not None})
    if not 1 <= plan.rounds <= MAX_ROUNDS or not 0 < plan.seconds <= MAX_SECONDS or plan.jobs < 1:
        raise ValueError(f"expected 1 to {MAX_ROUNDS} rounds, up to {MAX_SECONDS:g} seconds, at least one job")
    return plan


def main() -> None:
    parser = arguments()
    asked = parser.parse_args()
    if asked.page:
        page.write(asked.cache)
        return
    try:
        wanted, plan = parse_only(asked.only, asked.parts), plan_of(asked)
    except ValueError as error:
        parser.error(str(error))
    name_of_run = uuid4().hex
    end_with_all_that_was_started(name_of_run)
    keep = asked.keep or (wanted.whole and not asked.quick)
    if wanted.peers:
        run = measure(wanted, plan, asked.cache, name_of_run)
        print(summary(run), flush=True)
        if keep:
            save("performance", run)
    failed = []
    for name in wanted.sections:
        try:
            print(
                sections.run(name, quick=asked.quick, keep=keep, name_of_run=name_of_run, cache=asked.cache), flush=True
            )
        except (Failed, TenureError, AssertionError) as error:
            failed.append(name)
            told(f"{name}: {type(error).__name__}: {error}")
    if keep:
        page.write(asked.cache)
    if failed:
        raise SystemExit(f"not measured: {', '.join(failed)}")


if __name__ == "__main__":
    main()
