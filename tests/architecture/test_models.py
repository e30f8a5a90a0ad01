"""The models of proof/models: `make proof` checks them, with Java; these rules need none."""

from __future__ import annotations

import pytest

from scripts.proof import MODELS, configurations

LINES_MOST = 80


@pytest.mark.parametrize("model", sorted(path.stem for path in MODELS.glob("*.tla")))
def test_a_model_is_short_and_has_configurations_that_hold_and_that_fail(model: str) -> None:
    assert len((MODELS / f"{model}.tla").read_text().splitlines()) <= LINES_MOST
    assert {bool(one.fails) for one in configurations() if one.model.stem == model} == {True, False}


def test_each_configuration_has_a_model_and_checks_what_it_expects() -> None:
    for one in configurations():
        assert one.model.is_file()
        checked = {name for line in one.path.read_text().splitlines() for name in line.split(" ")[1:]}
        assert not one.fails or one.fails in checked, one.name
