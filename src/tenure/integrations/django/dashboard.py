"""The dashboard as a view: Django knows who asks, and the ASGI app of `tenure.web` answers.

That app keeps connections, a cache and the running bulk changes, so it has an event loop of its own, in a thread that
starts with the first request. It is the same under WSGI and ASGI. The stream of changes needs ASGI: under WSGI each
open page would hold a thread of the server, so a page changes when its reader loads it again.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, TypeVar
from urllib.parse import quote

from django.contrib.auth.views import redirect_to_login
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, HttpResponseForbidden, StreamingHttpResponse
from django.views.decorators.csrf import csrf_exempt

from tenure.integrations.django import registry
from tenure.integrations.django.project import DjangoApp
from tenure.web import dashboard

T = TypeVar("T")

ANSWER_S: Final = 60.0
"""How long a page may take. Redis that does not answer takes the patience of the app."""
ROLE: Final = "tenure.role"
EVENTS: Final = "api/v1/events"
CHUNKS_MOST: Final = 100
"""Events that wait for a slow reader."""


class _Loop:
    """An event loop in a thread of this process, begun at its first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, steps: Coroutine[Any, Any, T]) -> Any:
        """Run a coroutine there. Returns its future."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="tenure-dashboard", daemon=True).start()
        return asyncio.run_coroutine_threadsafe(steps, self._loop)


_loop: Final = _Loop()


@dataclass(frozen=True)
class _Visitor:
    display_name: str


@dataclass
class _Exchange:
    """One request of the ASGI app, and what it sends."""

    body: bytes
    started: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    chunks: asyncio.Queue[bytes | None] = field(default_factory=lambda: asyncio.Queue(CHUNKS_MOST))
    status: int = 500
    headers: list[tuple[str, str]] = field(default_factory=list)
    is_read: bool = False

    async def receive(self) -> dict[str, Any]:
        if self.is_read:
            await self.left.wait()
            return {"type": "http.disconnect"}
        self.is_read = True
        return {"type": "http.request", "body": self.body, "more_body": False}

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in message["headers"]]
            self.started.set()
        elif message.get("body"):
            await self.chunks.put(message["body"])


async def _answered(app: DjangoApp, scope: dict[str, Any], body: bytes) -> tuple[_Exchange, asyncio.Task[None]]:
    """Let the ASGI app answer. Returns when the answer has begun."""
    exchange = _Exchange(body)

    async def answer() -> None:
        try:
            await _site(app)(scope, exchange.receive, exchange.send)
        finally:
            exchange.started.set()
            await exchange.chunks.put(None)

    task = asyncio.create_task(answer())
    await exchange.started.wait()
    return exchange, task


async def _whole(app: DjangoApp, scope: dict[str, Any], body: bytes) -> tuple[_Exchange, bytes]:
    exchange, task = await _answered(app, scope, body)
    chunks = []
    while (chunk := await exchange.chunks.get()) is not None:
        chunks.append(chunk)
    await task
    return exchange, b"".join(chunks)


@cache
def _site(app: DjangoApp) -> Any:
    """Return the ASGI app. Its role comes from the view."""
    return dashboard(app, authorize=lambda request: request.scope[ROLE], **app.configuration.dashboard)


@csrf_exempt  # type: ignore[untyped-decorator]  # the ASGI app checks by the headers of the browser that an action comes from its own page
def show(request: HttpRequest, page: str) -> Any:
    """Answer a page, a file or an action of the dashboard.

    The permission `tenure.view` makes a viewer, `tenure.operate` an operator. A visitor who is not logged in is sent
    to LOGIN_URL.
    """
    user: Any = getattr(request, "user", None)
    role = role_of(user)
    if role is None:
        if user is not None and user.is_authenticated:
            return HttpResponseForbidden("You need the permission tenure.view.\n", content_type="text/plain")
        if "/api/" in request.path or request.method != "GET":
            return HttpResponseForbidden("You are not logged in.\n", content_type="text/plain")
        return redirect_to_login(request.get_full_path())
    scope = _scope(request, page) | {ROLE: role, "user": _Visitor(user.get_username())}
    app = registry.project_app()
    if page != EVENTS:
        exchange, content = _loop.start(_whole(app, scope, request.body)).result(ANSWER_S)
        return _headed(HttpResponse(content, status=exchange.status), exchange)
    if not isinstance(request, ASGIRequest):
        return HttpResponse("The stream of changes needs ASGI.\n", status=501, content_type="text/plain")
    exchange, task = _loop.start(_answered(app, scope, b"")).result(ANSWER_S)
    return _headed(StreamingHttpResponse(_stream(exchange, task), status=exchange.status), exchange)


def role_of(user: Any) -> str | None:
    """Return the role of a user of Django in the dashboard."""
    if user is None or not user.is_active:
        return None
    if user.has_perm("tenure.operate"):
        return "operator"
    return "viewer" if user.has_perm("tenure.view") else None


async def _stream(exchange: _Exchange, task: asyncio.Task[None]) -> AsyncIterator[bytes]:
    """Yield the events of a page on the loop of the server, until the reader leaves."""

    async def leave() -> None:
        exchange.left.set()
        task.cancel()

    try:
        while (chunk := await asyncio.wrap_future(_loop.start(exchange.chunks.get()))) is not None:
            yield chunk
    finally:
        _loop.start(leave())


def _headed(response: Any, exchange: _Exchange) -> Any:
    for name, value in exchange.headers:
        if name.lower() != "content-length":  # Django counts again
            response[name] = value
    return response


def _scope(request: HttpRequest, page: str) -> dict[str, Any]:
    """Return the request as ASGI has it. Parts of a path stay encoded where the server passes the raw path."""
    root = request.path[: len(request.path) - len(page)].rstrip("/")
    given = request.scope.get("raw_path") if isinstance(request, ASGIRequest) else None
    raw = given.partition(b"?")[0] if given else quote(request.path).encode()
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.scheme,
        "path": request.path,
        "raw_path": raw,
        "root_path": root,
        "query_string": request.META.get("QUERY_STRING", "").encode("latin-1"),
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in request.headers.items()],
        "client": (request.META.get("REMOTE_ADDR", ""), 0),
    }
