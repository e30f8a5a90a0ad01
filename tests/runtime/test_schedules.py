"""Workers that make the ticks of schedules on a real Redis, and `app.schedules`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenure import (
    Cron,
    DuplicateSchedule,
    Every,
    InvalidArgument,
    Limit,
    NotUnique,
    Schedule,
    ScheduleNotFound,
    Tenure,
    current_job,
)
from tenure.app.run import WorkerOptions, run_worker
from tenure.core.schedules import rules
from tenure.core.schedules.schedule import ScheduleSpec

SOON_S = 60
"""How long a test waits for something, at most."""


@pytest.fixture
def app(redis_url: str) -> Iterator[Tenure]:
    with Tenure(redis_url) as app:
        yield app


@contextlib.asynccontextmanager
async def workers(*apps: Tenure, source: str = "m:app") -> AsyncIterator[None]:
    """One worker of each app, until the end of the block."""
    begun: list[Any] = []
    options = WorkerOptions(signals=False, grace=0, source=source)
    running = [asyncio.create_task(run_worker(app, options, created=begun.append)) for app in apps]
    try:
        yield
    finally:
        for worker in begun:
            worker.stop()
        await asyncio.gather(*running)


async def until(condition: Any) -> None:
    async with asyncio.timeout(SOON_S):
        while not await condition():  # noqa: ASYNC110 - Redis has no event for it
            await asyncio.sleep(0.05)


def noted(app: Tenure, name: str, **options: Any) -> list[datetime | None]:
    """A task on the queue `q` that notes the planned times of its jobs."""
    ran: list[datetime | None] = []

    @app.task(name=name, queue="q", **options)
    async def run(*args: str) -> None:
        job = current_job()
        assert job is not None
        ran.append(job.scheduled_for)

    return ran


async def test_two_workers_make_each_tick_of_their_code_once(redis_url: str) -> None:
    apps = [Tenure(redis_url), Tenure(redis_url)]
    ran = [noted(app, "t", schedule=Schedule(Every(seconds=1), overlap="allow", catch_up="all")) for app in apps]

    async def four() -> bool:
        return len(ran[0]) + len(ran[1]) >= 4

    async with workers(*apps):
        await until(four)
        (view,) = await apps[0].schedules.alist()
    times = sorted(time for times in ran for time in times if time is not None)
    assert times == [times[0] + timedelta(seconds=n) for n in range(len(times))]
    assert (view.name, view.queue, view.task, view.source) == ("t", "q", "t", "m:app")
    assert (view.when, view.explanation, view.missed) == (Every(seconds=1), "Every 1 second", 0)


async def test_a_schedule_of_run_time_runs_and_can_be_paused(app: Tenure) -> None:
    ran = noted(app, "t")
    call = app.tasks["t"].call("x")
    await app.schedules.aadd("s", call, Every(seconds=1))

    async def two() -> bool:
        return len(ran) >= 2

    async with workers(app):
        await until(two)
        assert await app.schedules.apause("q", "s", "enough")
        view = await app.schedules.aget("q", "s")
        assert view is not None
        assert (view.next, view.reason, view.source) == (None, "enough", None)
        assert view.paused is not None
        ran.clear()
        assert await app.schedules.aresume("q", "s")
        await until(two)


async def test_a_worker_whose_code_lacks_a_schedule_leaves_those_of_others(redis_url: str) -> None:
    first, second = Tenure(redis_url), Tenure(redis_url)
    noted(first, "t", schedule=Every(hours=1))
    noted(second, "u", schedule=Every(hours=1))

    async def both() -> bool:
        return [one.name for one in await first.schedules.alist()] == ["t", "u"]

    async with workers(first), workers(second, source="other:app"):
        await until(both)


def test_add_update_and_remove(app: Tenure) -> None:
    noted(app, "t", priority=3)
    call = app.tasks["t"].call("x")
    view = app.schedules.add("s", call, Cron("0 9 * * *", tz="Europe/Berlin"), catch_up="all")
    assert view.next is not None
    assert (view.next.utcoffset(), view.when, view.runs) == (timedelta(), Cron("0 9 * * *", "Europe/Berlin"), 0)
    assert view.explanation == "At 09:00 every day (Europe/Berlin)"
    with pytest.raises(DuplicateSchedule, match="has a schedule 's' already"):
        app.schedules.add("s", call, Every(hours=1))
    changed = app.schedules.update("q", "s", when=Every(hours=2), overlap="allow")
    assert (changed.when, changed.catch_up, changed.overlap) == (Every(hours=2), "all", "allow")
    changed = app.schedules.update("q", "s", job=app.tasks["t"].call("y"))
    assert (changed.when, changed.catch_up, changed.overlap) == (Every(hours=2), "all", "allow")
    assert app.schedules.remove("q", "s")
    assert not app.schedules.remove("q", "s")
    assert app.schedules.get("q", "s") is None
    for change in (app.schedules.update, app.schedules.trigger):
        with pytest.raises(ScheduleNotFound):
            change("q", "s")


def test_a_schedule_in_another_queue_has_the_limits_of_that_queue(app: Tenure) -> None:
    noted(app, "t")
    for queue in ("q", "r"):
        app.queue_defaults(queue, limits=[Limit(f"of {queue}", concurrency=2)])
    app.schedules.add("s", app.tasks["t"].call("x"), Every(hours=1), queue="r")
    app.schedules.trigger("r", "s")
    with app.queue("r").lease() as job:
        assert job is not None
        assert [rule.name for rule in job.lease.record.shape.limits] == ["of r"]


def test_a_schedule_whose_end_is_past_is_not_added(app: Tenure) -> None:
    with pytest.raises(InvalidArgument, match="never due from now on"):
        app.schedules.add("s", b"p", Every(hours=1), queue="q", end=datetime(2020, 1, 1, tzinfo=UTC))
    assert app.schedules.list() == ()


def test_an_update_cannot_end_a_schedule_in_silence_and_can_remove_its_end(app: Tenure) -> None:
    past, later = datetime(2020, 1, 1, tzinfo=UTC), datetime.now(UTC) + timedelta(minutes=30)
    app.schedules.add("s", b"p", Every(minutes=1), queue="q", end=later)
    for change in ({"end": past}, {"when": Cron("0 0 29 2 *")}):
        with pytest.raises(InvalidArgument, match="never due"):
            app.schedules.update("q", "s", **change)
    assert app.schedules.update("q", "s", when=Every(hours=2), end=None).next is not None


def test_the_options_of_an_update_need_their_job(app: Tenure) -> None:
    app.schedules.add("s", b"p", Every(hours=1), queue="q", using={"priority": 3})
    with pytest.raises(InvalidArgument, match="using: give the job of these options, too"):
        app.schedules.update("q", "s", using={"priority": 5})
    app.schedules.update("q", "s", job=b"p", using={"priority": 5})
    app.schedules.trigger("q", "s")
    with app.queue("q").lease() as job:
        assert job is not None
        assert job.lease.record.shape.priority == 5


def test_a_trigger_beside_a_waiting_job_with_its_unique_key_names_that_job(app: Tenure) -> None:
    app.schedules.add("s", b"p", Every(hours=1), queue="q", using={"unique": "key"})
    first = app.schedules.trigger("q", "s")
    with pytest.raises(NotUnique, match=f"'{first.id}'") as caught:
        app.schedules.trigger("q", "s")
    assert (caught.value.queue, caught.value.other) == ("q", first.id)
    assert sum(app.inspect.queue("q").counts.values()) == 1


def test_raw_payloads_have_schedules(app: Tenure) -> None:
    app.schedules.add("poll", b"bytes", Every(minutes=5), queue="feeds", using={"lane": "l"})
    handle = app.schedules.trigger("feeds", "poll")
    with app.queue("feeds").lease() as job:
        assert job is not None
        assert (job.id, job.payload, job.lease.record.shape.lane) == (handle.id, b"bytes", "l")
    with pytest.raises(InvalidArgument, match="a raw payload with its queue"):
        app.schedules.add("poll", b"bytes", Every(minutes=5))


def test_backfill_enqueues_the_ticks_of_a_range(app: Tenure) -> None:
    app.schedules.add("s", b"p", Cron("0 12 * * *"), queue="q", overlap="queue")
    first, last = datetime(2026, 3, 1, 12, tzinfo=UTC), datetime(2026, 3, 8, 12, tzinfo=UTC)
    handles = app.schedules.backfill("q", "s", first, last)
    times = []
    for handle in handles:
        with app.queue("q").lease() as job:
            assert job is not None
            assert job.id == handle.id
            times.append(job.lease.record.scheduled_ms)
    assert times == [int((first + timedelta(days=n)).timestamp()) * 1000 for n in range(8)]
    with pytest.raises(InvalidArgument, match="at most 10,000 ticks"):
        app.schedules.backfill("q", "s", first - timedelta(days=20_000), first)
    with pytest.raises(InvalidArgument, match="backfill must be from a time to a later one"):
        app.schedules.backfill("q", "s", last, first)
    with pytest.raises(InvalidArgument, match="backfill must be up to now"):
        app.schedules.backfill("q", "s", first, datetime.now(UTC) + timedelta(days=2))


def test_a_schedule_of_the_code_is_changed_in_the_code(app: Tenure) -> None:
    spec = ScheduleSpec(name="s", queue="q", every_ms=60_000, window_ms=1, source="m:app")
    assert app.engine.schedules is not None
    app._client.run(app.engine.schedules.put_schedule(spec, rules.digest_of(spec), "", 1, 1))
    with pytest.raises(InvalidArgument, match="is in the code of m:app"):
        app.schedules.update("q", "s", when=Every(hours=1))
    assert app.schedules.pause("q", "s")


def test_bad_arguments_are_refused_before_anything_is_sent(app: Tenure) -> None:
    noted(app, "t")
    call = app.tasks["t"].call("x")
    bad: list[tuple[Any, ...]] = [("", call, Every(hours=1)), ("s", call, "0 9 * * *"), ("s", call, None)]
    for arguments in bad:
        with pytest.raises(InvalidArgument):
            app.schedules.add(*arguments)
    with pytest.raises(InvalidArgument, match="a call of a task of this app"):
        Tenure(app.settings.url).schedules.add("s", call, Every(hours=1))
    with pytest.raises(InvalidArgument, match="option must be one of"):
        app.schedules.add("s", call, Every(hours=1), delay=5)  # type: ignore[call-arg]
    assert app.schedules.list() == ()
