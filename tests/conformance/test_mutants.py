"""The list of mutants must fit the scripts as they are: see tests/support/mutants.py for running them."""

from __future__ import annotations

import os

import pytest

from tests.support.mutants import MUTANTS, Mutant


@pytest.mark.skipif(bool(os.environ.get("LEASEHOLD_MUTANT")), reason="the scripts are broken already")
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_finds_what_it_changes(mutant: Mutant) -> None:
    assert mutant.texts()
