"""Who may see and change what: roles, the password file, and headers that keep other sites out."""

from __future__ import annotations

import os
import re
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from starlette.requests import Request

from tenure import Tenure
from tenure.core.errors import InvalidArgument, NotConfigured
from tenure.web import dashboard
from tenure.web.access import ACTIONS, PAYLOAD, ROLES, Access, AccessRefused, Passwords, add_user, rights_of
from tenure.web.redact import Redactor
from tenure.web.serve import OnlyHosts
from tenure.web.site import Site, site
from tests.web.conftest import SAME_SITE, Browser, Serve

PASSWORD = "correct horse"


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": f"Basic {b64encode(f'{name}:{password}'.encode()).decode()}"}


@pytest.fixture
def users(tmp_path: Path) -> str:
    path = str(tmp_path / "users.txt")
    add_user(path, "ada", "operator", PASSWORD)
    add_user(path, "bob", "viewer", PASSWORD)
    return path


def every_path(app: Tenure) -> dict[str, list[str]]:
    """All routes of a dashboard by their method, with names in place of the parts."""
    routes = Site(app, Access(), "", Redactor()).starlette().routes
    found: dict[str, list[str]] = {"GET": [], "POST": []}
    for route in routes:
        path = re.sub(r"\{[^}]+\}", "images", route.path)  # type: ignore[attr-defined]
        found["POST" if path.endswith("/actions/images") else "GET"].append(path)
    return found


def test_nobody_gets_anything_without_a_role(app: Tenure, serve: Serve) -> None:
    browser = serve(dashboard(app, authorize=lambda request: None))
    paths = every_path(app)
    assert len(paths["GET"]) > 25
    for path in paths["GET"]:
        status = browser.send("GET", path).status
        assert status == (404 if path == "/static/images" else 403), path
    for action in ACTIONS:
        assert browser.post(action, {"queue": "images"}).status == 403


def test_a_viewer_sees_all_but_payloads_and_changes_nothing(app: Tenure, serve: Serve) -> None:
    job = app.queue("images").enqueue(b'{"card": 4711}', id="images", headers={"tenant": "acme"})
    browser = serve(dashboard(app, authorize=lambda request: "viewer"))
    for path in every_path(app)["GET"]:
        if path.endswith("/events"):
            continue
        answer = browser.send("GET", path)
        needed = path in ("/api/v1/jobs/images/images/payload", "/api/v1/jobs/images/images/result")
        assert answer.status in ((403,) if needed else (200, 400, 404)), path
        assert "4711" not in answer.text
        assert "acme" not in answer.text
        assert "data-action" not in answer.text.partition("<main")[2]
    for action in ACTIONS:
        assert browser.post(action, {"queue": "images"}).status == 403
    assert job.state() == "ready"


def test_a_set_of_actions_allows_these(app: Tenure, serve: Serve) -> None:
    browser = serve(dashboard(app, authorize=lambda request: {"pause", PAYLOAD}))
    app.queue("q").enqueue(b"4711", id="x")
    assert browser.post("pause", {"queue": "q"}).status == 200
    assert browser.post("resume", {"queue": "q"}).status == 403
    assert browser.get("jobs/q/x")["payload"] == "4711"
    page = browser.page("queues/q").text
    assert 'data-action="cancel"' not in page


def test_authorize_may_be_async_and_its_user_is_in_the_audit(app: Tenure, serve: Serve) -> None:
    class User:
        display_name = "ada"

    async def authorize(request: Request) -> str:
        request.scope["user"] = User()
        return "operator"

    browser = serve(dashboard(app, authorize=authorize))
    browser.post("pause", {"queue": "q"})
    assert [entry.user for entry in app.inspect.audit()] == ["ada"]


@pytest.mark.parametrize(("role", "status"), [(False, 403), ("", 403), (0, 403), (True, 403), ("admin", 500)])
def test_what_is_no_role_lets_nobody_in(app: Tenure, serve: Serve, role: str, status: int) -> None:
    browser = serve(dashboard(app, authorize=lambda request: role))
    assert browser.page("queues").status == status


@pytest.mark.parametrize("role", ["admin", {"fly"}, ["retry", "Retry"], True, {7}])
def test_an_unknown_role_is_an_error(role: str) -> None:
    with pytest.raises(InvalidArgument, match="role"):
        rights_of(role)


@pytest.mark.parametrize(("host", "is_served"), [("127.0.0.1", True), ("::1", True), ("10.0.0.1", False), ("x", False)])
async def test_without_a_rule_only_this_machine_is_served(host: str, is_served: bool) -> None:
    request = Request({"type": "http", "headers": [], "client": (host, 1)})
    if is_served:
        assert (await Access().visitor(request)).rights == ROLES["operator"]
    else:
        with pytest.raises(AccessRefused, match="authorize"):
            await Access().visitor(request)


def test_read_only_leaves_no_action(app: Tenure, serve: Serve) -> None:
    browser = serve(site(app, Access(read_only=True)))
    for action in ACTIONS:
        assert browser.post(action, {"queue": "q"}).status == 403


def test_users_of_the_password_file(app: Tenure, serve: Serve, users: str) -> None:
    browser = serve(site(app, Access(passwords=Passwords(users))))
    nobody = browser.page("queues")
    assert (nobody.status, "Basic" in nobody.headers["www-authenticate"]) == (401, True)
    browser.headers = basic("bob", PASSWORD)
    assert browser.page("queues").status == 200
    assert browser.post("pause", {"queue": "q"}).status == 403
    browser.headers = basic("ada", PASSWORD)
    assert browser.post("pause", {"queue": "q"}).status == 200
    assert [entry.user for entry in app.inspect.audit()] == ["ada"]
    assert PASSWORD not in Path(users).read_text()


def test_a_change_of_the_password_file_counts_at_once(app: Tenure, serve: Serve, users: str) -> None:
    browser = serve(site(app, Access(passwords=Passwords(users))))
    browser.headers = basic("ada", PASSWORD)
    assert browser.page("queues").status == 200
    lines = Path(users).read_text().splitlines()
    Path(users).write_text("\n".join(line for line in lines if not line.startswith("ada")))
    os.utime(users, (1, 1))
    assert browser.page("queues").status == 401
    os.remove(users)
    gone = browser.page("queues")
    assert gone.status == 503
    assert users not in gone.text  # anybody may read this answer


def test_five_wrong_passwords_a_minute(app: Tenure, serve: Serve, users: str) -> None:
    now = 0.0
    browser = serve(site(app, Access(passwords=Passwords(users, lambda: now))))
    for name, password in (("ada", "x"), ("ada", ""), ("eve", PASSWORD), ("", ""), ("bob", "y")):
        assert browser.page("queues", **basic(name, password)).status == 401
    assert browser.page("queues", **basic("ada", PASSWORD)).status == 429
    now = 61.0
    assert browser.page("queues", **basic("ada", PASSWORD)).status == 200


def test_many_wrong_passwords_at_once_count_each(app: Tenure, serve: Serve, users: str) -> None:
    browser = serve(site(app, Access(passwords=Passwords(users))))
    with ThreadPoolExecutor(20) as pool:
        right = pool.map(lambda n: browser.page("queues", **basic("bob", PASSWORD)).status, range(20))
        assert set(right) == {200}
        answers = pool.map(lambda n: browser.page("queues", **basic("ada", f"wrong-{n}")).status, range(20))
    assert sorted(answers) == [401] * 5 + [429] * 15
    assert browser.page("queues", **basic("ada", PASSWORD)).headers["retry-after"] == "60"


@pytest.mark.parametrize("header", ["Basic", "Basic !!!", "Bearer x", "Basic " + "x" * 5_000, "Basic /w=="])
def test_a_malformed_password_is_a_wrong_one(app: Tenure, serve: Serve, users: str, header: str) -> None:
    browser = serve(site(app, Access(passwords=Passwords(users))))
    assert browser.page("queues", Authorization=header).status == 401


async def test_addresses_with_failures_are_bounded(users: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.web.access.is_right", lambda password, kept: False)
    monkeypatch.setattr("tenure.web.access.ADDRESSES_MAX", 3)
    passwords = Passwords(users)
    for number in range(10):
        headers = [(b"authorization", basic("eve", "x")["Authorization"].encode())]
        request = Request({"type": "http", "headers": headers, "client": (f"host-{number}", 1)})
        with pytest.raises(Exception, match="wrong"):
            await passwords.check(request)
    assert list(passwords._failures) == ["host-7", "host-8", "host-9"]


@pytest.mark.parametrize(
    ("text", "mode", "part"),
    [
        ("ada:operator:scrypt$x$y\n", 0o644, "chmod 600"),
        ("ada:operator:scrypt$x$y\n", 0o602, "chmod 600"),
        ("ada:admin:scrypt$x$y\n", 0o600, "Line 1"),
        ("ada:operator:secret\n", 0o600, "Line 1"),
        ("# nobody\n", 0o600, "has no user"),
    ],
)
def test_a_password_file_that_cannot_be_used(tmp_path: Path, text: str, mode: int, part: str) -> None:
    path = tmp_path / "users"
    path.write_text(text)
    os.chmod(path, mode)
    with pytest.raises(NotConfigured, match=part) as found:
        Passwords(str(path))
    assert "secret" not in str(found.value)


def test_users_are_added_and_replaced(tmp_path: Path) -> None:
    path = str(tmp_path / "users")
    add_user(path, "ada", "viewer", PASSWORD)
    Path(path).write_text("# of the night shift\n" + Path(path).read_text())
    add_user(path, "ada", "operator", PASSWORD)
    comment, user = Path(path).read_text().splitlines()
    assert comment == "# of the night shift"
    assert user.startswith("ada:operator:scrypt$")
    assert os.stat(path).st_mode & 0o777 == 0o600
    for name, password in (("a:b", PASSWORD), ("", PASSWORD), ("ada", "short"), ("a\nb", PASSWORD)):
        with pytest.raises(InvalidArgument):
            add_user(path, name, "viewer", password)


def test_each_answer_has_the_headers_that_keep_other_sites_out(app: Tenure, browser: Browser) -> None:
    for path in ("", "api/v1/queues", "api/v1/nothing", "static/none"):
        headers = browser.page(path).headers
        assert headers["content-security-policy"] == "default-src 'self'; frame-ancestors 'none'; base-uri 'none'"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_pages_hold_no_inline_script_or_style(browser: Browser) -> None:
    for path in ("", "queues", "jobs", "errors", "schedules", "workers"):
        text = browser.page(path).text
        assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=|\sstyle=|javascript:", text), path


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *(("127.0.0.1:{port}", 200), ("localhost", 200), ("[::1]:80", 200), ("[fe80::1]", 200)),
        *(("evil.example", 400), ("", 400), ("[fe80::2]:80", 400)),
    ],
)
def test_other_names_of_the_host_are_refused(app: Tenure, serve: Serve, host: str, status: int) -> None:
    browser = serve(OnlyHosts(site(app, Access()), ("localhost", "127.0.0.1", "::1", "[fe80::1]")))
    assert browser.page("queues", Host=host.format(port=browser.port)).status == status


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", ""])
def test_without_a_rule_another_name_of_this_machine_is_refused(app: Tenure, serve: Serve, host: str) -> None:
    """A page of another site can give its own name the address 127.0.0.1, and then has the origin of the dashboard."""
    answer = serve(dashboard(app)).page("queues", Host=host)
    assert (answer.status, "authorize=" in answer.text) == (400, True)
    assert serve(dashboard(app, authorize=lambda request: "viewer")).page("queues", Host=host).status == 200


def test_a_large_body_is_refused(browser: Browser) -> None:
    headers = SAME_SITE | {"Content-Type": "application/json"}
    assert browser.send("POST", "/api/v1/actions/pause", "[" * 1_000_000, **headers).status == 400
    assert browser.send("POST", "/api/v1/actions/pause", "x" * 34_000_001, **headers).status == 413


def test_the_roles_are_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "dashboard.md").read_text()
    assert [action for action in ACTIONS if f"`{action}`" not in page] == []
    assert set(ROLES) == {"viewer", "operator"}
