"""The log events: every name that Leasehold logs, with its levels and its message.

docs/reference/log.md is generated from this registry by `make docs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class LogEvent:
    """One log event. The reference page adds `fields`, which explains fields that do not explain themselves."""

    levels: str
    message: str
    fields: str = ""
    is_terse: bool = False
    """Whether the line for people has no message, because it would only repeat the name."""


JOBS: Final[Mapping[str, LogEvent]] = {
    "completed": LogEvent("debug", "The job completed.", is_terse=True),
    "retried": LogEvent(
        "info", "The attempt failed; the job runs again.", "`delay_ms`: the time until then", is_terse=True
    ),
    "failed": LogEvent("warning", "The job failed for good.", is_terse=True),
    "broken": LogEvent(
        "warning",
        "The job cannot be handled; it is kept in the state broken.",
        "`error=Crashed`: it killed its workers or processes too often; the worker that maintains the queue logs this",
        is_terse=True,
    ),
    "cancelled": LogEvent("debug", "The job was cancelled.", is_terse=True),
    "released": LogEvent("debug", "The job was returned to its queue unchanged.", is_terse=True),
    "crashed": LogEvent("warning", "The job killed the process that ran it.", is_terse=True),
    "unroutable": LogEvent(
        "warning, debug",
        "This worker has no handler for the task; the job waits for a worker that has one.",
        "logged as a warning once for each task; another program's raw payload stays in its queue",
    ),
    "traceback": LogEvent("debug", "The error of the line before.", "the only event with several lines", is_terse=True),
    "cancel_requested": LogEvent(
        "info", "The job is to be cancelled; an async handler is cancelled now.", "`started`: whether it runs"
    ),
    "lease_lost": LogEvent(
        "warning",
        "The worker lost the lease of the job; its outcome does not count, and another worker runs it.",
        "`noticed_by`: the call that showed it. `certain=False`: a reply was lost and the repeated call was refused: "
        "the first call may have counted; or, with `noticed_by=heartbeat`, no heartbeat succeeded for the length of a "
        "lease and a persistent job is stopped",
    ),
    "jobs_released": LogEvent(
        "warning, debug",
        "Jobs were returned to their queues.",
        "`reason`: no heartbeat succeeded for the length of a lease, so that jobs which have not started may belong to "
        "another worker; or all slots were busy for too long (debug); or the worker has ended (logged by its keeper). "
        "`released`: how many; `not_released`, `not_all_released`: why not. The rest return when their leases expire",
    ),
    "orphan_released": LogEvent(
        "warning", "A claim whose reply was lost had leased this job; it was returned to its queue."
    ),
    "outcome_ignored": LogEvent(
        "warning", "The handler ended after its attempt was over; its outcome does not count.", is_terse=True
    ),
    "handler_overran": LogEvent(
        "warning",
        "The handler continues although its attempt is over, and keeps its slot busy. Run it in a process to end it.",
        "`job=kept`: the lane of the job waits for the handler, and the keeper releases the job after a stop",
    ),
    "machine_reserved": LogEvent(
        "info",
        "A suspect of a crash is to run alone; this worker claims nothing until then.",
        "`queue`: the suspect is of this queue and runs in this worker; else it runs in another worker process of this "
        "machine. See [crash recovery](../explanation/crash-recovery.md#which-job-is-to-blame)",
    ),
    "machine_released": LogEvent(
        "info", "The suspect in another worker process of this machine has ended; this worker claims jobs again."
    ),
    "entry_dropped": LogEvent("warning", "An entry of the queue is not a job; it was removed."),
    "process_died": LogEvent("warning, info", "The process that ran the job has ended.", "`how`: in which way"),
    "process_not_started": LogEvent("warning", "A job process could not start; the worker tries again."),
    "processes_unavailable": LogEvent(
        "error", "No job process can start; jobs that need one are parked, and the others continue."
    ),
    "processes_restored": LogEvent("warning", "Job processes start again."),
    "callback_failed": LogEvent(
        "warning, error, debug",
        "A function of the app that is not a handler failed or took too long; the worker continues without its answer.",
        "`kind`: `backoff` (also a wrong delay), `retry_rule` (`retry_on`, `fail_on`), `hook` (`on_failure`), or "
        "`listener`. Logged once for each task and kind, or once for each listener and type of error; hooks always",
    ),
    "hooks_dropped": LogEvent("error", "Too many on_failure hooks wait; further ones are dropped."),
    "result_dropped": LogEvent(
        "warning",
        "The job completed, but its result cannot be kept; a note replaces it.",
        "`size`, `most`: bytes, when the result is too large",
    ),
    "progress_refused": LogEvent("warning", "Redis refused to store progress; the job continues.", "logged once"),
}

WORKER: Final[Mapping[str, LogEvent]] = {
    "worker_started": LogEvent("info", "The worker claims jobs."),
    "worker_paused": LogEvent("info", "The worker was asked to start no jobs; running jobs continue."),
    "worker_resumed": LogEvent("info", "The worker starts jobs again."),
    "worker_retired": LogEvent(
        "info, error",
        "The worker stops so that another one can replace it; running jobs may finish.",
        "`reason`: its age, its number of jobs, its memory, or (error) handlers that do not end occupy every slot",
    ),
    "worker_failed": LogEvent("critical", "A part of the worker cannot run; the worker stops with an error."),
    "worker_draining": LogEvent("info", "The worker stops claiming; running jobs may finish.", "`running`: how many"),
    "worker_stopped": LogEvent(
        "info",
        "The worker has stopped.",
        "`released`: jobs that did not finish. `handlers_running`: handlers that did not end. "
        "`unheard`: events that no listener received",
    ),
    "worker_died": LogEvent(
        "warning",
        "The process of the worker died; the keeper releases its jobs.",
        "logged by the keeper. Its fields are those of `jobs_released`",
    ),
    "shutdown_failed": LogEvent("warning", "A step of the shutdown failed; the shutdown continues."),
    "exit_forced": LogEvent(
        "warning",
        "The worker has stopped, but its process would not exit; it exits without waiting.",
        "`kept_by`: the names of threads, or else `asyncio tasks, exit hooks or child processes`",
    ),
    "jobs_left": LogEvent(
        "warning",
        "The worker stops with jobs that it cannot release; its keeper releases them.",
        "either handlers continue that nothing may run beside, or Redis does not answer",
    ),
    "keeper_lost": LogEvent(
        "error",
        "No process keeps the leases; the worker claims nothing until a new one has started.",
        "`reason`: `ended`, `silent` (no report for the length of a lease), `not_started` (no process, descriptor or "
        "memory is left; after 30 s the worker stops), or `failed` (logged by the parent for its worker `child`)",
    ),
    "keeper_restored": LogEvent("warning", "A process keeps the leases again."),
    "heartbeat_lost": LogEvent(
        "warning",
        "The keeper cannot extend the leases; it tries again.",
        "`trouble`: the error of Redis, or its silence",
    ),
    "heartbeat_restored": LogEvent("info", "The keeper extends the leases again."),
    "parent_lost": LogEvent(
        "warning", "The parent has ended or is silent; the worker finishes its running jobs and stops."
    ),
    "queue_maintained": LogEvent(
        "info", "Jobs of dead workers were returned to the queue, or parked jobs are ready again."
    ),
    "queue_unknown": LogEvent(
        "warning", "No task or handler of the app names this queue.", "`about`: the queues that are named"
    ),
    "queue_refused": LogEvent(
        "error", "Redis refuses claims from this queue; the worker serves its other queues and tries again."
    ),
    "queue_accepted": LogEvent("warning", "Redis accepts claims from this queue again."),
    "outcomes_refused": LogEvent(
        "error",
        "Redis refuses an outcome of this queue; the worker keeps the leases, claims nothing of the queue and tries "
        "again.",
        "logged once for each error",
    ),
    "outcomes_accepted": LogEvent("warning", "Redis accepts outcomes of this queue again."),
    "redis_unfit": LogEvent(
        "warning",
        "Redis is not configured safely for jobs. See leasehold check.",
        "`about`: the check that failed; `remedy`: how to fix it",
    ),
    "redis_awaited": LogEvent(
        "warning", "The worker cannot start until Redis responds; it tries again.", "`about`: the error"
    ),
    "redis_refused": LogEvent(
        "error", "Redis answered a call with an error; the worker tries again.", "`loop`: the part that called"
    ),
    "access_denied": LogEvent("error", "Redis refuses the user or the password of the worker; it tries again."),
    "access_restored": LogEvent("warning", "Redis accepts the user of the worker again.", "`away_s`: after how long"),
    "durability_lost": LogEvent(
        "warning",
        "Fewer replicas than wanted confirmed a write in time; the write counts, but a failover may lose it.",
        "logged once",
    ),
    "durability_restored": LogEvent("warning", "Enough replicas confirm writes again."),
    "waits_lost": LogEvent(
        "warning", "Waits for new jobs fail one after the other; the worker polls its queues at least every 4 s."
    ),
    "waits_restored": LogEvent("info", "Waits for new jobs succeed again."),
    "subscription_refused": LogEvent(
        "warning", "The user may not subscribe; cancel requests arrive with the next heartbeat."
    ),
    "loop_failed": LogEvent(
        "error", "A background loop raised or was cancelled; it is restarted. Ten failures in a minute stop the worker."
    ),
    "threads_unavailable": LogEvent(
        "warning", "The system allows no further thread for handlers; jobs wait for the existing ones."
    ),
    "listener_slow": LogEvent(
        "warning, error",
        "A listener delays the events.",
        "`state=blocking`: it held the event loop and every async job. `state=hanging` (error): it did not end "
        "when it was cancelled, and no listener receives events until it ends. Logged once for each listener",
    ),
    "events_dropped": LogEvent("warning", "Listeners are too slow; new events are dropped."),
    "events_restored": LogEvent("warning", "Listeners receive events again.", "`dropped`: how many they missed"),
}

PARENT: Final[Mapping[str, LogEvent]] = {
    "parent_started": LogEvent("info", "The parent starts the worker processes."),
    "parent_stopped": LogEvent("info", "The parent has stopped.", "`status`: its exit status"),
    "parent_failed": LogEvent(
        "critical",
        "The parent cannot continue; it stops the worker processes and exits with an error.",
        "`reason`: no process gets ready; or `error`: a part of the parent failed",
    ),
    "worker_process_started": LogEvent("info", "A worker process was started."),
    "worker_process_ready": LogEvent("info", "The worker process claims jobs."),
    "worker_process_not_started": LogEvent("error", "The system could not start a worker process."),
    "worker_process_slow": LogEvent("warning", "The worker process takes long to get ready."),
    "worker_process_ended": LogEvent("info, warning", "A worker process has ended.", "`how`: in which way"),
    "worker_process_delayed": LogEvent(
        "warning",
        "The parent waits before it starts the next process in this place.",
        "`next_in_s`: how long; `until=file_change` with `--reload`",
    ),
    "worker_process_killed": LogEvent("warning", "The worker process did not stop in time; the parent killed it."),
    "restart_started": LogEvent(
        "info",
        "New processes replace the old ones, one after the other.",
        "`then`: a SIGHUP came during a rolling restart; when all processes are replaced once more",
    ),
    "restart_failed": LogEvent(
        "error", "The rolling restart has stopped, because a new process did not start; the old ones continue."
    ),
    "files_changed": LogEvent("info", "Files have changed; the worker processes restart."),
    "signal_received": LogEvent("info", "The parent received a signal.", "`then`: what it does"),
    "health_served": LogEvent("info", "The parent serves health checks at this address."),
    "health_file_failed": LogEvent("error", "The parent cannot write the health file; it tries again."),
}

REDIS: Final[Mapping[str, LogEvent]] = {
    "redis_lost": LogEvent("warning", "Redis stopped responding; Leasehold tries again.", "logged once for an outage"),
    "redis_restored": LogEvent("warning", "Redis responds again.", "`after_s`: after how long"),
    "master_changed": LogEvent("warning", "The sentinels name another master."),
}

LOG_EVENTS: Final[Mapping[str, LogEvent]] = {**JOBS, **WORKER, **PARENT, **REDIS}
