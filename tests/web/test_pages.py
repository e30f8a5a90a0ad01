"""The pages: what they show, and that no text of a job becomes markup."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tenure import Every, Limit, Tenure, chain, group
from tenure.core.job import ErrorInfo
from tenure.core.outcome import Failed
from tenure.core.shape import Progress
from tenure.core.steps import Command, Steps
from tenure.core.worker_view import JobStack, WorkerView
from tenure.redis.sync import SyncDriver
from tenure.web import dashboard, pages, shown
from tenure.web.redact import HIDDEN, Redactor
from tests.web.conftest import Browser, Fail, Serve

PAGES = ("", "queues", "jobs", "errors", "lanes", "flows", "schedules", "limits", "workers", "audit")
STATIC = Path(__file__).parents[2] / "src" / "tenure" / "web" / "static"
FRAGMENT = {"Accept": "text/vnd.tenure.fragment+html"}
XSS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg onload=alert(1)>",
    "</textarea><script>x</script>",
    "{{ 7 * 7 }}",
    "javascript:alert(1)",
)


class Elements(HTMLParser):
    """The elements of a page that could do harm, and all attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: list[str | None] = []
        self.harmful: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "script":
            self.scripts.append(values.get("src"))
        if tag in ("img", "iframe", "object", "embed") or any(name.startswith("on") for name in values):
            self.harmful.append(tag)
        self.links += [value for name in ("href", "action", "src") if (value := values.get(name))]


@pytest.mark.parametrize("path", PAGES)
def test_an_empty_page_states_what_to_do_next(browser: Browser, path: str) -> None:
    answer = browser.page(path)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert 'class="empty"' in answer.text


def test_a_fragment_is_the_middle_of_the_page(app: Tenure, browser: Browser) -> None:
    app.queue("q").enqueue(b"x")
    fragment = browser.page("queues", **FRAGMENT)
    assert fragment.text.lstrip().startswith("<main")
    assert "<html" not in fragment.text
    assert (">q</a>" in fragment.text, fragment.headers["vary"]) == (True, "accept")


def test_all_links_are_relative_and_lead_somewhere(app: Tenure, browser: Browser, fail: Fail) -> None:
    fail("a")
    app.queue("q").enqueue(b"x", lane="user:1", id="j")
    seen, todo = set[str](), [""]
    while todo:
        path = todo.pop()
        if path in seen or len(seen) > 80:
            continue
        seen.add(path)
        answer = browser.page(path)
        assert answer.status == 200, path
        if "html" not in answer.headers["content-type"]:
            continue
        for link in Elements(answer.text).links:
            assert not link.startswith(("/", "http", "//", "javascript:")), (path, link)
            link = link.partition("#")[0]
            if not link or link.startswith("?"):
                continue
            depth = path.partition("?")[0].count("/")
            ups = link.count("../")
            assert ups in (0, depth)
            todo.append(
                link.removeprefix("./").replace("../", "") if ups == depth else f"{path.rpartition('/')[0]}/{link}"
            )
    assert {"queues/q", "jobs/q/j", "lanes/q/user%3A1"} <= seen


def test_a_flow_is_drawn_with_all_flows_in_it(app: Tenure, browser: Browser) -> None:
    def half(n: int) -> float:
        return 1 / n

    task = app.task(name="half", queue="q", retries=0)(half)
    flow = group([task.call(n) for n in range(60)] + [chain(task.call(1), task.using(delay=60).call(2))]).enqueue()
    app.testing().drain(raises=False)
    page = browser.page(f"flows/{flow.id}").text
    assert "61, 59 completed, 1 failed, 0 cancelled, 1 left" in page
    squares = Counter(re.findall(r'<rect class="(\w+)" x', page))
    assert squares == {"completed": 60, "failed": 1, "open": 1}
    assert len(re.findall(r'<rect class="frame open"', page)) == 2
    assert "ZeroDivisionError" in page
    (job,) = flow.failed()[0]
    assert f'href="../../flows/{flow.id}"' in browser.page(f"jobs/q/{job.id}").text
    assert flow.id in browser.page("flows").text
    assert flow.id in browser.page("flows?queue=q").text
    assert browser.page("flows/q/gone").status == 404
    assert browser.get("flows?queue=q")["flows"][-1]["id"] == flow.id
    assert browser.get(f"flows/{flow.id}")["flow"]["left"] == 1


@pytest.mark.parametrize("text", XSS)
def test_no_text_becomes_markup(app: Tenure, driver: SyncDriver, serve: Serve, fail: Fail, text: str) -> None:
    queue = "".join(char for char in text if char not in "/ ")
    app.queue(queue).enqueue(text.encode(), id=text, lane=text, headers={"h": text})
    fail(text, error=text[:100], message=text, traceback=f'  File "{text}", line 1, in {text}\nE: {text}')
    app.control.pause(queue)
    app.control.park_lane(queue, text)
    app.schedules.add("s", b"x", Every(hours=1), queue=queue)
    app.schedules.pause(queue, "s", text)
    app.limits.set(text.replace("{", "").replace("}", ""), per_second=1, new=True)
    driver.run(app.engine.announce(WorkerView("w", (queue,), text, 1, 1, 1, 1)))
    browser = serve(dashboard(app, title=text))
    failed = browser.get("jobs?state=failed")["jobs"][0]["id"]
    paths = [
        *PAGES,
        f"queues/{shown.path(queue)}",
        f"jobs/{shown.path(queue, text)}",
        f"lanes/{shown.path(queue, text)}",
    ]
    paths += [f"jobs/images/{failed}", f"jobs?task={shown.path(text)}", f"lanes?queue={shown.path(queue)}&state=parked"]
    for place in paths:
        answer = browser.page(place)
        assert answer.status == 200, place
        found = Elements(answer.text)
        assert found.harmful == []
        assert len(found.scripts) == 4
        assert None not in found.scripts
        assert "alert(1)" not in str([link for link in found.links if link.startswith("javascript")])
        assert ">49<" not in answer.text


def test_a_payload_of_30_mb_is_cut_and_can_be_loaded(redis_url: str, serve: Serve) -> None:
    with Tenure(redis_url, max_payload=32_000_000) as app:
        app.queue("q").enqueue(b"x" * 30_000_000, id="large")
        browser = serve(dashboard(app))
        page = browser.page("jobs/q/large")
        assert page.status == 200
        assert len(page.text) < 100_000
        assert len(browser.page("api/v1/jobs/q/large/payload").text) == 30_000_000
        assert len(browser.page("jobs?queue=q").text) < 50_000


def test_named_fields_are_hidden_before_they_leave(app: Tenure, serve: Serve) -> None:
    payload = b'[[], {"password": "s3cret", "user": {"token": "t0ken", "name": "ada"}, "n": 1.10}]'
    app.queue("q").enqueue(payload, id="x", headers={"password": "s3cret", "tenant": "acme"})
    browser = serve(dashboard(app, redact=("password", "*.token")))
    for path in ("jobs/q/x", "api/v1/jobs/q/x", "api/v1/jobs/q/x/payload"):
        text = browser.page(path).text
        assert "s3cret" not in text
        assert "t0ken" not in text
        assert "ada" in text
        assert "1.10" in text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b'{"a":1e400,"b":12345678901234567890}', '{\n  "a": 1e400,\n  "b": 12345678901234567890\n}'),
        (b'{"Password":[1]}', f'{{\n  "Password": "{HIDDEN}"\n}}'),
        (b"\xff", "(1 bytes, no JSON to hide fields in)"),
        (b"[" * 10_000, "(10,000 bytes, no JSON to hide fields in)"),
        (b"[1]" + b" " * 250_000, "(250,003 bytes, too large to hide fields in)"),
        (None, None),
    ],
)
def test_what_is_shown_of_a_payload(data: bytes | None, text: str | None) -> None:
    assert Redactor(("password",)).text(data)[0] == text


@pytest.mark.parametrize(
    ("pattern", "hidden"),
    [
        ("token", {".token", ".user.token", ".user.Token"}),
        ("user.token", {".user.token", ".user.Token"}),
        ("*.token", {".token", ".user.token", ".user.Token"}),
        ("*_key", {".api_key"}),
    ],
)
def test_which_fields_a_name_or_a_path_means(pattern: str, hidden: set[str]) -> None:
    paths = (".token", ".user.token", ".user.Token", ".tokens", ".api_key", ".user")
    assert {path for path in paths if Redactor((pattern,)).hides(path)} == hidden


def test_without_hidden_fields_any_bytes_are_shown() -> None:
    assert Redactor().text(b"\xff<b>") == ("\\xff<b>", False)
    assert Redactor().text(b"[" * 10_000) == ("[" * 10_000, True)


def test_only_what_is_shown_whole_can_be_edited() -> None:
    assert Redactor().text(b'{"a":1}') == ('{\n  "a": 1\n}', True)
    assert Redactor(("a",)).text(b'{"a":1}')[1] is False
    assert Redactor(("a",)).text(b"text")[1] is False
    assert Redactor(("a",)).text(b'{"b":1}')[1] is True
    assert Redactor().text(b'[{"a":1,"a":2}]')[1] is False, "the first value would be lost"


def test_a_payload_with_half_a_character_is_shown(app: Tenure, browser: Browser) -> None:
    app.queue("q").enqueue(b'{"a":"\\ud800"}', id="x")
    for path in ("jobs/q/x", "api/v1/jobs/q/x", "api/v1/jobs/q/x/payload"):
        assert browser.page(path).status == 200, path


def test_progress_worker_and_attempts_are_on_the_page_of_a_job(
    app: Tenure, driver: SyncDriver, browser: Browser
) -> None:
    app.queue("q").enqueue(b"x", id="j")
    (lease,) = driver.run(app.engine.lease("w-1", ("q",), 1)).leases
    assert app.engine.results is not None
    driver.run(app.engine.results.progress(lease, Progress(30, 120, "half a page")))
    driver.run(app.engine.announce(WorkerView("w-1", ("q",), "host", 1, 1, 1, 4)))
    text = browser.page("jobs/q/j").text
    assert "half a page" in text
    assert "25%" in text
    assert "w-1" in text
    assert ">j</a>" in browser.page("workers").text


def test_workers_have_their_stacks_limits_their_holders_and_schedules_their_jobs(
    app: Tenure, driver: SyncDriver, browser: Browser
) -> None:
    app.limits.set("gpu", concurrency=1, new=True)
    first = app.tasks["shop.thumbnail"].using(limits=[Limit("gpu", concurrency=1)]).enqueue("a").id
    (lease,) = driver.run(app.engine.lease("w", ("images",), 1)).leases
    stack = JobStack("images", first, "shop.thumbnail", 'File "shop.py", line 1, in <module>')
    view = WorkerView("w", ("images",), "host", 1, 1, 1, 1, stacks=(stack,), stacks_ms=1)
    driver.run(app.engine.announce(view))
    app.schedules.add("nightly", b"x", Every(hours=1), queue="images")
    ran = [app.schedules.trigger("images", "nightly").id for _ in range(2)]
    assert "line 1, in &lt;module&gt;" in browser.page("workers").text
    (worker,) = browser.get("workers")["workers"]
    assert worker["stacks"] == [{"queue": "images", "id": first, "task": "shop.thumbnail", "text": stack.text}]
    assert f"jobs/images/{first}" in browser.page("limits").text
    ((holder,),) = (one["holders"] for one in browser.get("limits")["limits"])
    assert (holder["queue"], holder["id"], holder["worker"]) == ("images", first, lease.worker)
    page = browser.page("schedules").text
    assert page.index(f"jobs/images/{ran[1]}") < page.index(f"jobs/images/{ran[0]}")


def test_a_group_without_a_task_has_no_buttons(app: Tenure, driver: SyncDriver, browser: Browser, fail: Fail) -> None:
    """A filter cannot name raw payloads, so a button of theirs would change the jobs of all tasks."""
    fail("a")
    assert browser.page("errors").text.count("data-action") == 2
    app.queue("images").enqueue(b"x")
    (lease,) = driver.run(app.engine.lease("w", ("images",), 1)).leases
    driver.run(app.engine.settle([(lease, Failed(ErrorInfo("ValueError", "it broke")))]))
    browser.post("pause", {"queue": "q"})  # so that the page is read again
    text = browser.page("errors").text
    assert "raw payload" in text
    assert text.count("data-action") == 2


def test_an_id_that_is_no_text_is_shown(app: Tenure, driver: SyncDriver, browser: Browser) -> None:
    def garbage() -> Steps[None]:
        yield Command(("ZADD", "{tenure:q}:failed", 1, b"\xff\xfe"))
        yield Command(("ZADD", "{tenure}:queues", 9_999_999_999_999, b"\xff\xfe"))

    app.queue("q").enqueue(b"x")
    driver.run(garbage())
    for path in (*PAGES, "queues/q", "jobs?queue=q", "api/v1/jobs?queue=q", "api/v1/errors"):
        assert browser.page(path).status == 200, path
    assert browser.page("jobs/q/%FF%FE").status == 404


def test_a_dashboard_below_a_path(app: Tenure, serve: Serve) -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    app.queue("q").enqueue(b"x", id="j")
    browser = serve(Starlette(routes=[Mount("/ops", dashboard(app))]))
    assert browser.page("ops/jobs/q/j").status == 200
    assert 'href="../../queues/q"' in browser.page("ops/jobs/q/j").text
    assert browser.page("ops/api/v1/jobs/q/none").json["error"]


def test_a_proxy_may_keep_the_path_or_remove_it(app: Tenure, serve: Serve) -> None:
    app.queue("q").enqueue(b"x", id="a/b")
    browser = serve(dashboard(app, root_path="/ops/"))
    for path in ("queues/q", "ops/queues/q", "ops/jobs/q/a%2Fb", "ops/api/v1/jobs/q/a%2Fb"):
        assert browser.page(path).status == 200, path


def test_static_files_are_kept_by_their_hash(browser: Browser) -> None:
    links = [link for link in Elements(browser.page("").text).links if "static/" in link]
    assert len(links) == 7
    total = 0
    for link in links:
        answer = browser.page(link.removeprefix("./"))
        assert (answer.status, "immutable" in answer.headers["cache-control"]) == (200, True)
        total += len(answer.text) if "javascript" in answer.headers["content-type"] else 0
    assert total <= 100_000


def test_vendored_files_are_unchanged_and_have_their_licences() -> None:
    sums = dict(line.split("  ")[::-1] for line in (STATIC / "vendor" / "SHA256SUMS").read_text().splitlines())
    files = {path.name for path in (STATIC / "vendor").iterdir()} - {"SHA256SUMS"}
    assert files == sums.keys()
    for name, sum in sums.items():
        assert hashlib.sha256((STATIC / "vendor" / name).read_bytes()).hexdigest() == sum
    assert (STATIC / "dashboard.js").stat().st_size <= 20_000


@pytest.mark.parametrize("minute", range(10))
def test_the_last_point_of_the_chart_has_ten_minutes(minute: int) -> None:
    now_ms = (28_500_000 + minute) * 60_000 + 1
    counts = {"completed": 1, "failed": 0, "cancelled": 0}
    minutes = [{"at_ms": now_ms - 1 - ago * 60_000, **counts} for ago in range(20)]
    assert pages._sums([{"minutes": minutes}], 142, 10, now_ms)["ended"][-3:] == [0, 10, 10]


def test_another_wire_format_offers_what_it_has(redis_url: str, serve: Serve) -> None:
    with Tenure(redis_url, protocol="redis-work-queue:jobs") as app:
        app.queue("jobs").enqueue(b"x")
        browser = serve(dashboard(app))
        for path in (*PAGES, "queues/jobs"):
            assert browser.page(path).status == 200, path
        assert 'data-action="pause"' not in browser.page("queues/jobs").text
        assert browser.post("pause", {"queue": "jobs"}).status == 400
