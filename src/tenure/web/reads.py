"""What the dashboard reads, as documents: the same for a page and for a program. Nothing here changes a job."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import unquote

from starlette.requests import Request

from tenure.client.flows import Flow
from tenure.client.inspect import CURSOR_MAX
from tenure.core.engine import AUDIT_MAX, Feature, FullEngine
from tenure.core.errors import FlowNotFound, invalid
from tenure.core.flows import flow_id
from tenure.core.job import State
from tenure.core.limits import PAGE_MAX, PAGE_OFFSET_MAX
from tenure.core.names import shown
from tenure.core.schedules.schedule import ScheduleView
from tenure.core.schedules.when import to_ms
from tenure.core.shape import LaneState
from tenure.core.text import SECONDS, number_with_unit
from tenure.core.values import as_dict
from tenure.manage import audit
from tenure.manage.control import BulkControl
from tenure.manage.documents import (
    Document,
    JobDetail,
    flow_document,
    job_document,
    minutes_document,
    overview_document,
    refused_document,
    schedule_document,
    settings_document,
    tree_document,
)
from tenure.manage.inspect import JobSearch
from tenure.manage.overview import Overview
from tenure.web.redact import Redactor
from tenure.web.shown import BYTES

T = TypeVar("T")

ANSWERS_MAX: Final = 500
"""Answers that are kept for other viewers."""
_KEPT_S: Final = 1.0
_HISTORY_S: Final = 10.0
"""How long an answer is kept: workers add to the history every ten seconds."""
_COUNT_S: Final = 60.0
"""The same for a count of reasons, which takes a call for each job."""
FILTERS: Final = ("queue", "state", "task", "error", "lane", "older_than", "newer_than", "place")
AGES: Final = ("older_than", "newer_than")


class DashboardApp(Protocol):
    """What the dashboard needs of an app."""

    schedules: Any
    limits: Any

    @property
    def inspect(self) -> JobSearch: ...
    @property
    def control(self) -> BulkControl: ...
    @property
    def engine(self) -> FullEngine: ...
    @property
    def tasks(self) -> Mapping[str, Any]: ...
    def queue(self, name: str) -> Any: ...
    def flow(self, id: str) -> Flow: ...


class Reads:
    """Reads for all viewers of a process. Who asks for the same within a second gets the same answer.

    `spent`: about how many calls to Redis it has made.
    """

    def __init__(self, app: DashboardApp, redactor: Redactor) -> None:
        self._app = app
        self._redactor = redactor
        self._answers: dict[tuple[object, ...], tuple[float, asyncio.Task[Any]]] = {}
        self.spent = 0
        self.features: Final = app.engine.features

    def forget(self) -> None:
        """Read everything again: something was changed."""
        self._answers.clear()

    async def overview(self, after: str = "", limit: int = PAGE_MAX) -> Document:
        """Up to 100 queues by name, those behind `after`, and all workers."""

        async def read() -> Document:
            seen = await self._app.inspect.aoverview(after=after, limit=limit)
            self.spent += 2 + 2 * len(seen.queues) + len({name for one in seen.workers for name in one.queues})
            return _overview(seen) | {"next": seen.queues[-1].name if seen.left_out and seen.queues else None}

        return await self._shared(("overview", after, limit), _KEPT_S, read)

    async def queue(self, name: str) -> Document:
        """One queue, its workers, and its settings."""

        async def read() -> Document:
            self.spent += 6
            seen = await self._app.inspect.aoverview(name)
            return _overview(seen) | {"settings": settings_document(seen.queues[0]) if seen.queues else None}

        return await self._shared(("queue", name), _KEPT_S, read)

    async def minutes(self, queue: str) -> Document:
        """The last 24 hours of a queue."""

        async def read() -> Document:
            self.spent += 1
            found = await self._app.inspect.aminutes(queue)
            return minutes_document(queue, found) | {
                "minutes": [as_dict(one) for one in found.counts],
                "quarters": [as_dict(one) for one in found.latency],
            }

        return await self._shared(("minutes", queue), _HISTORY_S, read)

    async def jobs(self, filters: Mapping[str, Any], after: str | None, limit: int) -> Document:
        """Jobs that pass all filters, without payloads and results."""

        async def read() -> Document:
            self.spent += 3
            chosen = with_ages(filters)
            found = await self._app.inspect.afind(
                chosen.pop("queue", None), chosen.pop("state", None), **chosen, limit=limit, after=after
            )
            self.spent += found.read // PAGE_MAX
            return {
                "jobs": [job_document(view) for view in found.jobs],
                "next": found.next,
                "total": found.total,
                "cut": found.is_cut,
            }

        return await self._shared(("jobs", *sorted(filters.items()), after, limit), _KEPT_S, read)

    async def job(self, queue: str, id: str, *, content: bool) -> Document | None:
        """One job and why it does not run; with `content` also its payload, result and headers, as text."""
        self.spent += 3
        found = await self._app.inspect.aexplained(queue, id)
        if found is None:
            return None
        view = found.view
        document = job_document(view, JobDetail(headers=content)) | {"timeout_ms": view.timeout_ms}
        if content:
            document["payload"], document["editable"] = self._redactor.text(view.payload)
            document["result"], _ = self._redactor.text(view.result)
            document["headers"] = self._redactor.fields(document["headers"])
        return document | {"why": as_dict(found.why), "awaiting": found.awaiting}

    async def why(self, queue: str, id: str) -> Document | None:
        """Why a job does not run."""
        self.spent += 2
        found = await self._app.inspect.awhy(queue, id)
        return None if found is None else {"queue": queue, "id": id, **as_dict(found)}

    async def reasons(self, queue: str) -> Document:
        """The reasons of the jobs of a queue that wait, counted."""

        async def read() -> Document:
            count = await self._app.inspect.areasons(queue)
            self.spent += count.jobs
            reasons = {code.value: number for code, number in count.reasons.items()}
            return {"queue": queue, "jobs": count.jobs, "whole": count.is_whole, "reasons": reasons}

        return await self._shared(("reasons", queue), _COUNT_S, read)

    async def errors(self, queue: str | None) -> Document:
        """Failed and broken jobs by task, type of error and place."""

        async def read() -> Document:
            found = await self._app.inspect.aerrors(queue)
            self.spent += found.jobs // 50
            self.spent += 1 if queue is not None else 1 + len((await self.overview())["queues"])
            groups = [as_dict(one) for one in found.groups[:PAGE_MAX]]
            more = len(found.groups) - len(groups)
            return {"groups": groups, "more": more, "jobs": found.jobs, "whole": found.is_whole}

        return await self._shared(("errors", queue), 2 * _KEPT_S, read)

    async def lanes(self, queue: str, state: str, cursor: int) -> Document:
        """Lanes of a queue in one state."""

        async def read() -> Document:
            self.spent += 1
            page = await self._app.inspect.alanes(queue, state, cursor)
            return {"lanes": [as_dict(one) for one in page.lanes], "next": page.cursor or None}

        return await self._shared(("lanes", queue, state, cursor), _KEPT_S, read)

    async def lane(self, queue: str, name: str) -> Document:
        """One lane, and the first jobs that wait in it."""
        self.spent += 3
        view = await self._app.inspect.alane(queue, name)
        found = await self._app.inspect.afind(queue, State.READY, lane=name, limit=PAGE_MAX)
        return {"lane": as_dict(view), "jobs": [job_document(one) for one in found.jobs], "next": found.next}

    async def blocked_lanes(self, queues: Iterable[Document]) -> list[Document]:
        """The blocked and the parked lanes of these queues, at most 100."""
        found: list[Document] = []
        for view in queues:
            for state, count in ((LaneState.BLOCKED, "blocked_lanes"), (LaneState.PARKED, "parked_lanes")):
                if view[count] and not view["unreachable"] and len(found) < PAGE_MAX:
                    lanes, _ = await self._app.inspect.aall_lanes(view["name"], state, PAGE_MAX)
                    self.spent += 1 + view["partitions"]
                    found += ({**as_dict(one), "queue": view["name"]} for one in lanes)
        return found[:PAGE_MAX]

    async def flows(self, queue: str, after: str) -> Document:
        """Flows of a queue, the newest first."""
        offset = cursor_of(after, PAGE_OFFSET_MAX)

        async def read() -> Document:
            self.spent += 1
            found = await self._app.inspect.aflows(queue, offset, PAGE_MAX)
            more = offset + PAGE_MAX if len(found) == PAGE_MAX else None
            return {"flows": [flow_document(one) for one in found], "next": more}

        return await self._shared(("flows", queue, offset), _KEPT_S, read)

    async def flow(self, queue: str, key: str) -> Document | None:
        """A flow with its members, and jobs in it that did not complete."""

        async def read() -> Document | None:
            flow = self._app.flow(flow_id(queue, key))
            try:
                tree, (failed, more) = await flow.atree(), await flow.afailed()
            except FlowNotFound:
                return None
            self.spent += 3 + len(failed)
            return {"flow": tree_document(tree), "failed": [job_document(one) for one in failed], "more": bool(more)}

        return await self._shared(("flow", queue, key), _KEPT_S, read)

    async def schedules(self, queue: str | None, after: str) -> Document:
        """Schedules by queue and name."""

        async def read() -> list[tuple[str, ScheduleView]]:
            self.spent += 1 if queue is not None else 1 + len((await self.overview())["queues"])
            return [(f"{view.queue}\n{view.name}", view) for view in await self._app.schedules.alist(queue)]

        page = _page("schedules", await self._shared(("schedules", queue), _KEPT_S, read), after)
        page["schedules"] = [
            schedule_document(view) | {"upcoming_ms": [to_ms(at) for at in view.upcoming()]}
            for view in page["schedules"]
        ]
        return page

    async def limits(self, after: str) -> Document:
        """Limits by name."""

        async def read() -> list[tuple[str, Document]]:
            found = await self._app.limits.alist(after=after, limit=PAGE_MAX + 1)
            self.spent += 4 + len(found)
            return [(view.name, as_dict(view)) for view in found]

        return _page("limits", await self._shared(("limits", after), _KEPT_S, read), after)

    async def resting(self) -> list[str]:
        """Names of limits that rest."""

        async def read() -> list[str]:
            self.spent += 1
            return list(await self._app.limits.aresting())

        return await self._shared(("resting",), _KEPT_S, read) if Feature.LIMITS in self.features else []

    async def workers(self, after: str) -> Document:
        """Living workers by id."""
        document = await self.overview()
        return _page("workers", [(one["id"], one) for one in document["workers"]], after)

    async def audit(self, after: str) -> Document:
        """What operators did, the newest first. `after`: how many entries are left out."""

        async def read() -> list[audit.AuditEntry]:
            self.spent += 1
            return await self._app.inspect.aaudit()

        start = cursor_of(after, AUDIT_MAX)
        found = await self._shared(("audit",), _KEPT_S, read)
        entries = [as_dict(one) for one in found[start : start + PAGE_MAX]]
        return {"audit": entries, "next": str(start + PAGE_MAX) if len(found) > start + PAGE_MAX else None}

    async def _shared(self, key: tuple[object, ...], seconds: float, read: Callable[[], Awaitable[T]]) -> T:
        """Return an answer that is at most `seconds` old, or read it, once for all who ask at the same time."""
        now = time.monotonic()
        until, task = self._answers.get(key, (0.0, None))
        if task is None or until < now or task.cancelled() or (task.done() and task.exception()):
            for old in [name for name, (end, _) in self._answers.items() if end < now][:ANSWERS_MAX]:
                del self._answers[old]
            if len(self._answers) >= ANSWERS_MAX:
                self._answers.clear()
            task = asyncio.ensure_future(read())
            self._answers[key] = now + seconds, task
        answer: T = await asyncio.shield(task)
        return answer


def part(request: Request, name: str) -> str:
    """Return a part of the path. It stays encoded until here, so a name may have slashes and end like another route."""
    return unquote(request.path_params[name], errors=BYTES)


def whole(text: str, field: str, rule: str, most: int, least: int = 0) -> int:
    """Return a number of a query; empty: the least. Raises `InvalidArgument`."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(most)) else -1
    if text and not least <= number <= most:
        raise invalid(field, rule, shown(text))
    return number if text else least


def cursor_of(after: str, most: int = CURSOR_MAX) -> int:
    """Return a cursor that is a number; empty: the first page. Raises `InvalidArgument`."""
    return whole(after, "after", "the cursor of an earlier page", most)


def with_ages(filters: Mapping[str, Any]) -> dict[str, Any]:
    """Return filters with their ages in seconds: "90", "15m" and "7d" are ages. Raises `InvalidArgument`."""
    chosen = dict(filters)
    for name in AGES:
        if isinstance(text := chosen.get(name), str):
            chosen[name] = number_with_unit(text, SECONDS)
            if chosen[name] is None:
                raise invalid(name, "seconds, or a number with a unit, as in 15m or 7d", shown(text))
    return chosen


def _overview(seen: Overview) -> Document:
    """Return an overview in which also the views are dictionaries, as the templates and the stream need them."""
    document = overview_document(seen)
    workers = zip(document["workers"], seen.workers, strict=True)
    return (
        document
        | refused_document(seen)
        | {
            "workers": [
                {**one, "stacks": [as_dict(stack) for stack in view.stacks], "stacks_ms": view.stacks_ms}
                for one, view in workers
            ],
            "queues": [as_dict(view) for view in seen.queues],
            "latency": {name: as_dict(one) for name, one in seen.latency.items()},
        }
    )


def _page(name: str, found: Iterable[tuple[str, object]], after: str) -> Document:
    """Return up to 100 entries behind the cursor, which is the key of an entry."""
    rest = sorted(((key, one) for key, one in found if key > after), key=lambda pair: pair[0])
    return {name: [one for _, one in rest[:PAGE_MAX]], "next": rest[PAGE_MAX - 1][0] if len(rest) > PAGE_MAX else None}
