"""The short form of some scenarios. All of them, and the long forms: `make faults SEED=7 JOBS=2000`."""

from __future__ import annotations

import re
import secrets
from pathlib import Path

import pytest

from tests.faults import scoreboard
from tests.faults.catalogue import IN_TESTS, LANES, POINTERS, SCENARIOS
from tests.faults.harness.scenario import play
from tests.faults.mutants import CAUGHT_BY, find

ROOT = Path(__file__).parents[2]
ISSUED = """
S01 S02 S03 S04 S06 S07 S09 S10 S11 S12 S13 S15 S16 S17 S20 S21 S23 S24 S26 S27 S30 S31 S33 S34 S35 S36 S37 S38 S39
S40 S42 S45 S50 S70 S71 S76 S77 S28 S29 S32
"""
LEAST_MUTANTS = 15


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", IN_TESTS)
def test_what_is_promised_holds(name, redis_binary, tmp_path):
    if missing := SCENARIOS[name].missing():
        pytest.skip(f"there is no {missing.removeprefix('a ')}")
    seed = secrets.randbelow(1_000_000)
    print(f"seed {seed}: make faults SEED={seed} ONLY={name}")
    result = play(SCENARIOS[name], seed, None, tmp_path, redis_binary)
    assert result.ok, "\n".join([scoreboard.line(result), *map(str, result.report.violations)])


def test_there_is_a_scenario_for_every_number():
    assert {*SCENARIOS, *POINTERS, LANES} >= set(ISSUED.split())


@pytest.mark.parametrize("name", POINTERS)
def test_what_is_tested_elsewhere_is_tested_there(name):
    for address in POINTERS[name].tests:
        file, _, test = address.partition("::")
        text = (ROOT / file).read_text()
        assert not test or re.search(rf"def {test.rpartition('::')[2]}\(", text), address


def test_every_mutant_has_its_scenario():
    assert len(CAUGHT_BY) >= LEAST_MUTANTS
    assert all(find(name).texts() for name in CAUGHT_BY)
    assert set(CAUGHT_BY.values()) <= {*SCENARIOS, LANES}
