"""A child process that dies with its parent, however the parent dies.

    >>> process = subprocess.Popen(dies_with_parent(["/usr/bin/redis-server", "--port", "0"]))   # doctest: +SKIP

On Linux the kernel sees to it. Elsewhere the command is run as it is: there, only an orderly end takes the child along.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

# PR_SET_PDEATHSIG is 1. It survives exec, but not a parent that died before it was set: hence the second look. A small
# program of its own, because code between fork and exec is not safe in a process with threads.
_PROGRAM: Final = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


def dies_with_parent(command: Sequence[str]) -> list[str]:
    """The command line that runs `command`, whose first word is a full path, tethered to this process.

    To be started by the thread that lives longest: the kernel watches the thread that started it.
    """
    if sys.platform != "linux":
        return list(command)
    return [sys.executable, "-I", "-S", "-c", _PROGRAM, str(os.getpid()), *command]
