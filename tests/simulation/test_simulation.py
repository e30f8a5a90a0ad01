"""A few seeds of each queue: `make simulate` plays more. A mistake in a script is noticed, its history made short."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tenure.engines.native.scripts import SCRIPTS
from tenure.testing.server import RedisServer
from tests.simulation.reading import Line
from tests.simulation.run import FORMATS, play, report
from tests.simulation.shrink import shrink
from tests.support import mutants
from tests.support.engines import NATIVE, Entry

SEEDS: Final = {entry.name: range(8 if entry is NATIVE else 2) for entry in FORMATS}
MUTANTS: Final = {"lane-one-too-many": (2, 3), "group-ends-early": (6, 7)}
"""Seeds that notice them."""


@pytest.fixture
def line(server: RedisServer) -> Iterator[Line]:
    line = Line(server)
    yield line
    line.close()


@pytest.mark.parametrize(
    ("entry", "seed"),
    [pytest.param(entry, seed, id=f"{entry.name}-{seed}") for entry in FORMATS for seed in SEEDS[entry.name]],
)
def test_a_history_changes_only_what_its_calls_may_change(
    server: RedisServer, line: Line, entry: Entry, seed: int
) -> None:
    failure = play(entry, server, line, seed)
    if failure is not None:
        pytest.fail(f"seed {seed} of {entry.name}: {failure.what}\n{report(entry, server, line, failure)}")


@pytest.fixture(params=MUTANTS)
def mutant(request: pytest.FixtureRequest) -> Iterator[str]:
    """The scripts of this process are broken during the test."""
    before = dict(SCRIPTS)
    mutants.apply(request.param)
    yield request.param
    SCRIPTS.update(before)


@pytest.mark.slow
def test_a_mistake_in_a_script_is_noticed(server: RedisServer, line: Line, mutant: str) -> None:
    failures = (play(NATIVE, server, line, seed) for seed in MUTANTS[mutant])
    assert any(failure is not None for failure in failures), mutant


def test_the_short_history_has_only_what_fails() -> None:
    assert shrink(range(100), lambda some: {17, 80} <= set(some)) == [17, 80]


def test_the_search_for_a_short_history_has_an_end() -> None:
    trials = []

    def fails(some: object) -> bool:
        trials.append(some)
        return True

    shrink(range(1_000), fails, trials=3)
    assert len(trials) <= 3
