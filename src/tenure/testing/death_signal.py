"""A child process that dies with its parent, however the parent ends.

    >>> process = subprocess.Popen(dies_with_parent(["/usr/bin/redis-server", "--port", "0"]))   # doctest: +SKIP

Only on Linux, by the kernel. Elsewhere the command runs unchanged, and the caller must stop it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

# PR_SET_PDEATHSIG is 1. It survives exec, but not if the parent died before the call: hence the check of the parent
# afterwards. A separate program, because code between fork and exec is not safe in a process with threads.
_PROGRAM: Final = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


def dies_with_parent(command: Sequence[str]) -> list[str]:
    """Return a command line that runs `command` and kills it with this process. Its first word is a full path.

    Start it from the thread that lives longest: the kernel watches the thread, not the process.
    """
    if sys.platform != "linux":
        return list(command)
    return [sys.executable, "-I", "-S", "-c", _PROGRAM, str(os.getpid()), *command]
