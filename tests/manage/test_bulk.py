"""Changes of many jobs by `app.control`: which jobs change, what is counted, and how a change is watched or ended."""

from __future__ import annotations

from typing import Any, cast

import pytest
import redis

from tenure import InvalidArgument, State, Tenure, UnchangedJob, UnsupportedFeature, WrongState
from tenure.core.steps import Work
from tenure.manage.bulk import UNCHANGED_MAX, Change, Request, run_change
from tenure.manage.search import Selection


def in_state(app, queue, state):
    return [view.id for view in app.inspect.page(queue, state).jobs]


@pytest.fixture
def some(app, fail):
    """Failed jobs in two queues, with two types of errors, and jobs that wait."""
    fail("timeout", queue="emails", error="requests.exceptions.ReadTimeout")
    fail("other", queue="images", error="requests.exceptions.ReadTimeout")
    fail("value", queue="images")
    app.queue("emails").enqueue(b"x", id="later", delay=60)


async def test_both_twins(app, some):
    change = await app.control.aretry_all(error="ReadTimeout", limit=1)
    assert (change.done, change.found, change.left) == ({"retried": 1}, 2, 1)
    change = await app.control.apurge_matching("images", state="failed", older_than=0)
    assert change.done == {"removed": 2}
    change = await app.control.acancel_matching(state=State.SCHEDULED)
    assert change.done == {"cancelled": 1, "requested": 0}
    change = await app.control.adiscard_matching("emails", rate=100_000)
    assert change.done == {"removed": 2}
    assert not any((await app.inspect.aqueue("emails")).counts.values())
    await app.aclose()


def test_a_retry_of_all_with_one_error(app, some):
    change = app.control.retry_all(error="ReadTimeout")
    assert [(one.queue, one.found, dict(one.done)) for one in change.queues] == [
        ("emails", 1, {"retried": 1}),
        ("images", 1, {"retried": 1}),
    ]
    assert in_state(app, "images", "failed") == ["value"]
    assert in_state(app, "images", "ready") == ["other"]


def test_a_dry_run_changes_nothing(app, some):
    change = app.control.purge_matching(state="failed", dry_run=True, progress=pytest.fail)
    assert [view.id for view in change.jobs] == ["timeout", "other", "value"]
    assert (change.found, change.meant, change.done, change.left) == (3, 3, {"removed": 0}, 3)
    assert len(in_state(app, "images", "failed")) == 2


def test_a_limit_takes_those_that_ended_first(app, fail):
    fail(*(f"job{number}" for number in range(5)))
    change = app.control.retry_all("emails", limit=2)
    assert (change.meant, change.done, change.left) == (2, {"retried": 2}, 3)
    assert in_state(app, "emails", "ready") == ["job0", "job1"]
    change = app.control.purge_matching("emails", state="failed", limit=2)
    assert (change.done, in_state(app, "emails", "failed")) == ({"removed": 2}, ["job4"])


def test_progress_is_reported_before_the_first_change_and_after_each(app, some):
    seen = []
    app.control.retry_all(everything=True, progress=lambda change: seen.append((change.meant, change.done["retried"])))
    assert seen == [(3, 0), (3, 1), (3, 2), (3, 3)]


def test_an_error_of_the_progress_ends_the_change(app, fail):
    fail("job1", "job2", "job3")

    def stop(change):
        if change.done["removed"] == 2:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        app.control.discard_matching("emails", progress=stop)
    assert in_state(app, "emails", "failed") == ["job3"]


def test_a_job_that_has_left_its_state_stays_as_it_is(app, some):
    change = app.control.discard_matching(state="failed", progress=lambda change: app.control.retry("images", "value"))
    assert (change.meant, change.done, change.left) == (3, {"removed": 2}, 1)
    assert change.unchanged == [UnchangedJob("images", "value", "it is ready now")]
    assert in_state(app, "images", "ready") == ["value"]


def test_jobs_that_cannot_be_retried_are_named_with_the_reason_up_to_a_number(app, fail):
    fail(*(f"job{number}" for number in range(UNCHANGED_MAX + 1)), unique="k")
    app.queue("emails").enqueue(b"x", unique="k")
    change = app.control.retry_all("emails")
    assert (change.left, len(change.unchanged)) == (UNCHANGED_MAX + 1, UNCHANGED_MAX)
    assert change.unchanged[0] == UnchangedJob("emails", "job0", "another job has its unique key")


def test_a_rate_spreads_the_changes(app, driver, fail):
    fail("one", "two", "three", "four")
    pauses = []

    def one(view):
        yield from ()
        return "changed" if view.id != "two" else None

    steps = run_change(
        app.engine,
        Request((State.FAILED,), Selection(), "emails", rate=2),
        Change(("changed",), one),
        0.0,
        clock=lambda: 7.0,
    )

    def without_pauses():
        reply = None
        while True:
            try:
                call = steps.send(reply)
            except StopIteration as stop:
                return stop.value
            if isinstance(call, Work):
                pauses.append(cast(Any, call.function).args[0])
                reply = None
            else:
                reply = yield call

    assert driver.run(without_pauses()).done == {"changed": 3}
    assert pauses == [0.5, 1.0, 1.5]


def test_a_whole_queue_is_purged_at_once_and_reported_once(app, fail):
    fail(*(f"job{number}" for number in range(3)))
    seen = []
    change = app.control.purge_matching("emails", "failed", progress=lambda one: seen.append(one.done["removed"]))
    assert (change.at_once, change.done, change.left, seen) == (True, {"removed": 3}, 0, [0, 3])


def test_a_lane_is_cancelled_at_once(app):
    for number in range(3):
        app.queue("emails").enqueue(b"x", id=f"job{number}", lane="l")
    app.queue("emails").enqueue(b"x", id="other", lane="m")
    change = app.control.cancel_matching("emails", lane="l")
    assert (change.at_once, change.jobs, change.found, change.done["cancelled"]) == (True, (), 3, 3)
    assert in_state(app, "emails", "ready") == ["other"]


def test_jobs_that_wait_in_lanes_are_found(app):
    @app.task(name="send", queue="emails")
    def send(number: int) -> None:
        """Nothing."""

    for number in range(3):
        for lane in ("ready", "parked", "busy"):
            send.using(lane=lane).enqueue(number)
    app.queue("emails").enqueue(b"x", lane="ready", id="other")
    app.control.park_lane("emails", "parked")
    held = app.queue("emails").lease(seconds=60)
    assert held
    change = app.control.cancel_matching(task="send", state="ready", dry_run=True)
    assert (change.found, len(change.jobs)) == (8, 8)
    change = app.control.cancel_matching(task="send", reason="not now")
    assert change.done == {"cancelled": 8, "requested": 1}
    assert app.inspect.job("emails", held.id).cancelling == "not now"
    assert app.inspect.job("emails", "other").state is State.READY


def test_what_workers_hold_is_not_removed(app):
    app.queue("emails").enqueue(b"x", id="held")
    app.queue("emails").lease(seconds=60)
    app.queue("emails").enqueue(b"x", id="waits")
    assert app.control.discard_matching("emails").done == {"removed": 1}
    assert in_state(app, "emails", "active") == ["held"]


def test_a_queue_that_redis_refuses_is_left_out_and_named_alone_an_error(app, some, redis_url):
    key = "{tenure:emails}:failed"
    with redis.Redis.from_url(redis_url) as client:
        client.rename(key, "{tenure:emails}:apart")
        client.set(key, "of another program")
        change = app.control.purge_matching(state="failed")
        with pytest.raises(WrongState):
            app.control.purge_matching("emails", state="failed")
        client.rename("{tenure:emails}:apart", key)
    assert change.done == {"removed": 2}
    assert [type(error) for error in change.refused.values()] == [WrongState]
    assert in_state(app, "emails", "failed") == ["timeout"]


def test_all_jobs_of_all_queues_are_not_meant_by_mistake(app, some):
    for call in (app.control.cancel_matching, app.control.discard_matching):
        with pytest.raises(InvalidArgument, match="All jobs of all queues are meant"):
            call(task=None)
    assert app.control.cancel_matching(everything=True).done == {"cancelled": 1, "requested": 0}
    assert app.control.discard_matching(everything=True).done == {"removed": 4}


async def in_the_background(change: Any) -> None: ...


@pytest.mark.parametrize(
    ("call", "options", "words"),
    [
        ("retry_all", {"state": "ready"}, "state must be one of failed, broken, cancelled, scheduled, unroutable"),
        ("purge_matching", {"state": "active"}, "state must be one of .*, got 'active'"),
        ("cancel_matching", {"state": "failed"}, "state must be one of ready, scheduled, unroutable, active"),
        ("cancel_matching", {"queue": "q", "reason": 7}, "reason must be a str"),
        ("retry_all", {"limit": 10_001}, "limit must be a whole number from 1 to 10,000"),
        ("retry_all", {"rate": 0.5}, "rate must be a whole number"),
        ("retry_all", {"older_than": -1}, "older_than must be"),
        ("retry_all", {}, "All jobs of all queues are meant.* everything=True"),
        ("purge_matching", {"queue": "q"}, "state must be one of .*, got None"),
        ("retry_all", {"everything": "no"}, "everything must be True or False, got 'no'"),
        ("retry_all", {"dry_run": "no"}, "dry_run must be True or False, got 'no'"),
        ("retry_all", {"queue": "q", "progress": 3}, "progress must be a function that is not async, got an int"),
        ("retry_all", {"queue": "q", "progress": in_the_background}, "not async, got an async one"),
        ("retry_all", {"task": Selection}, "task must be a name, got a type. Pass its name"),
        ("retry_all", {"error": ValueError}, "error must be a name, got a type. Pass the name of the class"),
        ("retry_all", {"taks": "shop.send"}, "option must be one of .*, got 'taks'. Did you mean 'task'"),
    ],
)
def test_what_cannot_be_meant(app, call, options, words):
    with pytest.raises(InvalidArgument, match=words):
        getattr(app.control, call)(**options)


def test_a_protocol_that_cannot_cancel_running_jobs(redis_url):
    with Tenure(redis_url, protocol="redis-work-queue:jobs") as app:
        app.queue("q").enqueue(b"x")
        app.queue("q").lease(seconds=60)
        app.queue("q").enqueue(b"x")
        change = app.control.cancel_matching("q", limit=5)
        assert (change.found, change.done) == (1, {"cancelled": 1, "requested": 0})
        with pytest.raises(UnsupportedFeature, match="the cancellation of running jobs"):
            app.control.cancel_matching("q", state="active")
