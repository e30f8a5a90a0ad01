"""A dashboard on a real server and a real socket, an app for it, and a client that sends what a browser sends."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Any

import pytest
from starlette.types import ASGIApp

from tenure import Tenure
from tenure.core.job import ErrorInfo
from tenure.core.outcome import Failed
from tenure.redis.sync import SyncDriver
from tenure.web import dashboard
from tests.support.serving import served
from tests.support.waiting import until

SAME_SITE = {"Sec-Fetch-Site": "same-origin"}


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@dataclass
class Browser:
    """Sends requests to one dashboard. `headers`: with each of them."""

    port: int
    headers: dict[str, str] = field(default_factory=dict)

    def send(self, method: str, path: str, body: str | None = None, **headers: str) -> Answer:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, self.headers | headers)
            got = connection.getresponse()
            text = got.read().decode()
            return Answer(got.status, {name.lower(): value for name, value in got.getheaders()}, text)
        finally:
            connection.close()

    def page(self, path: str, **headers: str) -> Answer:
        return self.send("GET", f"/{path}", **headers)

    def get(self, path: str) -> Any:
        answer = self.send("GET", f"/api/v1/{path}")
        assert answer.status == 200, answer
        return answer.json

    def post(self, action: str, select: dict[str, Any] | None = None, **args: Any) -> Answer:
        body = json.dumps({"select": select or {}, **args})
        headers = SAME_SITE | {"Content-Type": "application/json"}
        return self.send("POST", f"/api/v1/actions/{action}", body, **headers)

    def run(self, action: str, select: dict[str, Any], **args: Any) -> dict[str, Any]:
        """Change many jobs, with the number that the dry run has found, and wait for the end."""
        found = self.post(action, select, **args).json
        begun = self.post(action, select, expect=found["expect"], **args)
        assert begun.status == 202, begun
        return self.ended(begun.json["run"])

    def ended(self, id: int) -> dict[str, Any]:
        def run() -> dict[str, Any]:
            (found,) = [one for one in self.get("runs")["runs"] if one["id"] == id]
            return found

        until(lambda: run()["state"] != "running")
        return run()


Serve = Callable[[ASGIApp], Browser]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves an ASGI app in a thread."""
    with ExitStack() as stack:
        yield lambda asgi: Browser(stack.enter_context(served(asgi)))


@pytest.fixture
def app(redis_url: str) -> Iterator[Tenure]:
    with Tenure(redis_url) as app:

        @app.task(queue="images", name="shop.thumbnail")
        def thumbnail(path: str, size: int = 128) -> str:
            return path

        yield app


@pytest.fixture
def browser(app: Tenure, serve: Serve) -> Browser:
    return serve(dashboard(app))


Fail = Callable[..., list[str]]


@pytest.fixture
def fail(app: Tenure, driver: SyncDriver) -> Fail:
    """Fails jobs of `shop.thumbnail`, one for each path, and returns their ids."""

    def fail(*paths: str, error: str = "ValueError", traceback: str = "", message: str = "it broke") -> list[str]:
        ids = []
        for path in paths:
            ids.append(app.tasks["shop.thumbnail"].enqueue(path).id)
            (lease,) = driver.run(app.engine.lease("w", ("images",), 1)).leases
            driver.run(app.engine.settle([(lease, Failed(ErrorInfo(error, message, traceback)))]))
        return ids

    return fail
