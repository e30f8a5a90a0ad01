"""The adapters: one for each peer, and the only one that can be loaded here says what the contract asks for."""

import ast
import re
import sys
from pathlib import Path

import pytest

from bench.environments import NODE
from bench.peers.contract import KINDS
from bench.roster import ALL, NAMES, OURS, PEERS, Adapter, adapters


@pytest.mark.parametrize("name", [name for name in ALL if name not in NODE])
def test_every_peer_has_an_adapter_that_says_what_it_is(name):
    tree = ast.parse((PEERS / f"{name}_peer.py").read_text(encoding="utf-8"))
    assert ast.get_docstring(tree)
    assigned = {ast.unparse(node.targets[0]) for node in tree.body if isinstance(node, ast.Assign)}
    assert "PEER" in assigned


def test_there_is_no_adapter_that_nobody_runs():
    assert {path.stem.removesuffix("_peer") for path in PEERS.glob("*_peer.*")} == set(ALL)
    assert {path.stem.removesuffix("_peer") for path in PEERS.glob("*_peer.mjs")} == NODE
    assert set(NAMES) <= set(ALL)
    assert set(OURS) <= set(ALL)


@pytest.mark.parametrize("name", ALL)
def test_every_adapter_says_how_it_is_set_to_be_fast(name):
    text = (PEERS / f"{name}_peer{'.mjs' if name in NODE else '.py'}").read_text(encoding="utf-8")
    assert re.search(r"fast(=| = )[\"'`(]", text)


def test_tenure_runs_in_the_environment_of_whoever_asks():
    (adapter,) = adapters(["tenure"], {}, Path("unused"))
    assert adapter.python == Path(sys.executable)
    facts = adapter.facts()
    assert facts.title == "Tenure"
    assert facts.kinds == KINDS
    assert [variant.name for variant in facts.variants] == ["default"]


def test_an_adapter_sees_its_own_settings_and_not_those_of_a_tenure_at_hand(monkeypatch):
    monkeypatch.setenv("TENURE_URL", "redis://elsewhere")
    monkeypatch.setenv("BENCH_TOKEN", "old")
    environment = Adapter("rq", Path("/x/bin/python")).environment("redis://here", "more", {"BENCH_JOURNAL": "j"})
    assert environment["BENCH_URL"] == "redis://here"
    assert environment["BENCH_VARIANT"] == "more"
    assert environment["BENCH_JOURNAL"] == "j"
    assert environment["PATH"].startswith("/x/bin:")
    assert not {"TENURE_URL", "BENCH_TOKEN"} & environment.keys()


def test_a_name_that_is_not_on_the_list_is_not_run():
    with pytest.raises(AssertionError, match="no peer"):
        Adapter("x; print(1)", Path(sys.executable)).command("facts")
