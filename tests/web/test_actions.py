"""What the dashboard changes, and when it refuses."""

from __future__ import annotations

import pytest

from tenure import Every, State, Tenure, group
from tenure.core.limits import PAGE_MAX
from tests.web.conftest import SAME_SITE, Browser, Fail

JSON = {"Content-Type": "application/json"}


def test_a_deeply_nested_body_is_refused(browser: Browser) -> None:
    body = '{"select": {"a": ' + "[" * 200_000 + "]" * 200_000 + "}}"
    assert browser.send("POST", "/api/v1/actions/retry", body, **SAME_SITE, **JSON).status == 400


def counts(app: Tenure, queue: str = "images") -> dict[str, int]:
    return {state.value: count for state, count in app.inspect.queue(queue).counts.items() if count}


def test_one_job_is_retried_cancelled_and_discarded(app: Tenure, browser: Browser, fail: Fail) -> None:
    (id,) = fail("a")
    job = {"queue": "images", "id": id}
    assert browser.post("retry", job).json == {"done": 1}
    assert browser.post("retry", job).status == 409
    assert browser.post("cancel", job, reason="wrong").json == {"done": 1}
    assert counts(app) == {"cancelled": 1}
    assert browser.post("discard", job).json == {"done": 1}
    assert counts(app) == {}


def test_many_jobs_are_counted_first_and_changed_only_as_counted(app: Tenure, browser: Browser, fail: Fail) -> None:
    fail("a", "b")
    fail("c", error="KeyError")
    select = {"queue": "images", "state": "failed", "error": "ValueError"}
    first = browser.post("retry", select)
    assert (first.status, first.json["expect"]) == (200, 2)
    assert counts(app) == {"failed": 3}
    fail("d")
    stale = browser.post("retry", select, expect=2)
    assert (stale.status, stale.json["expect"]) == (409, 3)
    run = browser.run("retry", select)
    assert (run["state"], run["done"], run["meant"]) == ("finished", 3, 3)
    assert counts(app) == {"ready": 3, "failed": 1}


def test_picked_jobs_are_changed_together(app: Tenure, browser: Browser, fail: Fail) -> None:
    ids = fail("a", "b", "c")
    picked = {"jobs": [["images", ids[0]], ["images", ids[1]], ["images", "gone"]]}
    run = browser.run("discard", picked)
    assert (run["done"], [one["id"] for one in run["unchanged"]]) == (2, ["gone"])
    assert counts(app) == {"failed": 1}


def test_a_group_of_errors_is_retried_by_its_place(app: Tenure, browser: Browser, fail: Fail) -> None:
    for line in (1, 2):
        fail("a", "b", traceback=f'  File "/app/shop.py", line {line}, in f\nValueError: x')
    run = browser.run("retry", {"queue": "images", "state": "failed", "place": "/app/shop.py:2 in f"})
    assert run["done"] == 2
    assert [one["place"] for one in browser.get("errors")["groups"]] == ["/app/shop.py:1 in f"]


def test_more_jobs_than_one_page_are_purged_and_cancelled(app: Tenure, browser: Browser, fail: Fail) -> None:
    app.queue("q").enqueue_many([b"x"] * (3 * PAGE_MAX))
    assert browser.run("cancel", {"queue": "q"})["done"] == 3 * PAGE_MAX
    assert browser.run("purge", {"queue": "q", "state": "cancelled"})["done"] == 3 * PAGE_MAX
    assert counts(app, "q") == {}


def test_all_jobs_are_counted_and_changed_portion_by_portion(
    app: Tenure, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("tenure.manage.bulk", "tenure.web.actions"):
        monkeypatch.setattr(f"{module}.CHANGED_MAX", 10)
    app.queue("q").enqueue_many([b"x"] * 25)
    assert browser.post("cancel", {"queue": "q"}).json["expect"] == 25
    app.queue("q").enqueue_many([b"x"] * 3)
    assert browser.post("cancel", {"queue": "q"}, expect=25).status == 409
    assert browser.run("cancel", {"queue": "q"})["done"] == 28
    assert counts(app, "q") == {"cancelled": 28}


def test_a_dry_run_changes_nothing(app: Tenure, browser: Browser, fail: Fail) -> None:
    (id,) = fail("a")
    dry = browser.post("discard", {"queue": "images", "id": id}, dry_run=True)
    assert (dry.status, dry.json["expect"]) == (200, 1)
    assert counts(app) == {"failed": 1}
    assert browser.post("discard", {"queue": "images", "id": "none"}, dry_run=True).json["expect"] == 0
    assert browser.post("pause", {"queue": "images"}, dry_run=True).status == 400
    assert not app.inspect.settings("images").paused


def test_a_change_of_many_jobs_can_be_stopped(app: Tenure, browser: Browser) -> None:
    app.queue("q").enqueue_many([b"x"] * 50)
    select = {"queue": "q", "state": "ready"}
    begun = browser.post("discard", select, expect=50, rate=1).json
    assert browser.post("stop", {"run": begun["run"]}).json == {"done": 1}
    run = browser.ended(begun["run"])
    assert run["state"] == "stopped"
    assert counts(app, "q")["ready"] == 50 - run["done"] > 0
    assert browser.post("stop", {"run": begun["run"]}).status == 409


def test_a_payload_is_edited_and_checked_by_its_task(app: Tenure, browser: Browser, fail: Fail) -> None:
    (id,) = fail("a")
    job = {"queue": "images", "id": id}
    wrong = browser.post("edit", job, payload='[["a"], {"size": "large"}]')
    assert wrong.status == 422
    assert "size" in wrong.json["error"]
    assert browser.post("edit", job, payload='[["b"], {}]').json == {"done": 1}
    assert app.inspect.job("images", id).payload == b'[["b"], {}]'  # type: ignore[union-attr]
    assert browser.post("edit", job, payload='[["c"], {}]').status == 409


def test_jobs_are_enqueued(app: Tenure, browser: Browser) -> None:
    made = browser.post("enqueue", {"queue": "images"}, task="shop.thumbnail", payload='[["a"], {}]', delay=60)
    assert app.inspect.job("images", made.json["id"]).state is State.SCHEDULED  # type: ignore[union-attr]
    assert browser.post("enqueue", {"queue": "raw"}, payload="text").json["done"] == 1
    assert browser.post("enqueue", {"queue": "images"}, task="shop.other", payload="[]").status == 400
    assert browser.post("enqueue", {"queue": "images"}, task="shop.thumbnail", payload="[[1,2,3],{}]").status == 422


def test_flows(app: Tenure, browser: Browser) -> None:
    task = app.task(name="fails", queue="q", retries=0)(lambda: 1 / 0)
    flow = group([task.call(), task.using(delay=60).call()]).enqueue()
    app.testing().drain(raises=False)
    select = {"flow": flow.id}
    assert browser.post("flow_retry", select).json == {"done": 1}
    assert flow.view().left == 2
    assert browser.post("flow_cancel", select, reason="no need").json == {"done": 1}
    assert flow.view().reason == "no need"
    with app.open_group("q") as members:
        assert browser.post("flow_seal", {"flow": members.flow.id}).json == {"done": 1}
        assert members.flow.view().sealed
    assert browser.post("flow_seal", {"flow": "q/gone"}).status == 409
    assert browser.post("flow_cancel", {"flow": "no id"}).status == 400


def test_queues_lanes_schedules_limits_and_runs(app: Tenure, browser: Browser) -> None:
    queue = {"queue": "q"}
    app.queue("q").enqueue(b"x", lane="user:1")
    assert browser.post("pause", queue).json == {"done": 1}
    assert app.inspect.settings("q").paused
    browser.post("resume", queue)
    browser.post("configure", queue, max_length=7, lane_failure="park")
    settings = app.inspect.settings("q")
    assert (settings.paused, settings.max_length, settings.lane_failure) == (False, 7, "park")
    lane = queue | {"lane": "user:1"}
    assert browser.post("park", lane).json == {"done": 1}
    assert browser.post("park", lane).status == 409
    assert browser.post("resume_lane", lane).json == {"done": 1}
    app.schedules.add("poll", b"x", Every(hours=1), queue="q")
    schedule = queue | {"name": "poll"}
    browser.post("schedule_pause", schedule, reason="the disk is full")
    assert app.schedules.get("q", "poll").reason == "the disk is full"  # type: ignore[union-attr]
    browser.post("schedule_resume", schedule)
    assert browser.post("schedule_edit", schedule, cron="0 2 * * *").json == {"done": 1}
    assert app.schedules.get("q", "poll").explanation == "At 02:00 every day (UTC)"  # type: ignore[union-attr]
    assert browser.post("schedule_trigger", schedule).json["done"] == 1
    assert browser.post("schedule_remove", schedule).json == {"done": 1}
    assert browser.post("schedule_remove", schedule).status == 409
    assert browser.post("limit_set", {"name": "stripe"}, concurrency=3).json == {"done": 1}
    assert app.limits.get("stripe").concurrency == 3
    assert browser.post("limit_clear", {"name": "stripe"}).json == {"done": 1}
    assert browser.post("quiet", {"worker": "nobody"}).status == 409
    assert browser.post("stacks", {"worker": "nobody"}).status == 409


def test_the_audit_has_each_action_and_no_payload(app: Tenure, browser: Browser, fail: Fail) -> None:
    ids = fail("a", "b", "c")
    browser.post("enqueue", {"queue": "raw"}, payload="s3cret")
    browser.post("retry", {"queue": "images", "id": ids[0]})
    browser.post("retry", {"queue": "images", "id": ids[0]})
    browser.run("discard", {"queue": "images", "state": "failed"})
    entries = browser.get("audit")["audit"]
    assert [(one["action"], one["count"], one["result"]) for one in entries][:3] == [
        ("discard", 2, "finished"),
        ("discard", 2, "begun"),
        ("retry", 0, "nothing to do"),
    ]
    assert entries[0]["selection"] == {"queue": "images", "state": "failed"}
    assert (entries[0]["user"], entries[0]["address"]) == ("unnamed", "127.0.0.1")
    assert "s3cret" not in str(entries)
    assert [entry.action for entry in app.inspect.audit()] == [one["action"] for one in entries]
    browser.post("limit_set", {"name": "stripe"}, concurrency=3)
    assert browser.get("audit")["audit"][0]["selection"] == {"name": "stripe", "concurrency": "3"}


@pytest.mark.parametrize(
    ("action", "select", "args", "status"),
    [
        ("retry", {}, {}, 400),
        ("retry", {"colour": "red"}, {}, 400),
        ("retry", {"state": "ready"}, {}, 400),
        ("retry", {"queue": 7, "id": "x"}, {}, 400),
        ("retry", {"jobs": "x"}, {}, 400),
        ("retry", {"jobs": [["q", str(n)] for n in range(501)]}, {}, 400),
        ("retry", {"queue": "q"}, {"rate": 0}, 400),
        ("retry", {"queue": "q"}, {"colour": "red"}, 400),
        ("retry", {"queue": "q"}, {"burst": 3}, 400),
        ("pause", {"queue": "q"}, {"reason": "for lunch"}, 400),
        ("purge", {"queue": "q"}, {}, 400),
        ("purge", {"queue": "q", "state": "active"}, {}, 400),
        ("pause", {"queue": "q", "id": "x"}, {}, 400),
        ("configure", {"queue": "q"}, {"max_length": -1}, 400),
        ("configure", {"queue": "q"}, {}, 400),
        ("schedule_edit", {"queue": "q", "name": "x"}, {"cron": "1-59/1 " * 500}, 400),
        ("schedule_edit", {"queue": "q", "name": "x"}, {"every_s": 60}, 409),
        ("fly", {}, {}, 404),
    ],
)
def test_a_wrong_action_is_refused(
    browser: Browser, action: str, select: dict[str, object], args: dict[str, object], status: int
) -> None:
    answer = browser.post(action, select, **args)
    assert answer.status == status
    assert "\n" not in answer.json["error"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (JSON, 403),
        (JSON | {"Sec-Fetch-Site": "cross-site", "Origin": "http://127.0.0.1:{port}"}, 403),
        (JSON | {"Sec-Fetch-Site": "same-site"}, 403),
        (JSON | {"Origin": "http://evil.example"}, 403),
        (JSON | {"Origin": "null"}, 403),
        (JSON | {"Origin": "http://[::1"}, 403),
        (JSON | {"Origin": "http://127.0.0.1:{port}"}, 200),
        (JSON | {"Sec-Fetch-Site": "none"}, 200),
        (SAME_SITE, 415),
        (SAME_SITE | {"Content-Type": "text/plain"}, 415),
        (SAME_SITE | {"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ],
)
def test_a_page_of_another_site_changes_nothing(
    app: Tenure, browser: Browser, headers: dict[str, str], status: int
) -> None:
    given = {name: value.format(port=browser.port) for name, value in headers.items()}
    answer = browser.send("POST", "/api/v1/actions/pause", '{"select": {"queue": "q"}}', **given)
    assert answer.status == status
    assert app.inspect.settings("q").paused is (status == 200)
