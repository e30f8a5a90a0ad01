"""The end of a worker's process: in time, whatever handlers left behind, and after its keeper's where that matters.

A keeper may have jobs to give back when the process has ended. In a container the end of the first process is the end
of all: a keeper would die with its worker. So the process goes on as another program, which waits for the keeper. To
become one ends all threads, and with them the handlers.
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import signal
import sys
import threading
from typing import Final

from leasehold.core import limits
from leasehold.processes import waiter
from leasehold.processes.system import OVER, PROC, WAITER_MS
from leasehold.runtime.log import log_event

STDERR: Final = 2
FORCE_S: Final = 8.0
"""After the process should have ended by Python code: how long that has."""


def end_within(ms: int, status: int, keeper: int | None) -> None:
    """End this process with this status when it has not ended by itself by then, but not before this keeper.

    The end of the event loop and of the interpreter waits for tasks, threads, child processes and exit hooks.
    """
    timer = threading.Timer(ms / limits.SECOND, _force, [status, keeper])
    timer.daemon = True
    try:
        timer.start()
        # Where no Python code runs any more: native code has the GIL, or the interpreter is half gone. Its status is 1.
        faulthandler.dump_traceback_later(ms / limits.SECOND + FORCE_S, exit=True, file=STDERR)
    except RuntimeError:  # the system allows no further thread
        os._exit(status)


def _force(status: int, keeper: int | None) -> None:
    left = [one.name for one in threading.enumerate() if not one.daemon and one is not threading.main_thread()]
    kept_by = f"threads {', '.join(left)}" if left else "asyncio tasks, exit hooks or child processes"
    log_event(logging.WARNING, "exit_forced", kept_by=kept_by)
    if keeper is not None:
        become_waiter(keeper, status)
    os._exit(status)


def become_waiter(keeper: int, status: int) -> None:
    """Wait for this child as another program, and exit with this status. Returns where that cannot be."""
    # The keeper looks there to see that its worker is over.
    if not os.path.exists(f"{PROC}/{os.getpid()}/cmdline") or not os.path.isfile(waiter.__file__):
        return
    # Until the other program answers them itself. Only the main thread may say so.
    with contextlib.suppress(ValueError):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    words = [OVER, str(keeper), str(status), str(WAITER_MS / limits.SECOND)]
    with contextlib.suppress(OSError):
        os.execv(sys.executable, [sys.executable, "-I", "-S", waiter.__file__, *words])  # noqa: S606
