"""Random histories against a model in plain dictionaries.

A few here and many in `make faults`: TENURE_EXAMPLES=2000 runs more of them, TENURE_SEED=number the same ones.
"""

from __future__ import annotations

import os
import secrets

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.property.machine import Machine
from tests.support.world import World

EXAMPLES = int(os.environ.get("TENURE_EXAMPLES", "20"))
STEPS = 50


@pytest.mark.slow
@pytest.mark.timeout(300 + 3 * EXAMPLES)
def test_random_histories(world: World) -> None:
    number = int(os.environ.get("TENURE_SEED", secrets.randbits(32)))
    print(f"TENURE_SEED={number} TENURE_EXAMPLES={EXAMPLES}")

    class Here(Machine):
        def __init__(self) -> None:
            super().__init__(world)

    run_state_machine_as_test(
        seed(number)(Here),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
        ),
    )
    world.server.command("FLUSHALL")
