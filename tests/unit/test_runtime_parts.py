"""The small pure parts of the worker: pace, table, log, strikes, thread pool."""

from __future__ import annotations

import asyncio
import threading

import pytest

from leasehold.core import limits
from leasehold.core.job import JobRecord, Lease
from leasehold.runtime.inflight import Inflight, Phase
from leasehold.runtime.log import escaped, line
from leasehold.runtime.loops import LoopFailed, Strikes, pause_s, supervised
from leasehold.runtime.pace import Pace
from leasehold.runtime.pools import ThreadPool
from leasehold.runtime.ports import Env
from tests.runtime.fakes import task

SPEC = task(lambda: None)


def lease(id: str, token: int = 1) -> Lease:
    return Lease("w", token, JobRecord(id, "q", "t", b"", 0), 0, 0)


class TestPace:
    def test_nothing_ahead_before_the_first_measurement(self):
        assert Pace().ahead(16) == 0

    @pytest.mark.parametrize(("seconds", "ahead"), [(0.000_001, 500), (0.001, 480), (0.01, 48), (1, 0), (60, 0)])
    def test_about_thirty_milliseconds_of_work(self, seconds, ahead):
        pace = Pace()
        pace.finished(seconds)
        assert pace.ahead(16) == ahead

    def test_slots_in_long_jobs_do_not_count(self):
        pace = Pace()
        pace.finished(0.001)
        assert pace.ahead(1) == 30
        assert pace.ahead(0) == 0

    def test_after_a_hand_back_it_waits_for_new_measurements(self):
        pace = Pace()
        pace.finished(0.001)
        pace.stuck()
        assert pace.ahead(16) == 0

    def test_never_more_than_was_got_through(self):
        pace = Pace()
        pace.finished(0.000_001)
        pace.window(started=100, seconds=0.05, saturated=True)
        assert pace.ahead(16) == 60
        pace.window(started=3, seconds=0.05, saturated=False)
        assert pace.ahead(16) == 120


class TestInflight:
    def test_the_way_of_a_lease(self):
        table = Inflight(1)
        first = table.add(lease("1"), SPEC, 0.0)
        second = table.add(lease("2"), SPEC, 0.0)
        assert first is not None
        assert second is not None
        assert table.start_next(1.0) is first
        assert table.start_next(1.0) is None
        assert table.begin_settling(first)
        assert not table.begin_settling(first)
        table.leave_slot(first)
        table.gone(first)
        assert table.start_next(2.0) is second
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
        assert table.start_next(0.0) is None
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
        assert table.snapshot(before=1.5) == [old.ref]


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
        assert len(escaped("x" * 10_000)) <= limits.MAX_LOG_TEXT + 3

    def test_what_is_none_is_left_out(self):
        assert line("event", {"a": 1, "b": None}) == "event a=1"


def test_strikes_are_counted_within_a_minute():
    strikes = Strikes(2)
    assert [strikes.strike(now) for now in (0.0, 1.0, 2.0)] == [False, False, True]
    assert not strikes.strike(61.5)


def test_pauses_grow_to_a_cap():
    pauses = [pause_s(tries, lambda: 1.0) for tries in range(1, 17)]
    assert pauses[0] == limits.REDIS_BACKOFF_MS / 1000
    assert pauses == sorted(pauses)
    assert pauses[-1] == limits.REDIS_BACKOFF_CAP_MS / 1000


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
        assert runs == limits.LOOP_FAILURES


class TestThreadPool:
    async def test_everything_comes_back_on_the_loop(self):
        loop, here = asyncio.get_running_loop(), threading.get_ident()
        seen: list[int] = []
        finished = loop.create_future()

        def done(value: int) -> None:
            assert threading.get_ident() == here
            seen.append(value)
            if len(seen) == 1_000:
                finished.set_result(None)

        pool: ThreadPool[int, int] = ThreadPool(4, lambda value: value * 2, done)
        for number in range(1_000):
            pool.submit(number)
        await finished
        pool.close()
        assert sorted(seen) == [number * 2 for number in range(1_000)]
