"""Functions for the running job. Outside a job they do nothing.

for n, row in enumerate(rows):
    leasehold.check_cancelled()
    leasehold.progress(n, len(rows))
    load(row)
"""

from __future__ import annotations

from leasehold.runtime.jobs.job import current_job


def check_cancelled() -> None:
    """Raise `JobCancelled`, with the reason, if there was a cancel request for the running job.

        for row in rows:
            leasehold.check_cancelled()
            load(row)

    For handlers in threads; async handlers are cancelled as any asyncio task is. Outside a job it does nothing, so that
    a task can be called as a plain function.
    """
    job = current_job()
    if job is not None:
        job.check_cancelled()


def must_stop() -> bool:
    """Return whether the running job must end: it is being cancelled, or its attempt is over (`Job.lost`).

        while not leasehold.must_stop():
            poll(feed)

    For long handlers in threads, above all those of persistent jobs; async handlers are cancelled. Outside a job it
    returns False.
    """
    job = current_job()
    return job is not None and (job.cancelled or job.lost)


def progress(current: float, total: float | None = None, text: str = "") -> None:
    """Report the progress of the running job; see `Job.progress`.

        leasehold.progress(120, 500, "rows imported")

    Outside a job it does nothing. In a job it raises `InvalidArgument` for a number that is not finite, a total of 0 or
    less, or a text that is not a str.
    """
    job = current_job()
    if job is not None:
        job.progress(current, total, text)
