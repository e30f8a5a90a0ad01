"""What the workers run: `leasehold worker tests.faults.lanes.jobs:app`. Handlers that write down what they do.

Where to is in `LANES_FOLDER`; a file `<job id>.mended` beside the history says that somebody has removed the reason why
a job failed. Producers import this module too.
"""

from __future__ import annotations

import asyncio
import functools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from leasehold import Fail, Job, Leasehold, Retry, current_job
from leasehold.engines.native.engine import NativeConfig
from leasehold.protocols import Native
from tests.faults.lanes.history import Diary, Event, Op

QUEUE: Final = "lanes"
NAMESPACE: Final = "lanes"
FOLDER: Final = "LANES_FOLDER"
ALL_RECORDS: Final = 10_000_000
NEVER_BROKEN: Final = 1_000
"""Crashes: workers are killed on purpose here, and it is not the jobs' fault."""
RETRIES: Final = 10_000
KEEP_S: Final = 86_400.0

CONFIG: Final = NativeConfig(max_crashes=NEVER_BROKEN, completed_max=ALL_RECORDS, failed_max=ALL_RECORDS)


STEP: Final = "step"
STEP_IN_THREAD: Final = "step_in_thread"


async def step(lane: str, n: int, ms: int, failures: int = 0, fatal: bool = False) -> None:
    """Takes `ms`, fails so many times first, or for good until it is mended."""
    job, end = begin(lane, n, ms)
    try:
        await asyncio.sleep(ms / 1000)
    except BaseException:
        end("cancelled")
        raise
    conclude(job, end, failures, fatal)


def step_in_thread(lane: str, n: int, ms: int, failures: int = 0, fatal: bool = False) -> None:
    """The same in a thread."""
    job, end = begin(lane, n, ms)
    time.sleep(ms / 1000)
    conclude(job, end, failures, fatal)


def begin(lane: str, n: int, ms: int) -> tuple[Job, Callable[[str], None]]:
    """Write down that this attempt begins. Answers its job, and how to write down its end."""
    job = current_job()
    assert job is not None
    token = int(job.token)
    diary().write(Event(Op.START, job=job.id, lane=lane, token=token, n=n, attempt=job.attempt, ms=ms))
    return job, lambda phase: diary().write(Event(Op.END, phase=phase, job=job.id, lane=lane, token=token, n=n))


def conclude(job: Job, end: Callable[[str], None], failures: int, fatal: bool) -> None:
    """Write down how the attempt ends, as the last thing before it does."""
    if job.failures < failures:
        end("retry")
        raise Retry("not yet", delay=(20 + 37 * job.failures) / 1000)
    if fatal and not mended(job.id).exists():
        end("fail")
        raise Fail("for good")
    end("ok")


def mended(id: str, folder: Path | None = None) -> Path:
    """Exists when the job does not fail any more."""
    return (folder or Path(os.environ[FOLDER])) / f"{id}.mended"


@functools.cache
def diary() -> Diary:
    """This worker's own. Two threads that come first together may open one each, which does no harm."""
    return Diary(Path(os.environ[FOLDER]))


def make_app(url: str | None = None) -> Leasehold:
    """An app for the run's queue. Where Redis is: `url`, else the environment."""
    made = Leasehold(url, protocol=Native(NAMESPACE, CONFIG))
    made.task(name=STEP, queue=QUEUE, retries=RETRIES, result_ttl=KEEP_S)(step)
    made.task(name=STEP_IN_THREAD, queue=QUEUE, retries=RETRIES, result_ttl=KEEP_S)(step_in_thread)
    return made


app = make_app()
