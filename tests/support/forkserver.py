"""Processes that begin with everything imported: a start of the command costs half a second of a core, a fork nothing.

`Forkserver` starts one interpreter that has imported the command line and waits (this file as a program); each
`spawn` is a fork of it, with arguments, folder, environment, standard output and standard error of its own. What a
process does after that is what `python -m tenure` does.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any, Final

SOURCE: Final = Path(__file__).parents[2] / "src"
MESSAGE_MAX: Final = 1 << 20


class Forkserver:
    """`Forkserver().spawn(["info"], folder, environment)` is a `Child`, which is used like a `subprocess.Popen`."""

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
        command = [sys.executable, "-P", "-W", "error", __file__, str(theirs.fileno())]
        self._mother = subprocess.Popen(command, env=environment, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()

    def spawn(self, args: list[str], folder: Path, environment: dict[str, str]) -> Child:
        out, out_end = os.pipe()
        err, err_end = os.pipe()
        order = {"args": args, "folder": str(folder), "environment": environment}
        socket.send_fds(self._line, [json.dumps(order).encode()], [out_end, err_end])
        os.close(out_end)
        os.close(err_end)
        return Child(self, self._answer(), open(out, encoding="utf-8"), open(err, encoding="utf-8"))

    def status_of(self, pid: int) -> int:
        """Of a child that has ended: its status, or minus the signal that ended it."""
        self._line.send(json.dumps({"ended": pid}).encode())
        return self._answer()

    def _answer(self) -> int:
        return int(json.loads(self._line.recv(MESSAGE_MAX)))

    def close(self) -> None:
        self._line.close()
        self._mother.wait(20)


class Child:
    """A process of the nursery. Its id stays its own until its end has been asked for."""

    def __init__(self, nursery: Forkserver, pid: int, stdout: IO[str], stderr: IO[str]) -> None:
        self.pid = pid
        self.stdout = stdout
        self.stderr = stderr
        self.returncode: int | None = None
        self._nursery = nursery
        self._end = os.pidfd_open(pid)

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._end], [], [], 0)[0]:
            os.close(self._end)
            self.returncode = self._nursery.status_of(self.pid)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None and not select.select([self._end], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("tenure", timeout or 0.0)
        status = self.poll()
        assert status is not None
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def import_all() -> None:
    """Import the whole command line, for the forks of this process."""
    import click

    from tenure.cli import commands
    from tenure.cli.table import COMMANDS

    for name in COMMANDS:
        commands.get_command(click.Context(commands), name)
    gc.collect()
    gc.freeze()  # else each child would copy most of this memory as it looks for garbage


def _mother(line: socket.socket) -> dict[str, Any]:
    """Forks a child for each order until nobody asks any more. Returns in the children, with their order."""
    import_all()
    while True:
        data, given, _, _ = socket.recv_fds(line, MESSAGE_MAX, 2)
        if not data:
            line.close()
            sys.exit(0)
        order = json.loads(data)
        if "ended" in order:
            answer = os.waitstatus_to_exitcode(os.waitpid(order["ended"], 0)[1])
        else:
            answer = os.fork()
            if answer == 0:
                line.close()
                for standard, end in enumerate(given, start=1):
                    os.dup2(end, standard)
                    os.close(end)
                return dict(order)
            for end in given:
                os.close(end)
        line.send(json.dumps(answer).encode())


def become(order: dict[str, Any]) -> None:
    """Be as a process that was just started with these arguments."""
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    time.tzset()
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False, buffering=1)
    sys.argv = ["tenure", *order["args"]]


if __name__ == "__main__":
    become(_mother(socket.socket(fileno=int(sys.argv[1]))))
    import runpy

    runpy.run_module("tenure", run_name="__main__", alter_sys=True)
