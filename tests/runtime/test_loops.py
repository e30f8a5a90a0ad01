"""Every background loop of a worker, by name: what raises in it is told, and it runs again or the worker ends FAILED.

The fault hook wraps what the worker hands to its supervision.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tenure.core import events
from tenure.core.engine import Feature
from tenure.core.outcome import Completed, Crashed
from tenure.core.signals import Fail
from tenure.runtime.loops import LOOP_FAILURES
from tenure.runtime.shutdown import ExitStatus
from tenure.runtime.worker import Worker
from tests.runtime.fakes import FakeKeeper, Gate, Rig, gated, task
from tests.support.fakes import FakeEngine

SUPERVISED = ("fetch", "settle", "watch", "maintain", "present", "report", "listen", "events")
FAULTS: tuple[Callable[[], BaseException], ...] = (
    lambda: RuntimeError("a bug"),
    lambda: SystemExit(0),
    lambda: asyncio.CancelledError(),
)


class Heavy(Rig):
    """A worker that has every loop there is, and in one of them a fault."""

    def __init__(self, loop: str, fault: Callable[[], BaseException], times: float) -> None:
        self.raised = 0
        self.whole = whole = asyncio.Event()
        """Set when the loop runs without a fault."""
        rig = self

        class Faulty(Worker):
            def _loop(self, name: str, run: Callable[[], Awaitable[None]], *more: Any) -> Any:
                async def raising() -> None:
                    if rig.raised < times:
                        rig.raised += 1
                        raise fault()
                    whole.set()
                    await run()

                return super()._loop(name, raising if name == loop else run, *more)

        def hook(job: object, error: object) -> None: ...

        async def handler() -> None:
            await asyncio.sleep(0.1)  # so that there is something to watch

        async def failing() -> None:
            raise Fail("no")

        super().__init__(
            task(handler, on_failure=hook),
            more=[task(failing, name="failing", on_failure=hook)],
            engine=FakeEngine(features=frozenset({Feature.CANCEL})),
            listeners=[events.Listener((events.Event,), lambda event: None)],
            limits={"redis_pause_ms": 1},
            worker_type=Faulty,
        )


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault()).__name__)
@pytest.mark.parametrize("loop", SUPERVISED)
async def test_a_loop_that_raises_runs_again_and_jobs_are_done(loop, fault, caplog):
    with caplog.at_level(logging.INFO):
        rig = Heavy(loop, fault, times=3)
        async with rig:
            rig.engine.add("a")
            rig.engine.add("b", task="failing")
            await rig.ends("a", "b")
            await rig.driver.subscribed.wait()
            await rig.whole.wait()
            rig.worker.stop()
            assert await rig.ended() is ExitStatus.OK
    assert rig.engine.outcomes("a") == [Completed(b"None")]
    assert sum(f"loop_failed loop={loop}" in line for line in caplog.messages) == 3


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault()).__name__)
@pytest.mark.parametrize("loop", SUPERVISED)
async def test_a_loop_that_goes_on_raising_ends_the_worker_with_an_error(loop, fault, caplog):
    rig = Heavy(loop, fault, times=float("inf"))
    async with rig:
        rig.engine.add("a")
        assert await rig.ended() is ExitStatus.FAILED
    assert rig.raised == LOOP_FAILURES
    assert f"worker_failed loop=tenure-{loop}" in caplog.text


async def test_these_are_all_loops_there_are():
    async with Heavy("none", lambda: RuntimeError(), times=0) as rig:
        await rig.engine.until(lambda: "wait" in rig.engine.calls)
        loops = {task.get_name().removeprefix("tenure-") for task in rig.worker._loops}
    assert loops == {*SUPERVISED, "heart"}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault()).__name__)
async def test_the_heart_that_raises_ends_the_worker_with_an_error(fault, caplog):
    keeper = FakeKeeper()

    async def report() -> None:
        raise fault()

    keeper.report = report  # type: ignore[method-assign]
    async with Rig(lambda: None, keeper=keeper) as rig:
        assert await rig.ended() is ExitStatus.FAILED
    assert "worker_failed loop=tenure-heart" in caplog.text


async def test_a_loop_that_ends_by_itself_is_an_error_too(caplog):
    async def nothing() -> None: ...

    class Short(Worker):
        def _loop(self, name: str, run: Callable[[], Awaitable[None]], *more: Any) -> Any:
            return super()._loop(name, nothing if name == "settle" else run, *more)

    async with Rig(lambda: None, worker_type=Short, limits={"flush_ms": 10}) as rig:
        assert await rig.ended() is ExitStatus.FAILED
    assert "It ended by itself" in caplog.text


async def test_a_stop_cancels_loops_without_a_word(caplog):
    gate = Gate()
    async with Rig(gated(gate)) as rig:
        rig.engine.add("a")
        await gate.begun.get()
        rig.worker.stop()
        gate.open.set()
        assert await rig.ended() is ExitStatus.OK
    assert "loop_failed" not in caplog.text
    assert "CRITICAL" not in caplog.text


class Unbound:
    """As the proxies of web frameworks are outside of a request: to look at it raises."""

    @property
    def __class__(self) -> Any:
        raise RuntimeError("working outside of the request context")

    @__class__.setter
    def __class__(self, value: Any) -> None: ...


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_result_that_cannot_be_looked_at_costs_no_slot(kind):
    async def on_loop() -> object:
        return Unbound()

    def in_thread() -> object:
        return Unbound()

    spec = task(on_loop if kind == "async" else in_thread, retries=0)
    async with Rig(spec, concurrency=1, burst=True) as rig:
        rig.engine.add("a", "b")
        assert await rig.ended() is ExitStatus.OK
    (end,) = rig.engine.outcomes("b")
    assert "request context" in end.error.message  # type: ignore[union-attr]


@pytest.mark.parametrize("culprit", ["a handler", "whoever runs the loop"])
def test_a_loop_that_ends_beneath_the_worker_fails_no_job(culprit):
    gate, engine = Gate(), FakeEngine()

    async def wild() -> None:
        asyncio.get_running_loop().stop()

    async def work() -> None:
        rig = Rig(gated(gate, retries=0), more=[task(wild, name="wild")], engine=engine)
        working = asyncio.ensure_future(rig.worker.run())
        rig.engine.add("a")
        await gate.begun.get()
        if culprit == "a handler":
            rig.engine.add("b", task="wild")
            await working

    with contextlib.suppress(RuntimeError, asyncio.CancelledError):
        asyncio.run(work())
    assert engine.outcomes("a") == [Crashed()]
    assert not engine.held
