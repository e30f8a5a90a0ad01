"""The two forms of the log: one line an event, with its time, and never more than was said."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from contextvars import copy_context
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest

from tenure.core.errors import InvalidArgument, NotConfigured
from tenure.core.job import ErrorInfo, JobRecord, Lease
from tenure.core.outcome import Completed, Crashed, Failed, Retried
from tenure.runtime import log
from tenure.runtime.jobs.job import enter
from tenure.runtime.observe import job_lines
from tenure.runtime.observe.format import formatter
from tenure.settings import Settings

RESULT = "s3cret result"
LEASE = Lease("w", 1, JobRecord("a\nb", "emails", b"card 4242", 0, task="send"), 2, 0)


class Written:
    """What a logger has written so far, in one form."""

    def __init__(self, kind: str, logger: logging.Logger) -> None:
        self._stream = io.StringIO()
        self.handler = logging.StreamHandler(self._stream)
        self.handler.setFormatter(formatter(kind))
        self._logger = logger
        logger.addHandler(self.handler)

    @property
    def lines(self) -> list[str]:
        return self._stream.getvalue().splitlines()

    @property
    def objects(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]

    def close(self) -> None:
        self._logger.removeHandler(self.handler)


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    one = logging.getLogger("tenure")
    level = one.level
    one.setLevel(logging.INFO)
    yield one
    one.setLevel(level)


@pytest.fixture
def as_json(logger: logging.Logger) -> Iterator[Written]:
    written = Written("json", logger)
    yield written
    written.close()


@pytest.fixture
def for_people(logger: logging.Logger) -> Iterator[Written]:
    written = Written("human", logger)
    yield written
    written.close()


def test_an_event_is_one_object_with_its_fields(as_json):
    log.log_event("redis_restored", worker="w", away_s=1.23456, nothing=None, count=3, hard=True)
    (one,) = as_json.objects
    time = datetime.fromisoformat(one.pop("time"))
    assert time.utcoffset() is not None
    assert one == {
        "level": "warning",
        "logger": "tenure.worker",
        "event": "redis_restored",
        "message": "Redis responds, or accepts such calls, again.",
        "worker": "w",
        "away_s": 1.235,
        "count": 3,
        "hard": True,
    }


def test_odd_values_stay_one_line_of_plain_json(as_json):
    odd = {"id": "a\nb\u2028", "far": float("inf"), "big": 10**400, "long": "x" * 10_000, "bytes": b"\xff"}
    log.log_event("worker_started", **odd)
    assert len(as_json.lines) == 1
    assert as_json.lines[0].isascii()
    (one,) = as_json.objects
    assert one["id"] == odd["id"]
    assert (one["far"], one["big"]) == ("inf", "a huge number")
    assert len(one["long"]) < 400


def test_how_an_attempt_ended(as_json, for_people):
    error = ErrorInfo("KeyError", "4242", '  File "/app/shop.py", line 7, in order\n    x\nKeyError: 4242')
    for outcome in (Retried(error, 1_500), Failed(error), Crashed()):
        job_lines.ended(LEASE, outcome)
    job_lines.ended(LEASE, Completed(RESULT.encode()))
    retried, failed, traceback, crashed = as_json.objects
    about = {"queue": "emails", "task": "send", "id": "a\nb"}
    assert (
        retried.items() >= (about | {"event": "retried", "error": "KeyError", "attempt": 3, "delay_ms": 1500}).items()
    )
    assert failed.items() >= (about | {"event": "failed", "at": "/app/shop.py:7 in order", "level": "error"}).items()
    assert (failed["error_message"], traceback["traceback"]) == ("4242", error.traceback)
    assert crashed.items() >= (about | {"event": "crashed"}).items()
    assert [line.split()[2] for line in for_people.lines if "  |" not in line] == [
        "retried", "failed", "traceback", "crashed",
    ]  # fmt: skip
    assert RESULT not in "".join([*as_json.lines, *for_people.lines])


def test_the_traceback_is_one_line_in_json(as_json):
    job_lines.ended(LEASE, Failed(ErrorInfo("KeyError", "no", "line one\nline two")))
    assert [one["event"] for one in as_json.objects] == ["failed", "traceback"]
    assert as_json.objects[1]["traceback"] == "line one\nline two"


def test_records_of_others_have_their_message_their_error_and_the_job(as_json):
    class Job:
        queue, task, id = "emails", "send", "a"

    logger = logging.getLogger("tenure.test")
    logger.info("hello %s", "you")
    try:
        raise KeyError("no")
    except KeyError:
        logger.exception("oh")

    def in_a_job() -> None:
        enter(SimpleNamespace(job=Job()))  # type: ignore[arg-type]
        logger.info("in a job")

    copy_context().run(in_a_job)
    hello, oh, inside = as_json.objects
    assert (hello["message"], hello["logger"], hello["level"]) == ("hello you", "tenure.test", "info")
    assert "id" not in hello
    assert (oh["message"], oh["error"]) == ("oh", "KeyError")
    assert "KeyError: 'no'" in oh["traceback"]
    assert (inside["queue"], inside["task"], inside["id"]) == ("emails", "send", "a")


def test_for_people_it_is_time_level_and_the_event(for_people):
    log.log_event("completed", logging.INFO, worker="w", released=0)
    (line,) = for_people.lines
    time, rest = line.split(" ", 1)
    assert datetime.fromisoformat(time).utcoffset() is not None
    assert rest == "INFO completed worker=w released=0"


def test_which_form_is_a_setting():
    assert Settings.load({}).log_format == "human"
    assert Settings.load({"TENURE_LOG_FORMAT": "json"}).log_format == "json"
    with pytest.raises(NotConfigured, match="TENURE_LOG_FORMAT"):
        Settings.load({"TENURE_LOG_FORMAT": "xml"})
    with pytest.raises(InvalidArgument, match="human, json"):
        formatter("xml")
