"""`tenure flows` and `tenure flow`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tenure import Tenure, chain, group
from tenure.cli import commands
from tenure.cli.errors import run
from tenure.core.flows import MemberRange

Cli = Callable[..., tuple[int, Any]]


@pytest.fixture
def app(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tenure]:
    monkeypatch.setenv("TENURE_URL", redis_url)
    with Tenure(redis_url) as app:
        yield app


@pytest.fixture
def cli(app: Tenure, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs a command in this process: its status, and what it wrote, or with --json its document."""

    def cli(*args: str) -> tuple[int, Any]:
        status = run(commands, list(args))
        text = capsys.readouterr()
        return status, json.loads(text.out) if "--json" in args and text.out else text.out + text.err

    return cli


def half(n: int) -> float:
    return 1 / n


def test_flows_are_listed_shown_retried_and_cancelled(app: Tenure, cli: Cli) -> None:
    task = app.task(name="half", queue="maths", retries=0)(half)
    assert "No flow has been made" in cli("flows")[1]
    first = group([task.call(1), task.call(0)]).enqueue()
    app.testing().drain(raises=False)
    second = group(task.using(delay=60).call(n) for n in range(1, 4)).enqueue()
    listed = cli("flows", "--json")[1]["flows"]
    assert [(one["id"], one["state"], one["left"]) for one in listed] == [
        (second.id, "open", 3),
        (first.id, "failed", 0),
    ]
    assert [one["id"] for one in cli("flows", "maths", "--json", "--limit", "1")[1]["flows"]] == [second.id]
    status, text = cli("flow", first.id)
    assert status == 0
    assert "ZeroDivisionError" in text
    assert "It waits for 3 of 3 members." in cli("flow", second.id)[1]
    assert "Members that run again: 1." in cli("flow", first.id, "--retry")[1]
    assert "It was cancelled: no need" in cli("flow", second.id, "--cancel", "no need")[1]
    assert "└ 0 to 2  cancelled\n" in cli("flow", second.id)[1]
    shown = cli("flow", second.id, "--json")[1]
    assert (shown["flow"]["cancelled"], len(shown["failed"])) == (3, 3)


def test_a_flow_without_a_producer_is_sealed(app: Tenure, cli: Cli) -> None:
    task = app.task(name="half", queue="maths")(half)
    members = app.open_group("maths")
    members.__enter__()
    for _ in range(500):
        members.add(task.call(1))
    assert "More members may come" in cli("flow", members.flow.id)[1]
    assert "It waits for 500 of 500 members." in cli("flow", members.flow.id, "--seal")[1]


def test_mistakes(cli: Cli) -> None:
    assert cli("flow", "maths/unknown")[0] == 1
    status, text = cli("flow", "no id")
    assert status == 2
    assert "flow must be an id" in text


def test_flows_in_flows_are_shown_as_a_tree(app: Tenure, cli: Cli) -> None:
    task = app.task(name="half", queue="maths", retries=0)(half)
    inner = chain(task.call(1), task.using(delay=60).call(2), task.call(3))
    flow = group([task.call(0), inner, *[task.call(n) for n in range(1, 502)]]).enqueue()
    app.testing().drain(raises=False)
    tree = [
        "├   0  failed",
        "├   1  chain: open, 2 of 3 left",
        "│ ├ 0  completed",
        "│ └ 1 to 2  has not ended",
        "├ 2 to 499  completed",
        "└ more",
    ]
    assert "\n".join(tree) in cli("flow", flow.id)[1]
    shown = cli("flow", flow.id, "--json")[1]["flow"]
    assert shown["members"][0] == {"first": 0, "last": 0, "state": "failed"}
    assert (shown["members"][1]["number"], shown["members"][1]["state"], shown["has_more"]) == (1, "open", True)
    assert flow.tree(most=1).members == (MemberRange(0, 0, "failed"),)
