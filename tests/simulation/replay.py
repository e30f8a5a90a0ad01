"""Replays traces of simulated histories through the models: `python -m tests.simulation.replay`. `make proof` runs it.

For each trace the program writes a module that extends the model: each row must follow from the row before it by steps
of the model. The checker looks for such steps, and finds the end of the trace, or the row that no step explains. Each
model also gets a trace of a script with a mistake, which it must not explain.

Exit status 1 if a result is another one, 2 without Java or the checker.
"""

from __future__ import annotations

import argparse
import logging
import re
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from scripts import proof
from tenure.engines.native.scripts import SCRIPTS
from tenure.testing.server import RedisServer, available_binaries
from tests.simulation.reading import Line
from tests.simulation.traces import SUBJECTS, Subject, record
from tests.support import mutants

SEEDS: Final = (3, 4)
DRIFTS: Final = {
    "Lease": "claim-keeps-ready",
    "Lane": "lane-one-too-many",
    "Limit": "place-not-taken",
    "Tick": "tick-does-not-move-on",
    "Channel": "take-without-a-note",
}
"""Mistakes in scripts after which the model must not explain the trace."""
HEAD: Final = """\
---- MODULE {model}Trace ----
EXTENDS {model}, Sequences, TLC
VARIABLES at, quiet
"""
STEPS: Final = """
Seen == {seen}
Row(n) == {row}
View == <<{view}>>
Begin == Init /\\ quiet = 0 /\\ at = (IF Seen = Row(1) THEN 1 ELSE 0) /\\ PrintT(at)
Step == /\\ at < Len(Trace) /\\ Next /\\ {guard}
        /\\ \\/ quiet < {hidden} /\\ quiet' = quiet + 1 /\\ at' = at /\\ UNCHANGED <<{still}>>
           \\/ quiet' = 0 /\\ at' = at + 1 /\\ Seen' = Row(at') /\\ PrintT(at')
Pending == at < Len(Trace)
====
"""


def text(value: Any) -> str:
    """A value in TLA+."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(map(text, value))) + "}"
    if isinstance(value, list):
        return "<<" + ", ".join(map(text, value)) + ">>"
    if isinstance(value, dict):
        return "[" + ", ".join(f"{name} |-> {text(one)}" for name, one in value.items()) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def written(traced: Subject) -> tuple[str, str]:
    """The module of a trace, and its configuration."""
    constants = traced.constants()
    traced.drop_repeats()
    rows = "Trace == <<\n  " + ",\n  ".join(map(text, traced.rows)) + ">>"
    steps = STEPS.format(
        seen="<<" + ", ".join(expression for _, expression in traced.seen) + ">>",
        row="<<" + ", ".join(f"Trace[n].{name}" for name, _ in traced.seen) + ">>",
        view=traced.view,
        guard=traced.guard,
        hidden=traced.hidden,
        still=traced.still,
    )
    values = "".join(f"  {name} = {text(value)}\n" for name, value in constants.items())
    return (
        HEAD.format(model=traced.model) + rows + steps,
        f"CONSTANTS\n{values}INIT Begin\nNEXT Step\nVIEW View\nINVARIANT Pending\n",
    )


def replay(traced: Subject, java: str, jar: Path) -> tuple[bool, str]:
    """Whether the model explains all rows; and up to which one, in words."""
    if len(traced.rows) < 2:
        return False, "nothing happened"
    module, configuration = written(traced)
    with tempfile.TemporaryDirectory(prefix="tenure-") as folder:
        path = Path(folder, f"{traced.model}Trace.tla")
        path.write_text(module)
        path.with_suffix(".cfg").write_text(configuration)
        shutil.copy(proof.MODELS / f"{traced.model}.tla", folder)
        result, states, output = proof.check(proof.Configuration(path.with_suffix(".cfg"), 0, "", ""), java, jar)
    count = len(traced.rows)
    if result == "fails Pending":
        return True, f"{count} rows, {states} states"
    if not result.startswith("holds"):
        return False, f"{result}\n{output}"
    reached = max(map(int, re.findall(r"^(\d+)$", output, re.MULTILINE)), default=0)
    before, row = traced.rows[max(0, reached - 1)], traced.rows[reached]
    return False, f"row {reached + 1} of {count} is no step of the model\n  {text(before)}\n  {text(row)}"


@dataclass(frozen=True, slots=True)
class Case:
    """`mutant`: a mistake in a script, so that the model must not explain the trace."""

    model: str
    seed: int
    mutant: str = ""

    def __str__(self) -> str:
        return f"{self.model}, seed {self.seed}" + f", with {self.mutant}" * bool(self.mutant)


def play(case: Case, server: RedisServer, line: Line) -> Subject:
    before = dict(SCRIPTS)
    if case.mutant:
        mutants.apply(case.mutant)
    try:
        return record(server, line, case.seed, case.model)
    finally:
        SCRIPTS.update(before)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.replay", description=__doc__)
    parser.add_argument("--model", choices=SUBJECTS, help="only this one")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--mutant", help="break a script, as tests/support/mutants.py names it")
    asked = parser.parse_args()
    logging.getLogger("tenure").setLevel(logging.ERROR)
    found = proof.checker()
    if found is None:
        return 2
    seeds = SEEDS if asked.seed is None else (asked.seed,)
    cases = [Case(model, seed, asked.mutant or "") for model in SUBJECTS for seed in seeds]
    if seeds is SEEDS and not asked.mutant:
        cases += [Case(model, seeds[0], name) for model, name in DRIFTS.items()]
    cases = [one for one in cases if asked.model in (None, one.model)]
    began, wrong = time.monotonic(), 0
    with RedisServer(list(available_binaries().values())[-1], aof=False) as server:
        line = Line(server)
        traces = [play(one, server, line) for one in cases]
        line.close()
    with ThreadPoolExecutor(proof.AT_ONE_TIME) as pool:
        for one, (explained, what) in zip(cases, pool.map(lambda one: replay(one, *found), traces), strict=True):
            is_right = explained is not bool(one.mutant)
            wrong += not is_right
            print(f"{'ok   ' if is_right else 'WRONG'} {one}: {what}", flush=True)
    print(f"{len(cases)} traces in {time.monotonic() - began:.0f} s, {wrong} not as expected.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
