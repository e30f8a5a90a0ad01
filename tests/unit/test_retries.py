"""What the user's own functions say of an error, and what happens when they fail. Pure, but for the log."""

from __future__ import annotations

import logging
import math
import re
from datetime import timedelta
from typing import Any

import pytest

from tenure.core import limits
from tenure.core.backoff import Backoff, OwnBackoff
from tenure.core.job import JobRecord, Lease
from tenure.core.outcome import Failed, Outcome, Retried
from tenure.core.retries import RetryRule
from tenure.core.shape import PLAIN, Shape
from tenure.core.signals import Fail, Retry
from tenure.core.task import TaskSpec
from tenure.runtime.jobs import outcomes
from tenure.runtime.jobs.held import Held


def spec(**options: Any) -> TaskSpec:
    defaults: dict[str, Any] = {"retries": 3, "backoff": Backoff.fixed(1)}
    return TaskSpec("t", "q", print, is_async=False, encode_result=repr, **(defaults | options))  # type: ignore[arg-type]


def held(task: TaskSpec, failures: int = 0, shape: Shape = PLAIN) -> Held:
    record = JobRecord("a", "q", b"", 0, task="t", shape=shape)
    return Held(Lease("w", 1, record, failures, 0), ("q", "a", 1), task, 0.0, persistent=shape.persistent)


def after(error: BaseException, task: TaskSpec, failures: int = 0, shape: Shape = PLAIN) -> Outcome:
    return outcomes.outcome_of_error(held(task, failures, shape), error, lambda: 0.5)


class TestWhich:
    def test_only_what_is_named_is_tried_again(self):
        task = spec(retry_rule=RetryRule(on=(ConnectionError, TimeoutError)))
        assert isinstance(after(ConnectionResetError(), task), Retried)
        assert isinstance(after(ValueError(), task), Failed)

    def test_what_is_named_is_not_tried_again_and_that_outweighs(self):
        task = spec(retry_rule=RetryRule(on=(OSError,), never=(FileNotFoundError,)))
        assert isinstance(after(PermissionError(), task), Retried)
        assert isinstance(after(FileNotFoundError(), task), Failed)
        assert isinstance(after(ValueError(), spec(retry_rule=RetryRule(never=(KeyError,)))), Retried)

    def test_a_function_may_say(self):
        task = spec(retry_rule=RetryRule(on=lambda error: "busy" in str(error)))
        assert isinstance(after(ValueError("busy"), task), Retried)
        assert isinstance(after(ValueError("gone"), task), Failed)

    def test_who_asks_for_a_retry_or_a_failure_gets_it(self):
        assert isinstance(after(Retry(), spec(retry_rule=RetryRule(on=()))), Retried)
        assert isinstance(after(Fail(), spec(retry_rule=RetryRule(on=(Exception,)))), Failed)

    def test_a_timeout_is_a_timeout_error(self):
        for rule, end in ((RetryRule(on=(TimeoutError,)), Retried), (RetryRule(on=(ConnectionError,)), Failed)):
            assert isinstance(outcomes.outcome_of_timeout(held(spec(retry_rule=rule)), lambda: 0.5), end)

    def test_a_persistent_job_ends_by_what_must_not_be_tried_again(self):
        task = spec(retry_rule=RetryRule(never=(KeyError,)))
        assert isinstance(after(KeyError(), task, failures=99, shape=Shape(persistent=True)), Failed)
        assert isinstance(after(ValueError(), task, failures=99, shape=Shape(persistent=True)), Retried)

    def test_the_number_of_retries_still_counts(self):
        task = spec(retry_rule=RetryRule(on=(ValueError,)), retries=1)
        assert isinstance(after(ValueError(), task, failures=1), Failed)

    @pytest.mark.parametrize("fault", [RuntimeError("4242"), SystemExit(), KeyboardInterrupt()])
    def test_a_function_that_fails_is_told_of_once_and_the_error_is_tried_again(self, fault, caplog):
        def bad(error: BaseException) -> bool:
            raise fault

        task = spec(retry_rule=RetryRule(never=bad))
        with caplog.at_level(logging.INFO):
            for _ in range(3):
                assert isinstance(after(ValueError(), task), Retried)
        lines = [line for line in caplog.messages if line.startswith("callback_failed kind=retry_rule ")]
        assert len(lines) == 1
        assert type(fault).__name__ in lines[0]
        assert "task=t" in lines[0]
        assert "4242" not in lines[0]
        assert "test_retries.py" in lines[0]

    def test_one_with_other_arguments_is_told_of_with_its_place(self, caplog):
        def lonely() -> bool:
            return True

        after(ValueError(), spec(retry_rule=RetryRule(on=lonely)))  # type: ignore[arg-type]
        assert re.search(r"error=TypeError at='\S*test_retries\.py:\d+ in lonely'", caplog.text)


class TestBackoff:
    def test_a_function_of_the_failures_and_the_error(self):
        def mine(failures: int, error: BaseException) -> float:
            return failures * 10 + (0.5 if isinstance(error, ValueError) else 0)

        task = spec(backoff=OwnBackoff(mine), retries=9)
        assert [after(ValueError(), task, failures=n).delay_ms for n in range(3)] == [10_500, 20_500, 30_500]  # type: ignore[union-attr]
        assert after(KeyError(), task).delay_ms == 10_000  # type: ignore[union-attr]

    def test_a_timedelta_will_do_and_a_retry_with_a_delay_outweighs(self):
        task = spec(backoff=OwnBackoff(lambda failures, error: timedelta(minutes=2)))
        assert after(ValueError(), task).delay_ms == 120_000  # type: ignore[union-attr]
        assert after(Retry(delay=5), task).delay_ms == 5_000  # type: ignore[union-attr]
        assert after(Retry(), task).delay_ms == 120_000  # type: ignore[union-attr]

    @pytest.mark.parametrize("wrong", [-1, math.nan, math.inf, "5", None, True, 10**400, limits.MAX_DELAY_MS])
    def test_what_is_no_delay_is_told_of_once_and_the_default_counts(self, wrong, caplog):
        task = spec(backoff=OwnBackoff(lambda failures, error: wrong))
        for _ in range(3):
            assert after(ValueError(), task).delay_ms == 500  # type: ignore[union-attr]
        (line,) = [line for line in caplog.messages if line.startswith("callback_failed kind=backoff ")]
        assert re.search(r"test_retries\.py:\d+ in <lambda>", line), "the place is that of the function"

    def test_a_function_that_raises_too(self, caplog):
        def bad(failures: int, error: BaseException) -> float:
            raise ZeroDivisionError

        task = spec(backoff=OwnBackoff(bad))
        assert [after(ValueError(), task, failures=n).delay_ms for n in range(2)] == [500, 1_000]  # type: ignore[union-attr]
        assert sum(line.startswith("callback_failed kind=backoff ") for line in caplog.messages) == 1
