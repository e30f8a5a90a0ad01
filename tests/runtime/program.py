"""A worker program for the tests of this folder: `python program.py URL [fast | long [SLOTS]]`.

It says what it does on stdout.

fast: short leases. long: leases so long that nothing comes back by their lapse within a test.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import re
import sys
import time
from typing import Any

from tenure.core.engine import Timing
from tenure.core.task import BatchRule, TaskSpec
from tenure.engines.native.engine import NativeConfig
from tenure.engines.native.partitions.engine import PartitionedEngine
from tenure.processes.link import KeeperLink
from tenure.protocols.registry import engine_spec_of
from tenure.redis.aio import AsyncDriver
from tenure.runtime.assembly import UserCode, WorkerSettings
from tenure.runtime.jobs.job import Job, current_job
from tenure.runtime.shutdown import ExitStatus
from tenure.runtime.worker import Worker

GATHER_MS = 3_000


def say(*words: object) -> None:
    print(*words, flush=True)


def began(name: str) -> None:
    job = current_job()
    assert job is not None
    say(name, job.id, job.attempt)


async def hang() -> None:
    began("hang")
    await asyncio.sleep(600)


async def nap() -> None:
    began("nap")
    await asyncio.sleep(0.3)


async def long_nap() -> None:
    began("long_nap")
    await asyncio.sleep(2)


async def nap4() -> None:
    began("nap4")
    await asyncio.sleep(4)


def terminate_child() -> None:
    """By fork, as `multiprocessing` does it on Linux."""
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
    child.start()
    time.sleep(0.2)
    child.terminate()
    child.join(5)
    say("exitcode", child.exitcode)


forked: list[int] = []


async def fork_on_loop() -> None:
    forked.append(os.fork())


def fork_in_thread() -> None:
    forked.append(os.fork())


def wait_child() -> None:
    say("child ended", os.waitstatus_to_exitcode(os.waitpid(forked[0], 0)[1]))


async def block_loop() -> None:
    began("block_loop")
    time.sleep(2)


def hold_gil() -> None:
    began("hold_gil")
    end = time.monotonic() + 2
    while time.monotonic() < end:
        re.fullmatch(r"(a+)+b", "a" * 25)


async def hold() -> None:
    """Says when it began and when it ended, by the clock that all processes share."""
    say("begin", time.monotonic())
    try:
        await asyncio.sleep(600)
    finally:
        say("end", time.monotonic())


def sync_hang() -> None:
    began("sync_hang")
    time.sleep(600)


def timed() -> None:
    """Says when it began, by the clock that all processes share."""
    say("timed", time.monotonic())
    time.sleep(600)


def exit_hard() -> None:
    began("exit_hard")
    os._exit(9)


def close_files() -> None:
    """Of the worker, all but stdin, stdout and stderr; then it goes on for a while."""
    began("close_files")
    os.closerange(3, 1_000)
    time.sleep(4)


def leave_child() -> None:
    """A child that has all files of the worker, also its end of the pipe to the keeper, and outlives it."""
    if os.fork() == 0:
        time.sleep(8)
        os._exit(0)
    began("leave_child")
    time.sleep(600)


async def gather(jobs: list[Job]) -> None:
    """The handler of raw payloads. They wait for others first."""
    for job in jobs:
        say("gather", job.id, job.attempt)


class Saying(PartitionedEngine):
    """Says when the worker first looks for work."""

    said = False

    def lease(self, *args: Any, **named: Any) -> Any:
        if not self.said:
            self.said = True
            say("ready")
        return super().lease(*args, **named)


async def main(url: str, config: NativeConfig) -> ExitStatus:
    driver = AsyncDriver(url)
    functions = [hold, hang, nap, long_nap, nap4, block_loop, hold_gil, sync_hang]
    functions += [timed, exit_hard, close_files, leave_child]
    functions += [terminate_child, fork_on_loop, fork_in_thread, wait_child]
    specs = [
        TaskSpec(
            function.__name__,
            "q",
            function,
            asyncio.iscoroutinefunction(function),
            lambda value: b"null",
            lambda payload: ((), {}),
        )
        for function in functions
    ]
    keeper = KeeperLink(url, engine_spec_of(PartitionedEngine("tenure", config)))
    rule = BatchRule(10, GATHER_MS)
    specs.append(TaskSpec(None, "q", gather, True, lambda value: b"null", None, batch=rule))
    slots = int(sys.argv[3]) if sys.argv[3:] else 1
    settings = WorkerSettings(["q"], concurrency=slots, grace_ms=5_000)
    worker = Worker(Saying("tenure", config), driver, UserCode(specs), settings, keeper=keeper)
    return await worker.run()


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    timings = {
        "fast": Timing(beat_ms=200, lease_ms=700, grace_ms=300),
        "patient": Timing(lease_ms=3_000, grace_ms=10_000),
        "long": Timing(lease_ms=300_000, grace_ms=100_000),
    }
    timing = timings[sys.argv[2]] if sys.argv[2:] else Timing()
    status = asyncio.run(main(sys.argv[1], NativeConfig(timing=timing)))
    sys.stdout.flush()
    os._exit(status)
