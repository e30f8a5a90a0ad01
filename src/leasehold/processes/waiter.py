"""What a worker's process becomes when it ends before its keeper: it waits for that, with the worker's pid and status.

Run as a program by its path, without Leasehold and without anything of the user's: `python -I -S waiter.py MARK KEEPER
STATUS SECONDS`. Told to stop, it ends at once.
"""

import os
import signal
import sys
import time

LOOK_S = 0.02


def ended(child: int) -> bool:
    try:
        return os.waitpid(child, os.WNOHANG)[0] == child
    except ChildProcessError:
        return True


def main(words: list[str]) -> None:
    keeper, status, seconds = int(words[1]), int(words[2]), float(words[3])
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(status))
    until = time.monotonic() + seconds
    while time.monotonic() < until and not ended(keeper):
        time.sleep(LOOK_S)
    os._exit(status)


if __name__ == "__main__":
    main(sys.argv[1:])
