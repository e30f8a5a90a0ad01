"""The small pure parts of the worker: pace, table, log, strikes, thread pool."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import threading
from functools import partial
from operator import mul
from typing import Any

import pytest

from tenure.core import limits
from tenure.core.errors import AccessDenied
from tenure.core.job import ErrorInfo, JobRecord, Lease
from tenure.core.logfmt import MAX_LOG_TEXT, escaped, line
from tenure.core.outcome import Broken, Completed, Failed, Retried
from tenure.core.values import replace
from tenure.runtime.handlers.threads import ThreadPool
from tenure.runtime.jobs import outcomes
from tenure.runtime.jobs.held import Held, Phase
from tenure.runtime.jobs.reports import Reports
from tenure.runtime.jobs.table import Inflight
from tenure.runtime.log import source_location
from tenure.runtime.loops import (
    LOOP_FAILURES,
    FailureRate,
    LoopFailed,
    MonitoredDriver,
    supervised,
)
from tenure.runtime.observe.job_lines import ended
from tenure.runtime.ports import Env
from tenure.runtime.prefetch import Prefetch
from tests.runtime.fakes import task

SPEC = task(lambda: None)


def lease(id: str, token: int = 1) -> Lease:
    return Lease("w", token, JobRecord(id, "q", b"", 0, task="t"), 0, 0)


class TestPace:
    def test_nothing_ahead_before_the_first_measurement(self):
        assert Prefetch().ahead(16) == 0

    @pytest.mark.parametrize(("seconds", "ahead"), [(0.000_001, 500), (0.001, 240), (0.01, 24), (1, 0), (60, 0)])
    def test_about_fifteen_milliseconds_of_work(self, seconds, ahead):
        pace = Prefetch()
        pace.finished([seconds])
        assert pace.ahead(16) == ahead

    def test_slots_in_long_jobs_do_not_count(self):
        pace = Prefetch()
        pace.finished([0.001])
        assert pace.ahead(1) == 15
        assert pace.ahead(0) == 0

    def test_after_a_hand_back_it_waits_for_new_measurements(self):
        pace = Prefetch()
        pace.finished([0.001])
        pace.stuck()
        assert pace.ahead(16) == 0

    def test_never_more_than_was_got_through(self):
        pace = Prefetch()
        pace.finished([0.000_001])
        pace.window(started=100, seconds=0.05, saturated=True)
        assert pace.ahead(16) == 30
        pace.window(started=3, seconds=0.05, saturated=False)
        assert pace.ahead(16) == 60


class TestInflight:
    def test_the_way_of_a_lease(self):
        table = Inflight(1)
        first = table.add(lease("1"), SPEC, 0.0)
        second = table.add(lease("2"), SPEC, 0.0)
        assert first is not None
        assert second is not None
        assert next(table.starting(1.0), None) is first
        assert next(table.starting(1.0), None) is None
        assert table.begin_settling(first)
        assert not table.begin_settling(first)
        table.leave_slots([first])
        table.gone([first])
        assert next(table.starting(2.0), None) is second
        assert not table.empty

    def test_the_same_lease_comes_in_once(self):
        table = Inflight(1)
        assert table.add(lease("1"), SPEC, 0.0) is not None
        assert table.add(lease("1"), SPEC, 0.0) is None
        assert table.add(lease("1", token=2), SPEC, 0.0) is not None

    def test_a_lost_lease_is_never_settled_or_started(self):
        table = Inflight(1)
        held = table.add(lease("1"), SPEC, 0.0)
        assert held is not None
        assert table.lose(held.ref) is held
        assert held.phase is Phase.LOST
        assert not table.begin_settling(held)
        assert next(table.starting(0.0), None) is None
        assert table.empty

    def test_a_lease_that_is_being_settled_is_not_lost_any_more(self):
        table = Inflight(1)
        held = table.add(lease("1"), SPEC, 0.0)
        assert held is not None
        table.begin_settling(held)
        assert table.lose(held.ref) is None

    def test_a_snapshot_leaves_out_the_youngest(self):
        table = Inflight(1)
        old = table.add(lease("1"), SPEC, 1.0)
        table.add(lease("2"), SPEC, 2.0)
        assert old is not None
        assert list(table.snapshot(before=1.5)) == [old.ref]


class TestOverdue:
    """When the keeper is to give a lease up: 30 s after the time is over that it may run."""

    GRACE_S = limits.OVERDUE_GRACE_MS / limits.SECOND

    def held(self, spec_ms: int | None, own_ms: int | None = None) -> tuple[Inflight, Held]:
        record = JobRecord("1", "q", b"", 0, task="t", timeout_ms=own_ms)
        table = Inflight(1)
        held = table.add(Lease("w", 1, record, 0, 0), replace(SPEC, timeout_ms=spec_ms), 100.0)
        assert held is not None
        return table, held

    @pytest.mark.parametrize(
        ("spec_ms", "own_ms", "seconds"),
        [(5_000, None, 5), (5_000, 7_000, 7), (None, 7_000, 7), (5_000, 0, math.inf), (None, None, math.inf)],
    )
    def test_its_time_counts_from_its_claim_and_from_its_start_once_it_runs(self, spec_ms, own_ms, seconds):
        table, held = self.held(spec_ms, own_ms)
        assert table.snapshot() == {held.ref: 100 + seconds + self.GRACE_S}
        next(table.starting(110.0), None)
        assert table.snapshot() == {held.ref: 110 + seconds + self.GRACE_S}

    def test_an_attempt_that_was_extended_has_its_new_time(self):
        table, held = self.held(5_000)
        next(table.starting(110.0), None)
        held.extended_to = 1_000.0
        assert table.snapshot() == {held.ref: 1_000 + self.GRACE_S}

    def test_one_with_an_outcome_is_never_given_up(self):
        table, held = self.held(5_000)
        next(table.starting(110.0), None)
        table.begin_settling(held)
        assert table.snapshot() == {held.ref: math.inf}


class TestLog:
    @pytest.mark.parametrize(
        ("value", "shown"),
        [
            ("plain-1", "plain-1"),
            ("", "''"),
            ("a b", "'a b'"),
            ("a\nb", r"'a\nb'"),
            ("\x1b[2J", r"'\x1b[2J'"),
            ("a\u2028b", r"'a\u2028b'"),
            ("a=b", "'a=b'"),
            ("\ud800", r"'\ud800'"),
            (0.12345, "0.123"),
        ],
    )
    def test_a_value_is_one_word_on_one_line(self, value, shown):
        assert escaped(value) == shown

    def test_long_values_are_cut(self):
        assert len(escaped("x" * 10_000)) <= MAX_LOG_TEXT + 3

    def test_what_is_none_is_left_out(self):
        assert line("event", {"a": 1, "b": None}) == "event a=1"


def fails(number: int) -> None:
    json.loads(f"s3cret {number}")


class TestHowAnAttemptEnded:
    LEASE = Lease("w", 1, JobRecord("id", "q", b"s3cret", 0, task="shop.order"), failures=1, crashes=0)

    @pytest.fixture
    def error(self):
        with pytest.raises(ValueError) as caught:  # noqa: PT011
            fails(1)
        return outcomes.describe(caught.value)

    @pytest.mark.parametrize(
        ("make", "begin", "level"),
        [
            (lambda error: Retried(error, 5), "retried", logging.INFO),
            (Failed, "failed", logging.ERROR),
            (Broken, "broken", logging.ERROR),
        ],
    )
    def test_a_failure_names_task_error_and_place(self, caplog, error, make, begin, level):
        caplog.set_level(logging.INFO, "tenure.worker")
        ended(self.LEASE, make(error))
        record, *more = caplog.records
        assert record.levelno == level
        text = record.getMessage()
        assert text.startswith(
            f"{begin} queue=q task=shop.order id=id attempt=2 error=json.decoder.JSONDecodeError error_message="
        )
        assert f"'{__file__}:{fails.__code__.co_firstlineno + 1} in fails'" in text
        assert "s3cret" not in text
        assert [one.levelno for one in more] == [logging.ERROR] * (begin != "retried")
        assert text.endswith("see='tenure job q id'" if more else "delay_ms=5")

    def test_an_attempt_that_does_not_count_is_no_failure_in_the_log(self, caplog):
        caplog.set_level(logging.INFO, "tenure.worker")
        ended(self.LEASE, Retried(ErrorInfo("Snooze", "not ready"), 5, deferred=True))
        (text,) = caplog.messages
        assert text.startswith(
            "deferred queue=q task=shop.order id=id attempt=2 error=Snooze error_message='not ready'"
        )

    @pytest.mark.parametrize("detail", ["message", "type"])
    def test_less_of_an_error_is_shown_where_errors_hold_data(self, caplog, error, detail):
        ended(self.LEASE, Failed(error), errors=detail)
        (record,) = caplog.records
        assert ("Expecting" in record.getMessage()) is (detail == "message")

    def test_a_job_that_failed_is_logged_with_the_traceback(self, caplog, error):
        ended(self.LEASE, Failed(replace(error, traceback=error.traceback + "\n\x1b[2Jfailed redis://me:hidden@host")))
        text = caplog.records[1].getMessage()
        assert "hidden" not in text
        assert text.startswith("traceback queue=q id=id\n  | ")
        assert "JSONDecodeError: Expecting value" in text
        assert all(one.startswith("  | ") for one in text.splitlines()[1:])
        assert "\x1b" not in text
        ended(self.LEASE, Failed(ErrorInfo("Timeout", "The attempt was ended.")))
        assert "error=Timeout error_message='The attempt was ended.'" in caplog.records[2].getMessage()

    def test_good_ends_are_logged_on_a_logger_of_their_own(self, caplog):
        caplog.set_level(logging.DEBUG)
        ended(self.LEASE, Completed())
        assert caplog.records == []
        caplog.set_level(logging.INFO, "tenure.jobs")
        ended(self.LEASE, Completed(), 0.25)
        assert caplog.records[0].getMessage() == "completed queue=q task=shop.order id=id seconds=0.250"

    def test_a_message_that_looks_like_a_frame_is_no_place(self):
        assert source_location('  File "/a.py", line 1, in f\nE: x\n  File "/b.py", line 2, in g') == "/a.py:1 in f"
        assert source_location("") is None


def test_strikes_are_counted_within_a_minute():
    strikes = FailureRate(2)
    assert [strikes.strike(now) for now in (0.0, 1.0, 2.0)] == [False, False, True]
    assert not strikes.strike(61.5)


class TestSupervised:
    async def test_a_loop_is_run_again_and_given_up_after_many_failures(self):
        runs = 0

        async def loop() -> None:
            nonlocal runs
            runs += 1
            raise RuntimeError("bug")

        async def no_sleep(_: float) -> None: ...

        with pytest.raises(LoopFailed):
            await supervised("test", loop, lambda: False, Env(sleep=no_sleep))
        assert runs == LOOP_FAILURES


class TestThreadPool:
    async def test_everything_comes_back_on_the_loop(self):
        loop, here = asyncio.get_running_loop(), threading.get_ident()
        seen: list[int] = []
        finished = loop.create_future()

        def done(values: list[int]) -> None:
            assert threading.get_ident() == here
            seen.extend(values)
            if len(seen) == 1_000:
                finished.set_result(None)

        pool: ThreadPool[int] = ThreadPool(4, done)
        for number in range(1_000):
            pool.submit(partial(mul, number, 2))
        await finished
        pool.close()
        assert sorted(seen) == [number * 2 for number in range(1_000)]

    async def test_where_the_system_allows_no_thread_the_work_waits_for_one(self, monkeypatch, caplog):
        """A container may limit threads: what was claimed must neither be lost nor held for nothing."""
        start = threading.Thread.start
        refused: list[threading.Thread] = []

        def refuse_three(thread: threading.Thread) -> None:
            if len(refused) < 3:
                refused.append(thread)
                raise RuntimeError("can't start new thread")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", refuse_three)
        seen: list[int] = []
        finished = asyncio.get_running_loop().create_future()

        def done(values: list[int]) -> None:
            seen.extend(values)
            if len(seen) == 2:
                finished.set_result(None)

        pool: ThreadPool[int] = ThreadPool(2, done, retry_ms=10)
        pool.submit(lambda: 1)
        pool.submit(lambda: 2)
        await asyncio.wait_for(finished, 30)
        pool.close()
        assert sorted(seen) == [1, 2]
        assert len(refused) == 3
        assert "start_failed kind=thread" in caplog.text


class Refusing:
    """A driver of which calls on new connections are refused, and others succeed."""

    def watch(self, watcher: object) -> None: ...

    async def run(self, steps: bool) -> bool:
        if not steps:
            error = AccessDenied("the password is wrong")
            error.prefix = "WRONGPASS"
            raise error
        return True


async def test_access_is_restored_only_when_no_call_is_refused_any_more(caplog):
    now = [100.0]
    driver: Any = MonitoredDriver(Refusing(), Env(clock=lambda: now[0]), Reports())  # type: ignore[arg-type]
    for _ in range(20):
        now[0] += 0.5
        with pytest.raises(AccessDenied):
            await driver.run(False)
        await driver.run(True)
    assert [record.message.split()[0] for record in caplog.records] == ["redis_refused"]
    now[0] += 5
    await driver.run(True)
    assert [record.message.split()[0] for record in caplog.records] == ["redis_refused", "redis_restored"]
