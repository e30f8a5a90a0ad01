"""What the workers run: `tenure worker tests.faults.harness.jobs:app`. Handlers that write down what they do.

Where to is in `FAULTS_FOLDER`; a file `<job id>.mended` beside the history says that somebody has removed the reason
why a job failed, or opened the gate at which it waits. Producers import this module too.
"""

from __future__ import annotations

import asyncio
import functools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tenure import Fail, Job, Retry, Tenure, current_job
from tenure.core.engine import Timing
from tenure.engines.native.engine import NativeConfig
from tenure.protocols.native import Native
from tests.faults.harness import misdeeds
from tests.faults.harness.history import Diary, Event, Op

QUEUE: Final = "work"
RAW: Final = "raw"
NAMESPACE: Final = "faults"
FOLDER: Final = "FAULTS_FOLDER"
MAX_CRASHES: Final = "FAULTS_MAX_CRASHES"
ALL_RECORDS: Final = 10_000_000
NEVER_BROKEN: Final = 1_000
"""Crashes: workers are killed on purpose here, and it is not the jobs' fault."""
RETRIES: Final = 10_000
KEEP: Final = "FAULTS_KEEP_S"
"""For how long records of ended jobs are kept, if not for a day."""
PEEP_S: Final = 0.02

STEP: Final = "step"
STEP_IN_THREAD: Final = "step_in_thread"
GATE: Final = "gate"
BLOCK: Final = "block"
BLOCK_IN_THREAD: Final = "block_in_thread"
DUE: Final = "due"
"""The task of delayed jobs, and the file in which they write how late they are."""
ANSWER: Final = "answer"
TICK: Final = "tick"
TICKS: Final = "ticks"
"""The queue of the jobs of schedules, which only workers of S70 serve, and the file in which they are written down."""
FLOWS: Final = ("flows", "other_flows")
"""The queues of members of flows, and of what follows them, which only workers of S76 and S77 serve."""
MISDEED: Final = "misdeed"
MISDEED_IN_THREAD: Final = "misdeed_in_thread"
MISDEED_APART: Final = "misdeed_apart"


async def step(n: int, ms: int, failures: int = 0, fatal: bool = False) -> None:
    """Takes `ms`, fails so many times first, or for good until it is mended."""
    job, end = begin(n, ms)
    try:
        await asyncio.sleep(ms / 1000)
    except BaseException:
        end("cancelled")
        raise
    conclude(job, end, failures, fatal)


def step_in_thread(n: int, ms: int, failures: int = 0, fatal: bool = False) -> None:
    """The same in a thread."""
    job, end = begin(n, ms)
    time.sleep(ms / 1000)
    conclude(job, end, failures, fatal)


async def gate(n: int) -> None:
    """Goes on when its gate is opened."""
    job, end = begin(n, 0)
    try:
        while not mended(job.id).exists():  # noqa: ASYNC110 - opened by another process
            await asyncio.sleep(PEEP_S)
    except BaseException:
        end("cancelled")
        raise
    end("ok")


async def block(n: int, how: str, ms: int) -> None:
    """Lets nothing else run in its worker meanwhile."""
    _, end = begin(n, ms)
    misdeeds.hold_up(how, ms / 1000)
    end("ok")


def block_in_thread(n: int, how: str, ms: int) -> None:
    _, end = begin(n, ms)
    misdeeds.hold_up(how, ms / 1000)
    end("ok")


async def misdeed(n: int, how: str, times: int) -> None:
    """Does what no handler should, in its first attempts."""
    misdeed_in_thread(n, how, times)


def misdeed_in_thread(n: int, how: str, times: int) -> None:
    job, end = begin(n, 0)
    if job.attempt <= times:
        misdeeds.do(how, lambda: diary().write(Event(Op.KILL, target=os.getpid())), end)
    end("ok")


def misdeed_apart(n: int, how: str, times: int) -> None:
    """The same in a process of its own."""
    misdeed_in_thread(n, how, times)


async def take(job: Job) -> None:
    """A raw payload: how many bytes it has is written down."""
    token = int(job.token)
    diary().write(Event(Op.START, job=job.id, token=token, n=len(job.payload), attempt=job.attempt))
    await asyncio.sleep(0)
    diary().write(Event(Op.END, phase="ok", job=job.id, token=token, n=len(job.payload)))


def tick(name: str) -> None:
    """Write down the planned time of a tick, its job, and how many milliseconds late it is."""
    job = current_job()
    assert job is not None
    assert job.scheduled_for is not None
    planned = job.scheduled_for.timestamp() * 1000
    with (Path(os.environ[FOLDER]) / TICKS).open("a") as file:
        file.write(f"{name} {planned:.0f} {job.id} {time.time() * 1000 - planned:.0f}\n")


async def due(n: int, ms: int, due_ms: float) -> None:
    """Write down how late a delayed job is, and go on as a step."""
    with (Path(os.environ[FOLDER]) / DUE).open("a") as file:
        file.write(f"{n} {time.time() * 1000 - due_ms:.0f}\n")
    await step(n, ms)


async def answer(n: int, size: int) -> str:
    """A job with a result of so many bytes."""
    await step(n, 1)
    return "r" * size


def note_of_flow(*words: object) -> None:
    """Write a line into the file of S76 and S77: the lines of all processes are in their order."""
    job = current_job()
    assert job is not None
    with (Path(os.environ[FOLDER]) / FLOWS[0]).open("a") as file:
        file.write(f"{' '.join(map(str, words))} {job.id}\n")


def member(flow: str, name: str, ms: int, failures: int, fatal: bool, adds: int) -> int:
    """A member of a flow: it fails so many times first, or for good, and adds others."""
    job = current_job()
    assert job is not None
    note_of_flow("begin", flow, name)
    time.sleep(ms / 1000)
    if job.failures < failures:
        raise Retry("not yet", delay=0.02)
    for n in range(adds):
        job.group.add(app.tasks["member"].using(queue=FLOWS[n % 2]).call(flow, f"{name}-{n}", ms, 0, False, 0))
    note_of_flow("done", flow, name)
    if fatal:
        raise Fail("for good")
    return 1


def link(before: int, flow: str = "") -> int:
    """An element of a chain: it takes the number before it."""
    note_of_flow("link", before)
    return before + 1


def follower(flow: str, kind: str) -> None:
    """What follows a flow."""
    note_of_flow(kind, flow, "-")


def begin(n: int, ms: int) -> tuple[Job, Callable[[str], None]]:
    """Write down that this attempt begins. Answers its job, and how to write down its end."""
    job = current_job()
    assert job is not None
    token, lane = int(job.token), job.lane or ""
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
    """Exists when the job does not fail, or wait, any more."""
    return (folder or Path(os.environ[FOLDER])) / f"{id}.mended"


@functools.cache
def diary() -> Diary:
    """This worker's own. Two threads that come first together may open one each, which does no harm."""
    return Diary(Path(os.environ[FOLDER]))


def make_config(timing: Timing | None = None) -> NativeConfig:
    return NativeConfig(
        timing=timing or Timing(),
        max_crashes=int(os.environ.get(MAX_CRASHES, NEVER_BROKEN)),
        completed_max=ALL_RECORDS,
        failed_max=ALL_RECORDS,
    )


def make_app(url: str | None = None) -> Tenure:
    """An app for the run's queues. Where Redis is: `url`, else the environment."""
    made = Tenure(url, protocol=Native(NAMESPACE, make_config()))
    keep_s = float(os.environ.get(KEEP, "86400"))
    for task in (step, step_in_thread, gate, block, block_in_thread, misdeed, misdeed_in_thread, due, answer):
        made.task(name=task.__name__, queue=QUEUE, retries=RETRIES, result_ttl=keep_s)(task)
    made.task(name=MISDEED_APART, queue=QUEUE, retries=RETRIES, result_ttl=keep_s, run_in="process")(misdeed_apart)
    made.task(name=TICK, queue=QUEUE, retries=RETRIES, result_ttl=0)(tick)
    for one in (member, link, follower):
        made.task(name=one.__name__, queue=FLOWS[0], retries=RETRIES, result_ttl=0)(one)
    made.handler(RAW, retries=RETRIES, result_ttl=keep_s)(take)
    return made


app = make_app()
