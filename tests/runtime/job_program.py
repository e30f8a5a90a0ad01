"""A job process for the tests of this folder: `python job_program.py DESCRIPTOR [fails]`. Its tasks do harm."""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tenure.core.backoff import Backoff
from tenure.core.signals import Fail, JobCancelled, Retry
from tenure.core.task import RunIn, TaskSpec
from tenure.runtime.isolation.channel import WorkerChannel
from tenure.runtime.isolation.main import ignore_signals, serve
from tenure.runtime.jobs.job import Job, current_job

MEGABYTE = 1024 * 1024


def job() -> Job:
    found = current_job()
    assert found is not None
    return found


def pid() -> int:
    return os.getpid()


async def apid() -> int:
    await asyncio.sleep(0)
    return os.getpid()


def facts() -> list[Any]:
    one = job()
    left = one.remaining
    return [one.id, one.queue, one.task, one.lane, one.attempt, one.failures, one.crashes, one.token, left, one.payload]


def environment() -> list[Any]:
    main = threading.current_thread() is threading.main_thread()
    return ["SAID" in os.environ, os.getsid(0) == os.getpid(), main]


def retry() -> None:
    raise Retry("later", delay=7)


def fail() -> None:
    raise Fail("no such customer")


def cancel_itself() -> None:
    raise JobCancelled("has left")


def leave() -> None:
    sys.exit(3)


def interrupt() -> None:
    raise KeyboardInterrupt


async def aleave() -> None:
    sys.exit(3)


def recurse() -> None:
    recurse()


def out_of_memory() -> None:
    raise MemoryError


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def unprintable() -> None:
    raise Unprintable


def huge_error() -> None:
    raise ValueError("x" * (100 * MEGABYTE))


def huge_result() -> str:
    return "x" * (3 * MEGABYTE)


# What ends the process.


def exit_hard() -> None:
    os._exit(9)


def segfault() -> None:
    ctypes.string_at(0)


def kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def close_files() -> None:
    os.closerange(3, 1_000)
    time.sleep(600)


def deep() -> None:
    sys.setrecursionlimit(10**9)

    def down(text: str) -> str:
        return re.sub("x", lambda match: down(text), text)

    down("x")


def garble() -> None:
    """Writes to all its sockets what nobody can read."""
    for number in range(3, 64):
        try:
            os.write(number, b"\xff" * 64)
        except OSError:
            continue
    time.sleep(600)


def terminate_itself() -> int:
    """Ctrl-C and `kill` are for the worker: nothing happens."""
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGINT)
    return os.getpid()


# What goes on.


def say(*words: object) -> None:
    with Path(os.environ["SAID"]).open("a") as file:
        file.write(" ".join(map(str, words)) + "\n")


def hang() -> None:
    say("hang", os.getpid())
    time.sleep(600)


async def ahang() -> None:
    say("ahang", os.getpid())
    try:
        await asyncio.sleep(600)
    finally:
        say("tidied", os.getpid())


async def stubborn() -> None:
    say("stubborn", os.getpid())
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            continue


def look() -> None:
    say("look", os.getpid())
    while True:
        job().check_cancelled()
        time.sleep(0.01)


async def block() -> None:
    say("block", os.getpid())
    time.sleep(600)


def hold_gil() -> None:
    say("hold_gil", os.getpid())
    re.fullmatch(r"(a+)+b", "a" * 64)


def start_others() -> None:
    """A child by fork and one by exec, which would outlive it."""
    child = os.fork()
    if child == 0:
        time.sleep(600)
        os._exit(0)
    other = subprocess.Popen(["/bin/sleep", "600"])
    say("others", os.getpid(), child, other.pid)
    time.sleep(600)


def fork_and_return() -> int:
    """The copy returns as well."""
    if os.fork() != 0:
        time.sleep(0.2)
    return os.getpid()


def leave_alarm() -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    sys.setrecursionlimit(5_000)


def short_nap() -> int:
    say("short_nap", os.getpid())
    time.sleep(0.6)
    return sys.getrecursionlimit()


def eat() -> int:
    try:
        return len(bytearray(400 * MEGABYTE))
    except MemoryError:
        # What is left is enough to say so.
        raise


def tell() -> None:
    for number in range(1, 2_001):
        job().progress(number, 2_000, "rows")
    say("told", os.getpid())
    time.sleep(600)


def extend() -> list[Any]:
    one = job()
    before = one.remaining
    return [before, one.extend(100), one.remaining]


async def aextend() -> list[Any]:
    one = job()
    before = one.remaining
    return [before, await one.aextend(100), one.remaining]


async def linger() -> None:
    """Longer than it had."""
    remaining = job().remaining or 0.0
    assert await job().aextend(100)
    await asyncio.sleep(remaining + 0.1)


HERE = {
    name: value for name, value in globals().items() if callable(value) and getattr(value, "__module__", "") == __name__
}
NOT_TASKS = {"job", "say", "Unprintable"}


def specs() -> list[TaskSpec]:
    """All functions here. The worker of the tests has the same list."""
    return [
        TaskSpec(
            name,
            "q",
            function,
            asyncio.iscoroutinefunction(function),
            lambda value: repr(value).encode(),
            lambda payload: ((), {}),
            timeout_ms=None,
            backoff=Backoff.fixed(0),
            run_in=RunIn.PROCESS,
            max_memory=200 * MEGABYTE if name == "eat" else 0,
        )
        for name, function in HERE.items()
        if name not in NOT_TASKS
    ]


def raw(one: Job) -> bytes:
    return one.payload


if __name__ == "__main__":
    import socket

    ignore_signals()
    line = WorkerChannel(socket.socket(fileno=int(sys.argv[1])))
    line.begin()
    if sys.argv[2:] == ["fails"]:
        raise SystemExit("no such app")
    serve(line, specs)
