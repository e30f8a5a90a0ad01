"""A worker that is asked where its handlers are announces their stacks."""

from __future__ import annotations

import asyncio
import re
import threading
from types import FrameType, FunctionType

import msgspec
import pytest

from tenure.core.engine import SHOW_STACKS, Feature
from tenure.runtime.handlers.stacks import STACK_BYTES_MAX, stack_text, thread_frames
from tenure.runtime.presence import STACKS_MS
from tests.runtime.fakes import Rig
from tests.support.fakes import FakeEngine


@pytest.mark.parametrize("on_loop", [True, False])
async def test_it_shows_the_frames_of_a_handler_from_its_function_on(on_loop: bool) -> None:
    engine = FakeEngine(features=frozenset({Feature.STACKS, Feature.QUIET}))
    loop, begun, end = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    async def await_long() -> None:
        begun.set()
        await asyncio.sleep(600)

    async def on_the_loop() -> None:
        await await_long()

    def wait_long() -> None:
        loop.call_soon_threadsafe(begun.set)
        end.wait()

    def in_a_thread() -> None:
        wait_long()

    async with Rig(on_the_loop if on_loop else in_a_thread, engine=engine) as rig:
        await rig.driver.subscribed.wait()
        engine.add("x")
        await begun.wait()
        rig.driver.publish(engine.signal_channel(rig.worker.id), SHOW_STACKS.decode())
        await engine.until(lambda: engine.announced[-1].stacks_ms is not None)
        (found,) = engine.announced[-1].stacks
        end.set()
    functions = re.findall(r"line \d+, in (\w+)$", found.text, re.MULTILINE)
    assert (found.queue, found.id, found.task) == ("q", "x", "t")
    assert functions[:2] == (["on_the_loop", "await_long"] if on_loop else ["in_a_thread", "wait_long"])


def test_of_a_long_stack_the_innermost_frames_are_kept() -> None:
    def dive(depth: int, frames: list[FrameType]) -> None:
        if depth:
            return dive(depth - 1, frames)  # a line that is long enough to pass the limit of the text after some frames
        frames += thread_frames(threading.get_ident())

    frames: list[FrameType] = []
    dive(200, frames)
    text = stack_text(frames)
    assert len(text) <= STACK_BYTES_MAX
    assert text.endswith("frames += thread_frames(threading.get_ident())")


class Broken:
    """A module loader that cannot tell its source, as an import hook of the user may be."""

    def get_source(self, name: str) -> str:
        raise RuntimeError("no source")


async def test_a_name_that_is_no_text_and_code_without_source_do_not_stop_the_worker() -> None:
    engine = FakeEngine(features=frozenset({Feature.STACKS, Feature.QUIET}))
    begun = asyncio.Event()

    async def odd() -> None:
        begun.set()
        await asyncio.sleep(600)

    assert odd.__closure__ is not None
    module = {"__name__": "odd", "__loader__": Broken(), "asyncio": asyncio}
    code = odd.__code__.replace(co_filename="odd.py")
    handler = FunctionType(code, module, closure=odd.__closure__)
    async with Rig(handler, engine=engine) as rig:
        await rig.driver.subscribed.wait()
        engine.add("x\udcff")
        await begun.wait()
        rig.driver.publish(engine.signal_channel(rig.worker.id), SHOW_STACKS.decode())
        await engine.until(lambda: engine.announced[-1].stacks_ms is not None)
        view = engine.announced[-1]
    assert b"x\\\\udcff" in msgspec.json.encode(view)
    assert view.stacks[0].text == "(no stack: RuntimeError)"


async def test_stacks_are_announced_for_some_minutes_only() -> None:
    engine = FakeEngine(features=frozenset({Feature.STACKS, Feature.QUIET}))
    async with Rig(lambda: None, engine=engine) as rig:
        await rig.driver.subscribed.wait()
        rig.driver.publish(engine.signal_channel(rig.worker.id), SHOW_STACKS.decode())
        await engine.until(lambda: engine.announced[-1].stacks_ms is not None)
        presence = rig.worker._parts.presence
        assert presence._stacks_ms is not None
        presence._stacks_ms -= STACKS_MS + 1_000
        await engine.until(lambda: engine.announced[-1].stacks_ms is None)
