"""`app.inspect.load`: what may run, how much of it at one time, what is due, how long jobs take, and who works."""

from __future__ import annotations

import time

import pytest

from tenure import Cron, Limit, RedisWorkQueue, Tenure
from tenure.core.errors import InvalidArgument
from tenure.core.latency import BOUNDS, Times, bucket_of
from tenure.core.outcome import Completed
from tenure.core.values import replace
from tenure.core.worker_view import WorkerView
from tenure.manage.load import LANES_LOOKED
from tenure.redis.sync import SyncDriver
from tenure.scale import Narrow, QueueLoad


def load_of(app: Tenure, queue: str = "emails", **options: float) -> QueueLoad:
    (load,) = app.inspect.load([queue], **options).queues
    return load


def lease(app: Tenure, driver: SyncDriver, count: int, queue: str = "emails") -> None:
    assert len(driver.run(app.engine.lease("w", (queue,), count)).leases) == count


def test_jobs_that_wait_and_run_and_a_queue_that_is_unknown(app, driver):
    app.queue("emails").enqueue_many([b"x"] * 5)
    lease(app, driver, 2)
    now = load_of(app)
    assert replace(now, ages=()) == QueueLoad("emails", waiting=3, held=2, come=5)
    assert [round(age) for age in now.ages] == [0, 0]
    (done,) = driver.run(app.engine.lease("v", ("emails",), 1)).leases
    driver.run(app.engine.settle([(done, Completed(b"", 0))]))
    assert replace(load_of(app), ages=()) == QueueLoad("emails", waiting=2, held=2, come=5)
    assert load_of(app, "typo") == QueueLoad("typo", is_known=False)


def test_a_lane_has_as_many_places_as_its_limit(app, driver):
    for lane in ("a", "b"):
        app.queue("emails").enqueue_many([b"x"] * 4, lane=lane)
    app.queue("emails").enqueue_many([b"x"] * 9, lane="wide", lane_limit=3)
    app.queue("emails").enqueue(b"x")
    assert (load_of(app).waiting, load_of(app).runnable, load_of(app).at_once) == (1, 18, 6)
    lease(app, driver, 4)
    now = load_of(app)
    assert (now.held, now.runnable, now.at_once) == (4, 14, 6), "the same places, some of them taken"


def test_the_slots_of_the_workers_and_what_one_slot_takes(app, driver, redis_url):
    for id in ("v", "w"):
        driver.run(app.engine.announce(WorkerView(id, ("emails",), "host", 1, 0, 0, 8, batches={"emails": 50})))
    driver.run(app.engine.announce(WorkerView("x", ("other",), "host", 1, 0, 0, 4)))
    now = app.inspect.load(["emails"])
    assert (now.workers, now.slots, now.queues[0].batch) == (2, 16, 50)
    assert app.inspect.load(["other"]).queues[0].batch == 1
    with Tenure(redis_url, protocol=RedisWorkQueue(prefix="jobs")) as other:
        assert other.inspect.load(["default"]).slots is None, "workers of other programs are not counted"


def test_lanes_that_stand_still_and_a_paused_queue_need_no_worker(app):
    for lane in ("a", "parked"):
        app.queue("emails").enqueue_many([b"x"] * 4, lane=lane)
    app.control.park_lane("emails", "parked")
    assert (load_of(app).waiting, load_of(app).narrow) == (0, (Narrow(4, 0, 1),))
    app.control.pause("emails")
    assert (load_of(app).runnable, load_of(app).at_once) == (0, 0)


def test_jobs_under_a_limit_have_its_places(app, driver):
    limit = Limit("stripe", concurrency=2)
    app.queue("emails").enqueue_many([b"x"] * 200, limits=[limit])
    assert load_of(app).narrow == (Narrow(200, 0, 2),)
    assert driver.run(app.engine.lease("w", ("emails",), 10)).leases
    now = load_of(app)
    assert (now.waiting, now.narrow, now.at_once) == (0, (Narrow(198, 2, 2),), 2)
    app.limits.set("stripe", concurrency=7)
    assert load_of(app).at_once == 7


def test_lanes_under_a_limit_have_its_places_together(app, driver):
    limit = Limit("stripe", concurrency=3)
    for lane in range(120):  # more than one page
        app.queue("emails").enqueue_many([b"x"] * 2, lane=f"lane{lane}", limits=[limit])
    app.queue("emails").enqueue_many([b"x"] * 10)
    now = load_of(app)
    assert (now.waiting, now.runnable, now.at_once) == (10, 250, 13)
    lease(app, driver, 3)
    now = load_of(app)
    assert (now.runnable, now.held, now.at_once) == (247, 3, 13), "lanes that wait for the limit do not add to it"


def test_more_lanes_than_are_read_have_the_places_of_their_limit(app):
    limit = Limit("stripe", concurrency=3)
    for lane in range(LANES_LOOKED + 150):
        app.queue("emails").enqueue(b"x", lane=f"lane{lane}", limits=[limit])
    assert (load_of(app).waiting, load_of(app).at_once) == (0, 3)


def test_a_limit_of_several_groups_of_jobs_is_counted_once(app):
    shared = Limit("database", concurrency=5)
    for tenant in range(4):
        own = Limit(f"tenant:{tenant}", concurrency=3)
        app.queue("emails").enqueue_many([b"x"] * 10, limits=[own, shared])
        app.queue("images").enqueue_many([b"x"] * 10, limits=[own])
    assert load_of(app).narrow == (Narrow(40, 0, 5),)
    assert load_of(app, "images").at_once == 12, "limits that the queues do not share count each"


def test_a_rate_has_the_places_of_the_jobs_that_it_lets_run_at_one_time(app):
    limit = Limit("mail", per_second=5)
    app.queue("emails").enqueue_many([b"x"] * 200, limits=[limit])
    driver_times(app, {bucket_of(3.9): 10})
    assert load_of(app).at_once in range(15, 25)


def driver_times(app: Tenure, run: dict[int, int], worker: str = "w", queue: str = "emails") -> None:
    """Announce a worker and how long its jobs ran."""
    now_ms = int(time.time() * 1_000)
    view = WorkerView(worker, (queue,), "host", 1, now_ms, now_ms, 4, times={queue: Times({}, run)})
    app._client.run(app.engine.announce(view))


def test_the_run_time_is_the_mean_of_all_workers(app):
    assert load_of(app).run_s is None
    driver_times(app, {bucket_of(0.1): 30})
    driver_times(app, {bucket_of(2.0): 10}, worker="w2")
    driver_times(app, {bucket_of(60.0): 10}, worker="w3", queue="images")
    assert load_of(app).run_s == pytest.approx((30 * 0.1 + 10 * 2.0) / 40, rel=0.2)
    assert app.inspect.load(["emails"]).workers == 2
    assert app.inspect.load(["emails", "images"]).workers == 3
    driver_times(app, {0: 1, len(BOUNDS): 1})
    assert load_of(app, "emails").run_s is not None


def test_jobs_and_schedules_that_are_due_soon(app):
    @app.task(queue="emails", name="send")
    def send() -> None: ...

    app.queue("emails").enqueue_many([b"x"] * 130, delay=15)
    app.queue("emails").enqueue_many([b"x"] * 5, delay=60)
    assert (load_of(app).due, load_of(app, due_within=5).due, load_of(app, due_within=90).due) == (130, 0, 135)
    app.schedules.add("often", send.call(), Cron("* * * * *"))
    assert load_of(app, due_within=60).due == 136


def test_suspects_need_one_place(app, driver, redis_url):
    app.queue("emails").enqueue_many([b"x"] * 3)
    for _ in range(2):
        lease(app, driver, 3)
        driver.run(app.engine.leave("w", ("emails",), crashed=True))
    assert load_of(app).narrow == (Narrow(3, 0, 1),)


async def test_a_queue_is_named_once(app):
    with pytest.raises(InvalidArgument, match="'emails'"):
        await app.inspect.aload(["emails", "images", "emails"])
    for wrong in ([], [""]):
        with pytest.raises(InvalidArgument):
            await app.inspect.aload(wrong)
    assert replace((await app.inspect.aload(["emails"])).queues[0], is_known=True) == QueueLoad("emails")
    await app.aclose()
