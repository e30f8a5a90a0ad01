"""The end of a worker's process whose keeper has jobs to give back when that has ended, and must live for it.

In a container the end of the first process is the end of all: a keeper would die with its worker. So the process goes
on as another program, which waits for the keeper. To become one ends all threads, and with them the handlers.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys

from leasehold.core import limits
from leasehold.parent import OVER, PROC
from leasehold.supervising import waiter


def become_waiter(keeper: int, status: int) -> None:
    """Wait for this child as another program, and exit with this status. Returns where that cannot be."""
    # The keeper looks there to see that its worker is over.
    if not os.path.exists(f"{PROC}/{os.getpid()}/cmdline") or not os.path.isfile(waiter.__file__):
        return
    # Until the other program answers them itself.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    words = [OVER, str(keeper), str(status), str(limits.WAITER_MS / limits.SECOND)]
    with contextlib.suppress(OSError):
        os.execv(sys.executable, [sys.executable, "-I", "-S", waiter.__file__, *words])  # noqa: S606
