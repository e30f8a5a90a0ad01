"""A job as users see it: what its `repr` leaves out, and the time that a schedule planned."""

from __future__ import annotations

from datetime import UTC, datetime

from tenure import JobView, State
from tenure.cli.output.jobs import describe


def test_its_repr_has_no_contents() -> None:
    view = JobView("x", "q", State.FAILED, payload=b"secret1", result=b"secret2", headers={"token": "secret3"})
    assert repr(view).startswith("JobView(id='x', queue='q', state=<State.FAILED: 'failed'>, task=None, failures=0")
    assert not any(word in repr(view) for word in ("secret", "token'", "payload", "result", "headers"))


def test_the_planned_time_of_its_tick() -> None:
    view = JobView("x", "q", State.FAILED, scheduled_for_ms=1_700_000_000_000)
    lines = dict(line.split(maxsplit=1) for line in describe(view, 1_700_000_060_000).splitlines())
    assert lines["scheduled_for"].endswith(" (1m ago)")
    assert lines["state"] == "failed"
    assert "scheduled_for" not in describe(JobView("x", "q", State.FAILED), 0)


def test_its_times_are_also_datetimes_in_utc() -> None:
    view = JobView("x", "q", State.COMPLETED, enqueued_ms=1_700_000_000_250, ended_ms=1_700_000_060_000)
    assert view.enqueued_at == datetime(2023, 11, 14, 22, 13, 20, 250_000, UTC)
    assert (view.ended_at, view.started_at) == (datetime(2023, 11, 14, 22, 14, 20, tzinfo=UTC), None)
    assert (view.due_at, view.expires_at, view.scheduled_for) == (None, None, None)
