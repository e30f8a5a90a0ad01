"""What code says or asks of the job that it runs for, wherever it is called: outside of a job it means nothing.

for n, row in enumerate(rows):
    leasehold.check_cancelled()
    leasehold.progress(n, len(rows))
    load(row)
"""

from __future__ import annotations

from leasehold.runtime.jobs.job import current_job


def check_cancelled() -> None:
    """Raise `JobCancelled` if somebody asked for the running job to be cancelled, with the reason.

        for row in rows:
            leasehold.check_cancelled()
            load(row)

    For sync handlers; async ones are cancelled as any asyncio task is. Outside of a job it does nothing, so that a
    task can be called as the function that it is.
    """
    job = current_job()
    if job is not None:
        job.check_cancelled()


def must_stop() -> bool:
    """Whether the running job is to end: it is being cancelled, or its attempt is over (`Job.lost`).

        while not leasehold.must_stop():
            poll(feed)

    For sync handlers that run for long, above all those of persistent jobs; async ones are cancelled. Outside of a job
    it is False.
    """
    job = current_job()
    return job is not None and (job.cancelled or job.lost)


def progress(current: float, total: float | None = None, text: str = "") -> None:
    """Say how far the running job is, for whoever looks; see `Job.progress`. For sync and async handlers.

        leasehold.progress(120, 500, "rows imported")

    Outside of a job it does nothing. In one it raises `InvalidArgument` for numbers that are not finite, a total that
    is not above 0, and a text that is none.
    """
    job = current_job()
    if job is not None:
        job.progress(current, total, text)
