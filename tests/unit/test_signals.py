"""What signals ask a worker for, in this process."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator

import pytest

from tenure.runtime.signals import on_signals


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    before = signal.getsignal(signal.SIGHUP)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


async def asks(*numbers: signal.Signals) -> int:
    """How often a stop was asked for, when these came."""
    came: list[None] = []
    with on_signals(lambda: came.append(None)):
        for number in numbers:
            signal.raise_signal(number)
        await asyncio.sleep(0)
    return len(came)


async def test_a_hangup_asks_for_a_stop_and_a_second_one_for_nothing():
    assert await asks(signal.SIGHUP) == 1
    assert await asks(signal.SIGHUP, signal.SIGHUP, signal.SIGHUP) == 1
    assert await asks(signal.SIGTERM, signal.SIGHUP) == 1
    assert await asks(signal.SIGHUP, signal.SIGTERM) == 2
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


async def test_under_nohup_and_below_a_supervisor_it_is_theirs():
    heard: list[int] = []
    signal.signal(signal.SIGHUP, lambda number, _: heard.append(number))
    assert await asks(signal.SIGHUP) == 0
    assert heard == [signal.SIGHUP]


async def test_a_signal_that_the_caller_has_blocked_asks_for_a_stop():
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        assert await asks(signal.SIGTERM) == 1
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
