"""Errors: what can be said with `Retry`, and copies that are as good as the original."""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import Any

import pytest

from tenure.core.errors import InvalidArgument, JobFailed, PayloadTooLarge, QueueFull, ReplyError, ResultTimeout
from tenure.core.signals import Fail, Retry


@pytest.mark.parametrize(
    "error",
    [
        JobFailed("failed", "KeyError", "'a'", "trace", id="a", task="t"),
        JobFailed("cancelled", "", ""),
        PayloadTooLarge(11, 10),
        ReplyError("ERR", "ERR whatever"),
        QueueFull("full"),
        ResultTimeout("late"),
        Retry("busy", delay=5),
        Fail("no"),
    ],
)
def test_a_copy_is_as_good_as_the_original(error: Exception) -> None:
    error.add_note("seen")
    other = copy.copy(error)
    assert type(other) is type(error)
    assert str(other) == str(error)
    assert vars(other) == vars(error)


def test_a_failure_names_the_job_and_its_task() -> None:
    error = JobFailed("failed", "KeyError", "'a'", id="Zm9v", task="shop.send")
    assert str(error) == "Job 'Zm9v' of shop.send ended in failed: KeyError: 'a'"


def test_retry() -> None:
    busy = Retry("the mail server is busy")
    assert (busy.reason, busy.delay, str(busy)) == ("the mail server is busy", None, "the mail server is busy")
    assert Retry(delay=1.5, reason="x").delay == 1.5
    assert Retry(delay=timedelta(minutes=2)).delay == 120


@pytest.mark.parametrize("delay", [-5, float("nan"), float("inf"), 1e300, "x", True])
def test_a_delay_that_cannot_be(delay: Any) -> None:
    with pytest.raises(InvalidArgument, match="delay"):
        Retry(delay=delay)


def test_a_reason_that_is_none() -> None:
    with pytest.raises(InvalidArgument, match=r"Retry\(delay=30\)"):
        Retry(30)  # type: ignore[arg-type]


@pytest.mark.parametrize("reason", [None, b"x", 5, ValueError("x")])
def test_the_reason_of_a_fail_is_text(reason: Any) -> None:
    with pytest.raises(InvalidArgument, match="Fail: reason must be a str"):
        Fail(reason)
