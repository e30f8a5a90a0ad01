"""What programs read from the dashboard."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import quote

import pytest

from tenure import Every, Tenure
from tests.web.conftest import Browser, Fail

PLACE = '  File "/app/shop.py", line {}, in thumbnail\n    raise it\nValueError: it broke'


def test_queues_and_workers_are_those_of_info(app: Tenure, browser: Browser) -> None:
    app.tasks["shop.thumbnail"].enqueue("cat.png")
    document = browser.get("queues")
    (view,) = document["queues"]
    assert (view["name"], view["counts"]["ready"]) == ("images", 1)
    assert (document["without_worker"], document["workers"], document["next"]) == (["images"], [], None)
    assert browser.get("queues/images")["settings"]["max_length"] == 0


def test_more_than_100_queues_come_page_by_page(app: Tenure, browser: Browser) -> None:
    for number in range(103):
        app.queue(f"q{number:03}").enqueue(b"x")
    first = browser.get("queues")
    assert [view["name"] for view in first["queues"]] == [f"q{number:03}" for number in range(100)]
    rest = browser.get(f"queues?after={first['next']}")
    assert [view["name"] for view in rest["queues"]] == ["q100", "q101", "q102"]


def test_jobs_are_found_by_the_filters_and_without_payload(browser: Browser, fail: Fail) -> None:
    one, two = fail("a", traceback=PLACE.format(1)) + fail("b", traceback=PLACE.format(2))
    fail("c", error="KeyError")
    found = browser.get("jobs?queue=images&state=failed&error=ValueError")
    assert {job["id"] for job in found["jobs"]} == {one, two}
    assert not found["jobs"][0].keys() & {"payload", "result", "headers"}
    place = quote("/app/shop.py:2 in thumbnail")
    assert [job["id"] for job in browser.get(f"jobs?place={place}")["jobs"]] == [two]
    assert browser.get("jobs?newer_than=15m&older_than=10s")["jobs"] == []


def test_a_list_goes_on_at_its_cursor(browser: Browser, fail: Fail) -> None:
    ids = set(fail("a", "b", "c"))
    first = browser.get("jobs?state=failed&limit=2")
    rest = browser.get(f"jobs?state=failed&limit=2&after={first['next']}")
    assert {job["id"] for job in first["jobs"] + rest["jobs"]} == ids


def test_a_job_has_its_payload_and_why_it_waits(app: Tenure, browser: Browser) -> None:
    job = app.tasks["shop.thumbnail"].enqueue("cat.png", size=2**63)
    document = browser.get(f"jobs/images/{job.id}")
    assert document["payload"] == '[\n  ["cat.png"],\n  {\n    "size": 9223372036854775808\n  }\n]'
    assert document["why"]["code"] == "no_worker"
    assert browser.get(f"jobs/images/{job.id}/why")["code"] == "no_worker"
    assert browser.get("reasons?queue=images")["reasons"] == {"no_worker": 1}
    assert browser.page(f"api/v1/jobs/images/{job.id}/payload").headers["content-disposition"].startswith("attachment")


@pytest.mark.parametrize("id", ["a/b c", "x/why", "x/payload", "a\nb", "100%25", "é"])
def test_an_odd_id_is_found(app: Tenure, browser: Browser, id: str) -> None:
    app.queue("q").enqueue(b"x", id=id)
    assert browser.get(f"jobs/q/{quote(id, safe='')}")["id"] == id
    assert browser.get(f"jobs/q/{quote(id, safe='')}/why")["id"] == id
    assert browser.page(f"jobs/q/{quote(id, safe='')}").status == 200


def test_errors_are_grouped_by_task_type_and_place(browser: Browser, fail: Fail) -> None:
    fail("a", "b", traceback=PLACE.format(1))
    (other,) = fail("c", traceback=PLACE.format(2), message="the last")
    document = browser.get("errors?queue=images")
    assert [(one["count"], one["error"], one["place"]) for one in document["groups"]] == [
        (2, "ValueError", "/app/shop.py:1 in thumbnail"),
        (1, "ValueError", "/app/shop.py:2 in thumbnail"),
    ]
    assert (document["jobs"], document["whole"]) == (3, True)
    last = document["groups"][1]
    assert (last["example"], last["message"], last["task"]) == (other, "the last", "shop.thumbnail")


def test_schedules_have_their_next_five_ticks(app: Tenure, browser: Browser) -> None:
    end = datetime(2100, 1, 1, tzinfo=UTC)
    app.schedules.add("poll", b"x", Every(hours=1), queue="feeds", end=end)
    (schedule,) = browser.get("schedules")["schedules"]
    first = schedule["upcoming_ms"][0]
    assert schedule["upcoming_ms"] == [first + n * 3_600_000 for n in range(5)]
    assert schedule["next_ms"] == first
    app.schedules.pause("feeds", "poll")
    (schedule,) = browser.get("schedules?queue=feeds")["schedules"]
    assert schedule["upcoming_ms"] == []


def test_lanes_and_limits(app: Tenure, browser: Browser) -> None:
    app.queue("q").enqueue(b"x", lane="user:1")
    app.limits.set("stripe", per_second=5, new=True)
    assert [lane["name"] for lane in browser.get("lanes?queue=q&state=ready")["lanes"]] == ["user:1"]
    assert [job["lane"] for job in browser.get("lanes/q/user:1")["jobs"]] == ["user:1"]
    assert [limit["name"] for limit in browser.get("limits")["limits"]] == ["stripe"]
    assert browser.get("minutes?queue=q")["minutes"] == []


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("jobs?colour=red", "colour"),
        ("jobs?limit=101", "1 to 100"),
        ("jobs?limit=-1", "1 to 100"),
        ("jobs?limit=%C2%B2", "1 to 100"),
        ("jobs?limit=000000001000", "1 to 100"),
        ("lanes?queue=q&after=%C2%B2", "after"),
        ("audit?after=%C2%B2", "after"),
        ("jobs?after=%00", "after"),
        ("jobs?state=gone", "state"),
        ("jobs?older_than=never", "15m"),
        ("jobs?queue=" + "x" * 300, "queue"),
        ("lanes?queue=q&after=x", "after"),
        ("lanes", "queue"),
        ("audit?after=-1", "after"),
        ("queues/..%2F..%2Fetc", ""),
    ],
)
def test_a_wrong_query_is_400_in_one_line(browser: Browser, path: str, part: str) -> None:
    answer = browser.page(f"api/v1/{path}")
    assert answer.status in (400, 404)
    assert part in answer.json["error"]
    assert "\n" not in answer.json["error"]


def test_what_does_not_exist_is_404(browser: Browser) -> None:
    assert browser.page("api/v1/jobs/images/none").status == 404
    assert browser.page("api/v1/nothing").status == 404
    assert browser.page("jobs/images/none").status == 404
    assert browser.page("static/none.js").status == 404
