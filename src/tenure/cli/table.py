"""The table of the commands: first line, module, and what the exit statuses mean. The module has a function of the
command's name, with its arguments; it returns the `Answer` that is printed."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, Final

_SETTING: Final = "the command line or a setting is wrong"
_REDIS: Final = "Redis could not be reached"


@dataclass(frozen=True, slots=True)
class Row:
    """A command. `module`: below `tenure.cli`. `ok`, `failed`, `wrong`: its exit statuses 0, 1 and 2. Redis that cannot
    be reached is always 1. `ok` empty: the docstring of the function has the statuses.
    """

    line: str
    module: str
    ok: str = "done"
    failed: str = ""
    wrong: str = _SETTING

    def help(self, function: Any) -> str:
        """Return the help of the command: its first line, the docstring of its function, the exit statuses."""
        parts = [self.line, inspect.getdoc(function) or ""]
        if self.ok:
            failed = f"{self.failed}, or {_REDIS}" if self.failed else _REDIS
            parts.append(f"Exit status: 0 {self.ok}; 1 {failed}; 2 {self.wrong}.")
        return "\n\n".join(filter(None, parts))


SECTIONS: Final = {
    "Run": {
        "worker": Row("Run the jobs of an app until a signal stops it.", "work.worker", ok=""),
        "autoscale": Row("Show how many workers some queues need, or run them.", "work.autoscale", ok=""),
        "dev": Row("Run a worker for development: with a Redis of its own, restarted on changes.", "work.dev", ok=""),
        "demo": Row("See it work: one job per file below DIR, two workers, one of them killed.", "demo.command", ok=""),
    },
    "Look": {
        "info": Row("Show queues and workers, or one queue and its lanes.", "info", ok=""),
        "jobs": Row("List the jobs of a queue, by their states.", "jobs"),
        "job": Row(
            "Show one job: its progress, times, error.",
            "jobs",
            "done",
            "there is no such job, the job that was watched did not complete",
        ),
        "why": Row(
            "Explain why a job does not run, or count the reasons of a queue.", "why", "done", "there is no such job"
        ),
        "flows": Row("List flows: groups of jobs, and how far they are.", "flows"),
        "flow": Row(
            "Show a flow, cancel it, or run its failed members again.", "flows", "done", "there is no such flow"
        ),
        "dashboard": Row(
            "Serve pages that show all this in a browser, and change it.",
            "dashboard",
            "a signal stopped it",
            "the port is in use",
            "the command line, the password file or a setting is wrong, or a package is missing",
        ),
        "metrics": Row(
            "Serve metrics for Prometheus, or print a dashboard for Grafana and alert rules.",
            "metrics",
            "a signal stopped it, or printed",
            wrong="the command line or a setting is wrong, the port is in use, or a package is missing",
        ),
    },
    "Change": {
        "enqueue": Row(
            "Enqueue a call of a task, or a raw payload.",
            "enqueue",
            "the job is enqueued, or another one has its place (by the task's `unique`)",
            "it is refused (the id or the unique key is taken, the queue is full)",
            "the command line, the arguments or a setting is wrong",
        ),
        "retry": Row(
            "Retry a job now, with its attempt counters reset; optionally with another payload.",
            "changes",
            "done",
            "there was nothing to retry, some jobs could not be retried",
            "the command line, the payload or a setting is wrong",
        ),
        "reschedule": Row(
            "Give a job that waits another time or priority.", "changes", "done", "the job does not wait"
        ),
        "discard": Row(
            "Remove a job that no worker holds, with all its records.",
            "changes",
            "the job is gone",
            "there is no such job, a worker holds it",
        ),
        "purge": Row(
            "Remove all jobs in one state, of a queue or of all queues.",
            "changes",
            "done, also if nothing was there",
            "not confirmed, some jobs could not be removed",
        ),
        "cancel": Row(
            "Cancel a job, the jobs of a lane, or all jobs of a queue or of all queues.",
            "changes",
            "jobs were cancelled or asked to end",
            "there was nothing to cancel, some jobs had ended before",
        ),
        "pause": Row(
            "Stop workers from starting jobs of a queue, or of one lane.",
            "queues",
            "paused, also if it was paused before",
        ),
        "resume": Row(
            "Resume a paused queue, or parked lanes.",
            "queues",
            "resumed, also if the queue was not paused",
            "the lane is not parked",
        ),
        "configure": Row(
            "Set the maximum length of a queue, its number of partitions, and what a failed job does to its lane.",
            "queues",
        ),
        "schedules": Row(
            "List schedules with their next times, or pause, resume, trigger or remove one.",
            "schedules",
            "done",
            "there is no such schedule",
        ),
        "limits": Row(
            "Show limits, or change one for all workers at once.",
            "limits",
            "done",
            "nothing is stored that --clear could remove",
        ),
        "quiet": Row(
            "Let a worker finish its running jobs and start no others.",
            "queues",
            "the worker was notified",
            "there is no such worker",
        ),
        "stacks": Row(
            "Show where the running handlers of a worker are, in files and lines.",
            "queues",
            "shown",
            "there is no such worker, or it does not answer",
        ),
    },
    "Redis": {
        "check": Row(
            "Check that Redis is configured safely for jobs, and explain how to fix it.",
            "check",
            "safe, perhaps with warnings",
            "there are errors (with --strict: or warnings)",
        ),
        "migrate": Row(
            "Move waiting jobs to the native protocol, or whole queues to another server or cluster.",
            "migrate",
            "done, also if no job waited",
            "not confirmed, ids of some jobs are taken in the native queue or invalid there, the native queue is full, "
            "this user may not write to both, jobs are still held after --wait",
        ),
    },
    "SQL": {
        "relay": Row("Enqueue the committed rows of an outbox in an SQL database.", "relay", ok=""),
        "sql-clean": Row("Forget old jobs in the table that makes effects happen once.", "relay", ok=""),
    },
    "Other wire formats": {
        "clean": Row(
            "Return the items of dead workers to a queue of redis-work-queue, or delete unused large payloads.",
            "foreign",
        ),
        "monitor": Row(
            "Return the jobs of dead workers to their queues, again and again, until a signal stops it.",
            "foreign",
            ok="",
        ),
    },
    "Help": {
        "help": Row(
            "Show the help of a command, or of the options for Redis, the namespace and the format.", "help", ok=""
        ),
        "completion": Row("Print a script that completes words in your shell.", "completion", ok=""),
    },
}
"""The commands by section, as `--help` shows them without loading one."""
COMMANDS: Final = {name: row for section in SECTIONS.values() for name, row in section.items()}
