"""The log events: every name that Tenure logs, with its level and its message.

docs/reference/log.md is generated from this registry by `make docs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from logging import CRITICAL, DEBUG, ERROR, INFO, WARNING
from typing import Final, NamedTuple


class LogEvent(NamedTuple):
    """One log event. `fields` explains fields that do not explain themselves, and names the other levels."""

    level: int
    message: str
    fields: str = ""


# The line for people has no message, because it would only repeat the name.
OUTCOMES: Final[Mapping[str, LogEvent]] = {
    "started": LogEvent(
        INFO,
        "An attempt began.",
        "`waited`: how many seconds the job was ready before; not for delayed jobs and retries. "
        "Not with `--no-log-jobs`, as the next line",
    ),
    "completed": LogEvent(INFO, "The job completed.", "`seconds`: how long its attempt took; `waited`: as above"),
    "retried": LogEvent(
        INFO, "The attempt failed; the job runs again.", "`delay_ms`: the time until then, if it does not run at once"
    ),
    "deferred": LogEvent(
        INFO,
        "The handler put the job off; the attempt does not count.",
        "`error`: `Snooze` or `RateLimited`; `delay_ms`: the time until then",
    ),
    "failed": LogEvent(ERROR, "The job failed for good.", "`see`: the command that shows more"),
    "broken": LogEvent(
        ERROR,
        "The job cannot be handled; it is kept in the state broken.",
        "`error=Crashed`: it killed its workers or processes too often; the worker that maintains the queue logs this",
    ),
    "cancelled": LogEvent(DEBUG, "The job was cancelled."),
    "released": LogEvent(DEBUG, "The job was returned to its queue unchanged."),
    "crashed": LogEvent(WARNING, "The job killed the process that ran it."),
    "unroutable": LogEvent(
        DEBUG,
        "This worker has no handler for the task; the job waits for a worker that has one.",
        "a warning once for each task, with what the app has (`known`); a raw payload of another program stays queued",
    ),
    "traceback": LogEvent(
        ERROR,
        "The traceback of the line before.",
        "debug after other events than `failed` and `broken`; has several lines",
    ),
}

WORKER: Final[Mapping[str, LogEvent]] = {
    "jobs_counted": LogEvent(
        INFO,
        "Too many jobs for lines of their own; how many started and completed.",
        "once a second while there are more than 50 jobs a second. `in_s`: since when it counts",
    ),
    "errors_counted": LogEvent(
        ERROR,
        "More errors of one kind than are logged in full.",
        "once a second, after 5 errors of one task and type; at the level of `outcome`",
    ),
    "cancel_requested": LogEvent(
        INFO, "The job is to be cancelled; an async handler is cancelled now.", "`started`: whether it runs"
    ),
    "lease_lost": LogEvent(
        WARNING,
        "The worker lost the lease of the job; its outcome does not count, and another worker runs it.",
        "`noticed_by`: the call that showed it. `certain=False`: a reply was lost and the repeated call was refused: "
        "the first call may have counted; or, with `noticed_by=heartbeat`, no heartbeat succeeded for the length of a "
        "lease and a job that must run alone (of a lane, a limit or a unique key, or persistent) is stopped; with "
        "`noticed_by=keeper` its process `pid` was killed for that, since the worker was stopped or blocked",
    ),
    "jobs_released": LogEvent(
        WARNING,
        "Jobs were returned to their queues.",
        "`reason`: no heartbeat succeeded for the length of a lease, so that jobs which have not started may belong to "
        "another worker; or the reply to a claim was lost (for the job `id`); or all slots were busy for too long "
        "(debug); or the worker has ended (logged by its keeper). "
        "`released`: how many; `settled`: how many more had timed out, and failed or are retried; "
        "`not_released`, `not_all_released`: why not. The rest return when their leases expire",
    ),
    "limit_unknown": LogEvent(
        WARNING,
        "A `RateLimited` names a limit that neither the job nor the code of this app has; only this job waits.",
        "logged once for each task",
    ),
    "handler_overran": LogEvent(
        WARNING,
        "The handler outlasted its attempt; its outcome does not count. Run it in a process to end it.",
        "`ended`: whether it has ended; until then it keeps its slot busy. `kind`: where it runs. `job=given up`: the "
        "worker settles the job, or has lost it. `job=kept`: the lane of the job, its limits or its unique key wait "
        "for the handler, and the keeper releases the job after a stop. `reason`: such a job waited long enough",
    ),
    "result_awaited": LogEvent(
        WARNING,
        "The job keeps its slot while it waits for the result of another job; if such jobs fill all slots, none ends.",
        "`awaited_task`, `awaited_id`: the other job. Once for each pair of tasks. Enqueue the rest as a job of its "
        "own, or run the two tasks on different workers",
    ),
    "loop_blocked": LogEvent(
        WARNING,
        "Code on the event loop did not return or await; the worker's async jobs, timeouts and cancellations waited. "
        "Use a `def` handler or asyncio.to_thread.",
        "`task`, `id`: the job of that handler; only `at` if a task that the handler made did it. `seconds`: for "
        "how long, from one second on. `ended=False`: it still does, after 10, 20, 40, ... seconds. At most once a "
        "minute for each place in the code",
    ),
    "claims_paused": LogEvent(
        INFO,
        "A suspect of a crash is to run alone in this worker; it claims nothing until its other jobs have ended or run "
        "for 15 s.",
        "`queue`: the suspect's. See [crash recovery](../explanation/crash-recovery.md#which-job-is-to-blame)",
    ),
    "entry_dropped": LogEvent(
        WARNING,
        "Entries of the queue are not jobs that can run; see the reason.",
        "`count`: how many since the last such line, at most one every 10 s. `ids`: the first of them",
    ),
    "result_dropped": LogEvent(
        WARNING,
        "The job completed, but its result cannot be kept; a note replaces it.",
        "`result`: its type; `size`, `most`: bytes, when the result is too large",
    ),
    "callback_failed": LogEvent(
        WARNING,
        "A function of the app that is not a handler failed or took too long; the worker continues without its answer.",
        "`kind`: `backoff` (also a wrong delay), `retry_rule` (`retry_on`, `fail_on`), `hook` (`on_failure`, "
        "`on_success`; error), or `listener` (error). `state=blocking` (warning): the listener held the event loop and "
        "every async job. `state=hanging`: it did not end when it was cancelled, and no listener receives events until "
        "it ends. Logged once for each task and kind, or once for each listener and type of error (then debug); hooks "
        "always",
    ),
    "events_dropped": LogEvent(
        WARNING,
        "Listeners or hooks are too slow; further calls are dropped.",
        "`kind`: `listener`, or `hook` (`on_failure`, `on_success`; error)",
    ),
    "log_restored": LogEvent(
        WARNING, "The log is written again: stderr accepts its lines.", "`dropped`: how many it did not accept"
    ),
    "events_restored": LogEvent(WARNING, "Listeners receive events again.", "`dropped`: how many they missed"),
    "process_died": LogEvent(
        WARNING, "The process that ran the job has ended.", "`how`: in which way. Info if the worker stopped it"
    ),
    "start_failed": LogEvent(
        WARNING,
        "A process or thread did not start, or not in time; Tenure tries again.",
        "`kind`: `thread`, `job_process`, or `worker_process` (error, if the system could not start it). `parked` "
        "(error): no job process can start; jobs that need one are parked, and the others continue",
    ),
    "processes_restored": LogEvent(WARNING, "Job processes start again."),
    "worker_started": LogEvent(INFO, "The worker claims jobs."),
    "lifespan_failed": LogEvent(
        ERROR, "The end of the app's lifespan raised an error, or took too long; the worker has ended all the same."
    ),
    "queue_paused": LogEvent(WARNING, "The queue is paused: none of its jobs starts before `tenure resume QUEUE`."),
    "queue_unknown": LogEvent(
        INFO, "Nothing was enqueued to this queue lately.", "the producers may use another name, URL or namespace"
    ),
    "worker_paused": LogEvent(INFO, "The worker was asked to start no jobs; running jobs continue."),
    "worker_resumed": LogEvent(INFO, "The worker starts jobs again."),
    "worker_interrupted": LogEvent(
        WARNING,
        "Running jobs may finish within `grace`; another Ctrl-C stops at once.",
        "the first Ctrl-C of `app.run_worker()`",
    ),
    "worker_stopping": LogEvent(
        INFO,
        "The worker stops claiming; running jobs may finish.",
        "`running`: how many. `reason`: the worker retires, because of its age, its number of jobs, its memory, or "
        "(error) because handlers that do not end occupy every slot",
    ),
    "worker_stopped": LogEvent(
        INFO,
        "The worker has stopped.",
        "`released`: jobs that did not finish. `handlers_running`: handlers that did not end. `left` (warning): the "
        "worker could not release its jobs, because handlers continue that exclude other jobs, or because Redis "
        "does not answer; its keeper releases them. `unheard`: events that no listener received",
    ),
    "worker_died": LogEvent(
        WARNING,
        "The process of the worker died; the keeper releases its jobs.",
        "logged by the keeper. It has the fields of `jobs_released`",
    ),
    "worker_failed": LogEvent(CRITICAL, "A part of the worker cannot run; the worker stops with an error."),
    "exit_forced": LogEvent(
        WARNING,
        "The worker has stopped, but its process would not exit; it exits without waiting.",
        "`kept_by`: the names of threads, or else `asyncio tasks, exit hooks or child processes`",
    ),
    "loop_failed": LogEvent(
        ERROR,
        "A part of the worker or of its parent failed; it is run again or left out.",
        "`loop`: which one. A loop that fails ten times in a minute stops the worker",
    ),
    "keeper_lost": LogEvent(
        ERROR,
        "No process keeps the leases; the worker claims nothing until a new one has started.",
        "`reason`: `ended`, `silent` (no report for the length of a lease), `not_started` (no process, descriptor or "
        "memory is left; after 30 s the worker stops), or `failed` (logged by the parent for its worker `child`)",
    ),
    "keeper_restored": LogEvent(WARNING, "A process keeps the leases again."),
    "parent_lost": LogEvent(
        WARNING, "The parent has ended or is silent; the worker finishes its running jobs and stops."
    ),
    "queue_maintained": LogEvent(
        INFO, "Jobs of dead workers were returned to the queue, or parked jobs are ready again."
    ),
    "schedule_stored": LogEvent(INFO, "A schedule of the code is new, or has changed."),
    "schedule_ended": LogEvent(INFO, "The schedule has ended: no worker of its app has it in its code any more."),
    "schedule_refused": LogEvent(
        WARNING,
        "The schedule cannot be kept or moved on; the worker tries again.",
        "`error`: another app with living workers, or a user, has a schedule of this name, newer code has it under "
        "another name, the queue is full, or this machine cannot read the definition. Once for each schedule and error",
    ),
    "ticks_left_out": LogEvent(
        WARNING,
        "Ticks of the schedule have no job.",
        "`late`: how many came while nothing could run them (`catch_up`). `overlap`: 1 if the previous job has not "
        "ended; info, if that is all",
    ),
    "check_failed": LogEvent(
        WARNING,
        "A check at the start found a problem; the worker starts. See tenure check.",
        "`about`: which check; `queue`: no task or handler of the app names it; `remedy`: how to fix it",
    ),
    "durability_lost": LogEvent(
        WARNING,
        "Fewer replicas than wanted confirmed a write in time; the write counts, but a failover may lose it.",
        "logged once",
    ),
    "durability_restored": LogEvent(WARNING, "Enough replicas confirm writes again."),
}

DROP_IN: Final[Mapping[str, LogEvent]] = {
    "lease_expired": LogEvent(
        WARNING,
        "Leases of this item ended several times before it was completed, and it is leased once more. Lease it for "
        "longer, call extend() while working, or find out why its worker dies.",
        "`expiries`: how often; logged at 3, 10, 20, ... `lease_ms`: this lease. `queue`: the prefix",
    ),
}

REDIS: Final[Mapping[str, LogEvent]] = {
    "redis_lost": LogEvent(
        WARNING,
        "Redis does not respond successfully; Tenure tries again.",
        "once for an outage. With `what` on `tenure.worker`: `start` (the worker waits with its start), `heartbeat` "
        "(the keeper cannot extend the leases), `wait` (the worker polls its queues at least every 4 s), `autoscaler` "
        "(the last decision stays)",
    ),
    "redis_refused": LogEvent(
        ERROR,
        "Redis refuses a call of the worker; the worker continues with the rest and tries again.",
        "`what`: `access` (the user or the password), `claim`, `settle` or `follow-ups` (jobs that go to `queue`; the "
        "other queues are served), `subscribe` (warning: cancel requests arrive with the next heartbeat), `progress` "
        "(warning), `partitions` (the process continues by the maps that it has read), or a loop. Once for each error",
    ),
    "redis_restored": LogEvent(
        WARNING, "Redis responds, or accepts such calls, again.", "`after_s`: after how long; `what`: as above"
    ),
    "master_changed": LogEvent(WARNING, "The sentinels name another master."),
    "partitions_differ": LogEvent(
        WARNING, "A queue has another number of partitions than in this code. That in Redis counts.", "logged once"
    ),
    "partitions_outside": LogEvent(
        WARNING,
        "Jobs lie in partitions that the queue does not have, as after a restore of Redis; they are moved into those "
        "that it has.",
        "`outside`: their numbers; `partitions`: how many the queue has",
    ),
    "slots_moved": LogEvent(WARNING, "Hash slots of the cluster have another master.", "`slots`: how many"),
}

DASHBOARD: Final[Mapping[str, LogEvent]] = {
    "login_failed": LogEvent(
        WARNING,
        "A password of the dashboard was wrong, or its file cannot be used (`error`).",
        "`address`, `user`: from where, and the name that was given",
    ),
    "audit": LogEvent(
        INFO,
        "An operator changed something in the dashboard.",
        "`user`, `address`: who, and from where; `action`; `selection`: of which jobs, queue, lane, limit, schedule or "
        "worker; `count`: how many were changed; `result`",
    ),
}

PARENT: Final[Mapping[str, LogEvent]] = {
    "parent_started": LogEvent(INFO, "The parent starts the worker processes."),
    "parent_stopped": LogEvent(INFO, "The parent has stopped.", "`status`: its exit status"),
    "parent_failed": LogEvent(
        CRITICAL,
        "The parent cannot continue; it stops the worker processes and exits with an error.",
        "`reason`: no process gets ready; or `error`: a part of the parent failed",
    ),
    "worker_process_ready": LogEvent(INFO, "The worker process claims jobs."),
    "worker_process_ended": LogEvent(WARNING, "A worker process has ended.", "`how`: in which way. Info if expected"),
    "worker_process_delayed": LogEvent(
        WARNING,
        "The parent waits before it starts the next process of this slot.",
        "`next_in_s`: how long; `until=file_change` with `--reload`",
    ),
    "worker_process_killed": LogEvent(WARNING, "The worker process did not stop in time; the parent killed it."),
    "restart_started": LogEvent(
        INFO,
        "New processes replace the old ones.",
        "`processes`: how many, one after the other. Or `files`: how many have changed, `one` of them",
    ),
    "restart_failed": LogEvent(
        ERROR, "The rolling restart has stopped, because a new process did not start; the old ones continue."
    ),
    "signal_received": LogEvent(INFO, "The parent received a signal.", "`then`: what it does"),
    "health_served": LogEvent(INFO, "The parent serves health checks at this address."),
    "metrics_served": LogEvent(INFO, "Metrics for Prometheus are served at this address, at /metrics."),
}

OUTBOX: Final[Mapping[str, LogEvent]] = {
    "relay_started": LogEvent(INFO, "The relay brings the rows of this outbox to Redis."),
    "relay_stopped": LogEvent(INFO, "The relay has stopped.", "`jobs`: how many it has enqueued"),
    "relay_lost": LogEvent(WARNING, "The database or Redis does not serve the relay; it tries again."),
    "relay_restored": LogEvent(WARNING, "Both serve the relay again."),
    "relay_refused": LogEvent(
        ERROR, "A queue refuses the jobs of rows; they stay in the outbox, and the relay tries again."
    ),
}

LOG_EVENTS: Final[Mapping[str, LogEvent]] = {**OUTCOMES, **WORKER, **DROP_IN, **REDIS, **PARENT, **DASHBOARD, **OUTBOX}
