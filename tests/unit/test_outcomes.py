"""What a handler returns or raises, as a table of outcomes."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Any

import pytest

from tenure.core import limits
from tenure.core.backoff import Backoff
from tenure.core.encoding.signature import Results
from tenure.core.errors import InvalidArgument, PayloadInvalid
from tenure.core.job import JobRecord, Lease
from tenure.core.outcome import Broken, Cancelled, Completed, Failed, Retried
from tenure.core.shape import Shape
from tenure.core.signals import Fail, JobCancelled, Retry, Snooze
from tenure.core.task import TaskSpec
from tenure.core.values import replace
from tenure.runtime.errors import MAX_TRACEBACK_BYTES
from tenure.runtime.jobs import outcomes
from tenure.runtime.jobs.held import Held
from tests.runtime.fakes import task

SPEC = task(lambda: None, retries=2, backoff=Backoff.fixed(7))


def held(
    spec: TaskSpec = SPEC,
    failures: int = 0,
    retries: int | None = None,
    persistent: bool = False,
    asked: str | None = None,
) -> Held:
    record = JobRecord("id", "q", b"", 0, task="t", retries=retries, shape=Shape(persistent=persistent))
    entry = Held(Lease("w", 1, record, failures, 0), ("q", "id", 1), spec, 0.0, persistent=persistent)
    entry.cancelled = asked
    return entry


class Careless(Retry):
    """Does not call the constructor of its base."""

    def __init__(self) -> None: ...


def spoilt(delay: Any) -> Retry:
    error = Retry()
    error.delay = delay
    return error


def half() -> float:
    return 0.5


@pytest.mark.parametrize(("kind", "outcome"), [(Retry, Retried), (Fail, Failed), (JobCancelled, Cancelled)])
def test_a_class_that_is_returned_means_what_it_means_when_it_is_raised(kind, outcome):
    assert type(outcomes.outcome_of_return(held(), kind, half)) is outcome


def test_one_that_cannot_be_made_without_arguments_is_an_error():
    class Picky(Retry):
        def __init__(self, what: str) -> None:
            super().__init__(what)

    outcome = outcomes.outcome_of_return(held(), Picky, half)
    assert isinstance(outcome, Retried)
    assert outcome.error.type == "TypeError"


@pytest.mark.parametrize(
    ("error", "failures", "retries", "kind", "delay_ms"),
    [
        (ValueError("x"), 0, None, Retried, 7_000),
        (ValueError("x"), 1, None, Retried, 7_000),
        (ValueError("x"), 2, None, Failed, None),
        (ValueError("x"), 2, 3, Retried, 7_000),
        (ValueError("x"), 0, 0, Failed, None),
        (Retry(), 0, None, Retried, 7_000),
        (Retry(delay=1.5), 0, None, Retried, 1_500),
        (Retry("busy", delay=timedelta(minutes=1)), 0, None, Retried, 60_000),
        (Retry(delay=0), 0, None, Retried, 0),
        (spoilt(math.nan), 0, None, Retried, 7_000),
        (spoilt("soon"), 0, None, Retried, 7_000),
        (spoilt(-1), 0, None, Retried, 0),
        (Careless(), 0, None, Retried, 7_000),
        (Retry(delay=1), 2, None, Failed, None),
        (Fail("no"), 0, None, Failed, None),
        (SystemExit(1), 0, None, Retried, 7_000),
        (KeyboardInterrupt(), 0, None, Retried, 7_000),
        (MemoryError(), 2, None, Failed, None),
    ],
)
def test_errors(error, failures, retries, kind, delay_ms):
    outcome = outcomes.outcome_of_error(held(SPEC, failures, retries), error, half)
    assert type(outcome) is kind
    assert getattr(outcome, "delay_ms", None) == delay_ms


class Wordless(JobCancelled):
    """Does not call the constructor of its base."""

    def __init__(self) -> None: ...


@pytest.mark.parametrize(
    ("error", "asked", "reason"),
    [
        (JobCancelled("left"), None, "left"),
        (JobCancelled("left"), "asked", "asked"),
        (JobCancelled(), None, ""),
        (JobCancelled(5), None, "5"),  # type: ignore[arg-type]
        (Wordless(), None, ""),
        (ValueError(), "", ""),
        (Fail("no"), "asked", "asked"),
        (Retry(), "asked", "asked"),
    ],
)
def test_cancelled(error, asked, reason):
    assert outcomes.outcome_of_error(held(asked=asked), error, half) == Cancelled(reason)
    if not isinstance(error, ValueError):
        assert outcomes.outcome_of_return(held(asked=asked), error, half) == Cancelled(reason)


def test_a_long_reason_is_cut():
    outcome = outcomes.outcome_of_error(held(), JobCancelled("ä" * 1_000_000), half)
    assert isinstance(outcome, Cancelled)
    assert len(outcome.reason.encode()) <= limits.MAX_ERROR_TEXT


def test_a_timeout_of_a_job_that_was_to_be_cancelled_ends_it():
    assert outcomes.outcome_of_timeout(held(asked="asked"), half) == Cancelled("asked")
    assert isinstance(outcomes.outcome_of_timeout(held(), half), Retried)


def test_a_result_counts_although_it_was_to_be_cancelled_but_not_of_a_persistent_job():
    assert outcomes.outcome_of_return(held(asked="asked"), 5, half) == Completed(b"5", SPEC.result_ttl_ms)
    assert outcomes.outcome_of_return(held(persistent=True, asked="asked"), 5, half) == Cancelled("asked")


@pytest.mark.parametrize("failures", [2, 1_000, 10**9])
def test_a_persistent_job_is_retried_for_ever_and_its_backoff_keeps_its_cap(failures):
    spec = task(lambda: None, retries=0, backoff=Backoff(cap=60, jitter=False))
    outcome = outcomes.outcome_of_error(held(spec, failures, persistent=True), ValueError(), half)
    assert isinstance(outcome, Retried)
    assert outcome.delay_ms <= 60_000
    assert isinstance(outcomes.outcome_of_error(held(spec, failures, persistent=True), Fail(), half), Failed)


def test_a_value_is_encoded():
    assert outcomes.outcome_of_return(held(), 5, half) == Completed(b"5", SPEC.result_ttl_ms)


def test_returned_retry_and_fail_count_like_raised_ones():
    assert isinstance(outcomes.outcome_of_return(held(), Retry(delay=1), half), Retried)
    assert isinstance(outcomes.outcome_of_return(held(), Fail(), half), Failed)


def test_without_a_record_nothing_is_encoded():
    spec = task(lambda: None, result_ttl_ms=0, encode_result=lambda value: 1 / 0)
    assert outcomes.outcome_of_return(held(spec), object(), half) == Completed(b"", 0)


def _refuse(value: object) -> bytes:
    raise PayloadInvalid("a set is not JSON")


def _exit(value: object) -> bytes:
    raise SystemExit


@pytest.mark.parametrize("encode", [_refuse, _exit, lambda value: "text", lambda value: b"x" * (limits.MAX_RESULT + 1)])
def test_a_result_that_cannot_be_kept_leaves_a_note_and_the_job_completed(encode, caplog):
    outcome = outcomes.outcome_of_return(held(task(lambda: None, encode_result=encode)), set(), half)
    assert isinstance(outcome, Completed)
    assert b"tenure_note" in outcome.result
    assert len(outcome.result) < limits.MAX_RESULT
    (told,) = caplog.messages
    assert told.startswith("result_dropped queue=q task=t id=")


@pytest.mark.parametrize("encode", [Results("t").encode, lambda value: value.encode()])
def test_of_a_result_that_is_too_large_the_sizes_are_told(encode, caplog):
    outcomes.outcome_of_return(held(task(lambda: None, encode_result=encode)), "x" * 2 * limits.MAX_RESULT, half)
    (told,) = caplog.messages
    assert re.search(rf" size={2 * limits.MAX_RESULT // 100}\d\d most={limits.MAX_RESULT} ", told)
    assert "xxx" not in told


async def test_a_coroutine_from_a_sync_handler_is_a_failure():
    async def forgotten() -> None: ...

    outcome = outcomes.outcome_of_return(held(), forgotten(), half)
    assert isinstance(outcome, Retried)
    assert "async def" in outcome.error.message


def test_bytes_that_cannot_be_decoded_are_broken():
    outcome = outcomes.outcome_of_payload(PayloadInvalid("no JSON"))
    assert isinstance(outcome, Broken)
    assert outcome.error.type == "PayloadInvalid"


class Hostile(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


class Huge(Exception):
    def __str__(self) -> str:
        return "ä" * 10_000_000


@pytest.mark.parametrize("error", [Hostile(), Huge(), ValueError("\ud800\x00\u2028"), ExceptionGroup("g", [Huge()])])
def test_any_error_becomes_bounded_text_that_can_be_encoded(error):
    info = outcomes.describe(error)
    for text, limit in (
        (info.type, limits.MAX_NAME),
        (info.message, limits.MAX_ERROR_TEXT),
        (info.traceback, MAX_TRACEBACK_BYTES),
    ):
        assert len(text.encode()) <= limit


def test_a_traceback_names_the_cause_and_leaves_out_the_worker():
    def handler() -> None:
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ValueError("outer") from error

    with pytest.raises(ValueError, match="outer") as caught:
        handler()
    text = outcomes.describe(caught.value).traceback
    assert "in handler" in text
    assert "KeyError" in text
    assert "pytest.raises" not in text
    assert "in test_a_traceback" not in text


def test_a_ring_of_causes_ends():
    one, two = ValueError("1"), ValueError("2")
    one.__cause__, two.__cause__ = two, one
    assert outcomes.describe(one).message == "1"


class TestSnooze:
    def test_it_waits_and_does_not_count(self):
        outcome = outcomes.outcome_of_error(held(failures=9), Snooze(timedelta(days=3), "not ready"), half)
        assert isinstance(outcome, Retried)
        assert (outcome.delay_ms, outcome.deferred, outcome.limit) == (3 * 86_400_000, True, None)
        assert (outcome.error.type, outcome.error.message) == ("Snooze", "not ready")
        assert outcomes.outcome_of_return(held(), Snooze(0), half) == outcomes.outcome_of_error(held(), Snooze(0), half)

    @pytest.mark.parametrize(("arguments", "message"), [((-1,), "seconds"), (("30",), "seconds"), ((1, 2), "reason")])
    def test_what_makes_no_sense_is_refused(self, arguments: Any, message: str):
        with pytest.raises(InvalidArgument, match=f"Snooze: {message}"):
            Snooze(*arguments)

    def test_an_attribute_that_was_spoilt_does_no_harm(self):
        error: Any = Snooze(1)
        error.seconds = "soon"
        outcome = outcomes.outcome_of_error(held(), error, half)
        assert isinstance(outcome, Retried)
        assert outcome.delay_ms == 1_000

    def test_a_protocol_that_cannot_hold_it_ends_the_job_with_the_reason(self):
        spec = replace(SPEC, protocol_without_snooze="hworker")
        outcome = outcomes.outcome_of_error(held(spec), Snooze(1), half)
        assert isinstance(outcome, Failed)
        assert outcome.error.type == "UnsupportedFeature"
        assert "'hworker' does not support a wait that counts no attempt" in outcome.error.message
