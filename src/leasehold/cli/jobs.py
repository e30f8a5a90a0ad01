"""Jobs as `leasehold info` shows them: one with all that is known of it, or a page of those in one state."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Final

from leasehold.cli.errors import safe
from leasehold.cli.tables import Table, ago
from leasehold.core import limits
from leasehold.core.job import JobView, Page, State

_TIMES: Final = ("enqueued", "due", "started", "ended", "expires")
_COUNTS: Final = ("failures", "crashes")


def describe(view: JobView, now_ms: float, *, content: bool) -> str:
    """All that is known of a job, a line for each thing, the traceback last. `content`: payload and result too."""
    facts: list[tuple[str, str | None]] = [
        ("job", view.id),
        ("queue", view.queue),
        ("task", view.task or "(raw payload)"),
        ("state", view.state.value),
        *((name, str(getattr(view, name))) for name in _COUNTS),
        ("worker", view.worker),
        ("token", None if view.token is None else str(view.token)),
        *((name, _time(getattr(view, f"{name}_ms"), now_ms)) for name in _TIMES),
        ("payload", _content(view.payload, content)),
        ("result", _content(view.result or None, content)),
    ]
    if view.error is not None:
        facts.append(("error", f"{view.error.type}: {view.error.message}"))
    lines = [f"{name:<10}{_indented(value, 10)}" for name, value in facts if value is not None]
    if view.error is not None and view.error.traceback:
        lines += ["traceback", f"  {_indented(view.error.traceback, 2)}"]
    return "\n".join(lines)


def page_table(queue: str, state: State, page: Page, now_ms: float) -> Table:
    """A page of jobs. When: for ended jobs the end, for those held the start, else when they are due or came."""
    head = ("job", "task", *_COUNTS, "when", "error", "message")
    rows = tuple(
        (
            view.id,
            view.task or "-",
            str(view.failures),
            str(view.crashes),
            _when(view, now_ms),
            view.error.type if view.error else "-",
            view.error.message.partition("\n")[0] if view.error else "-",
        )
        for view in page.jobs
    )
    title = f"{queue}: {len(rows):,} of {page.total:,} {state.value}"
    zero = tuple(name for n, name in enumerate(head) if name in _COUNTS and all(row[n] == "0" for row in rows))
    spare = (zero, ("message",), ("crashes",), ("failures",))
    table = Table(title, head, rows, frozenset({*_COUNTS, "when"}), f"No {state.value} jobs in {queue}.", spare)
    return table if any(view.error for view in page.jobs) else table.without(("error", "message"))


def to_json(view: JobView, *, content: bool) -> dict[str, Any]:
    """A job with the names of the fields of its view. Payload and result as text, where asked for."""
    error = view.error
    return {
        "id": view.id,
        "queue": view.queue,
        "state": view.state.value,
        "task": view.task,
        **{name: getattr(view, name) for name in _COUNTS},
        **{f"{name}_ms": getattr(view, f"{name}_ms") for name in _TIMES},
        "worker": view.worker,
        "token": view.token,
        "error": error and {"type": error.type, "message": error.message, "traceback": error.traceback},
        **({"payload": _text(view.payload), "result": _text(view.result)} if content else {}),
    }


def page_json(page: Page) -> str:
    jobs = [to_json(view, content=False) for view in page.jobs]
    return json.dumps({"jobs": jobs, "total": page.total}, indent=2)


def _when(view: JobView, now_ms: float) -> str:
    at = view.ended_ms or view.started_ms or view.due_ms or view.enqueued_ms
    return "-" if at is None else _distance(at, now_ms)


def _distance(at_ms: int, now_ms: float) -> str:
    return f"in {ago(at_ms - now_ms)}" if at_ms > now_ms else f"{ago(now_ms - at_ms)} ago"


def _time(at_ms: int | None, now_ms: float) -> str | None:
    if at_ms is None:
        return None
    try:
        shown = datetime.fromtimestamp(at_ms / limits.SECOND).astimezone().strftime("%Y-%m-%d %H:%M:%S%z")
    except (OverflowError, ValueError, OSError):  # a number that another program wrote
        return str(at_ms)
    return f"{shown} ({_distance(at_ms, now_ms)})"


def _content(data: bytes | None, shown: bool) -> str | None:
    if data is None:
        return None
    return _text(data) if shown else f"{len(data):,} bytes (--payload shows them)"


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "backslashreplace")


def _indented(text: str, by: int) -> str:
    """Text of several lines below a name: no line of it can be taken for one of ours."""
    return safe(text).rstrip("\n").replace("\n", "\n" + " " * by)
