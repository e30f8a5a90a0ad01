"""What tests of worker processes share: the tasks of their jobs, and looking at the processes of a run."""

import os
import re

from tenure import Tenure
from tests.support.waiting import until

SLEEP = """
@app.task
def sleep(seconds: float) -> int:
    with open("sleeping", "a") as file:
        print(os.getpid(), file=file)
    time.sleep(seconds)
    return os.getpid()
"""
"""In the module that the workers run: a task that says where it sleeps. That module imports `os` and `time`."""


def with_tasks(app: Tenure) -> Tenure:
    """The producer's side of the tasks in the modules that these tests write. To import those would run them here."""

    def where() -> int: ...

    def sleep(seconds: float) -> int: ...

    def leak(mb: int) -> int: ...

    def villain(how: str) -> object: ...

    for stub in (where, sleep, leak, villain):
        app.task(name=f"jobs.{stub.__name__}")(stub)
    return app


def pids(run, what: str = "worker_process_ready") -> list[int]:
    """Of the processes of which something was logged, in that order."""
    return [int(pid) for pid in re.findall(rf"{what} slot=\d+ child=(\d+)", run.err)]


def ready(run, count: int):
    until(lambda: len(pids(run)) >= count or run.process.poll() is not None)
    assert len(pids(run)) >= count, run.err
    return run


def ended(run, expect: int = 0):
    """Starting some processes takes its time on a busy machine."""
    until(lambda: run.process.poll() is not None)
    return run.end(expect)


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def written(path) -> list[int]:
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def view(app, job):
    found = app.inspect.job(job.queue, job.id)
    assert found is not None
    return found
