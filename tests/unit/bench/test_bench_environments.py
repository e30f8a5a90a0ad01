"""The versions of the peers: what the file may say, and that it names all of them."""

import subprocess

import pytest

from bench.environments import NODE, Unavailable, chosen, environment_for, known_pins, packages_for, read_pins
from bench.performance import at_hand
from bench.roster import LOOPS, NAMES, OTHERS, OURS


def test_a_section_holds_the_versions_of_one_peer():
    text = "# why\n\n[rq]\nrq==2.0  # newest\nredis==8.1.0\n[saq]\nsaq==0.1\n"
    assert read_pins(text) == {"rq": ("rq==2.0", "redis==8.1.0"), "saq": ("saq==0.1",)}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("rq==2.0", 1),
        ("[rq]\nrq", 2),
        ("[rq]\nrq>=2", 2),
        ("[rq]\n-e .", 2),
        ("[rq]\nrq @ file:x", 2),
        ("[rq]\n[rq]", 2),
    ],
)
def test_anything_but_exact_versions_is_refused_with_its_line(text, line):
    with pytest.raises(ValueError, match=f"line {line}: "):
        read_pins(text)


def test_every_peer_has_its_versions_and_tenure_and_the_loops_have_none():
    pins = known_pins()
    assert list(pins) == [*(name for name in NAMES if name != "tenure"), *OTHERS, "plot"]
    assert not {*OURS, *LOOPS} & pins.keys()
    packages = {
        "redisworkqueue": "redis-work-queue",
        "docket": "pydocket",
        "bullmqpy": "bullmq",
        "plot": "matplotlib",
    }
    for name, versions in pins.items():
        assert any(version.startswith(f"{packages.get(name, name)}==") for version in versions)


def test_without_node_its_peers_are_left_out_with_the_reason(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert known_pins().keys() >= NODE
    with pytest.raises(Unavailable, match="Node is not here"):
        packages_for("bullmq", ("bullmq==1.0",), tmp_path)


def test_no_name_is_all_and_an_unknown_one_is_refused():
    pins = {"rq": (), "saq": ()}
    assert chosen([], pins) == ["rq", "saq"]
    assert chosen(["saq"], pins) == ["saq"]
    with pytest.raises(SystemExit, match="unknown: nobody"):
        chosen(["rq", "nobody"], pins)


def test_a_peer_that_pip_cannot_install_is_left_out_with_the_reason(monkeypatch, tmp_path):
    def refuse(command, **how):
        raise subprocess.CalledProcessError(1, command)

    monkeypatch.setattr(subprocess, "run", refuse)
    with pytest.raises(Unavailable, match="pip"):
        environment_for("rq", ("rq==1.0",), tmp_path)
    found, absent = at_hand(["rq"], tmp_path, "run")
    assert (found, list(absent)) == ([], ["rq"])
