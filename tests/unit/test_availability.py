"""What the log says of the connection: one line when Redis is lost, one when it is back."""

from __future__ import annotations

import json
import logging

import pytest
import redis.exceptions as client

from tenure.redis.availability import Availability
from tenure.runtime.observe.format import JsonFormatter


class Now:
    """A clock, and when the last good reply came."""

    def __init__(self) -> None:
        self.time = 100.0
        self.good_at = 0.0


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def condition(now: Now) -> Availability:
    return Availability("redis://***@h:6379/0", lambda: now.good_at, lambda: now.time)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "tenure.redis")
    return caplog


def test_one_line_a_change_however_often_it_is_tried(condition: Availability, now: Now, log: pytest.LogCaptureFixture):
    for _ in range(2):
        for _ in range(50):
            now.time += 0.1
            condition.lost(ConnectionRefusedError("refused"))
        condition.back()
        condition.back()
    lines = [message.split(" message=")[0] for message in log.messages]
    assert lines == 2 * [
        "redis_lost at=redis://***@h:6379/0 error=refused",
        "redis_restored at=redis://***@h:6379/0 after_s=4.900",
    ]


def test_as_json_the_lines_have_the_fields_that_those_of_the_worker_have(
    condition: Availability, now: Now, log: pytest.LogCaptureFixture
):
    condition.lost(ConnectionRefusedError("refused"))
    now.time += 2.5
    condition.back()
    lost, back = (json.loads(JsonFormatter().format(record)) for record in log.records)
    common = {"level": "warning", "logger": "tenure.redis", "at": "redis://***@h:6379/0"}
    assert lost == common | {
        "time": lost["time"],
        "event": "redis_lost",
        "error": "refused",
        "message": lost["message"],
    }
    assert back == common | {
        "time": back["time"],
        "event": "redis_restored",
        "after_s": 2.5,
        "message": back["message"],
    }


def test_one_silent_connection_is_no_loss_while_others_are_answered(
    condition: Availability, now: Now, log: pytest.LogCaptureFixture
):
    now.good_at = 99.0
    condition.lost(TimeoutError(), silent_s=2.0)
    condition.back()
    assert log.messages == []
    condition.lost(TimeoutError(), silent_s=0.5)
    (line,) = log.messages
    assert line.startswith("redis_lost at=redis://***@h:6379/0 error='no reply in time' ")


def test_a_server_without_room_for_a_connection_is_logged_once_while_other_calls_succeed(
    condition: Availability, now: Now, log: pytest.LogCaptureFixture
):
    for _ in range(100):
        now.time += 0.1
        condition.lost(client.ResponseError("max number of clients reached"))
        condition.back()
    assert [message.split()[0] for message in log.messages] == ["redis_lost"]
    now.time += 5.0
    condition.back()
    assert [message.split()[0] for message in log.messages] == ["redis_lost", "redis_restored"]


class Watching:
    def __init__(self) -> None:
        self.told: list[object] = []

    def redis_lost(self, missed_s: float) -> None:
        self.told.append(missed_s)

    def redis_back(self) -> None:
        self.told.append("back")


def test_who_watches_is_told_with_each_line_and_for_how_long_it_was_missed(
    condition: Availability, now: Now, log: pytest.LogCaptureFixture
):
    watching = Watching()
    condition.watch(watching)
    condition.lost(TimeoutError(), silent_s=2.0)
    condition.lost(ConnectionRefusedError())
    now.time += 3
    condition.back()
    condition.back()
    condition.lost(ConnectionRefusedError())
    assert watching.told == [2.0, "back", 0.0]
    assert " after_s=5.000 " in log.messages[1]


def test_it_is_not_missed_before_it_last_answered(condition: Availability, now: Now):
    """A subscription notices after seven seconds, and others had an answer meanwhile."""
    watching = Watching()
    condition.watch(watching)
    now.good_at = 98.5
    condition.lost(TimeoutError(), silent_s=7.0)
    condition.lost(ConnectionRefusedError())
    assert watching.told == [1.5]


def test_a_program_without_logging_sees_nothing(condition: Availability, capfd: pytest.CaptureFixture[str]):
    logger = logging.getLogger("tenure.redis")
    logger.propagate, before = False, logger.propagate
    try:
        condition.lost(ConnectionRefusedError())
        condition.back()
    finally:
        logger.propagate = before
    assert capfd.readouterr() == ("", "")
