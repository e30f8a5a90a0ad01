"""The `why` command: why a job does not run, or the reasons of the jobs of a queue, counted."""

from __future__ import annotations

import time

import click

from tenure.app.app import Tenure
from tenure.cli.completion import queue_names
from tenure.cli.output.tables import Answer, Table
from tenure.cli.output.text import facts, jobs_text, time_of
from tenure.cli.reach import ANY_JOB, no_job, queue_of, reaching
from tenure.core import limits
from tenure.core.text import masked
from tenure.core.values import as_dict
from tenure.core.why import Why


@click.argument("queue", metavar="[QUEUE]", shell_complete=queue_names)
@ANY_JOB
@reaching()
def why(queue: str, job_id: str | None, app: Tenure) -> Answer:
    """\b
    tenure why JOB_ID          why it does not run, and the command that mends it
    tenure why QUEUE JOB_ID    the same, if you know its queue
    tenure why QUEUE           the reasons of up to 1,000 jobs that wait, counted

    The most binding reason comes first, further ones follow as `also`. Nothing is changed. A name of a queue means the
    queue, also if a job has the same name. docs/howto/why.md explains each reason.
    """
    if job_id is None and queue in app.inspect.queues():
        return _counted(queue, app)
    nothing = {"queue": None if job_id is None else queue, "id": job_id or queue}
    if job_id is None:
        job_id, queue = queue, queue_of(app, queue, "tenure why {}", nothing)
        nothing["queue"] = queue
    reason = app.inspect.why(queue, job_id)
    if reason is None:
        no_job(app, queue, job_id, nothing)
    return Answer({**nothing, **as_dict(reason)}, _text(reason))


def _counted(queue: str, app: Tenure) -> Answer:
    count = app.inspect.reasons(queue)
    rows = tuple({"reason": code.value, "jobs": f"{number:,}"} for code, number in count.reasons.items())
    title = f"{queue}: why {jobs_text(count.jobs)} {'waits' if count.jobs == 1 else 'wait'}"
    notes = [] if count.is_whole else ["The queue has more jobs: these are a part of them, in no particular order."]
    document = {"queue": queue, "jobs": count.jobs, "whole": count.is_whole, "reasons": dict(count.reasons)}
    return Answer(document, [Table(title, rows, ("jobs",), f"No job waits in {queue}.")], notes)


def _text(why: Why) -> str:
    now_ms = time.time() * limits.SECOND
    culprit = why.culprit
    known = [
        ("why", masked(why.text)),
        ("reason", why.code.value),
        ("since", time_of(why.since_ms, now_ms)),
        ("until", time_of(why.until_ms, now_ms)),
        (
            "culprit",
            None if culprit is None else " ".join(filter(None, (culprit.kind, culprit.name, _of(culprit.queue)))),
        ),
        ("mends it", why.command or None),
        ("also", "\n".join(f"{one.code}: {masked(one.text)}" for one in why.also) or None),
    ]
    return facts(known)


def _of(queue: str | None) -> str | None:
    return None if queue is None else f"of queue {queue}"
