"""The JSON of each view: the keys of `--json`, which programs of users read."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias

from tenure.core.flows import FlowTree, FlowView, flow_of
from tenure.core.job import JobView, QueueView
from tenure.core.minutes import Minutes
from tenure.core.schedules.schedule import ScheduleView
from tenure.core.schedules.when import to_ms
from tenure.core.values import as_dict
from tenure.manage.bulk import BulkChange
from tenure.manage.inspect import Listing
from tenure.manage.overview import Overview
from tenure.scale import Decision

TIMES: Final = ("scheduled_for", "enqueued", "due", "started", "ended", "expires")
COUNTS: Final = ("failures", "crashes")

Document: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class JobDetail:
    """What of a job is shown only when asked for. `content`: payload and result."""

    content: bool = False
    headers: bool = False


NO_PARTS: Final = JobDetail()


def scale_document(decision: Decision) -> Document:
    """Return how many workers there should be, why, and what bounds the number."""
    return {
        "desired": decision.workers,
        "reason": decision.reason,
        "limits": list(decision.limits),
        "tiers": dict(decision.tiers),
    }


def encoded(document: object, *, lines: bool = True) -> str:
    """Format a document as JSON, over several lines or in one. Views in it have the names of their fields."""
    return json.dumps(document, indent=2 if lines else None, default=as_dict)


def job_document(view: JobView, parts: JobDetail = NO_PARTS) -> Document:
    """Return a job with the names of the fields of its view, and the payload and the result as text."""
    progress, shape = view.progress, view.shape
    return {
        "id": view.id,
        "queue": view.queue,
        "state": view.state.value,
        "task": view.task,
        **{name: value for name, value in as_dict(shape).items() if name not in ("expires", "on_failed")},
        "flow": flow_of(view.id, shape),
        "expires_ms": shape.expires_ms(view.enqueued_ms or 0),
        "unique": shape.unique and {"key": shape.unique.key, "until": shape.unique.until.value},
        "limits": [as_dict(rule) for rule in shape.limits],
        **{name: getattr(view, name) for name in COUNTS},
        **{f"{name}_ms": getattr(view, f"{name}_ms") for name in TIMES},
        "worker": view.worker,
        "token": view.token,
        "progress": progress and {**as_dict(progress), "percent": percent(progress.current, progress.total)},
        "cancelling": view.cancelling,
        "waits": view.waits,
        "error": view.error and as_dict(view.error),
        "earlier_errors": [as_dict(error) for error in view.earlier_errors],
        **({"payload": text_of(view.payload), "result": text_of(view.result)} if parts.content else {}),
        **({"headers": dict(view.headers or {})} if parts.headers else {}),
    }


def listing_document(listing: Listing) -> Document:
    """Return the jobs of a listing, and where it continues."""
    found = listing.found
    return {
        "jobs": [job_document(view) for one in found.values() for view in one.jobs],
        "totals": {state.value: one.total for state, one in found.items()},
        "more": [state.value for state, one in found.items() if one.next],
        "next": {state.value: one.next for state, one in found.items() if one.next},
    }


def overview_document(seen: Overview) -> Document:
    """Return queues and workers, without the counts that `latency` is made of, the stacks, and what is in the code."""
    left_out = ("times", "limits", "tasks", "stacks", "stacks_ms", "batches")
    return {
        "queues": seen.queues,
        "latency": seen.latency,
        "workers": [{key: value for key, value in as_dict(one).items() if key not in left_out} for one in seen.workers],
        "without_worker": sorted(seen.without_worker),
        "all_awaiting": sorted(seen.all_awaiting),
    }


def refused_document(seen: Overview) -> Document:
    """Return the queues that an overview of all queues could not show."""
    return {"refused": [{"queue": name, "error": str(error)} for name, error in seen.refused.items()]}


def minutes_document(queue: str, found: Minutes) -> Document:
    """Return the last 24 hours of a queue."""
    return {"queue": queue, "minutes": found.counts, "quarters": found.latency}


def settings_document(view: QueueView) -> Document:
    """Return the settings of a queue."""
    return {
        "queue": view.name,
        **as_dict(view.settings),
        "partitions": view.partitions,
        "repartition": view.repartition and as_dict(view.repartition),
        "unreachable": view.unreachable,
    }


def change_document(change: BulkChange, *, dry_run: bool) -> Document:
    """Return what a change of many jobs has found and done."""
    done = change.done
    return {
        "found": change.meant,
        **done,
        "left": change.left,
        "queues": [
            {"queue": one.queue, "found": one.found, **{kind: one.done[kind] for kind in done}}
            for one in change.queues
            if one.found or one.done
        ],
        "unchanged": [as_dict(one) for one in change.unchanged],
        **({"jobs": [{"queue": view.queue, "id": view.id} for view in change.jobs]} if dry_run else {}),
    }


def tree_document(tree: FlowTree) -> Document:
    """Return a flow with its members."""
    members = [
        tree_document(one) if isinstance(one, FlowTree) else {"first": one.first, "last": one.last, "state": one.state}
        for one in tree.members
    ]
    return {**flow_document(tree.view), "number": tree.number, "members": members, "has_more": tree.has_more}


def flow_document(view: FlowView) -> Document:
    """Return a flow with its times in milliseconds."""
    return {**as_dict(view), "left": view.left}


def schedule_document(view: ScheduleView) -> Document:
    """Return a schedule with its times in milliseconds."""
    return {
        "name": view.name,
        "queue": view.queue,
        "task": view.task,
        "when": view.explanation,
        "app": view.source,
        "next_ms": ms_of(view.next),
        "last_ms": ms_of(view.last),
        "last_id": view.last_id,
        "recent": [{"at_ms": ms_of(at), "id": id} for at, id in view.recent],
        "runs": view.runs,
        "skipped": view.skipped,
        "missed": view.missed,
        "paused_ms": ms_of(view.paused),
        "reason": view.reason,
        "catch_up": view.catch_up,
        "overlap": view.overlap,
    }


def ms_of(at: datetime | None) -> int | None:
    """Return a time in milliseconds."""
    return None if at is None else to_ms(at)


def percent(current: float, total: float | None) -> int | None:
    """Return a percentage, rounded down so that only what is done has 100. None if it means nothing."""
    if total is None or not total > 0:
        return None
    share = 100 * (current / total)
    return math.floor(share) if math.isfinite(share) else None


def text_of(data: bytes | None) -> str | None:
    """Return bytes as text, with escapes for those that are not UTF-8."""
    return None if data is None else data.decode("utf-8", "backslashreplace")
