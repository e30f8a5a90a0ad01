"""What `tenure metrics` reads: the numbers, how many calls they take, and Redis that is away."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import redis

from tenure import Every, RedisWorkQueue, Tenure
from tenure.core.job import ErrorInfo, NewJob, State
from tenure.core.outcome import Completed, Retried
from tenure.core.worker_view import WorkerView
from tenure.manage.fleet import CALLS_PER_S, FleetReader
from tenure.manage.overview import Overview
from tenure.metrics.exposition import exposition
from tests.support.waiting import until


def text_of(loop: asyncio.Runner, reader: FleetReader) -> list[str]:
    return exposition(loop.run(reader.read())).decode().splitlines()


def calls(client: redis.Redis) -> int:
    """The scripts that Redis has run."""
    found = client.info("commandstats")
    return sum(found.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("evalsha", "eval"))


def test_a_read_has_all_numbers_and_serves_all_until_the_next_is_allowed(app, driver, fail, redis_url):
    fail("one")
    for number in range(12):
        app.queue(f"queue {number}").enqueue(b"x")
    app.queue("emails").enqueue(b"x", lane="a")
    app.limits.set("stripe", concurrency=3, new=True)
    app.schedules.add("nightly", b"x", Every(hours=1), queue="emails")
    driver.run(app.engine.announce(WorkerView("w", ("emails",), "host", 1, 0, 0, 1, quiet=True)))
    now = 0.0
    reader = FleetReader(app, lambda: now)
    with redis.Redis.from_url(redis_url) as client, asyncio.Runner() as loop:
        before = calls(client)
        lines = text_of(loop, reader)
        spent = calls(client) - before
        assert 12 < spent <= reader.spent
        assert {
            "tenure_redis_up 1.0",
            'tenure_jobs{queue="emails",state="failed"} 1.0',
            'tenure_jobs{queue="queue 7",state="ready"} 1.0',
            'tenure_lanes{queue="emails",state="blocked"} 0.0',
            'tenure_limit_places{limit="stripe"} 0.0',
            'tenure_workers{state="quiet"} 1.0',
            'tenure_schedules_missed_total{queue="emails"} 0.0',
            'tenure_reclaimed_total{queue="emails"} 0.0',
        } <= set(lines)
        (oldest,) = (line for line in lines if line.startswith('tenure_oldest_ready_seconds{queue="queue 7"}'))
        assert 0 < float(oldest.split()[-1]) < 100
        app.queue("queue 7").enqueue(b"y")
        assert 'tenure_jobs{queue="queue 7",state="ready"} 1.0' in text_of(loop, reader)
        assert calls(client) - before == spent + 1  # the enqueue
        now = spent / CALLS_PER_S - 0.1
        assert 'tenure_jobs{queue="queue 7",state="ready"} 1.0' in text_of(loop, reader)
        now = reader.spent / CALLS_PER_S
        assert 'tenure_jobs{queue="queue 7",state="ready"} 2.0' in text_of(loop, reader)


def test_the_time_of_a_delay_or_of_an_earlier_attempt_is_no_wait(app, driver, redis_url):
    def oldest() -> list[str]:
        with asyncio.Runner() as loop:
            lines = text_of(loop, FleetReader(app))
        return [line.split()[-1] for line in lines if line.startswith("tenure_oldest_ready_seconds{")]

    app.queue("q").enqueue(b"x")
    (lease,) = driver.run(app.engine.lease("w", ("q",), 1)).leases
    app.queue("q").enqueue(b"x", delay=0.01)
    driver.run(app.engine.settle([(lease, Retried(ErrorInfo("E", ""), delay_ms=10))]))
    until(lambda: driver.run(app.engine.maintain(["q"], [])) and app.inspect.queue("q").counts[State.READY] == 2)
    assert oldest() == []
    view = app.inspect.queue("q")
    assert view.oldest_ms is not None
    assert view.ready_ms is None
    app.queue("q").enqueue(b"x")
    (seconds,) = oldest()
    assert float(seconds) < 100
    assert app.inspect.queue("q").ready_ms == app.inspect.page("q", "ready").jobs[2].enqueued_ms


def test_schedules_that_no_worker_ticks_are_overdue(app, redis_url):
    app.schedules.add("often", b"x", Every(seconds=1), queue="emails")
    app.schedules.add("nightly", b"x", Every(hours=1), queue="nights")

    def overdue() -> dict[str, float]:
        with asyncio.Runner() as loop:
            lines = text_of(loop, FleetReader(app))
        found = [line.split() for line in lines if line.startswith("tenure_schedule_overdue_seconds{")]
        return {name.split('"')[1]: float(number) for name, number in found}

    until(lambda: overdue()["emails"] > 0)
    assert overdue()["nights"] == 0
    app.control.pause("emails")
    assert overdue()["emails"] == 0


def test_what_another_queue_has_not_taken_has_an_age(app, driver, redis_url):
    """Another program has written to its keys."""
    app.queue("q").enqueue(b"x")
    (lease,) = driver.run(app.engine.lease("w", ("q",), 1)).leases
    with redis.Redis.from_url(redis_url) as client, asyncio.Runner() as loop:
        client.set("{tenure:spoilt}:ready", "text")
        driver.run(app.engine.settle([(lease, Completed(b"", 0, (NewJob("spoilt", "b", b"y"),)))]))
        (age,) = (line for line in text_of(loop, FleetReader(app)) if line.startswith("tenure_outgoing_seconds"))
    assert age.startswith('tenure_outgoing_seconds{queue="q"} ')
    assert 0 <= float(age.split()[-1]) < 100


def test_without_redis_there_are_no_numbers(private_server):
    with Tenure(private_server.url, patience=0.2) as app, asyncio.Runner() as loop:
        app.queue("emails").enqueue(b"x")
        private_server.kill()
        lines = text_of(loop, FleetReader(app))
    assert "tenure_redis_up 0.0" in lines
    assert not any(line.startswith("tenure_jobs{") for line in lines)


async def test_a_read_that_takes_longer_than_a_request_may_wait_goes_on(app):
    """A thousand queues on another machine are no failure of Redis."""
    replies = asyncio.Event()

    async def overview() -> Overview:
        await replies.wait()
        return await app.inspect.aoverview()

    await app.queue("emails").aenqueue(b"x")
    slow: Any = SimpleNamespace(
        inspect=SimpleNamespace(aoverview=overview), schedules=app.schedules, limits=app.limits, engine=app.engine
    )
    reader = FleetReader(slow, wait_ms=1)
    before = exposition(await reader.read()).decode()
    assert "tenure_redis_up 0" not in before
    assert "\ntenure_fleet_age_seconds " not in before
    replies.set()
    while "tenure_redis_up 1.0" not in (text := exposition(await reader.read()).decode()):
        pass
    assert 'tenure_jobs{queue="emails",state="ready"} 1.0' in text
    await app.aclose()


def test_queues_that_redis_refuses_to_show_are_counted(app, redis_url):
    app.queue("emails").enqueue(b"x")
    app.queue("bad").enqueue(b"x")
    with redis.Redis.from_url(redis_url) as client, asyncio.Runner() as loop:
        assert "tenure_queues_unread 0.0" in text_of(loop, FleetReader(app))
        client.set("{tenure:bad}:meta", "of another program")
        lines = text_of(loop, FleetReader(app))
    assert "tenure_queues_unread 1.0" in lines
    assert 'tenure_jobs{queue="emails",state="ready"} 1.0' in lines


def test_what_a_format_of_other_programs_does_not_show_is_left_out(redis_url):
    with Tenure(redis_url, protocol=RedisWorkQueue(prefix="jobs")) as app, asyncio.Runner() as loop:
        app.queue("default").enqueue(b"x")
        lines = text_of(loop, FleetReader(app))
    assert 'tenure_jobs{queue="default",state="ready"} 1.0' in lines
    assert not [one for one in lines if one.startswith(("tenure_workers{", "tenure_oldest_ready_seconds{"))]
