"""Mistakes in our scripts: each must be caught by a named scenario. `python -m tests.faults.mutants [name...]`.

The list of those that the other suites know is in tests/support/mutants.py.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from typing import Final

from tenure.core.steps import Script
from tenure.engines.native.scripts import SCRIPTS
from tests.faults.harness import broken
from tests.support.mutants import MUTANTS, Mutant

OWN: Final = (
    Mutant("token-of-the-clock", "math.max(tonumber(last_token or 0), micros)", "micros", ("claim",)),
    Mutant(
        "enqueue-when-full",
        "local again = recall(",
        "call('DEL', key('full'))\nlocal again = recall(",
        ("enqueue",),
    ),
    Mutant(
        "beat-does-nothing",
        "  call('ZADD', key('holders'), time + config.lease, worker)\n  call('ZREM', key('suspects'), worker)\n",
        "",
        ("heartbeat",),
    ),
)
CAUGHT_BY: Final = {
    # No token, or not one that grows.
    "settle-without-token": "S42",
    "group-ends-early": "S76",
    "extend-without-token": "S42",
    "token-stands-still": "S06",
    "token-of-the-clock": "S31",
    # No nonce, or an answer that is not remembered.
    "enqueue-forgets": "S09",
    "claim-forgets": "S10",
    "settle-forgets": "S11",
    "late-copy-runs": "S09",
    # Work that nobody has, or two have.
    "claim-without-held": "S01",
    "claim-without-holder": "S06",
    "claim-keeps-ready": "S10",
    "promote-keeps": "S01",
    "settle-keeps-held": "S11",
    "complete-keeps-job": "S11",
    "put-back-at-the-end": "S04",
    # The dead, the living and the poisonous.
    "beat-does-nothing": "S33",
    "clock-back-hides": "S31",
    "no-crash-limit": "S03",
    "crash-is-a-failure": "S03",
    "release-is-a-crash": "S11",
    "leave-is-a-crash": "S04",
    # Memory.
    "enqueue-when-full": "S23",
    "stops-when-full": "S23",
    # Lanes.
    "lane-one-too-many": "S40",
    "lane-retry-at-the-end": "S40",
    "block-goes-on": "S40",
    "parked-lane-runs": "S40",
}
"""Which scenario must catch which mutant."""
SEED: Final = "1"
TRIES: Final = 2
"""A mistake that shows only when a fault hits at one moment may need another seed."""
FOUND: Final = re.compile(r"^    ! (?!C13)(.*)$", re.MULTILINE)


def find(name: str) -> Mutant:
    return next(mutant for mutant in (*OWN, *MUTANTS) if mutant.name == name)


def apply(name: str) -> None:
    """Break the scripts of this process."""
    texts = find(name).texts()
    assert texts, f"mutant {name!r} finds nothing to change"
    SCRIPTS.update({script: Script(script, text) for script, text in texts.items()})


def main() -> int:
    """Exit status 1 when a mutant was not caught by its scenario."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="MUTANT", help="[default: all]")
    asked = parser.parse_args()
    survivors = [name for name in asked.names or CAUGHT_BY if not _is_caught(name, CAUGHT_BY[name])]
    print(f"not caught: {', '.join(survivors)}" if survivors else "All were caught.")
    return 1 if survivors else 0


def _is_caught(name: str, scenario: str) -> bool:
    for attempt in range(TRIES):
        seed = str(int(SEED) + attempt)
        with tempfile.TemporaryDirectory(prefix="tenure-") as folder:
            play = [sys.executable, "-m", "tests.faults", "--only", scenario, "--seed", seed, "--history", folder]
            done = subprocess.run(
                play,
                cwd=broken.ROOT,
                env={**os.environ, broken.MUTANT: name},
                capture_output=True,
                text=True,
            )
        assert f"{scenario}  " in done.stdout, done.stdout + done.stderr
        if found := FOUND.findall(done.stdout):
            print(f"{name:24} {scenario}  {found[0][:120]}", flush=True)
            return True
    print(f"{name:24} {scenario}  NOT CAUGHT", flush=True)
    return False


if __name__ == "__main__":
    sys.exit(main())
