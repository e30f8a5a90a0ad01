"""Commands for a shell that begin with everything imported: a start costs half a second of a core, a fork nothing.

`Launcher(folder)` writes commands into an empty folder: `tenure`; `script`, which runs a file as `python` does; and
`python`, which is `script` for the files of a page, and Python for anything else. Each asks one process, which has
imported what they need and waits (this file as a program), for a fork of itself with the arguments, the folder, the
environment and the standard streams of the command; passes signals on; and ends as the fork ends. If a command is
killed, its fork is killed.
"""

from __future__ import annotations

import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tests.support.forkserver import MESSAGE_MAX, SOURCE, become, import_all

ROOT: Final = Path(__file__).parents[2]
STREAMS: Final = 3
# Imports only what is built in, so that it starts at once.
COMMAND: Final = """#!{python} -IS
import _signal, _socket, os, sys
if {name!r} == "python" and (os.environ.get("PYTHONWARNINGS") != "error" or not "".join(sys.argv[1:2]).endswith(".py")):
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
_signal.pthread_sigmask(_signal.SIG_BLOCK, (1, 2, 15))
line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
line.connect({address!r})
streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
variables = (name + "=" + value for name, value in os.environ.items())
order = [{name!r}, os.getcwd(), str(len(sys.argv) - 1), *sys.argv[1:], *variables]
line.sendmsg([os.fsencode("\\0".join(order))], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
pid = int(line.recv(64))
def pass_on(number, frame):
    try: os.kill(pid, number)
    except ProcessLookupError: pass
for number in (1, 2, 15):
    if _signal.getsignal(number) != _signal.SIG_IGN: _signal.signal(number, pass_on)
_signal.pthread_sigmask(_signal.SIG_UNBLOCK, (1, 2, 15))
status = int(line.recv(64))
if status < 0:
    if status != -9: _signal.signal(-status, _signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
"""


class Launcher:
    """`with Launcher(folder): ...`, with the folder first on PATH."""

    def __init__(self, folder: Path) -> None:
        address = str(folder / "line")
        line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        line.bind(address)
        line.listen()
        for name in ("tenure", "script", "python"):
            command = folder / name
            command.write_text(COMMAND.format(python=sys.executable, address=address, name=name))
            command.chmod(0o755)
        environment = {**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{ROOT}"}
        program = [sys.executable, "-P", "-W", "error", __file__, str(line.fileno())]
        self._mother = subprocess.Popen(program, env=environment, pass_fds=[line.fileno()], stdin=subprocess.PIPE)
        line.close()

    def close(self) -> None:
        assert self._mother.stdin is not None
        self._mother.stdin.close()
        self._mother.wait(60)


def _mother(line: socket.socket) -> dict[str, Any]:
    """Answers orders until standard input ends. Returns in the forks, with their order."""
    with suppress(ImportError):
        _import_of_pages()
    import_all()
    while True:
        ready, _, _ = select.select([line, sys.stdin], [], [])
        if sys.stdin in ready:
            line.close()
            sys.exit(0)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        asking, _ = line.accept()
        data, streams, _, _ = socket.recv_fds(asking, MESSAGE_MAX, STREAMS)
        if data and os.fork() == 0:
            line.close()
            _wait_for_a_fork(asking, streams)
            return _order(os.fsdecode(data).split("\0"))
        for stream in streams:
            os.close(stream)
        asking.close()


def _import_of_pages() -> None:
    """Import what takes long and needs no settings."""
    from django.contrib import messages  # noqa: F401
    from django.core.management.commands import migrate, test  # noqa: F401
    from django.db.backends.sqlite3 import base  # noqa: F401
    from sqlalchemy import orm  # noqa: F401
    from sqlalchemy.ext import asyncio  # noqa: F401


def _order(words: list[str]) -> dict[str, Any]:
    program, folder, count, *rest = words
    variables = rest[int(count) :]
    environment = dict(variable.split("=", 1) for variable in variables)
    return {"program": program, "folder": folder, "args": rest[: int(count)], "environment": environment}


def _wait_for_a_fork(asking: socket.socket, streams: list[int]) -> None:
    """Fork; answer the end of the fork to the command that asked. Returns in the fork."""
    pid = os.fork()
    if pid == 0:
        asking.close()
        for standard, stream in enumerate(streams):
            os.dup2(stream, standard)
            os.close(stream)
        return
    for stream in (*range(STREAMS), *streams):
        os.close(stream)
    end = os.pidfd_open(pid)
    asking.send(str(pid).encode())
    ready, _, _ = select.select([asking.fileno(), end], [], [])
    if end not in ready:
        os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if asking.fileno() not in ready:
        asking.send(str(status).encode())
    os._exit(0)


if __name__ == "__main__":
    order = _mother(socket.socket(fileno=int(sys.argv[1])))
    become(order)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    if order["program"] != "tenure":
        sys.argv = order["args"]
        sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))
        runpy.run_path(sys.argv[0], run_name="__main__")
    else:
        runpy.run_module("tenure", run_name="__main__", alter_sys=True)
