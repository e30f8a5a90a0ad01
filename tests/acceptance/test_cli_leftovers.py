"""What handlers leave behind does not keep the process of a worker alive that has stopped."""

from __future__ import annotations

import os
import signal
from itertools import cycle
from pathlib import Path

import pytest

from tenure import Tenure

JOBS = """
import asyncio, atexit, multiprocessing, threading, time, warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tenure import Tenure

app = Tenure()
kept = []

class Slow:
    def __del__(self, sleep=time.sleep):
        sleep(600)

def say():
    print("exit hooks run", flush=True)

async def stay():
    try:
        await asyncio.sleep(600)
    finally:
        time.sleep(600)

@app.task
async def leave(what: str) -> None:
    print("left", what)  # without a flush
    match what:
        case "a busy thread pool":
            pool = ThreadPoolExecutor(1)
            kept.append((pool, pool.submit(time.sleep, 600)))
        case "a thread":
            threading.Thread(target=time.sleep, args=[600], name="sleeper").start()
        case "a child process":
            child = multiprocessing.get_context("fork").Process(target=time.sleep, args=[600])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # from Python 3.12 on: this process has threads
                child.start()
            Path("child").write_text(str(child.pid))
        case "a slow exit hook":
            atexit.register(time.sleep, 600)
        case "a slow finalizer":
            kept.append(Slow())
        case "a busy task":
            kept.append(asyncio.create_task(stay()))
        case "a quick exit hook":
            atexit.register(say)
"""
_OTHERS = "asyncio tasks, exit hooks or child processes"
LEFT = {
    "a busy thread pool": "threads ThreadPoolExecutor-0_0",
    "a thread": "threads sleeper",
    "a child process": _OTHERS,
    "a slow exit hook": _OTHERS,
    "a busy task": _OTHERS,
}
"""What a handler leaves behind, and what the log says that keeps the process."""


@pytest.fixture
def leave(redis_url, jobs):
    """Enqueues the job that leaves this behind."""
    with Tenure(redis_url) as app:

        @app.task(name="jobs.leave")
        def leave(what: str) -> None: ...

        yield leave.enqueue


@pytest.fixture(autouse=True)
def no_child_stays(tmp_path):
    yield
    end_child(tmp_path)


def end_child(folder: Path) -> None:
    """The worker's end leaves it alone: it holds the ends of our pipes."""
    file = folder / "child"
    if file.exists():
        os.kill(int(file.read_text()), signal.SIGKILL)
        file.unlink()


@pytest.mark.parametrize(("what", "stop"), [*zip(LEFT, cycle(["burst", "signal"]), strict=False)])
def test_the_process_of_a_stopped_worker_ends(tenure, redis_url, tmp_path, leave, what, stop):
    job = leave(what)
    run = tenure("worker", "jobs:app", *(["--burst"] if stop == "burst" else []), url=redis_url)
    job.result(timeout=120)
    if stop == "signal":
        run.signal(signal.SIGTERM)
    run.process.wait(60)
    end_child(tmp_path)
    run.end()
    assert run.out == f"left {what}\n"
    assert " worker_stopped " in run.err
    assert f"exit_forced kept_by='{LEFT[what]}'" in run.err


def test_one_that_cannot_run_python_any_more_ends_as_failed_and_the_burst_goes_on(tenure, redis_url, leave):
    leave("a slow finalizer")
    run = tenure("worker", "jobs:app", "--burst", url=redis_url).end()
    assert run.out == "left a slow finalizer\n"
    assert "how='status 1'" in run.err


def test_what_ends_by_itself_is_not_cut_short(tenure, redis_url, leave):
    leave("a quick exit hook")
    run = tenure("worker", "jobs:app", "--burst", url=redis_url).end()
    assert run.out == "left a quick exit hook\nexit hooks run\n"
    assert "exit_forced" not in run.err
