"""The metrics that Tenure serves. docs/reference/metrics.md is written from these tables."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """The types of Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Family:
    """A metric. `labels`: their names. `help`: one sentence."""

    kind: Kind
    labels: tuple[str, ...]
    help: str


_COUNTER, _GAUGE, _HISTOGRAM = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM

OF_WORKERS: Final = {
    "tenure_jobs_ended_total": Family(
        _COUNTER,
        ("queue", "task", "outcome"),
        "Jobs that workers ended as completed, failed, broken or cancelled. Not those that end while they wait.",
    ),
    "tenure_retries_total": Family(
        _COUNTER, ("queue", "task"), "Attempts that failed or crashed, of jobs that run again."
    ),
    "tenure_job_run_seconds": Family(
        _HISTOGRAM, ("queue", "task"), "How long handlers ran. Each job of a batch has the time of its call."
    ),
    "tenure_job_wait_seconds": Family(
        _HISTOGRAM, ("queue",), "How long jobs waited from enqueue to start, without delayed jobs and retries."
    ),
    "tenure_schedule_lateness_seconds": Family(
        _HISTOGRAM, ("queue",), "How long after its due time a tick of a schedule was enqueued."
    ),
    "tenure_jobs_running": Family(_GAUGE, (), "Jobs that run in the processes of this command."),
    "tenure_slots": Family(_GAUGE, (), "Jobs that may run at one time in the processes of this command."),
    "tenure_leases_lost_total": Family(
        _COUNTER, ("queue", "task"), "Leases that a living worker lost; the job runs again elsewhere."
    ),
    "tenure_loop_blocked_total": Family(_COUNTER, (), "How often code blocked the event loop for over a second."),
    "tenure_redis_call_seconds": Family(_HISTOGRAM, ("call",), "How long the calls of workers to Redis took."),
    "tenure_redis_away_seconds_total": Family(
        _COUNTER, (), "Seconds for which Redis did not respond, or refused the user, summed over worker processes."
    ),
}
"""What `tenure worker --metrics-port` serves."""

OF_FLEET: Final = {
    "tenure_redis_up": Family(_GAUGE, (), "1 if the last read of Redis succeeded, else 0, and the others are missing."),
    "tenure_fleet_age_seconds": Family(_GAUGE, (), "How long ago the numbers of this page were read from Redis."),
    "tenure_queues_unread": Family(
        _GAUGE,
        (),
        "Queues without numbers: Redis refused to show them, their node is lost, or they come after the first 1,000.",
    ),
    "tenure_jobs": Family(_GAUGE, ("queue", "state"), "Jobs of a queue by their state."),
    "tenure_oldest_ready_seconds": Family(
        _GAUGE,
        ("queue",),
        "How long the job that is next has been ready, at least; 0 if no job is ready. Left out where the format has "
        "no such time, and if the first 20 jobs were all delayed or tried before.",
    ),
    "tenure_outgoing_seconds": Family(
        _GAUGE,
        ("queue",),
        "How long the oldest follow-up job, or word for a flow, waits for another queue. Left out if none does.",
    ),
    "tenure_queue_paused": Family(_GAUGE, ("queue",), "1 if the queue is paused, else 0."),
    "tenure_lanes": Family(_GAUGE, ("queue", "state"), "Lanes that are blocked or parked."),
    "tenure_limit_places": Family(_GAUGE, ("limit",), "Places of a limit that running jobs hold."),
    "tenure_limit_waiting_lanes": Family(_GAUGE, ("limit",), "Lanes that wait for a limit, with all of their jobs."),
    "tenure_workers": Family(
        _GAUGE,
        ("state",),
        "Living workers that are running, quiet, or run one job alone. Left out where only other programs may work.",
    ),
    "tenure_reclaimed_total": Family(
        _COUNTER, ("queue",), "How often a job was taken from a dead worker, or from a job process that died."
    ),
    "tenure_schedules_missed_total": Family(
        _COUNTER, ("queue",), "Ticks of schedules that were left out because they were late."
    ),
    "tenure_schedule_overdue_seconds": Family(
        _GAUGE,
        ("queue",),
        "How long ago the next tick of a schedule was due; 0 if none is late, or the queue is paused.",
    ),
}
"""What `tenure metrics` reads from Redis and serves."""

OF_BOTH: Final = {
    "tenure_build_info": Family(_GAUGE, ("version", "python"), "1; the release is in the labels."),
}
FAMILIES: Final = {**OF_WORKERS, **OF_FLEET, **OF_BOTH}

BUCKETS: Final = tuple(0.001 * 2**n for n in (*range(15), 16, 18, 20, 22))
"""The upper bounds of the buckets of each histogram, in seconds: each is one of `core.latency.BOUNDS`. One more has the
rest."""
