"""Lanes keep their order while workers are killed and stopped, replies are lost and Redis is killed: real processes.

The full form is a command: `python -m tests.faults.lanes`.
"""

from __future__ import annotations

import secrets

import pytest

from tests.faults.harness.verdict import Policy
from tests.faults.lanes.__main__ import scoreboard
from tests.faults.lanes.run import SHORT, run


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("policy", list(Policy))
def test_order_is_kept_whatever_breaks(policy, tmp_path):
    seed = secrets.randbelow(1_000_000)
    print(f"seed {seed}: python -m tests.faults.lanes --seed {seed} --policy {policy.value}")
    outcome = run(policy, seed, SHORT, tmp_path)
    assert outcome.ok, scoreboard(outcome)
