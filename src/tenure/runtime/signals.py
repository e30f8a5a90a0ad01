"""Signals: the first requests a stop, the second a hard stop.

A SIGHUP counts only as the first: a terminal that is closed may send several.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def on_signals(act: Callable[[], object], numbers: Sequence[signal.Signals] = SIGNALS) -> Iterator[None]:
    """Call `act` on the loop for each of these signals, and with SIGTERM for a SIGHUP that comes first, unless it has a
    handler or is ignored (`nohup`). The third signal ends the process.

    Plain handlers, not the loop's: they count also while a handler blocks the loop, so that the third Ctrl-C always
    works. In a child that a handler forked they act as if there were no worker, so that it can be terminated. Outside
    the main thread this does nothing: Python does not allow it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    count = 0
    own = os.getpid()
    hangs_up = signal.SIGTERM in numbers and signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
    caught = (*numbers, signal.SIGHUP) if hangs_up else numbers

    def came(number: int, _frame: FrameType | None) -> None:
        nonlocal count
        if os.getpid() != own:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        if number == signal.SIGHUP and count:
            return
        count += 1
        if count == 2:
            for each in numbers:
                signal.signal(each, signal.SIG_DFL)
        loop.call_soon_threadsafe(act)

    before = {number: signal.signal(number, came) for number in caught}
    signal.pthread_sigmask(signal.SIG_UNBLOCK, caught)  # the caller, or code of the app, may have blocked them
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
