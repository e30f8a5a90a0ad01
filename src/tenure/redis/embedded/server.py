"""The starter of one embedded Redis server: starts it, and stops it after its last user.

A program of its own, run by `instance.py`. It uses only the standard library and one thread, so it starts fast on any
path and can fork safely. Every user of the server holds a connection to the starter. The kernel closes it however the
user dies, so the starter always notices the last one. On Linux the server dies with the starter. When the server dies,
the starter ends: its users lose their connections and run a new starter.

    python -I -S server.py DATA BINARY VERSION keep|remove
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import Final

LOCK: Final = "lock"
"""The starter holds this lock (flock) while it lives."""
WHERE: Final = "where"
"""Names the directory of the sockets. Socket paths must be short, so they cannot be in the data directory."""
VERSION: Final = "version"
"""The version of the server that wrote the data. An older one could not read it."""
SERVER_LOG: Final = "redis.log"
WARDEN_LOG: Final = "warden.log"
WARDEN_SOCKET: Final = "warden.sock"
SERVER_SOCKET: Final = "redis.sock"
READY: Final = b"ready\n"
FAILED: Final = b"failed\n"

_LINGER_S: Final = 0.5
"""How long the server runs without a user, and how often the starter checks that it runs."""
_PROBE_S: Final = 0.02
_LOCK_POLL_S: Final = 0.02
_STOP_S: Final = 10.0
_MAX_LOG: Final = 1024 * 1024
_MAX_SOCKET_PATH: Final = 90
_BACKLOG: Final = 128


class EmbeddedServer:
    """One server and its users: all that the selector watches, but for the listener.

    The process that ran this starter is a user until it closes the pipe to standard input.
    """

    def __init__(self, data: str, run: str) -> None:
        self._data = data
        self._socket = os.path.join(run, SERVER_SOCKET)
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ready = False
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(os.path.join(run, WARDEN_SOCKET))
        self._listener.listen(_BACKLOG)
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        for source in (self._listener, sys.stdin):
            self._selector.register(source, selectors.EVENT_READ)

    def run(self, binary: str, version: str) -> bool:
        """Serve until the last user left, or until the server ends.

        Return whether the data is no longer needed: the server was ready, and its users left by themselves.
        """
        self._process = process = self._start(binary)
        while process.poll() is None:
            if not self._is_ready and self._answers():
                self._is_ready = True
                write(self._data, VERSION, version)
                self._tell(READY)
            is_used = len(self._selector.get_map()) > 1
            if not is_used and not self._is_ready:
                return False
            ready = self._selector.select(_LINGER_S if self._is_ready else _PROBE_S)
            if not ready and not is_used:
                return True
            for key, _ in ready:
                self._serve(key)
        say("the server ended unexpectedly" if self._is_ready else "the server could not be started")
        if not self._is_ready:
            self._tell(FAILED)
        return False

    def close(self) -> None:
        """Refuse new users, then stop the server. New users find no socket and run a starter of their own."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self._data, WHERE))
        self._listener.close()
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            say("the server did not stop in time: killed")
            self._process.kill()
            self._process.wait()

    def _start(self, binary: str) -> subprocess.Popen[bytes]:
        command = [binary, "--port", "0", "--unixsocket", self._socket, "--unixsocketperm", "700"]
        command += ["--dir", self._data, "--daemonize", "no", "--save", "", "--maxmemory-policy", "noeviction"]
        command += ["--appendonly", "yes", "--appendfsync", "everysec"]
        with open(os.path.join(self._data, SERVER_LOG), "ab") as log:
            process = subprocess.Popen(  # noqa: S603
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._data, preexec_fn=_die_with_me
            )
        say(f"started the server, process {process.pid}")
        return process

    def _answers(self) -> bool:
        """Return whether the server has loaded its data and answers."""
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.settimeout(1.0)
                probe.connect(self._socket)
                probe.sendall(b"PING\r\n")
                return probe.recv(64).startswith(b"+PONG")
            except OSError:
                return False

    def _serve(self, key: selectors.SelectorKey) -> None:
        if key.fileobj is self._listener:
            with contextlib.suppress(OSError):
                user = self._listener.accept()[0]
                self._selector.register(user, selectors.EVENT_READ)
                if self._is_ready:
                    user.send(READY)
            return
        with contextlib.suppress(OSError):
            if os.read(key.fd, 4096):
                return
        self._selector.unregister(key.fileobj)
        if isinstance(key.fileobj, socket.socket):
            key.fileobj.close()

    def _tell(self, message: bytes) -> None:
        for key in self._selector.get_map().values():
            if isinstance(key.fileobj, socket.socket) and key.fileobj is not self._listener:
                with contextlib.suppress(OSError):
                    key.fileobj.send(message)


def _die_with_me() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG


def say(text: str) -> None:
    """Write a line to the starter's log."""
    sys.stderr.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} warden {os.getpid()}: {text}\n")
    sys.stderr.flush()


def write(folder: str, name: str, text: str) -> None:
    """Write a small file atomically: readers see all of it or none."""
    new = os.path.join(folder, name + ".new")
    with open(new, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(new, os.path.join(folder, name))


def take_lock(data: str) -> int | None:
    """Wait for the lock of the data directory. None: the process that ran this one joined another starter, or died."""
    lock = os.open(os.path.join(data, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    selector = selectors.DefaultSelector()
    selector.register(sys.stdin, selectors.EVENT_READ)
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if selector.select(_LOCK_POLL_S):
                return None
        else:
            selector.close()
            return lock


def make_run(data: str) -> str:
    """Make a private directory for the sockets, and remove the one that a killed starter has left."""
    with contextlib.suppress(OSError):
        with open(os.path.join(data, WHERE)) as file:
            old = file.read()
        for name in (WARDEN_SOCKET, SERVER_SOCKET):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(old, name))
        os.rmdir(old)
    run = tempfile.mkdtemp(prefix="tenure-")
    if len(os.path.join(run, WARDEN_SOCKET)) > _MAX_SOCKET_PATH:
        os.rmdir(run)
        run = tempfile.mkdtemp(prefix="tenure-", dir="/tmp")
    return run


def trim_logs(data: str) -> None:
    for name in (SERVER_LOG, WARDEN_LOG):
        with contextlib.suppress(FileNotFoundError):
            if os.path.getsize(os.path.join(data, name)) > _MAX_LOG:
                os.truncate(os.path.join(data, name), 0)


def main() -> None:
    data, binary, version, end = sys.argv[1:]
    # The caller waits for this process only. Its child is adopted by the system and leaves no zombie.
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if take_lock(data) is None:
        return
    trim_logs(data)
    run = make_run(data)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit())
    server = EmbeddedServer(data, run)
    is_unneeded = False
    try:
        write(data, WHERE, run)
        is_unneeded = server.run(binary, version)
    finally:
        server.close()
        shutil.rmtree(run, ignore_errors=True)
        say("stopped")
        # After a crash or SIGTERM, the users start the server again.
        if end == "remove" and is_unneeded:
            shutil.rmtree(data, ignore_errors=True)


if __name__ == "__main__":
    main()
