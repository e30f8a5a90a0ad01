"""Traces of simulated histories, and the modules for the checker. `make proof` checks them, with Java."""

from __future__ import annotations

import pytest

from tenure.testing.server import RedisServer
from tests.simulation.reading import Line
from tests.simulation.replay import DRIFTS, SEEDS, written
from tests.simulation.traces import SUBJECTS, Lease, record

ROWS_LEAST = 8


def test_a_module_has_the_rows_that_differ_with_the_numbers_of_the_model() -> None:
    traced = Lease()
    for ready, claims, who in ((True, {}, "c"), (False, {"w": 70}, "w"), (False, {"w": 70}, "v"), (True, {}, "v")):
        row = {"ready": ready, "worker": set(claims), "token": set(claims.values()), "done": False}
        traced.rows.append({**row, "who": who})
    module, configuration = written(traced)
    assert module.startswith("---- MODULE LeaseTrace ----\nEXTENDS Lease, Sequences, TLC\n")
    assert [line.strip(" ,>") for line in module.splitlines() if "who |->" in line] == [
        '[ready |-> TRUE, worker |-> {}, token |-> {}, done |-> FALSE, who |-> "c"]',
        '[ready |-> FALSE, worker |-> {"w"}, token |-> {4}, done |-> FALSE, who |-> "w"]',
        '[ready |-> TRUE, worker |-> {}, token |-> {}, done |-> FALSE, who |-> "v"]',
    ]
    assert "Row(n) == <<Trace[n].ready, Trace[n].worker, Trace[n].token, Trace[n].done>>" in module
    assert '  Workers = {"c", "v", "w"}\n' in configuration


@pytest.mark.parametrize("model", SUBJECTS)
def test_a_history_moves_the_variables_of_its_model(server: RedisServer, model: str) -> None:
    line = Line(server)
    traced = record(server, line, SEEDS[0], model)
    line.close()
    module, _ = written(traced)
    assert module.count("who |->") == len(traced.rows) >= ROWS_LEAST


def test_every_model_has_a_mistake_that_it_must_not_explain() -> None:
    assert set(DRIFTS) == set(SUBJECTS)
