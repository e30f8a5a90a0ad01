"""Jobs as `leasehold job` and `leasehold jobs` show them: one with all that is known of it, or a list."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from leasehold.cli.errors import masked
from leasehold.cli.output.facts import amount, distance, facts, indented, percent, time_of
from leasehold.cli.output.tables import Table, ago
from leasehold.core.job import JobView
from leasehold.core.shape import Progress, Shape, UniqueRule, Until

JOBS_SHOWN: Final = 20
"""Jobs of each state that `leasehold jobs` shows by default."""
CONTENT_SHOWN: Final = 8 * 1024
"""Bytes of a payload or a result that are shown as text. JSON has all of them."""

_TIMES: Final = ("enqueued", "due", "started", "ended", "expires")
_COUNTS: Final = ("failures", "crashes")


def describe(view: JobView, now_ms: float, *, content: bool) -> str:
    """All that is known of a job, a line for each thing, the traceback last. `content`: payload and result too."""
    known: list[tuple[str, str | None]] = [
        ("job", view.id),
        ("queue", view.queue),
        ("task", view.task or "(raw payload)"),
        ("state", view.state.value),
        ("waits", view.waits),
        ("cancelling", _asked(view)),
        ("progress", None if view.progress is None else progress_text(view.progress, now_ms)),
        *_shape_facts(view.shape),
        *((name, str(getattr(view, name))) for name in _COUNTS),
        ("worker", view.worker),
        ("token", None if view.token is None else str(view.token)),
        *((name, time_of(getattr(view, f"{name}_ms"), now_ms)) for name in _TIMES),
        ("payload", _content(view.payload, content)),
        ("result", _content(view.result or None, content)),
    ]
    if view.error is not None:
        known.append(("error", masked(error_text(view))))
    text = facts(known)
    if view.error is not None and view.error.traceback:
        text += f"\ntraceback\n  {indented(masked(view.error.traceback), 2)}"
    return text


def job_table(jobs: Sequence[JobView], now_ms: float, title: str, empty: str) -> Table:
    """Jobs. `when`: the end of those that have ended, the start of active ones, else when they are due or came."""
    rows = tuple(
        {
            "job": view.id,
            "state": view.state.value,
            "task": view.task or "-",
            "lane": view.shape.lane or "",
            "priority": str(view.shape.priority or ""),
            "progress": "" if view.progress is None else _share(view.progress),
            "cancelling": "" if view.cancelling is None else "asked",
            **{name: str(getattr(view, name)) for name in _COUNTS},
            "when": _when(view, now_ms),
            "error": view.error.type if view.error else "",
            "message": masked(view.error.message).partition("\n")[0] if view.error else "",
        }
        for view in jobs
    )
    table = Table(title, rows, (*_COUNTS, "priority", "progress", "when"), empty)
    spare = (tuple(name for name in table.only("0") if name in _COUNTS), ("message",), ("crashes",), ("failures",))
    return replace(table, spare=spare).without_empty("lane", "priority", "progress", "cancelling", "error", "message")


def progress_text(progress: Progress, now_ms: float) -> str:
    """How far a job says it is, when it said so, and its words."""
    when = "" if progress.at_ms is None else f", {ago(now_ms - progress.at_ms)} ago"
    text = f": {masked(progress.text)}" if progress.text else ""
    return f"{amount(progress.current, progress.total)}{when}{text}"


def error_text(view: JobView) -> str:
    """The error of a job: its type and message; for a cancelled one without words, what there is."""
    assert view.error is not None
    return ": ".join(filter(None, (view.error.type, view.error.message)))


def to_json(view: JobView, *, content: bool) -> dict[str, Any]:
    """A job with the names of the fields of its view. Payload and result as text, where asked for."""
    error, progress, shape = view.error, view.progress, view.shape
    return {
        "id": view.id,
        "queue": view.queue,
        "state": view.state.value,
        "task": view.task,
        "lane": shape.lane,
        "lane_limit": shape.lane_limit,
        "priority": shape.priority,
        "unique": shape.unique and {"key": shape.unique.key, "until": shape.unique.until.value},
        "persistent": shape.persistent,
        **{name: getattr(view, name) for name in _COUNTS},
        **{f"{name}_ms": getattr(view, f"{name}_ms") for name in _TIMES},
        "worker": view.worker,
        "token": view.token,
        "progress": progress and _progress_json(progress),
        "cancelling": view.cancelling,
        "waits": view.waits,
        "error": error and {"type": error.type, "message": error.message, "traceback": error.traceback},
        **({"payload": _text(view.payload), "result": _text(view.result)} if content else {}),
    }


def dump(value: object) -> str:
    """JSON for people and programs. Views have the names of their fields."""
    return json.dumps(value, indent=2, default=asdict)


def _shape_facts(shape: Shape) -> Sequence[tuple[str, str | None]]:
    """The place of the job in its queue, as far as it is not that of any job."""
    lane = shape.lane
    if lane is not None and shape.lane_limit != 1:
        lane = f"{lane} (up to {shape.lane_limit} at a time)"
    return (
        ("lane", lane),
        ("priority", str(shape.priority) if shape.priority else None),
        ("unique", _unique(shape.unique)),
        ("persistent", "yes" if shape.persistent else None),
    )


def _unique(rule: UniqueRule | None) -> str | None:
    if rule is None:
        return None
    until = "for a time" if rule.until is Until.WINDOW else f"until {rule.until}"
    return f"{rule.key} ({until})"


def _asked(view: JobView) -> str | None:
    if view.cancelling is None:
        return None
    return f"asked: {masked(view.cancelling)}" if view.cancelling else "asked"


def _share(progress: Progress) -> str:
    share = percent(progress.current, progress.total)
    return amount(progress.current, None) if share is None else f"{share}%"


def _progress_json(progress: Progress) -> dict[str, Any]:
    return {
        "current": progress.current,
        "total": progress.total,
        "percent": percent(progress.current, progress.total),
        "text": progress.text,
        "at_ms": progress.at_ms,
    }


def _when(view: JobView, now_ms: float) -> str:
    at = view.ended_ms or view.started_ms or view.due_ms or view.enqueued_ms
    return "-" if at is None else distance(at, now_ms)


def _content(data: bytes | None, shown: bool) -> str | None:
    if data is None:
        return None
    if not shown:
        return f"{len(data):,} bytes (--payload shows them)"
    text = masked(_text(data[:CONTENT_SHOWN]) or "")
    more = len(data) - CONTENT_SHOWN
    return text if more <= 0 else f"{text}\n... ({more:,} bytes more; --json has all)"


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "backslashreplace")
