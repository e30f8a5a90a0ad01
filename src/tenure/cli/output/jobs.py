"""Jobs as `tenure job` and `tenure jobs` show them: one with all its facts, or a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tenure.cli.output.tables import Table
from tenure.cli.output.text import ago, amount, distance, facts, indented, time_of
from tenure.core.job import ErrorInfo, JobView
from tenure.core.shape import Progress, UniqueRule, Until
from tenure.core.stores import key_of
from tenure.core.text import masked
from tenure.core.values import replace
from tenure.manage.documents import COUNTS, NO_PARTS, TIMES, JobDetail, percent, text_of

JOBS_SHOWN: Final = 20
"""Jobs of each state that `tenure jobs` shows by default."""
CONTENT_SHOWN: Final = 8 * 1024
"""Bytes of a payload or a result that are shown as text. JSON has all of them."""


def describe(view: JobView, now_ms: float, parts: JobDetail = NO_PARTS) -> str:
    """Format all facts of a job, one in each line, the traceback last."""
    shape, error = view.shape, view.error
    lane = shape.lane
    if lane is not None and shape.lane_limit != 1:
        lane = f"{lane} (up to {shape.lane_limit} at a time)"
    known: list[tuple[str, str | None]] = [
        ("job", view.id),
        ("queue", view.queue),
        ("task", view.task or "(raw payload)"),
        ("state", view.state.value),
        ("waits", view.waits),
        ("cancelling", None if view.cancelling is None else f"asked: {masked(view.cancelling) or '(no reason)'}"),
        ("progress", _progress_text(view.progress, now_ms) if view.progress else None),
        ("lane", lane),
        ("priority", str(shape.priority) if shape.priority else None),
        ("unique", _unique_text(shape.unique) if shape.unique else None),
        ("persistent", "yes" if shape.persistent else None),
        ("limits", ", ".join(rule.name for rule in shape.limits) or None),
        ("share", shape.share),
        ("expires", time_of(shape.expires_ms(view.enqueued_ms or 0), now_ms)),
        *((name, str(getattr(view, name))) for name in COUNTS),
        ("worker", view.worker),
        ("token", None if view.token is None else str(view.token)),
        *((name, time_of(getattr(view, f"{name}_ms"), now_ms)) for name in TIMES),
        ("headers", _headers_text(view.headers, parts.headers) if view.headers else None),
        ("payload", key_of(view.headers) or _content(view.payload, parts.content)),
        ("result", _content(view.result or None, parts.content)),
        ("error", masked(error_text(error)) if error else None),
        ("before", "\n".join(_earlier_text(one, now_ms) for one in view.earlier_errors) or None),
    ]
    text = facts(known)
    if error is not None and error.traceback:
        text += f"\ntraceback\n  {indented(masked(error.traceback), 2)}"
    return text


def job_table(jobs: Sequence[JobView], now_ms: float, title: str, empty: str, *, queues: bool = False) -> Table:
    """Show jobs; with `queues`, also their queues. `when`: the end of jobs that have ended, the start of active ones,
    else their due or enqueue time."""
    rows = tuple(
        {
            "job": view.id,
            **({"queue": view.queue} if queues else {}),
            "state": view.state.value,
            "task": view.task or "-",
            "lane": view.shape.lane or "",
            "priority": str(view.shape.priority or ""),
            "progress": "" if view.progress is None else _share(view.progress),
            "cancelling": "" if view.cancelling is None else "asked",
            **{name: str(getattr(view, name)) for name in COUNTS},
            "when": _when(view, now_ms),
            "error": view.error.type if view.error else "",
            "message": masked(view.error.message).partition("\n")[0] if view.error else "",
        }
        for view in jobs
    )
    table = Table(title, rows, (*COUNTS, "priority", "progress", "when"), empty)
    spare = (tuple(name for name in table.only("0") if name in COUNTS), ("crashes",), ("failures",), ("when",))
    cut_note = "Messages are cut at ...: `tenure job JOB_ID` shows all of one."
    return replace(table, spare=spare, cut="message", cut_note=cut_note).without_empty(
        "lane", "priority", "progress", "cancelling", "error", "message"
    )


def error_text(error: ErrorInfo) -> str:
    return ": ".join(filter(None, (error.type, error.message)))


def _earlier_text(error: ErrorInfo, now_ms: float) -> str:
    """Format the error of an earlier attempt in one line."""
    when = "" if error.at_ms is None else f", {ago(now_ms - error.at_ms)} ago"
    return f"attempt {error.attempt or '?'}{when}: {masked(error_text(error)).partition(chr(10))[0]}"


def _progress_text(progress: Progress, now_ms: float) -> str:
    when = "" if progress.at_ms is None else f", {ago(now_ms - progress.at_ms)} ago"
    text = f": {masked(progress.text)}" if progress.text else ""
    return f"{amount(progress.current, progress.total)}{when}{text}"


def _unique_text(rule: UniqueRule) -> str:
    return f"{rule.key} ({'for a time' if rule.until is Until.WINDOW else f'until {rule.until}'})"


def _share(progress: Progress) -> str:
    share = percent(progress.current, progress.total)
    return amount(progress.current, None) if share is None else f"{share}%"


def _when(view: JobView, now_ms: float) -> str:
    at = view.ended_ms or view.started_ms or view.due_ms or view.enqueued_ms
    return "-" if at is None else distance(at, now_ms)


def _headers_text(headers: Mapping[str, str], shown: bool) -> str:
    if not shown:
        return f"{len(headers):,} (--headers shows them)"
    return "\n".join(f"{name}: {masked(text)}" for name, text in headers.items())


def _content(data: bytes | None, shown: bool) -> str | None:
    if data is None:
        return None
    if not shown:
        return f"{len(data):,} bytes (--payload shows them)"
    text = masked(text_of(data[:CONTENT_SHOWN]) or "")
    more = len(data) - CONTENT_SHOWN
    return text if more <= 0 else f"{text}\n... ({more:,} bytes more; --json has all)"
