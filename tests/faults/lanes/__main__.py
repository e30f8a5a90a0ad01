"""The full form: `python -m tests.faults.lanes --lanes 200 --jobs 500 --seed 7 --policy skip`."""

from __future__ import annotations

import argparse
import contextlib
import secrets
import signal
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

from tests.faults.harness.ending import Stuck
from tests.faults.harness.verdict import Policy
from tests.faults.lanes.run import Form, Outcome, run

SHOWN = 20


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.lanes", description=__doc__)
    parser.add_argument("--policy", choices=[policy.value for policy in Policy], help="[default: all, one by one]")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    for name in ("lanes", "jobs", "workers", "slots"):
        parser.add_argument(f"--{name}", type=int, default=Form.__dataclass_fields__[name].default)
    parser.add_argument("--minutes", type=float, default=30.0, help="a run that takes longer fails")
    parser.add_argument("--history", type=Path, help="an empty folder in which the history is kept")
    asked = parser.parse_args()
    # As after Ctrl-C: what was started ends with us.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    form = replace(
        Form(), lanes=asked.lanes, jobs=asked.jobs, workers=asked.workers, slots=asked.slots, limit_s=asked.minutes * 60
    )
    ok = True
    for policy in [Policy(asked.policy)] if asked.policy else list(Policy):
        print(f"policy {policy.value}, seed {asked.seed}, {form.lanes} lanes x {form.jobs} jobs", flush=True)
        with contextlib.ExitStack() as stack:
            base = asked.history or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lanes-")))
            folder = base / policy.value
            folder.mkdir(parents=True)
            try:
                outcome = run(policy, asked.seed, form, folder, say)
            except Stuck as error:
                print(f"STUCK: {error}", flush=True)
                ok = False
                continue
        print(scoreboard(outcome), flush=True)
        ok = ok and outcome.ok
    return 0 if ok else 1


def say(text: str) -> None:
    print(text, flush=True)


def scoreboard(outcome: Outcome) -> str:
    """The run in numbers, and what was wrong with it."""
    found = outcome.report.violations
    numbers = {
        "policy": outcome.policy.value,
        "seed": outcome.seed,
        **{name: value for name, value in asdict(outcome.report.score).items() if name != "faults"},
        **{f"replies {harm}": count for harm, count in sorted(outcome.harmed.items())},
        "refused": outcome.refused,
        "torn writes": outcome.torn,
        "keys of lanes left": len(outcome.leftover),
        "seconds": outcome.seconds,
        "violations": len(found),
    }
    lines = [f"  {name.replace('_', ' '):22}{_number(value)}" for name, value in numbers.items()]
    shown = [f"  ! {one}" for one in found[:SHOWN]] + [f"  ! left: {name}" for name in outcome.leftover[:SHOWN]]
    return "\n".join([*lines, *shown, "GOOD" if outcome.ok else "BROKEN"])


def _number(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    sys.exit(main())
