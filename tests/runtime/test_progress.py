"""Progress from inside a job: coalesced, from any thread, and never in a handler's way."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from itertools import pairwise
from typing import Any

import pytest

from tenure.core.errors import InvalidArgument, ReplyError, Unreachable
from tenure.core.outcome import Completed
from tenure.core.shape import MAX_PROGRESS_TEXT, Progress
from tenure.runtime.jobs.job import Job, current_job
from tests.runtime.fakes import Rig, task


def job_now() -> Job:
    job = current_job()
    assert job is not None
    return job


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_the_newest_is_told_and_the_rest_is_left_out(kind):
    release, arelease = threading.Event(), asyncio.Event()

    def tell() -> None:
        for number in range(10_000):
            job_now().progress(number + 1, 10_000, "rows")

    def in_thread() -> None:
        tell()
        release.wait()

    async def on_loop() -> None:
        tell()
        await arelease.wait()

    async with Rig(on_loop if kind == "async" else in_thread) as rig:
        rig.engine.add("a")
        await rig.engine.until(lambda: ("a", Progress(10_000, 10_000, "rows")) in rig.engine.told)
        release.set()
        arelease.set()
        await rig.ends("a")
    assert len(rig.engine.told) < 20
    told = [progress.current for _, progress in rig.engine.told]
    assert told == sorted(told)


async def test_a_job_is_not_told_of_more_often_than_the_limit():
    at: list[float] = []
    loop = asyncio.get_running_loop()

    async def handler() -> None:
        for number in range(60):
            job_now().progress(number)
            await asyncio.sleep(0.01)

    async with Rig(handler, limits={"progress_ms": 200}) as rig:
        rig.driver.fault = lambda call: at.append(loop.time()) if call == "progress_" else None
        rig.engine.add("a")
        await rig.ends("a")
    assert len(at) >= 2
    assert all(later - earlier >= 0.19 for earlier, later in pairwise(at))


@pytest.mark.parametrize("error", [Unreachable("gone"), ReplyError("OOM", "full")])
async def test_trouble_with_redis_is_told_once_and_never_raised(caplog, error):
    async def handler() -> None:
        for number in range(40):
            job_now().progress(number)
            await asyncio.sleep(0.01)

    def fault(call: str) -> None:
        if call == "progress_":
            raise error

    with caplog.at_level(logging.WARNING, "tenure.worker"):
        async with Rig(handler, burst=True) as rig:
            rig.driver.fault = fault
            rig.engine.add("a")
            await rig.ended()
    assert rig.engine.outcomes("a") == [Completed(b"None")]
    assert caplog.text.count("redis_refused what=progress") == 1


async def test_the_answer_that_the_job_is_not_ours_ends_it():
    ended = asyncio.Event()

    async def handler() -> None:
        rig.engine.lose("a")
        job_now().progress(1)
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            assert job_now().lost
            ended.set()
            raise

    async with Rig(handler) as rig:
        rig.engine.add("a")
        await ended.wait()
    assert not rig.engine.settled


@pytest.mark.parametrize(
    "arguments",
    [
        {"current": math.nan},
        {"current": math.inf},
        {"current": 10**400},
        {"current": "1"},
        {"current": True},
        {"current": None},
        {"current": 1, "total": 0},
        {"current": 1, "total": -1},
        {"current": 1, "total": math.inf},
        {"current": 1, "text": 5},
    ],
)
async def test_what_cannot_be_right_is_refused(arguments: dict[str, Any]):
    caught: list[Exception] = []

    async def handler() -> None:
        try:
            job_now().progress(**arguments)
        except InvalidArgument as error:
            caught.append(error)

    async with Rig(task(handler), burst=True) as rig:
        rig.engine.add("a")
        await rig.ended()
    assert len(caught) == 1
    assert not rig.engine.told


async def test_long_texts_are_cut():
    async def handler() -> None:
        job_now().progress(-1.5, None, "ä" * 10_000)
        await asyncio.sleep(600)

    async with Rig(handler, grace_ms=0) as rig:
        rig.engine.add("a")
        await rig.engine.until(lambda: bool(rig.engine.told))
    ((_, progress),) = rig.engine.told
    assert progress.current == -1.5
    assert progress.total is None
    assert len(progress.text.encode()) <= MAX_PROGRESS_TEXT
