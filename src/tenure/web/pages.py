"""The pages: which documents each one shows, in which template."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final, TypeAlias

import jinja2
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from tenure._version import __version__
from tenure.client.inspect import LISTED
from tenure.client.why import SILENT_MS
from tenure.core import limits
from tenure.core.engine import Feature
from tenure.core.errors import RedisError, invalid, is_silent
from tenure.core.flows import FlowState
from tenure.core.job import State
from tenure.core.limits import PAGE_MAX
from tenure.core.names import queue_name
from tenure.core.names import shown as shown_name
from tenure.manage.control import CANCELLED, REMOVED, RETRIED
from tenure.manage.documents import Document
from tenure.web import shown
from tenure.web.access import PAYLOAD, Visitor
from tenure.web.reads import FILTERS, Reads, cursor_of, part
from tenure.web.redact import SHOWN_MAX
from tenure.web.runs import Runs

COLUMNS: Final = ("queue", "state", "task", "lane", "priority", "age", "failures", "worker", "error", "waits")
"""The columns of the list of jobs, all but its id."""
_COLUMNS: Final = ("queue", "state", "task", "lane", "age", "error")
SIZES: Final = (25, 50, 100)
_TYPES: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
DAY_BUCKETS: Final = 142
"""Ten minutes each. The history has 96 quarters of an hour with the current one: 23 h 45 min at least."""
HISTORIES_MAX: Final = 50
"""Queues of which a page reads the history, or the flows."""
RUNNING_QUEUES_MAX: Final = 20
"""Queues of which the page of workers reads the running jobs."""
QUEUES_SHOWN: Final = 50
GROUPS_SHOWN: Final = 50
"""Rows of the pages of queues and of errors, so that they stay small."""
TASKS_MAX: Final = 500
"""Tasks that the form for a new job proposes."""
_YEAR: Final = "public, max-age=31536000, immutable"

Context: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PageSpec:
    """A page: its path, template and title, what it shows, and its query."""

    path: str
    template: str
    title: str
    read: Callable[[Request, Visitor], Awaitable[Context]]
    query: frozenset[str] = frozenset()

    @property
    def base(self) -> str:
        """The way up to the first page. All links are relative, so that any proxy and any path works."""
        return "../" * self.path.count("/") or "./"


class Pages:
    """The pages of one dashboard. `tasks`: the tasks of its app."""

    def __init__(self, reads: Reads, runs: Runs, title: str, tasks: Mapping[str, Any]) -> None:
        self._reads = reads
        self._runs = runs
        self._title = title
        self._tasks = tasks
        after, queue = frozenset({"after"}), frozenset({"queue"})
        of_jobs = frozenset({*FILTERS, "after", "size", "columns"})
        self.all: Final = (
            PageSpec("", "overview.html", "Overview", self._overview),
            PageSpec("queues", "queues.html", "Queues", self._queues, after),
            PageSpec("queues/{queue}", "queue.html", "Queue", self._queue, frozenset({"reasons"})),
            PageSpec("jobs", "jobs.html", "Jobs", self._jobs, of_jobs),
            PageSpec("jobs/{queue}/{id}", "job.html", "Job", self._job),
            PageSpec("errors", "errors.html", "Errors", self._errors, queue),
            PageSpec("lanes", "lanes.html", "Lanes", self._lanes, frozenset({"queue", "state", "after"})),
            PageSpec("lanes/{queue}/{name}", "lane.html", "Lane", self._lane),
            PageSpec("flows", "flows.html", "Flows", self._flows, frozenset({"queue", "after"})),
            PageSpec("flows/{queue}/{key}", "flow.html", "Flow", self._flow),
            PageSpec("schedules", "schedules.html", "Schedules", self._schedules, frozenset({"queue", "after"})),
            PageSpec("limits", "limits.html", "Limits", self._limits, after),
            PageSpec("workers", "workers.html", "Workers", self._workers, after),
            PageSpec("audit", "audit.html", "Audit", self._audit, after),
        )
        paths, self._files = _static_files()
        self._templates = jinja2.Environment(
            loader=jinja2.PackageLoader("tenure.web", "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(
            {"moment": shown.moment, "span": shown.span, "seconds": shown.seconds, "number": shown.number}
        )
        self._templates.globals.update(
            path=shown.path,
            query=shown.query,
            spark=shown.spark,
            flow_map=shown.flow_map,
            static=paths,
            version=__version__,
        )

    async def answer(self, page: PageSpec, request: Request, visitor: Visitor, is_fragment: bool) -> Response:
        """Return a page, or only its middle."""
        known = {
            "layout": "fragment.html" if is_fragment else "page.html",
            "page": page,
            "title": page.title,
            "base": page.base,
            "site": self._title or "Tenure",
            "visitor": visitor,
            "rights": visitor.rights,
            "features": self._reads.features,
            "runs": [run.document() for run in self._runs.all()],
            "now_ms": _now_ms(),
        }
        context = await page.read(request, visitor)
        context["live"] = ["tick", "runs", "redis", *context.get("live", ())]
        text = self._templates.get_template(page.template).render(known | context)
        data = text.encode("utf-8", "backslashreplace")
        return Response(data, media_type="text/html", headers={"vary": "accept"})

    async def static(self, request: Request) -> Response:
        """Return a file of the pages. Its name has a hash of its content, so it may be kept."""
        found = self._files.get(request.path_params["name"])
        if found is None:
            raise HTTPException(404, "There is no such file.")
        data, kind = found
        return Response(data, media_type=kind, headers={"cache-control": _YEAR})

    async def _overview(self, request: Request, visitor: Visitor) -> Context:
        seen = await self._reads.overview()
        ended = [view["name"] for view in seen["queues"] if any(view["totals"].values())]
        history = await self._histories(ended[:HISTORIES_MAX])
        return {
            "seen": seen,
            "attention": attention(seen, await self._reads.resting()),
            "live": ["queues", "workers", *_events(view["name"] for view in seen["queues"])],
            "day": _sums(history.values(), DAY_BUCKETS, 10, _now_ms()),
            "oldest": min((at for view in seen["queues"] if (at := view["oldest_ms"])), default=None),
            "sums": {state: sum(view["counts"][state] for view in seen["queues"]) for state in State},
        }

    async def _queues(self, request: Request, visitor: Visitor) -> Context:
        seen = await self._reads.overview(request.query_params.get("after", ""), QUEUES_SHOWN)
        names = [view["name"] for view in seen["queues"]]
        hours = await self._histories(names[:HISTORIES_MAX])
        return {
            "seen": seen,
            "hours": {name: _sums([one], 60, 1, _now_ms())["ended"] for name, one in hours.items()},
            "live": ["queues", "workers", *_events(names)],
        }

    async def _histories(self, queues: Sequence[str]) -> dict[str, Document]:
        """The minutes of these queues, where the format has a history, without those on a lost node of a cluster."""
        found: dict[str, Document] = {}
        for name in queues if Feature.HISTORY in self._reads.features else ():
            try:
                found[name] = await self._reads.minutes(name)
            except RedisError as error:
                if is_silent(error):
                    raise
        return found

    async def _queue(self, request: Request, visitor: Visitor) -> Context:
        name = queue_name(part(request, "queue"))
        seen = await self._reads.queue(name)
        if not seen["queues"]:
            raise HTTPException(503, seen["refused"][0]["error"])
        history = await self._histories([name])
        return {
            "name": name,
            "title": name,
            "live": ["workers", *_events([name])],
            "view": seen["queues"][0],
            "seen": seen,
            "day": _sums(history.values(), DAY_BUCKETS, 10, _now_ms()),
            "tasks": sorted(self._tasks)[:TASKS_MAX],
            "reasons": await self._reads.reasons(name) if request.query_params.get("reasons") else None,
        }

    async def _jobs(self, request: Request, visitor: Visitor) -> Context:
        given = {name: value for name, value in request.query_params.items() if value}
        size, after = given.pop("size", str(SIZES[0])), given.pop("after", None)
        columns = [one for one in given.pop("columns", "").split(",") if one in COLUMNS] or list(_COLUMNS)
        if size not in map(str, SIZES):
            raise invalid("size", f"one of {', '.join(map(str, SIZES))}", shown_name(size))
        found = await self._reads.jobs(given, after, int(size))
        return {
            "found": found,
            "filters": given,
            "fields": dict.fromkeys(FILTERS, "") | given,
            "live": _events(filter(None, [given.get("queue")])),
            "size": int(size),
            "columns": columns,
            "all_columns": COLUMNS,
            "sizes": SIZES,
            "states": [state.value for state in State],
            "retried": RETRIED,
            "cancelled": CANCELLED,
            "removed": REMOVED,
        }

    async def _job(self, request: Request, visitor: Visitor) -> Context:
        name, id = queue_name(part(request, "queue")), part(request, "id")
        found = await self._reads.job(name, id, content=PAYLOAD in visitor.rights)
        if found is None:
            raise HTTPException(404, f"There is no job {shown_name(id)} in queue {name!r}, or its record has expired.")
        return {"job": found, "most": SHOWN_MAX, "title": id, "live": _events([name])}

    async def _errors(self, request: Request, visitor: Visitor) -> Context:
        name = request.query_params.get("queue") or None
        found = await self._reads.errors(name and queue_name(name))
        groups = found["groups"][:GROUPS_SHOWN]
        more = found["more"] + len(found["groups"]) - len(groups)
        live = _events({one["queue"] for one in groups})
        return {"found": found | {"groups": groups, "more": more}, "queue": name, "live": live}

    async def _lanes(self, request: Request, visitor: Visitor) -> Context:
        if Feature.LANES not in self._reads.features:
            return {"lanes": [], "next": None, "queue": None, "state": None, "states": []}
        name, state = request.query_params.get("queue"), request.query_params.get("state") or "blocked"
        if not name:
            seen = await self._reads.overview()
            lanes = await self._reads.blocked_lanes(seen["queues"])
            return {"lanes": lanes, "next": None, "queue": None, "state": None, "states": LISTED, "live": ["queues"]}
        cursor = cursor_of(request.query_params.get("after", ""))
        found = await self._reads.lanes(queue_name(name), state, cursor)
        lanes = [{**one, "queue": name} for one in found["lanes"]]
        return {
            "lanes": lanes,
            "next": found["next"],
            "queue": name,
            "state": state,
            "states": LISTED,
            "live": _events([name]),
        }

    async def _lane(self, request: Request, visitor: Visitor) -> Context:
        name = queue_name(part(request, "queue"))
        found = await self._reads.lane(name, part(request, "name"))
        title = found["lane"]["name"]
        return {"queue": name, "lane": found["lane"], "jobs": found["jobs"], "title": title, "live": _events([name])}

    async def _flows(self, request: Request, visitor: Visitor) -> Context:
        if Feature.FLOWS not in self._reads.features:
            return {"flows": [], "next": None, "queue": None, "queues": []}
        name = request.query_params.get("queue")
        if not name:
            seen = await self._reads.overview()
            pages = [await self._reads.flows(view["name"], "") for view in seen["queues"][:HISTORIES_MAX]]
            flows = [one for page in pages for one in page["flows"] if one["state"] == FlowState.OPEN.value]
            return {"flows": flows, "next": None, "queue": None, "live": ["queues"]}
        found = await self._reads.flows(queue_name(name), request.query_params.get("after", ""))
        return {**found, "queue": name, "live": _events([name])}

    async def _flow(self, request: Request, visitor: Visitor) -> Context:
        name, key = queue_name(part(request, "queue")), part(request, "key")
        found = await self._reads.flow(name, key)
        if found is None:
            raise HTTPException(404, f"Queue {name!r} has no flow {shown_name(key)}, or its record has expired.")
        return {**found, "title": key, "live": _events([name])}

    async def _schedules(self, request: Request, visitor: Visitor) -> Context:
        if Feature.SCHEDULES not in self._reads.features:
            return {"found": {"schedules": [], "next": None}, "queue": None}
        name = request.query_params.get("queue") or None
        found = await self._reads.schedules(name and queue_name(name), request.query_params.get("after", ""))
        return {"found": found, "queue": name}

    async def _limits(self, request: Request, visitor: Visitor) -> Context:
        if Feature.LIMITS not in self._reads.features:
            return {"found": {"limits": [], "next": None}}
        return {"found": await self._reads.limits(request.query_params.get("after", ""))}

    async def _workers(self, request: Request, visitor: Visitor) -> Context:
        found = await self._reads.workers(request.query_params.get("after", ""))
        queues = sorted({name for one in found["workers"] for name in one["queues"]})
        running: list[Document] = []
        is_cut = len(queues) > RUNNING_QUEUES_MAX
        for name in queues[:RUNNING_QUEUES_MAX]:
            try:
                page = await self._reads.jobs({"queue": name, "state": State.ACTIVE.value}, None, PAGE_MAX)
            except RedisError as error:
                if is_silent(error):
                    raise
                is_cut = True  # on a lost node of a cluster
                continue
            running += page["jobs"]
            is_cut = is_cut or page["next"] is not None
        by_worker: dict[str, list[Document]] = {}
        for job in sorted(running, key=lambda one: one["started_ms"] or 0):
            by_worker.setdefault(job["worker"], []).append(job)
        return {"found": found, "running": by_worker, "is_cut": is_cut, "silent_ms": SILENT_MS, "live": ["workers"]}

    async def _audit(self, request: Request, visitor: Visitor) -> Context:
        return {"found": await self._reads.audit(request.query_params.get("after", ""))}


def attention(seen: Document, resting: Sequence[str]) -> list[tuple[str, str]]:
    """Return what an operator should look at: a text, and the page that shows it."""
    found: list[tuple[str, str]] = [(f"{one['queue']}: {one['error']}", "queues") for one in seen["refused"]]
    now_ms = _now_ms()
    for view in seen["queues"]:
        name, place = view["name"], f"queues/{shown.path(view['name'])}"
        lanes = f"lanes?{shown.query(queue=name)}"
        found += [(f"{name} is paused", place)] if view["settings"]["paused"] else []
        found += (
            [(f"{name}: jobs wait, and no living worker serves it", place)] if name in seen["without_worker"] else []
        )
        busy = f"{name}: jobs that wait for results of other jobs hold all slots"
        found += [(busy, place)] if name in seen["all_awaiting"] else []
        blocked, parked = view["blocked_lanes"], view["parked_lanes"]
        found += [(f"{name}: blocked lanes: {blocked:,}", f"{lanes}&state=blocked")] if blocked else []
        found += [(f"{name}: parked lanes: {parked:,}", f"{lanes}&state=parked")] if parked else []
        found += [(f"{name}: {view['suspects']:,} jobs that crashed wait", place)] if view["suspects"] else []
        if view["newer_layout"]:
            found.append((f"{name}: a newer release has written to it", place))
        if view["unreachable"]:
            found.append((f"{name}: {len(view['unreachable'])} partitions cannot be reached", place))
    found += [
        (f"worker {one['id']} has been silent for {shown.span(now_ms - one['seen_ms'])}", "workers")
        for one in seen["workers"]
        if now_ms - one["seen_ms"] > SILENT_MS
    ]
    found += [(f"limit {name} rests", "limits") for name in resting]
    return found


def _events(queues: Iterable[str]) -> list[str]:
    """Return the names that the stream of changes has for queues."""
    return [f"queue:{name}" for name in queues]


def _now_ms() -> float:
    return time.time() * limits.SECOND


def _sums(histories: Iterable[Document], buckets: int, each_minutes: int, now_ms: float) -> dict[str, list[int]]:
    """Add up the minutes of queues in buckets of the time up to now. The last bucket ends with this minute."""
    size = each_minutes * limits.MINUTE
    end = (int(now_ms) // limits.MINUTE + 1) * limits.MINUTE
    first = end - buckets * size
    ended, failed = [0] * buckets, [0] * buckets
    for history in histories:
        for minute in history["minutes"]:
            at = (minute["at_ms"] - first) // size
            if 0 <= at < buckets:
                ended[at] += minute["completed"] + minute["failed"] + minute["cancelled"]
                failed[at] += minute["failed"]
    return {"at_s": [(first + n * size) // limits.SECOND for n in range(buckets)], "ended": ended, "failed": failed}


def _static_files() -> tuple[dict[str, str], dict[str, tuple[bytes, str]]]:
    """Return the names of the static files in links, which have a hash, and by these their bytes and types."""
    links: dict[str, str] = {}
    found: dict[str, tuple[bytes, str]] = {}
    folder = files("tenure.web") / "static"
    for file in (*folder.iterdir(), *(folder / "vendor").iterdir()):
        base, _, kind = file.name.rpartition(".")
        if kind in _TYPES:
            data = file.read_bytes()
            links[file.name] = f"{base}.{hashlib.sha256(data).hexdigest()[:12]}.{kind}"
            found[links[file.name]] = data, _TYPES[kind]
    return links, found
