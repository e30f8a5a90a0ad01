"""What no handler should do: hold everything up, end its process, fork, eat memory. Each as a handler would do it."""

from __future__ import annotations

import os
import re
import resource
import signal
import sys
import time
from collections.abc import Callable
from typing import Final

HEADROOM: Final = 64 * 1024 * 1024
"""How much more memory than now the process may have, when it is to run out of it."""
PIECE: Final = 16 * 1024 * 1024
PIECES: Final = 1_000


def hold_up(how: str, seconds: float) -> None:
    """loop: this thread sleeps. gil: no other thread of the process runs, either."""
    if how == "loop":
        time.sleep(seconds)
        return
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        re.fullmatch(r"(a+)+b", "a" * 24)


def do(how: str, dying: Callable[[], None], end: Callable[[str], None]) -> None:
    """`dying` is called before the process ends, `end` when the attempt will fail."""
    match how:
        case "kill":
            dying()
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)
        case "os._exit":
            dying()
            os._exit(1)
        case "exit":
            end("retry")
            sys.exit(3)
        case "interrupt":
            end("retry")
            raise KeyboardInterrupt
        case "recurse":
            end("retry")
            _recurse()
        case "memory":
            end("retry")
            _eat()
        case "fork":
            if os.fork() == 0:
                os._exit(0)
        case _:
            raise AssertionError(f"no such misdeed: {how}")


def _recurse() -> int:
    return _recurse() + 1


def _eat() -> None:
    """Run out of memory, as in a container with a limit; the limit is taken away again."""
    with open("/proc/self/statm") as statm:
        used = int(statm.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + HEADROOM, before[1]))
    try:
        eaten = [bytearray(PIECE) for _ in range(PIECES)]
        raise AssertionError(f"{len(eaten)} pieces fitted")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
