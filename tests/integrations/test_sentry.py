"""What Sentry gets: one trace of an enqueue and its jobs, errors with their job, check-ins of schedules.

`make compat` runs these with sentry-sdk 3, too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tenure.testing.server import RedisServer

pytest.importorskip("sentry_sdk")
ROOT = Path(__file__).parents[2]
Found = dict[str, list[Any]]


@pytest.fixture(scope="module")
def found(redis_binary: str) -> Found:
    """What the program has sent."""
    with RedisServer(redis_binary, aof=False) as server:
        path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(ROOT / "src"), str(ROOT)]))
        done = subprocess.run(
            [sys.executable, "-m", "tests.integrations.sentry_program"],
            env=os.environ | {"TENURE_URL": server.url, "PYTHONPATH": path},
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr
    answer: Found = json.loads(done.stdout.splitlines()[-1])
    return answer


def spans(found: Found, op: str, name: str) -> list[Any]:
    return [span for span in found["spans"] if (span["op"], span["description"]) == (op, name)]


def test_a_job_belongs_to_the_trace_of_its_enqueue(found):
    (web,) = spans(found, "http.server", "checkout")
    single, many, *_ = spans(found, "queue.publish", "default")
    assert {single["trace_id"], many["trace_id"]} == {web["trace_id"]}
    assert {single["parent_span_id"], many["parent_span_id"]} == {web["span_id"]}
    first, second, third, alone = spans(found, "queue.process", "tests.integrations.sentry_program.one")
    assert [one["parent_span_id"] for one in (first, second, third)] == [
        single["span_id"],
        many["span_id"],
        many["span_id"],
    ]
    assert {one["trace_id"] for one in (first, second, third)} == {web["trace_id"]}
    assert alone["parent_span_id"] not in {span["span_id"] for span in found["spans"]}
    data = first["data"]
    assert data["messaging.message.id"] == single["data"]["messaging.message.id"]
    assert data["messaging.destination.name"] == "default"
    assert data["messaging.message.body.size"] == single["data"]["messaging.message.body.size"] > 0
    assert 0 <= data["messaging.message.receive.latency"] < 100_000
    assert data["messaging.message.retry.count"] == 0
    assert many["data"]["messaging.batch.message_count"] == 2
    (batch,) = spans(found, "queue.process", "events")
    assert batch["data"]["messaging.batch.message_count"] == 2


def test_an_app_that_was_made_before_is_instrumented_as_well(found):
    assert len(spans(found, "queue.publish", "early")) == 1


def test_an_error_is_reported_once_with_its_job_and_a_chosen_outcome_is_not(found):
    (fails,) = (one for one in found["events"] if not one["transaction"].endswith("report"))
    assert fails["transaction"] == "tests.integrations.sentry_program.fails"
    assert [one["type"] for one in fails["exception"]["values"]] == ["ValueError"]
    assert (fails["contexts"]["job"]["attempt"], fails["contexts"]["job"]["task"]) == (1, fails["transaction"])
    assert fails["tags"]["queue"] == "default"


@pytest.mark.parametrize(
    ("task", "failed"),
    [("one", False), ("fails", True), ("chosen", True), ("put_off", False), ("cancelled", False)],
)
def test_the_span_of_a_job_has_failed_if_its_attempt_has(found, task, failed):
    span, *_ = spans(found, "queue.process", f"tests.integrations.sentry_program.{task}")
    assert (span.get("status") in ("internal_error", "error")) is failed


def test_schedules_that_sentry_knows_check_in(found):
    told = {(one["monitor_slug"], one["status"], json.dumps(one.get("monitor_config"))) for one in found["check_ins"]}
    eu = json.dumps({"schedule": {"type": "crontab", "value": "0 9 * * *"}, "timezone": "Europe/Berlin"})
    us = json.dumps({"schedule": {"type": "interval", "value": 2, "unit": "hour"}})
    assert told >= {("eu", "in_progress", eu), ("eu", "ok", eu), ("us", "in_progress", us), ("us", "error", us)}
    assert {slug for slug, *_ in told} == {"eu", "us", "returned"}
    assert {status for slug, status, _ in told if slug == "returned"} == {"in_progress", "error"}
    ids = {one["check_in_id"] for one in found["check_ins"] if one["monitor_slug"] == "eu"}
    assert len(ids) == 1
