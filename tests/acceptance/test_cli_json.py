"""What `--json` prints is what docs/reference/json.md says: no key without a word there, no word without a key."""

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest

from leasehold import Leasehold
from leasehold.cli.demo.run import Report

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "json.md").read_text()


def told(start: str) -> set[str]:
    """The words in backquotes of the row that begins like this, without those of the first cell."""
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| {start}"))
    return set(re.findall(r"`(\w+)`", row.split(" | ", 1)[1]))


def of_a_job() -> set[str]:
    part = PAGE.partition("## A job")[2].partition("## Commands")[0]
    return {word for line in part.splitlines() if line.startswith("| `") for word in re.findall(r"`(\w+)`", line[:90])}


@pytest.fixture
def app(redis_url):
    with Leasehold(redis_url) as app:
        app.queue("emails").enqueue(b"x", id="one", lane="l")
        app.queue("emails").enqueue(b"x", id="two", delay=60)
        yield app


ROWS = {
    "`info`": ["info"],
    "`info QUEUE --lanes": ["info", "emails", "--lanes", "ready"],
    "`jobs QUEUE`": ["jobs", "emails"],
    "`enqueue`": ["enqueue", "--queue", "emails", "--payload", "x"],
    "`retry QUEUE JOB_ID`": ["retry", "emails", "two"],
    "`retry QUEUE --all`": ["retry", "emails", "--all", "--state", "scheduled", "--yes"],
    "`discard`": ["discard", "emails", "one"],
    "`purge`": ["purge", "emails", "--state", "ready", "--yes"],
    "`cancel QUEUE JOB_ID`": ["cancel", "emails", "one"],
    "`cancel QUEUE --lane`": ["cancel", "emails", "--all", "--yes"],
    "`pause`": ["pause", "emails"],
    "`configure`": ["configure", "emails"],
    "`check`": ["check"],
}


@pytest.mark.parametrize("row", ROWS)
def test_the_keys_of_a_command(app, leasehold, redis_url, row):
    shown = json.loads(leasehold(*ROWS[row], "--json", url=redis_url).end().out)
    inner = [value[0] for value in shown.values() if isinstance(value, list) and value and isinstance(value[0], dict)]
    keys = set(shown) | {key for one in inner if "lane_limit" not in one for key in one}
    assert keys - told(row) == set()
    assert len(keys) > 1


def test_the_keys_of_a_job(app, leasehold, redis_url):
    shown = json.loads(leasehold("job", "emails", "one", "--payload", "--json", url=redis_url).end().out)
    assert set(shown) - of_a_job() == set()
    assert {"id", "state", "payload", "error", "lane"} <= set(shown)


def test_the_keys_of_the_demo():
    assert {field.name for field in fields(Report)} | {"problems"} == told("`demo`")
