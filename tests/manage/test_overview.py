"""`app.inspect.overview`, and what it marks: queues without a worker, without a free slot, or that cannot be read."""

from __future__ import annotations

import redis

from tenure.core.job import QueueView, State
from tenure.core.worker_view import WorkerView
from tenure.manage.overview import has_no_free_slot, unserved


async def test_all_queues_and_workers_or_one_queue_and_its_workers(app, driver):
    for queue in ("emails", "images"):
        await app.queue(queue).aenqueue(b"x")
    for id, queue in (("w2", "emails"), ("w1", "images")):
        driver.run(app.engine.announce(WorkerView(id, (queue,), "host", 1, 0, 0, 1)))
    seen = await app.inspect.aoverview()
    assert [view.name for view in seen.queues] == ["emails", "images"]
    assert [view.id for view in seen.workers] == ["w1", "w2"]
    assert (seen.without_worker, seen.troubles()) == (frozenset(), [])
    seen = await app.inspect.aoverview("emails")
    assert [view.name for view in seen.queues] == ["emails"]
    assert [view.id for view in seen.workers] == ["w2"]
    await app.aclose()


def test_a_queue_without_a_worker_is_marked_and_one_that_redis_refuses_is_named(app, redis_url):
    for queue in ("emails", "images"):
        app.queue(queue).enqueue(b"x")
    with redis.Redis.from_url(redis_url) as client:
        client.delete("{tenure:images}:ready")
        client.set("{tenure:images}:ready", "of another program")
        seen = app.inspect.overview()
        client.delete("{tenure:images}:ready")
    assert (seen.without_worker, list(seen.refused)) == ({"emails"}, ["images"])
    (trouble,) = seen.troubles()
    assert trouble.startswith("Queue 'images' cannot be shown. ")
    app.control.discard("images", "x")


def test_a_worker_that_is_silent_serves_no_queue():
    now_ms = 1_000_000
    view = QueueView("q", {State.READY: 1}, {})
    seen = [WorkerView("w", ("q",), "host", 1, 0, now_ms - age_ms, 1) for age_ms in (1_000, 60_000)]
    assert [unserved(view, [one], now_ms) for one in seen] == [False, True]
    assert not unserved(QueueView("q", {State.COMPLETED: 1}, {}), [], now_ms)


def test_a_queue_is_noted_once_it_has_ready_jobs_and_no_worker_with_a_free_slot():
    now_ms = 1_000_000
    full, half = (WorkerView(id, ("q",), "host", 1, 0, now_ms, 2, awaiting=n) for id, n in (("full", 2), ("half", 1)))
    gone = WorkerView("gone", ("q",), "host", 1, 0, now_ms - 60_000, 2)
    ready, scheduled = (QueueView("q", {state: 1}, {}) for state in (State.READY, State.SCHEDULED))
    assert has_no_free_slot(ready, [full, gone], now_ms)
    assert not has_no_free_slot(ready, [full, half], now_ms)
    assert not has_no_free_slot(ready, [gone], now_ms)
    assert not has_no_free_slot(scheduled, [full], now_ms)
