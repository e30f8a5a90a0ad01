"""The dashboard as an ASGI app: routes, who may see them, headers, and errors as short answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tenure.core.errors import (
    DuplicateJob,
    InvalidArgument,
    PayloadInvalid,
    PayloadTooLarge,
    RedisError,
    ScheduleNotFound,
    TenureError,
    UnsupportedFeature,
    invalid,
)
from tenure.core.limits import PAGE_MAX
from tenure.core.names import queue_name, shown
from tenure.core.shape import LaneState
from tenure.core.text import masked
from tenure.manage.documents import Document, encoded
from tenure.web.access import PAYLOAD, Access, AccessRefused, Authorize, Visitor, address_of
from tenure.web.actions import TABLE, ActionBody, ActionCall, ActionConflict, perform
from tenure.web.live import Live
from tenure.web.pages import Pages, PageSpec
from tenure.web.reads import FILTERS, DashboardApp, Reads, cursor_of, part, whole
from tenure.web.redact import Redactor
from tenure.web.runs import Runs
from tenure.web.serve import LOCAL_HOSTS, OnlyHosts

BODY_MAX: Final = 34_000_000
"""Bytes of a request: a payload of the largest size, escaped once."""
JSON: Final = "application/json"
FRAGMENT: Final = "text/vnd.tenure.fragment+html"
"""The type that the script accepts: the middle of a page, without its frame."""
HEADERS: Final = {
    "content-security-policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
_STATUSES: Final[Sequence[tuple[type[TenureError], int]]] = (
    (PayloadInvalid, 422),
    (PayloadTooLarge, 422),
    (DuplicateJob, 409),
    (ScheduleNotFound, 409),
    (InvalidArgument, 400),
    (RedisError, 503),
)
_decode: Final = msgspec.json.Decoder(ActionBody).decode


def dashboard(
    app: DashboardApp,
    *,
    authorize: Authorize | None = None,
    title: str = "",
    redact: Sequence[str] = (),
    root_path: str | None = None,
) -> ASGIApp:
    """Return the dashboard of an app, an ASGI app to mount in another one.

        from tenure.web import dashboard

        api.mount("/ops", dashboard(app, authorize=lambda request: request.session.get("role")))

    `authorize`: a function, async or not, of the request. It returns the role "viewer" or "operator", a set of actions
    (as {"retry", "payload"}), or None: then the answer is 403. Without it, the dashboard serves only clients on its own
    machine that call it localhost, 127.0.0.1 or [::1], and these may do everything. `title`: shown at the top of each
    page. `redact`: names of fields that are hidden in payloads, results and headers, as ("password", "*.token").
    `root_path`: the path under which a proxy serves it, whether or not the proxy removes it from requests. Raises
    `InvalidArgument`, and `NotConfigured` where a package is missing.
    """
    asgi = site(app, Access(authorize), title=title, redact=redact, root_path=root_path)
    return asgi if authorize is not None else OnlyHosts(asgi, LOCAL_HOSTS, "Pass authorize= to dashboard().")


def site(
    app: DashboardApp, access: Access, *, title: str = "", redact: Sequence[str] = (), root_path: str | None = None
) -> ASGIApp:
    """Return the dashboard with this access."""
    return _Guarded(Site(app, access, title, Redactor(redact)).starlette(), root_path)


Answer: TypeAlias = Callable[[Request, Visitor], Awaitable[Document | Response]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A route of the API: its path, its answer, and the query that it takes. `right`: what a visitor must have."""

    path: str
    answer: Answer
    query: frozenset[str] = frozenset()
    right: str | None = None


class Site:
    """The routes of one dashboard."""

    def __init__(self, app: DashboardApp, access: Access, title: str, redactor: Redactor) -> None:
        self._app = app
        self._access = access
        self.reads = Reads(app, redactor)
        self.live = Live(self.reads)
        self.runs = Runs(lambda: self.live.note("runs"))
        self.pages = Pages(self.reads, self.runs, title, app.tasks)
        has = self.reads.features
        self.actions = tuple(name for name, one in TABLE.items() if one.feature is None or one.feature in has)

    def endpoints(self) -> tuple[Endpoint, ...]:
        """The routes of the API that change nothing."""
        reads, listed = self.reads, frozenset({"after"})
        of_jobs = frozenset({*FILTERS, "after", "limit"})
        return (
            Endpoint("queues", lambda asked, _: reads.overview(asked.query_params.get("after", "")), listed),
            Endpoint("queues/{queue}", lambda asked, _: reads.queue(_queue(asked))),
            Endpoint("jobs", self._jobs, of_jobs),
            Endpoint("jobs/{queue}/{id}/why", self._why),
            Endpoint("jobs/{queue}/{id}/payload", self._payload, right=PAYLOAD),
            Endpoint("jobs/{queue}/{id}/result", self._payload, right=PAYLOAD),
            Endpoint("jobs/{queue}/{id}", self._job),
            Endpoint("errors", lambda asked, _: reads.errors(_asked_queue(asked)), frozenset({"queue"})),
            Endpoint("lanes", self._lanes, frozenset({"queue", "state", "after"})),
            Endpoint("lanes/{queue}/{name}", lambda asked, _: reads.lane(_queue(asked), part(asked, "name"))),
            Endpoint("flows", self._flows, frozenset({"queue", "after"})),
            Endpoint("flows/{queue}/{key}", self._flow),
            Endpoint("reasons", lambda asked, _: reads.reasons(_needed(asked, "queue")), frozenset({"queue"})),
            Endpoint("schedules", self._schedules, frozenset({"queue", "after"})),
            Endpoint("limits", lambda asked, _: reads.limits(asked.query_params.get("after", "")), listed),
            Endpoint("workers", lambda asked, _: reads.workers(asked.query_params.get("after", "")), listed),
            Endpoint("minutes", lambda asked, _: reads.minutes(_needed(asked, "queue")), frozenset({"queue"})),
            Endpoint("audit", lambda asked, _: reads.audit(asked.query_params.get("after", "")), listed),
            Endpoint("runs", self._runs),
        )

    def starlette(self) -> Starlette:
        """Return the app with all routes."""
        api = [Route(f"/api/v1/{one.path}", self._json(one), methods=["GET"]) for one in self.endpoints()]
        api += [
            Route("/api/v1/actions/{action}", self._act, methods=["POST"]),
            Route("/api/v1/events", self._events, methods=["GET"]),
        ]
        pages = [Route(f"/{page.path}", self._page(page), methods=["GET"]) for page in self.pages.all]
        static = Route("/static/{name}", self.pages.static, methods=["GET"])
        handlers: Mapping[Any, Any] = {
            TenureError: _failed,
            AccessRefused: _refused,
            ActionConflict: _conflict,
            HTTPException: _http,
        }
        app = Starlette(routes=[*api, static, *pages], exception_handlers=handlers)
        app.router.redirect_slashes = False  # the path before a proxy is not known
        return app

    def _json(self, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            visitor = await self._access.visitor(request)
            if endpoint.right is not None and endpoint.right not in visitor.rights:
                raise HTTPException(403, f"Your role does not include {endpoint.right!r}.")
            _check_query(request, endpoint.query)
            found = await endpoint.answer(request, visitor)
            return found if isinstance(found, Response) else _document(found)

        return answer

    def _page(self, page: PageSpec) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            visitor = await self._access.visitor(request)
            _check_query(request, page.query)
            rights = visitor.rights & {*self.actions, PAYLOAD}
            is_fragment = FRAGMENT in request.headers.get("accept", "")
            return await self.pages.answer(page, request, Visitor(visitor.name, rights), is_fragment)

        return answer

    async def _act(self, request: Request) -> Response:
        visitor = await self._access.visitor(request)
        name = request.path_params["action"]
        _check_origin(request)
        if name not in TABLE:
            raise HTTPException(404, f"There is no action {shown(name)}. Actions: {', '.join(self.actions)}.")
        if name not in visitor.rights:
            raise HTTPException(403, f"Your role does not include {name!r}.")
        if name not in self.actions:
            raise HTTPException(400, f"This wire format has no {name!r}.")
        if request.headers.get("content-type", "").partition(";")[0].strip() != JSON:
            raise HTTPException(415, f"An action is JSON: send the content type {JSON}.")
        try:
            body = _decode(await _body(request))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise HTTPException(400, f"The body is not an action: {error}") from None
        document = await perform(ActionCall(self._app, self.runs, name, body, visitor.name, address_of(request)))
        self.reads.forget()
        self.live.note("tick")
        return _document(document, 202 if "run" in document else 200)

    async def _events(self, request: Request) -> Response:
        await self._access.visitor(request)
        if self.live.is_full:
            raise HTTPException(503, "Too many pages are open.")
        return StreamingResponse(self.live.stream(), media_type="text/event-stream")

    async def _jobs(self, request: Request, visitor: Visitor) -> Document:
        given = dict(request.query_params)
        limit = whole(given.pop("limit", "") or str(PAGE_MAX), "limit", f"1 to {PAGE_MAX}", PAGE_MAX, 1)
        after = given.pop("after", None) or None
        return await self.reads.jobs({name: value for name, value in given.items() if value}, after, limit)

    async def _job(self, request: Request, visitor: Visitor) -> Document:
        return await self._found(request, content=PAYLOAD in visitor.rights)

    async def _found(self, request: Request, *, content: bool) -> Document:
        return _existing(await self.reads.job(_queue(request), part(request, "id"), content=content))

    async def _why(self, request: Request, visitor: Visitor) -> Document:
        return _existing(await self.reads.why(_queue(request), part(request, "id")))

    async def _payload(self, request: Request, visitor: Visitor) -> Response:
        document = await self._found(request, content=True)
        text = document[request.url.path.rpartition("/")[2]]
        headers = {"content-disposition": 'attachment; filename="payload.txt"'}
        return Response(_bytes(text or ""), media_type="text/plain", headers=headers)

    async def _lanes(self, request: Request, visitor: Visitor) -> Document:
        cursor = cursor_of(request.query_params.get("after", ""))
        state = request.query_params.get("state") or LaneState.BLOCKED.value
        return await self.reads.lanes(_needed(request, "queue"), state, cursor)

    async def _flows(self, request: Request, visitor: Visitor) -> Document:
        return await self.reads.flows(_needed(request, "queue"), request.query_params.get("after", ""))

    async def _flow(self, request: Request, visitor: Visitor) -> Document:
        return _existing(await self.reads.flow(_queue(request), part(request, "key")))

    async def _schedules(self, request: Request, visitor: Visitor) -> Document:
        return await self.reads.schedules(_asked_queue(request), request.query_params.get("after", ""))

    async def _runs(self, request: Request, visitor: Visitor) -> Document:
        return {"runs": [run.document() for run in self.runs.all()]}


def _existing(found: Document | None) -> Document:
    if found is None:
        raise HTTPException(404, "There is no such thing, or its record has expired.")
    return found


def _bytes(text: str) -> bytes:
    """Encode a text that may have lone surrogates, of a payload or of bytes that are no UTF-8."""
    return text.encode("utf-8", "backslashreplace")


def _queue(request: Request) -> str:
    return queue_name(part(request, "queue"))


def _asked_queue(request: Request) -> str | None:
    name = request.query_params.get("queue")
    return queue_name(name) if name else None


def _needed(request: Request, name: str) -> str:
    value = request.query_params.get(name)
    if not value:
        raise invalid(name, f"a value, as in ?{name}=...", "nothing")
    return value


def _check_query(request: Request, known: frozenset[str]) -> None:
    """Raises `InvalidArgument` for a filter that does not exist."""
    if unknown := sorted(set(request.query_params) - known):
        rule = f"filters among {', '.join(sorted(known))}" if known else "no filters"
        raise invalid("query", rule, ", ".join(map(shown, unknown[:5])))


def _check_origin(request: Request) -> None:
    """Refuse an action that a page of another site sends, by the headers of the browser."""
    site = request.headers.get("sec-fetch-site")
    if site in ("same-origin", "none"):
        return
    origin = request.headers.get("origin")
    if site is None and origin and origin.partition("://")[2] == request.headers.get("host"):
        return
    raise HTTPException(
        403, "An action needs the header Sec-Fetch-Site (same-origin or none), or an Origin of this site."
    )


async def _body(request: Request) -> bytes:
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > BODY_MAX:
            raise HTTPException(413, f"The body has more than {BODY_MAX:,} bytes.")
        chunks.append(chunk)
    return b"".join(chunks)


def _document(document: Document, status: int = 200) -> Response:
    return Response(encoded(document), status, media_type=JSON)


def _error(request: Request, status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    """Answer an error, to a browser as text."""
    text = masked(text)
    if "/api/v1/" in request.url.path:
        return Response(encoded({"error": text}), status, headers, JSON)
    return Response(_bytes(text + "\n"), status, headers, "text/plain")


async def _failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, TenureError)
    if isinstance(error, UnsupportedFeature):
        return _error(request, 400, str(error))
    return _error(request, next((status for kind, status in _STATUSES if isinstance(error, kind)), 500), str(error))


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, AccessRefused)
    return _error(request, error.status, str(error), error.headers)


async def _conflict(request: Request, error: Exception) -> Response:
    assert isinstance(error, ActionConflict)
    return _document(error.document, 409)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _error(request, error.status_code, error.detail, error.headers)


class _Guarded:
    """Adds the headers that keep other sites out, and leaves the parts of a path encoded: see `part`.

    `root_path`: see `dashboard`.
    """

    def __init__(self, app: ASGIApp, root_path: str | None) -> None:
        self._app = app
        self._root_path = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        if scope["type"] == "http" and scope.get("raw_path"):
            scope = {**scope, "path": scope["raw_path"].partition(b"?")[0].decode("latin-1")}
        if self._root_path is not None and not scope.get("root_path"):
            scope = {**scope, "root_path": self._root_path.rstrip("/")}
        await self._app(scope, receive, sending)
