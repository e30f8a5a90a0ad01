"""`app.testing()`: due jobs run in the test's process, times move, and enqueued calls are found."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tenure import (
    Backoff,
    Cron,
    Debounce,
    Every,
    Fail,
    Hworker,
    Job,
    JobFailed,
    Limit,
    Retry,
    Snooze,
    State,
    Tenure,
    Throttle,
    Worqr,
    current_job,
    events,
)
from tenure.app.drain import Drained
from tenure.core.errors import InvalidArgument, SyncOnLoop, UnsupportedFeature

NOW = Backoff(base=60)


@pytest.fixture
def app(redis_url: str) -> Iterator[Tenure]:
    with Tenure(redis_url, namespace="tested") as app:
        yield app


def test_a_drain_runs_what_is_due_and_what_it_enqueues(app):
    ran: list[object] = []

    @app.task(name="first")
    def first(number: int) -> None:
        ran.append(("first", number, threading.current_thread() is threading.main_thread()))
        second.enqueue(number)

    @app.task(name="second", queue="other")
    async def second(number: int) -> None:
        job = current_job()
        ran.append(("second", number, job and job.task))

    first.enqueue(1)
    second.using(delay=60).enqueue(2)
    assert app.testing().drain() == Drained(completed=2)
    assert ran == [("first", 1, True), ("second", 1, "second")]
    assert app.testing().drain() == Drained()


async def test_an_async_drain_runs_on_the_loop_of_the_test(app):
    loops: list[object] = []

    @app.task(name="here")
    async def here() -> int:
        loops.append(asyncio.get_running_loop())
        return 7

    @app.task(name="in_a_thread")
    def in_a_thread() -> None:
        here.enqueue()

    job = await in_a_thread.aenqueue()
    assert await app.testing().adrain() == Drained(completed=2)
    assert loops == [asyncio.get_running_loop()]
    assert await job.astate() is State.COMPLETED
    with pytest.raises(SyncOnLoop, match="await"):
        app.testing().drain()
    await app.aclose()


def test_the_error_of_a_handler_is_raised_after_its_job_is_settled(app):
    @app.task(name="breaks", retries=1, backoff=NOW)
    def breaks() -> None:
        raise ConnectionError("no mail server")

    job = breaks.enqueue()
    with pytest.raises(ConnectionError, match="no mail server"):
        app.testing().drain()
    assert job.state() is State.SCHEDULED
    app.testing().advance(minutes=2)
    assert app.testing().drain(raises=False) == Drained(failed=1)
    assert job.refresh().failures == 2


def test_a_retry_is_no_error_and_a_failure_is(app):
    @app.task(name="again")
    def again() -> None:
        raise Retry(delay=30)

    @app.task(name="fails")
    def fails() -> object:
        return Fail("no such customer")

    again.enqueue()
    assert app.testing().drain() == Drained(retried=1)
    job = fails.enqueue()
    with pytest.raises(JobFailed, match="no such customer"):
        app.testing().drain()
    assert job.state() is State.FAILED


def test_a_handler_that_takes_too_long_times_out(app):
    @app.task(name="slow", timeout=0.05, retries=0)
    async def slow() -> None:
        await asyncio.sleep(60)

    job = slow.enqueue()
    with pytest.raises(JobFailed, match="Timeout"):
        app.testing().drain()
    assert job.state() is State.FAILED


def test_a_handler_may_extend_its_time(app):
    @app.task(name="extends", timeout=0.2, retries=0)
    async def extends() -> str:
        job = current_job()
        assert job is not None
        with pytest.raises(InvalidArgument, match="aextend"):
            job.extend(30)
        assert await job.aextend(30)
        await asyncio.sleep(0.5)
        return "in time"

    job = extends.enqueue()
    assert app.testing().drain() == Drained(completed=1)
    assert job.result(timeout=0) == "in time"
    with pytest.raises(JobFailed, match="Timeout"):
        app.testing().immediate(app.task(name="slow", timeout=60)(_sleeps).using(timeout=0.05).call())


def test_a_sync_handler_may_extend_its_time_and_report_progress(app):
    reported: list[Any] = []

    @app.task(name="extends", timeout=1)
    def extends() -> float | None:
        job = current_job()
        assert job is not None
        assert job.extend(30)
        job.progress(1, 2, "half")
        reported.append(app.inspect.job("default", job.id))
        return job.remaining

    job = extends.enqueue()
    assert app.testing().drain() == Drained(completed=1)
    assert job.result(timeout=0) > 20
    assert [view.progress.text for view in reported] == ["half"]


def test_sync_code_runs_in_the_thread_and_the_context_of_the_test(app):
    threads: list[threading.Thread] = []
    tenant: ContextVar[str] = ContextVar("tenant")
    tenant.set("acme")

    async def doubled() -> int:
        return 2

    @app.middleware
    async def on_loop(jobs, call_next):
        return await call_next()

    @app.middleware
    def in_thread(jobs, call_next):
        threads.append(threading.current_thread())
        return call_next()

    @app.task(name="task", on_success=lambda job, result: threads.append(threading.current_thread()))
    def task() -> list[object]:
        threads.append(threading.current_thread())
        return [asyncio.run(doubled()), tenant.get()]

    job = task.enqueue()
    assert app.testing().drain() == Drained(completed=1)
    assert job.result(timeout=0) == [2, "acme"]
    assert threads == [threading.main_thread()] * 3


def test_middleware_is_around_handlers_of_job_processes(app):
    around: list[str] = []

    @app.middleware
    def middleware(jobs, call_next):
        around.append(jobs[0].task)
        return call_next()

    app.task(name="apart", run_in="process")(_nothing).enqueue()
    assert app.testing().drain() == Drained(completed=1)
    assert around == ["apart"]


def _nothing() -> None: ...


async def test_the_job_of_a_drain_that_is_cancelled_is_ready_again(app):
    begun, ended = asyncio.Event(), asyncio.Event()

    @app.task(name="waits")
    async def waits() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    job = await waits.aenqueue()
    draining = asyncio.create_task(app.testing().adrain())
    await begun.wait()
    draining.cancel()
    with pytest.raises(asyncio.CancelledError):
        await draining
    assert ended.is_set()
    view = await job.arefresh()
    assert (view.state, view.failures, view.crashes) == (State.READY, 0, 0)
    await app.aclose()


@pytest.mark.parametrize("ttl", [0, 60])
def test_on_success_gets_the_result_as_callers_do(app, ttl):
    calls: list[object] = []

    def called(job: Job, result: object) -> None:
        assert current_job() is not None
        calls.append((job.task, result))

    async def awaited(job: Job, result: object) -> None:
        called(job, result)

    @app.task(name="day", on_success=called, result_ttl=ttl)
    def day() -> date:
        return date(2026, 3, 1)

    @app.task(name="nothing", on_success=awaited)
    async def nothing() -> None: ...

    app.task(name="fails", retries=0, on_success=called)(lambda: 1 / 0).enqueue()
    app.task(name="odd", on_success=called)(lambda: object()).enqueue()
    day.enqueue()
    nothing.enqueue()
    app.testing().drain(raises=False)
    assert calls == [("odd", None), ("day", date(2026, 3, 1)), ("nothing", None)]


def test_a_snooze_waits_for_its_time_and_counts_no_attempt(app):
    attempts: list[int] = []

    @app.task(name="polls", retries=0)
    def polls() -> str:
        job = current_job()
        assert job
        attempts.append(job.attempt)
        if len(attempts) < 4:
            raise Snooze(60, "not ready")
        return "ready"

    job, testing = polls.enqueue(), app.testing()
    for _ in range(3):
        assert testing.drain() == Drained(retried=1)
        assert job.state() is State.SCHEDULED
        testing.advance(seconds=60)
    assert testing.drain() == Drained(completed=1)
    assert (job.result(timeout=0), attempts) == ("ready", [1, 1, 1, 1])


def test_a_snooze_on_a_wire_format_that_cannot_hold_it_ends_the_job_with_the_reason(redis_url):
    with Tenure(redis_url, protocol=Hworker("printer")) as app:
        job = app.task(name="polls")(lambda: Snooze(60)).enqueue()
        assert app.testing().drain(raises=False) == Drained(failed=1)
        view = job.refresh()
        assert view
        assert view.error
        assert (view.error.type, "a wait that counts no attempt" in view.error.message) == ("UnsupportedFeature", True)


async def _sleeps() -> None:
    await asyncio.sleep(60)


def test_jobs_that_an_error_kept_from_their_start_run_in_the_next_drain(app):
    ran: list[int] = []
    fails = app.task(name="fails", queue="mixed", retries=0, on_failure=lambda job, error: 1 / 0)(lambda: 1 / 0)

    @app.handler("mixed", batch=2)
    def raw(jobs: list[Job]) -> None:
        ran.extend(int(job.payload) for job in jobs)

    fails.enqueue()
    app.queue("mixed").enqueue_many([b"1", b"2"])
    with pytest.raises(ZeroDivisionError):
        app.testing().drain()
    assert app.testing().drain().completed == 2
    assert ran == [1, 2]


def test_a_raw_payload_without_a_handler_does_not_hold_a_drain_up(redis_url):
    with Tenure(redis_url, protocol=Worqr(prefix="worqr")) as app:
        task = app.task(name="task", queue="q")(lambda: None)
        app.queue("q").enqueue(b"raw")
        task.enqueue()
        app.testing().drain(limit=50, raises=False)
        left = app.queue("q").lease()
        assert left
        assert left.payload == b"raw"


def test_lifespan_middleware_listeners_and_hooks_take_part(app):
    seen: list[str] = []
    app.on_startup(lambda: seen.append("begins"))
    app.on_shutdown(lambda: seen.append("ends"))

    @app.middleware
    async def around(jobs, call_next):
        seen.append("around")
        return await call_next()

    @app.on(events.Ended)
    def ended(event):
        seen.append(type(event).__name__)

    @app.task(name="fails", retries=0, on_failure=lambda job, error: seen.append(f"hook {error.type}"))
    def fails() -> None:
        raise ValueError

    fails.enqueue()
    assert app.testing().drain(raises=False) == Drained(failed=1)
    assert seen == ["begins", "around", "Failed", "hook ValueError", "ends"]


@pytest.mark.parametrize("kind", ["listener", "hook"])
def test_the_listeners_and_hooks_of_a_job_have_ended_before_the_next_job_begins(app, kind):
    seen: list[str] = []

    async def notice(*about: object) -> None:
        for _ in range(10):  # a drain that did not wait would claim the next job in this time
            await app.inspect.aqueues()
        seen.append("noticed")

    if kind == "listener":
        app.on(events.Completed)(notice)
    task = app.task(name="task", on_success=notice if kind == "hook" else None)(lambda: seen.append("ran"))
    task.enqueue()
    task.enqueue()
    assert app.testing().drain() == Drained(completed=2)
    assert seen == ["ran", "noticed"] * 2


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
def test_the_error_of_a_hook_is_logged_and_no_error_of_the_drain(app, caplog, is_async):
    async def ahook(job: Job, error: object) -> None:
        raise OSError("no pager")

    def hook(job: Job, error: object) -> None:
        raise OSError("no pager")

    fails = app.task(name="fails", retries=0, on_failure=ahook if is_async else hook)(lambda: 1 / 0)
    job = fails.enqueue()
    with pytest.raises(ZeroDivisionError):
        app.testing().drain()
    assert job.state() is State.FAILED
    fails.enqueue()
    assert app.testing().drain(raises=False) == Drained(failed=1)
    assert [record.getMessage().split()[0] for record in caplog.records] == ["callback_failed"] * 2


@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
def test_the_error_of_middleware_is_that_of_its_job(app, is_before):
    ran: list[int] = []

    @app.middleware
    async def around(jobs, call_next):
        if is_before:
            raise OSError("no tracer")
        await call_next()
        raise OSError("no tracer")

    task = app.task(name="task", retries=0)(lambda: ran.append(1))
    job = task.enqueue()
    with pytest.raises(OSError, match="no tracer"):
        app.testing().drain()
    assert (job.state(), ran) == (State.FAILED, [] if is_before else [1])
    task.enqueue()
    assert app.testing().drain(raises=False) == Drained(failed=1)


def test_a_handler_that_cancels_its_own_task_has_crashed(app):
    @app.task(name="cancels")
    async def cancels() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    job = cancels.enqueue()
    with pytest.raises(JobFailed, match="ended in crashed: Crashed: its task on the event loop was cancelled"):
        app.testing().drain()
    view = job.refresh()
    assert (view.state, view.failures, view.crashes) == (State.READY, 0, 1)
    more = app.testing().drain(raises=False).crashed
    view = job.refresh()
    assert (view.state, view.failures, view.crashes) == (State.BROKEN, 0, 1 + more)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_handler_that_exits_is_a_failure_as_in_a_worker(app, is_async):
    def leave() -> None:
        sys.exit(3)

    async def aleave() -> None:
        sys.exit(3)

    leaves = app.task(name="leaves", retries=0)(aleave if is_async else leave)
    leaves.enqueue()
    assert app.testing().drain(raises=False) == Drained(failed=1)
    job = leaves.enqueue()
    with pytest.raises(SystemExit):
        app.testing().drain()
    assert job.state() is State.FAILED


def test_ctrl_c_is_raised_in_any_case_and_its_job_is_settled(app):
    def raises() -> None:
        raise KeyboardInterrupt

    job = app.task(name="raises", retries=0)(raises).enqueue()
    with pytest.raises(KeyboardInterrupt):
        app.testing().drain(raises=False)
    assert job.state() is State.FAILED


def test_a_handler_that_stops_the_loop_ends_the_drain_and_leaves_its_job(app):
    @app.task(name="stops")
    async def stops() -> None:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(60)

    job = stops.enqueue()
    with pytest.raises(RuntimeError, match="Event loop stopped"):
        app.testing().drain()
    assert job.state() is State.READY  # released, not lost


def test_a_batch_handler_gets_a_batch(app):
    sizes: list[int] = []

    @app.handler("events", batch=3, linger=timedelta(minutes=1))
    def store(jobs: list[Job]) -> None:
        sizes.append(len(jobs))
        jobs[0].complete()

    app.queue("events").enqueue_many([b"1", b"2", b"3", b"4"])
    assert app.testing().drain() == Drained(completed=4)
    assert sizes == [3, 1]


def test_a_batch_of_one_lane_has_no_job_of_another(app):
    lanes: list[set[str | None]] = []

    @app.handler("events", batch=4, one_lane=True)
    def store(jobs: list[Job]) -> None:
        lanes.append({job.lane for job in jobs})

    for lane in ("x", "y", "x", "y"):
        app.queue("events").enqueue(b"", lane=lane)
    assert app.testing().drain() == Drained(completed=4)
    assert lanes == [{"x"}, {"y"}]


def test_a_persistent_job_runs_once_and_is_ready_again(app):
    ran: list[int] = []

    @app.task(name="watch", persistent=True)
    def watch() -> None:
        ran.append(1)

    job = watch.enqueue()
    assert app.testing().drain() == Drained(completed=1)
    assert (ran, job.state()) == ([1], State.READY)


def test_a_task_that_enqueues_itself_ends_at_the_limit(app):
    @app.task(name="forever")
    def forever() -> None:
        forever.enqueue()

    forever.enqueue()
    with pytest.raises(AssertionError, match="has run 20 jobs"):
        app.testing().drain(limit=20)


def test_jobs_of_unknown_tasks_are_parked_and_do_not_stop_the_others(app, redis_url):
    with Tenure(redis_url, namespace="tested") as other:
        unknown = other.task(name="unknown")(lambda: None)
        job = unknown.enqueue()
    known = app.task(name="known")(lambda: None)
    known.enqueue()
    assert app.testing().drain() == Drained(completed=1, unroutable=1)
    assert app.inspect.job("default", job.id).state is State.UNROUTABLE


def test_time_passes_for_delays_windows_and_records(app):
    task = app.task(name="task", result_ttl=60)(lambda: None)
    jobs = app.testing()
    late = task.using(delay=3600).enqueue()
    once = task.using(unique=Throttle(600)).enqueue()
    assert jobs.drain() == Drained(completed=1)
    assert not task.using(unique=Throttle(600)).enqueue().created
    jobs.advance(minutes=11)
    assert jobs.drain() == Drained()
    assert once.state() is None
    assert task.using(unique=Throttle(600)).enqueue().created
    jobs.advance(minutes=50)
    assert jobs.drain() == Drained(completed=2)
    assert late.state() is State.COMPLETED


def test_ticks_of_schedules_come_as_time_passes(app):
    planned: list[datetime | None] = []

    @app.task(name="nightly", schedule=Cron("30 2 * * *", tz="Europe/Berlin"))
    def nightly() -> None:
        job = current_job()
        assert job is not None
        planned.append(job.scheduled_for)

    ran: list[int] = []
    poll = app.task(name="poll")(lambda: ran.append(1))
    app.schedules.add("poll", poll.call(), Every(hours=8))
    app.schedules.add("paused", poll.call(), Every(hours=8))
    app.schedules.pause("default", "paused")
    jobs = app.testing()
    jobs.drain()
    for _ in range(4):
        jobs.advance(hours=12)
        jobs.drain()
    assert len(ran) in (6, 7)
    first, second = [at.astimezone(ZoneInfo("Europe/Berlin")) for at in planned[:2] if at is not None]
    assert second.date() - first.date() == timedelta(days=1)
    assert (first.hour, second.hour) in ((2, 2), (3, 2), (2, 3))  # the clock may be set ahead


def test_time_passes_for_limits(app):
    hourly = app.task(name="hourly", limits=[Limit("mail", per_hour=1)])(lambda: None)
    for _ in range(3):
        hourly.enqueue()
    jobs = app.testing()
    assert jobs.drain() == Drained(completed=1)
    jobs.advance(minutes=59)
    assert jobs.drain() == Drained()
    jobs.advance(minutes=2)
    assert jobs.drain() == Drained(completed=1)
    jobs.advance(hours=1)
    assert jobs.drain() == Drained(completed=1)
    jobs.advance(hours=1)
    hourly.enqueue()
    assert jobs.drain() == Drained(completed=1)


def test_a_schedule_may_have_limits(app):
    app.task(name="often", schedule=Every(minutes=10), limits=[Limit("api", per_hour=1)])(lambda: None)
    jobs = app.testing()
    jobs.drain()
    jobs.advance(minutes=35)
    assert jobs.drain().completed == 1
    jobs.advance(minutes=61)
    assert jobs.drain().completed == 1


def test_ticks_of_a_pause_and_from_before_a_schedule_do_not_come(app):
    app.task(name="task")(lambda: None)
    jobs, call = app.testing(), app.tasks["task"].call()
    app.schedules.add("paused", call, Every(hours=1))
    app.schedules.pause("default", "paused")
    jobs.advance(hours=10)
    app.schedules.resume("default", "paused")
    app.schedules.add("new", call, Every(hours=1))
    jobs.advance(hours=2)
    assert jobs.drain().completed == 4


def test_a_debounced_job_runs_after_its_wait(app):
    task = app.task(name="task")(lambda: None)
    for _ in range(3):
        task.using(unique=Debounce(30)).enqueue()
    jobs = app.testing()
    assert jobs.drain() == Drained()
    jobs.advance(seconds=31)
    assert jobs.drain() == Drained(completed=1)


def test_enqueued_calls_are_found_by_their_arguments(app):
    @app.task(name="welcome")
    def welcome(email: str, on: date = date(2026, 1, 1)) -> None: ...

    jobs = app.testing()
    welcome.enqueue("ada@example.org")
    welcome.using(delay=60, lane="a").enqueue(email="bob@example.org", on=date(2026, 2, 3))
    welcome.using(lane="b").enqueue("b1")
    welcome.using(lane="b").enqueue("b2")
    assert len(jobs.enqueued(welcome)) == 4
    assert jobs.assert_enqueued(welcome, email="ada@example.org", on=date(2026, 1, 1)).state is State.READY
    assert jobs.assert_enqueued(welcome, on=date(2026, 2, 3)).state is State.SCHEDULED
    assert jobs.assert_enqueued(welcome, email="b2").shape.lane == "b"
    with pytest.raises(AssertionError, match=r"welcome\(email='eve'\).*email='ada@example.org'"):
        jobs.assert_enqueued(welcome, email="eve")
    with pytest.raises(InvalidArgument, match="no parameter 'mail'"):
        jobs.enqueued(welcome, mail="eve")


def test_calls_behind_a_job_that_blocks_their_lane_are_found(app):
    app.control.configure("default", lane_failure="block")
    fails = app.task(name="fails", retries=0)(lambda: 1 / 0)
    task = app.task(name="task")(lambda: None)
    fails.using(lane="a").enqueue()
    task.using(lane="a").enqueue()
    task.using(lane="a").enqueue()
    jobs = app.testing()
    assert len(jobs.enqueued(task)) == 2
    assert jobs.drain(raises=False) == Drained(failed=1)
    assert len(jobs.enqueued(task)) == 2


def test_an_immediate_call_travels_without_redis(app):
    @app.task(name="next_day")
    def next_day(day: date) -> date:
        job = current_job()
        assert job is not None
        assert job.headers == {"tenant": "7"}
        return date.fromordinal(day.toordinal() + 1)

    @app.task(name="breaks")
    async def breaks() -> None:
        raise Retry("later")

    with Tenure("redis://127.0.0.1:1", namespace="none") as nowhere:
        task = nowhere.task(name="next_day")(next_day.__wrapped__)
        call = task.using(headers={"tenant": "7"}).call(date(2026, 12, 31))
        assert nowhere.testing().immediate(call) == date(2027, 1, 1)
    with pytest.raises(Retry):
        app.testing().immediate(breaks.call())


def test_other_wire_formats_drain_too_but_their_times_do_not_move(redis_url):
    with Tenure(redis_url, protocol=Hworker(name="printer")) as app:
        ran: list[int] = []

        @app.task(name="add")
        def add(number: int) -> None:
            ran.append(number)

        add.enqueue(1)
        add.enqueue(2)
        assert app.testing().drain() == Drained(completed=2)
        assert sorted(ran) == [1, 2]
        with pytest.raises(UnsupportedFeature, match="hworker"):
            app.testing().advance(hours=1)
