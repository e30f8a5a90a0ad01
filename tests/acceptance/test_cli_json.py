"""What `--json` prints and the exit statuses: as in a kept snapshot, and as docs/reference/json.md says.

Programs of users read these fields, so they change on purpose only. With TENURE_SNAPSHOT=write the first test
rewrites the snapshot. `--help` of every command is kept in docs/reference/command-line.md, which `make check` compares.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import pytest

from tenure.cli import commands
from tenure.cli.demo.run import DemoReport
from tenure.cli.errors import Exit, run
from tenure.cli.table import COMMANDS
from tenure.core.flows import NewFlow, membership
from tenure.core.latency import Times
from tenure.core.minutes import Ends
from tenure.core.outcome import Completed, Failed
from tenure.core.rates import LimitRule
from tenure.core.shape import Progress, Shape
from tenure.core.worker_view import WorkerView
from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer
from tests.support.engines import NATIVE
from tests.support.schedules import now_of, put, spec
from tests.support.world import BOOM, NAMESPACE, World

SNAPSHOT: Final = Path(__file__).with_name("cli_json.txt")
PAGE: Final = (Path(__file__).parents[2] / "docs" / "reference" / "json.md").read_text()
SHARED: Final = "--protocol redis-work-queue:shared"

RUNS: Final = {
    # What is run, in this order, and the row of the page that has its keys; empty: a job, or nothing is printed.
    "info": "`info`",
    "info q": "`info`",
    "info q --lanes ready": "`info QUEUE --lanes",
    "info q --lane user:7": "`info QUEUE --lane NAME",
    "info q --minutes": "`info QUEUE --minutes",
    "autoscale q --once --tier spot=3": "`autoscale`",
    "jobs q": "`jobs QUEUE`",
    "jobs q --state ready --limit 1": "`jobs QUEUE`",
    "job q failed --payload --headers": "",
    "job q done --payload": "",
    "job q nobody": "",
    "why q lane-2": "`why QUEUE JOB_ID`",
    "why q nobody": "`why QUEUE JOB_ID`",
    "why q": "`why QUEUE`",
    "enqueue --queue q --payload x --id new": "`enqueue`",
    "retry q failed": "`retry QUEUE JOB_ID`",
    "retry q nobody": "`retry QUEUE JOB_ID`",
    "retry q --all --state scheduled --yes": "`retry --all`",
    "pause q --lane user:7": "`pause`",
    "resume q --lane user:7": "`pause`",
    "resume q --lane nobody": "`pause`",
    "pause q": "`pause`",
    "resume q": "`pause`",
    "configure q --max-length 100": "`configure`",
    "schedules": "`schedules`",
    "schedules q s": "`schedules`",
    "schedules q s --pause --reason x": "`schedules QUEUE NAME",
    "schedules q s --resume": "`schedules QUEUE NAME",
    "schedules q s --trigger": "`schedules QUEUE NAME",
    "schedules q s --remove": "`schedules QUEUE NAME",
    "schedules q none --remove": "`schedules QUEUE NAME",
    "limits": "`limits`",
    "limits stripe --per-second 5": "`limits`",
    "limits stripe --clear": "`limits`",
    "limits stripe --clear ": "`limits`",
    "flows": "`flows`",
    "flow q/F": "`flow ID`",
    "flow q/none": "",
    "limits tenant:7 --weight 3": "`limits NAME --weight`",
    "quiet w": "`quiet`",
    "quiet nobody": "`quiet`",
    "stacks nobody": "`stacks`",
    "cancel q lane-2": "`cancel QUEUE JOB_ID`",
    "cancel q held": "`cancel QUEUE JOB_ID`",
    "cancel q nobody": "`cancel QUEUE JOB_ID`",
    "cancel q --lane user:7": "`retry --all`",
    "cancel q --all --yes": "`retry --all`",
    "reschedule q urgent --delay 60": "`reschedule`",
    "reschedule q held --delay 60": "`reschedule`",
    "reschedule q nobody --delay 60": "`reschedule`",
    "discard q failed": "`discard`",
    "discard q nobody": "`discard`",
    "purge q --state completed --yes": "`retry --all`",
    "purge --all --state completed --dry-run": "`retry --all`",
    "check": "`check`",
    "check --acl worker": "`check --acl",
    f"enqueue --queue default --payload x {SHARED}": "`enqueue`",
    f"clean default {SHARED}": "`clean`",
    f"clean default --deep {SHARED}": "`clean`",
    f"monitor default --once {SHARED}": "`monitor`",
    f"migrate default --yes {SHARED}": "`migrate`",
    "jobs q --state nonsense": "",
    "nonsense": "",
}


@dataclass(frozen=True, slots=True)
class Ran:
    command: str
    status: int
    printed: Any


@pytest.fixture
def world(server: RedisServer) -> Iterator[World]:
    """A queue with a job for every key that a job may have, and a worker."""
    driver = SyncDriver(server.url)
    world = World(NATIVE, server, driver)
    world.put(
        "failed", "done", "held", task="t", payload=b"[[1],{}]", timeout_ms=30_000, retries=3, headers={"tenant": "7"}
    )
    failed, done, held = world.take()
    world.settle_each([failed, done], Failed(BOOM), Completed(b"42", 60_000))
    world.run(world.engine.results.progress(held, Progress(1, 2, "half")))
    world.cancel("held", "why")
    world.put_in("user:7", "lane-1", "lane-2")
    world.put_only("unique", "key")
    gpu = Shape(limits=(LimitRule("gpu", concurrency=1),))
    world.put("limited-1", "limited-2", shape=gpu, queue="gpu")
    world.take(10, queues=("gpu",))
    world.put_at(5, "urgent")
    world.put("late", delay_ms=60_000)
    world.run(world.engine.announce(WorkerView("w", ("q",), "host", 1, 1, 1, 1)))
    world.run(world.engine.history.note_ends("q", Ends(completed=1, failed=1, times=Times({1: 1}, {1: 2}))))
    flows = world.engine.flows
    world.run(flows.open_flow(NewFlow("q", "F", 60_000)))
    world.run(flows.grow_flow("q", "F", 1, ["flowing"]))
    world.put("F.0", queue="flowing", shape=Shape(flow=membership("q", results=False)))
    world.settle(world.take_one(queue="flowing"), Failed(BOOM))
    put(world, spec("s"), now_of(world) + 600_000)
    yield world
    driver.close()


@pytest.fixture
def ran(world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[Ran]:
    """All `RUNS`, in this process."""
    monkeypatch.setenv("TENURE_URL", world.server.url)
    monkeypatch.setenv("TENURE_NAMESPACE", NAMESPACE)
    found = []
    for command in RUNS:
        status = run(commands, [*command.split(), "--json"])
        text = capsys.readouterr().out
        found.append(Ran(command, status, json.loads(text) if text else None))
    return found


def test_the_fields_and_exit_statuses_are_those_of_the_snapshot(ran: list[Ran]) -> None:
    now = [f"exit status {status.name} = {status.value}" for status in Exit]
    for one in ran:
        now += ["", f"$ tenure {one.command} --json    # {one.status}"]
        now += [f"{name}: {'|'.join(sorted(types))}" for name, types in sorted(shape(one.printed).items())]
    if os.environ.get("TENURE_SNAPSHOT") == "write":
        SNAPSHOT.write_text("\n".join(now) + "\n")
    assert now == SNAPSHOT.read_text().splitlines()


def shape(value: Any) -> dict[str, set[str]]:
    """The path of every field, and the types of its values; the elements of a list are one."""
    found: dict[str, set[str]] = {}

    def look(value: Any, path: str) -> None:
        if value == {}:
            found.setdefault(path, set()).add("{}")
        elif isinstance(value, dict):
            for key, inner in value.items():
                look(inner, f"{path}.{key}" if path else key)
        elif isinstance(value, list):
            found.setdefault(path, set()).add("list")
            for inner in value:
                look(inner, f"{path}[]")
        else:
            found.setdefault(path, set()).add("null" if value is None else type(value).__name__)

    if value is not None:
        look(value, "")
    return found


# The page and the output have the same keys.


def test_every_command_with_json_is_run() -> None:
    """`demo` needs a folder and starts workers: `test_the_keys_of_the_demo`. `dashboard` and `metrics` serve.
    test_cli_relay.py runs the others."""
    names = {name for name in COMMANDS if "--json" in help_of(name)}
    assert names - {command.split()[0] for command in RUNS} == {"demo", "dashboard", "metrics", "relay", "sql-clean"}


def help_of(name: str) -> str:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "command-line.md").read_text()
    return page.partition(f"## tenure {name}\n")[2].partition("\n## ")[0]


def told(start: str) -> set[str]:
    """The words in backquotes of the row that begins like this, without those of the first cell."""
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| {start}"))
    return set(re.findall(r"`(\w+)`", row.split(" | ", 1)[1]))


def of_a_job() -> set[str]:
    part = PAGE.partition("## A job")[2].partition("## Commands")[0]
    return {word for line in part.splitlines() if line.startswith("| `") for word in re.findall(r"`(\w+)`", line[:90])}


def test_no_key_without_a_word_on_the_page(ran: list[Ran]) -> None:
    for one in ran:
        if one.printed is None:
            continue
        inner = [
            rows[0] for rows in one.printed.values() if isinstance(rows, list) and rows and isinstance(rows[0], dict)
        ]
        keys = set(one.printed) | {key for row in inner if "lane_limit" not in row for key in row}
        words = told(RUNS[one.command]) if RUNS[one.command] else of_a_job()
        assert keys - words == set(), one.command


def test_the_keys_of_the_demo() -> None:
    assert {field.name for field in fields(DemoReport)} | {"problems"} == told("`demo`")
