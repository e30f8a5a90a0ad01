"""Keepers on a machine that is short of processor time: slow to start, or silent. They must not end a worker."""

from __future__ import annotations

import asyncio
import errno
import itertools
import threading
import time
from collections.abc import Sequence

import pytest

from leasehold.runtime import ExitStatus
from leasehold.runtime.heartbeat import KEEPER_RESTARTS, KEEPER_STARTS
from tests.runtime.fakes import FakeKeeper, Gate, Rig, gated


class Unstartable(FakeKeeper):
    """The system cannot start it so many times in a row; `first`: but for the first time."""

    def __init__(self, tries: float, first: bool = True) -> None:
        super().__init__()
        self._tries = tries
        self._first = first
        self.tried: list[float] = []

    async def start(self, worker: str, queues: Sequence[str]) -> None:
        if not self._first:
            self.tried.append(time.monotonic())
            if len(self.tried) <= self._tries:
                raise OSError(errno.EMFILE, "Too many open files")
        self._first = False
        await super().start(worker, queues)


class SlowKeeper(FakeKeeper):
    """Says its first word after so many seconds; None: never. A stop ends it without another word."""

    def __init__(self, first_word_s: float | None) -> None:
        super().__init__(ready=False)
        self._first_word_s = first_word_s

    async def start(self, worker: str, queues: Sequence[str]) -> None:
        await super().start(worker, queues)
        if self._first_word_s is not None:
            asyncio.get_running_loop().call_later(self._first_word_s, self.beat)

    async def stop(self) -> None:
        self.stopped = True


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr("leasehold.runtime.heartbeat.KEEPER_SILENCE_MS", 20)
    monkeypatch.setattr("leasehold.runtime.heartbeat.KEEPER_START_MS", 60_000)


async def test_one_that_is_slow_to_start_is_waited_for():
    """Twenty times as long as one may be silent that has spoken."""
    keeper = SlowKeeper(0.8)
    async with Rig(lambda: None, keeper=keeper) as rig:
        rig.engine.add("a")
        await rig.settled(1)
    assert keeper.starts == 1


async def test_those_that_never_say_a_word_stop_the_worker_in_the_end(monkeypatch, caplog):
    monkeypatch.setattr("leasehold.runtime.heartbeat.KEEPER_START_MS", 40)
    keeper = SlowKeeper(None)
    async with Rig(lambda: None, keeper=keeper) as rig:
        assert await rig.ended() is ExitStatus.FAILED
    assert keeper.starts == KEEPER_STARTS + 1
    assert "never said a word" in caplog.text


async def test_those_that_fall_silent_are_replaced_later_and_later_and_the_worker_goes_on(monkeypatch):
    monkeypatch.setattr("leasehold.runtime.heartbeat.KEEPER_LATE_MS", 5)
    monkeypatch.setattr("leasehold.runtime.heartbeat.KEEPER_GONE_MS", 10)
    monkeypatch.setattr("leasehold.runtime.heartbeat.KEEPER_SILENCE_MS", 60_000)
    monkeypatch.setattr("leasehold.runtime.heartbeat.KEEPER_PATIENCE_MOST", 4)
    for user in ("runtime.isolation.child", "runtime.worker"):
        monkeypatch.setattr(f"leasehold.{user}.WATCH_MS", 5)
    gate, keeper = Gate(), FakeKeeper()  # each says one word
    async with Rig(gated(gate), keeper=keeper) as rig:
        rig.engine.timing = rig.engine.timing.__class__(beat_ms=1, lease_ms=60_000)
        rig.engine.add("a")
        await gate.begun.get()
        while keeper.kills <= 2 * KEEPER_RESTARTS:  # noqa: ASYNC110 - the fake has no event for it
            await asyncio.sleep(0.01)
        gate.open.set()
        await rig.settled(1)
    assert rig.worker.stopping
    assert await rig.ended() is not ExitStatus.FAILED


async def test_what_it_says_while_the_interpreter_is_held_again_and_again_is_not_silence(monkeypatch, caplog):
    """Each turn of the event loop takes longer than a keeper may be silent, so its words are always read late."""
    monkeypatch.setattr("leasehold.runtime.heartbeat.KEEPER_LATE_MS", 80)
    monkeypatch.setattr("leasehold.runtime.heartbeat.KEEPER_GONE_MS", 100)
    monkeypatch.setattr("leasehold.runtime.heartbeat.KEEPER_SILENCE_MS", 60_000)
    for user in ("runtime.isolation.child", "runtime.worker"):
        monkeypatch.setattr(f"leasehold.{user}.WATCH_MS", 20)
    keeper, over, loop = FakeKeeper(), threading.Event(), asyncio.get_running_loop()

    async def holds() -> None:
        for _ in range(12):
            time.sleep(0.12)
            await asyncio.sleep(0)

    def speaks() -> None:
        while not over.wait(0.01):
            loop.call_soon_threadsafe(keeper.beat)

    speaker = threading.Thread(target=speaks)
    async with Rig(holds, keeper=keeper) as rig:
        rig.engine.timing = rig.engine.timing.__class__(beat_ms=1, lease_ms=60_000)
        speaker.start()
        rig.engine.add("a")
        await rig.settled(1)
        over.set()
        speaker.join()
    assert keeper.kills == 0
    assert "keeper_silent" not in caplog.text


@pytest.mark.parametrize("held_s", [0.0, 0.06])
async def test_a_silence_is_as_long_while_handlers_hold_the_loop_piece_by_piece(monkeypatch, held_s):
    """Before it is judged, what may lie in the pipe is read: that takes some turns, of a piece each."""
    monkeypatch.setattr("leasehold.runtime.heartbeat.KEEPER_LATE_MS", 200)
    monkeypatch.setattr("leasehold.runtime.heartbeat.KEEPER_GONE_MS", 300)
    monkeypatch.setattr("leasehold.runtime.heartbeat.KEEPER_SILENCE_MS", 60_000)
    for user in ("runtime.isolation.child", "runtime.worker"):
        monkeypatch.setattr(f"leasehold.{user}.WATCH_MS", 20)
    keeper = FakeKeeper()  # says one word
    held: list[float] = []

    async def holds() -> None:
        while not keeper.kills and len(held) < 100:
            held.append(time.monotonic())
            time.sleep(held_s)
            await asyncio.sleep(0 if held_s else 0.06)

    async with Rig(holds, keeper=keeper) as rig:
        rig.engine.timing = rig.engine.timing.__class__(beat_ms=1, lease_ms=60_000)
        rig.engine.add("a")
        await rig.settled(1)
    assert keeper.kills
    assert len(held) <= 5 + 6 + 4  # its silence; to look again and to catch up; a slow machine


async def test_one_that_cannot_be_started_for_a_moment_is_tried_again_and_what_runs_goes_on(monkeypatch, caplog):
    monkeypatch.setattr("leasehold.runtime.heartbeat.KEEPER_BACKOFF_MS", 5)
    monkeypatch.setattr("leasehold.runtime.heartbeat.KEEPER_BACKOFF_CAP_MS", 40)
    gate, keeper = Gate(), Unstartable(tries=3 * KEEPER_RESTARTS)
    async with Rig(gated(gate), keeper=keeper) as rig:
        rig.engine.add("a")
        await gate.begun.get()
        keeper.die()
        while not keeper.tried:  # noqa: ASYNC110 - the fake has no event for it
            await asyncio.sleep(0.001)
        rig.engine.add("b")
        while keeper.starts < 2:
            assert not gate.cancelled
            await asyncio.sleep(0.001)
        assert await gate.begun.get() == "b"
        gate.open.set()
        await rig.settled(2)
    pauses = [after - before for before, after in itertools.pairwise(keeper.tried)]
    assert all(pause >= least for pause, least in zip(pauses, (0.004, 0.009, 0.019, 0.039, 0.039), strict=False))
    said = [line.split()[0] for line in caplog.messages if line.startswith("keeper")]
    assert said == ["keeper_gone", "keeper_not_started", "keeper_started"]


async def test_nothing_is_claimed_while_none_can_be_started():
    keeper = Unstartable(tries=float("inf"), first=False)
    async with Rig(lambda: None, keeper=keeper) as rig:
        rig.engine.add("a")
        while len(keeper.tried) < 4:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        assert rig.engine.outcomes("a") == []
        assert not rig.worker.stopping


async def test_one_that_cannot_be_started_for_long_ends_the_worker_and_the_error_is_told(monkeypatch, caplog):
    monkeypatch.setattr("leasehold.runtime.heartbeat.KEEPER_BACKOFF_MS", 1)
    monkeypatch.setattr("leasehold.runtime.heartbeat.KEEPER_UNSTARTED_MS", 1_000)
    keeper = Unstartable(tries=float("inf"), first=False)
    async with Rig(lambda: None, keeper=keeper) as rig:
        began = time.monotonic()
        assert await rig.ended() is ExitStatus.FAILED
        assert time.monotonic() - began >= 1
    assert "could not be started for 1 s: [Errno 24] Too many open files" in caplog.text
    assert "died" not in caplog.text


async def test_a_stop_does_not_wait_for_one_that_cannot_be_started():
    keeper = Unstartable(tries=float("inf"), first=False)
    async with Rig(lambda: None, keeper=keeper) as rig:
        while not keeper.tried:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        rig.worker.stop()
        async with asyncio.timeout(5):
            assert await rig.ended() is ExitStatus.OK
        tried = len(keeper.tried)
        await asyncio.sleep(0.6)
        assert len(keeper.tried) == tried
