"""What a handler has in its locals is freed when its job has ended, and not when the cycle collector comes."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tenure.core.engine import CancelAsked
from tenure.runtime.jobs.job import current_job
from tests.runtime.fakes import Rig, task


class Large:
    """Stands for what fills the memory."""


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


async def passes(jobs: Any, call_next: Callable[[], Any]) -> Any:
    return await call_next()


KINDS = ("async", "sync", "sync below async middleware")
ENDS = [(kind, end) for kind in KINDS for end in ("cancelled", "raises", "returns")] + [("async", "timeout")]


@pytest.mark.parametrize(("kind", "end"), ENDS)
async def test_after_each_end(kind: str, end: str) -> None:
    seen: list[weakref.ref[Large]] = []
    begun = threading.Event()

    def work() -> Large:
        large = Large()
        seen.append(weakref.ref(large))
        begun.set()
        return large

    async def on_loop() -> None:
        large = work()
        if end in ("timeout", "cancelled"):
            await asyncio.sleep(600)
        await asyncio.sleep(0)
        if end == "raises":
            raise ValueError(type(large))

    def in_thread() -> None:
        large, job = work(), current_job()
        assert job is not None
        if end == "cancelled":
            while not job.cancelled:
                time.sleep(0.001)
            job.check_cancelled()
        if end == "raises":
            raise ValueError(type(large))

    spec = task(on_loop if kind == "async" else in_thread, timeout_ms=50 if end == "timeout" else None, retries=0)
    async with Rig(spec, middleware=[passes] if "middleware" in kind else []) as rig:
        rig.engine.add("a")
        if end == "cancelled":
            await asyncio.to_thread(begun.wait)
            rig.keeper.beat(cancelled=[CancelAsked(ref, "no more") for ref in rig.engine.held])
        await rig.ends("a")
    assert [one() for one in seen] == [None]
