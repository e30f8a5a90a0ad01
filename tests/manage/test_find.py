"""`app.inspect.find`: which jobs pass the filters, in which order, and how a cursor continues."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tenure import InvalidArgument, State, UnsupportedFeature
from tenure.manage.search import Search, Selection


def ids(found):
    return [view.id for view in found.jobs]


@pytest.fixture
def some(app, fail):
    """Failed jobs in two queues, with two types of errors, one of a task; and jobs that wait."""

    @app.task(name="shop.send")
    def send() -> None: ...

    fail("timeout", queue="emails", error="requests.exceptions.ReadTimeout")
    fail("other", queue="images", error="requests.exceptions.ReadTimeout")
    fail("value", queue="images", task="shop.send")
    app.queue("emails").enqueue(b"x", id="later", delay=60)
    send.using(queue="images", id="now").enqueue()


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, ["later", "timeout", "now", "value", "other"]),
        ({"queue": "images"}, ["now", "value", "other"]),
        ({"state": "failed"}, ["timeout", "value", "other"]),
        ({"queue": "images", "state": State.FAILED}, ["value", "other"]),
        ({"task": "shop.send"}, ["now", "value"]),
        ({"error": "ReadTimeout"}, ["timeout", "other"]),
        ({"error": "requests.exceptions.ReadTimeout", "queue": "emails"}, ["timeout"]),
        ({"error": "Timeout"}, []),
        ({"newer_than": 3600, "state": "failed"}, ["timeout", "value", "other"]),
        ({"older_than": timedelta(hours=1)}, []),
        ({"older_than": 0, "task": "shop.send"}, ["now", "value"]),
        ({"queue": "nothing"}, []),
    ],
)
async def test_the_jobs_that_pass_all_filters(app, some, filters, expected):
    found = await app.inspect.afind(**filters)
    assert (ids(found), found.next) == (expected, None)
    await app.aclose()


def test_a_walk_by_cursor_finds_each_job_once_whatever_the_size_of_its_steps(app, fail):
    for queue in ("a", "b"):
        fail(*(f"{queue}{number}" for number in range(7)), queue=queue)
        fail(*(f"{queue}{number}" for number in range(7, 9)), queue=queue, error="KeyError")
        app.queue(queue).enqueue(b"x", id=f"{queue}-ready")
    for filters, count in (({}, 20), ({"error": "ValueError"}, 14), ({"state": "failed", "error": "KeyError"}, 4)):
        whole = ids(app.inspect.find(**filters))
        assert len(whole) == count
        for limit in (1, 2, 3, 13):
            found = app.inspect.find(**filters, limit=limit)
            seen = ids(found)
            while found.next:
                found = app.inspect.find(**filters, limit=limit, after=found.next)
                assert len(found.jobs) <= limit
                seen += ids(found)
            assert seen == whole


def test_a_cursor_continues_after_its_job_is_gone(app, fail):
    fail("one", "two", queue="a")
    fail("three", queue="b")
    found = app.inspect.find(state="failed", limit=1)
    assert ids(found) == ["two"]
    app.control.discard("a", "two")
    rest = app.inspect.find(state="failed", after=found.next)
    assert ids(rest) == ["one", "three"]


def test_the_total_is_known_of_one_state_and_of_a_search_that_is_whole(app, fail):
    fail("one", "two", "three")
    assert app.inspect.find("emails", "failed", limit=1).total == 3
    assert app.inspect.find("emails", "failed", error="ValueError").total == 3
    assert app.inspect.find("emails", "failed", error="ValueError", limit=1).total is None


def test_ready_jobs_of_a_lane(app):
    for number in range(3):
        app.queue("emails").enqueue(b"x", id=f"job{number}", lane="l")
    app.queue("emails").enqueue(b"x", id="other", lane="m")
    assert ids(app.inspect.find("emails", "ready")) == ["job0", "other"]
    assert ids(app.inspect.find("emails", "ready", lane="l")) == ["job0", "job1", "job2"]
    assert ids(app.inspect.find(lane="l", limit=2)) == ["job0", "job1"]


def test_a_search_reads_a_bounded_number_of_jobs(app, driver):
    for number in range(30):
        app.queue("emails").enqueue(b"x", id=f"job{number}", delay=60 + number, lane="l" if number % 10 == 9 else "m")
    search = Search(app.engine, Selection(lane="l"), 0.0)
    found = driver.run(search.look("emails", State.SCHEDULED, 20))
    assert (ids(found), found.total, found.next, found.is_cut) == (["job9", "job19", "job29"], 3, None, False)
    found = driver.run(search.look("emails", State.SCHEDULED, 1, offset=1))
    assert ids(found) == ["job19"]
    assert ids(driver.run(search.look("emails", State.SCHEDULED, 1, after=found.next))) == ["job29"]
    found = driver.run(search.look("emails", State.SCHEDULED, 20, most=20))
    assert (ids(found), found.read, found.total, found.is_cut) == (["job9", "job19"], 20, None, True)
    assert ids(driver.run(search.look("emails", State.SCHEDULED, 20, after=found.next))) == ["job29"]


@pytest.mark.parametrize(
    ("filters", "words"),
    [
        ({"state": "faild"}, "state must be one of"),
        ({"queue": "a/b"}, "queue must be a name"),
        ({"lane": ""}, "lane must be 1 to 200 characters"),
        ({"task": 7}, "task must be a name, got an int"),
        ({"error": ValueError}, "error must be a name, got a type"),
        ({"older_than": -1}, "older_than must be 0 to"),
        ({"newer_than": "2h"}, "newer_than must be seconds"),
        ({"limit": 0}, "limit must be a whole number from 1 to 1,000"),
        ({"after": "nonsense"}, "after must be the whole cursor of a search"),
    ],
)
def test_what_is_no_filter(app, filters, words):
    with pytest.raises(InvalidArgument, match=words):
        app.inspect.find(**filters)


def test_the_cursor_of_other_filters_is_refused(app, fail):
    fail("one", "two")
    after = app.inspect.find(state="failed", limit=1).next
    for filters in ({"state": "broken"}, {"queue": "images"}):
        with pytest.raises(InvalidArgument, match="after must be the cursor of a search with the same filters"):
            app.inspect.find(**filters, after=after)


@pytest.mark.parametrize(
    ("protocol", "filters", "words"),
    [
        ("redis-work-queue:jobs", {"lane": "l"}, "lanes"),
        ("redis-work-queue:jobs", {"older_than": 1}, "keeps no time of the enqueue, so active, ready"),
    ],
)
def test_a_filter_that_the_protocol_does_not_keep(redis_url, protocol, filters, words):
    from tenure import Tenure

    with Tenure(redis_url, protocol=protocol) as app, pytest.raises(UnsupportedFeature, match=words):
        app.inspect.find(**filters)
