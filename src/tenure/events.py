"""The events of a worker, for `@app.on(...)`. `tenure.core.events` shows them as a tree.

from tenure import Tenure, events

app = Tenure()

@app.on(events.Failed, events.Broken)
async def page_me(event: events.Failed | events.Broken) -> None:
    await page(f"job {event.id} of {event.queue}: {event.error_type}")
"""

from __future__ import annotations

from tenure.core.events import (
    Broken,
    Cancelled,
    Claimed,
    Completed,
    Crashed,
    Ended,
    Event,
    Failed,
    JobEvent,
    Lost,
    RedisAway,
    RedisBack,
    Released,
    Retried,
    Started,
    Unroutable,
    WorkerEvent,
    WorkerStarted,
    WorkerStopped,
    WorkerStopping,
)

__all__ = [
    "Broken",
    "Cancelled",
    "Claimed",
    "Completed",
    "Crashed",
    "Ended",
    "Event",
    "Failed",
    "JobEvent",
    "Lost",
    "RedisAway",
    "RedisBack",
    "Released",
    "Retried",
    "Started",
    "Unroutable",
    "WorkerEvent",
    "WorkerStarted",
    "WorkerStopped",
    "WorkerStopping",
]
