"""The starter of one embedded Redis server: starts it, restarts it, and stops it after its last user.

A program of its own, run by `instance.py`. It uses only the standard library and one thread, so it starts fast on any
path and can fork safely. Every user of the server holds a connection to the starter. The kernel closes it however the
user dies, so the starter always notices the last one. On Linux the server dies with the starter.

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
_PROBE_S: Final = 0.02
_LOCK_POLL_S: Final = 0.02
_STOP_S: Final = 10.0
_MAX_RESTARTS: Final = 5
_RESTART_WINDOW_S: Final = 60.0
_BACKOFF_S: Final = (0.0, 0.1, 0.5, 1.0, 2.0)
_MAX_LOG: Final = 1024 * 1024
_MAX_SOCKET_PATH: Final = 90
_BACKLOG: Final = 128


class Server:
    """The server process. `EmbeddedServer` decides about restarts."""

    def __init__(self, data: str, run: str, binary: str) -> None:
        self._socket = os.path.join(run, SERVER_SOCKET)
        self._data = data
        self._command = [binary, "--port", "0", "--unixsocket", self._socket, "--unixsocketperm", "700"]
        self._command += ["--dir", data, "--daemonize", "no", "--save", "", "--maxmemory-policy", "noeviction"]
        self._command += ["--appendonly", "yes", "--appendfsync", "everysec"]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._socket)
        with open(os.path.join(self._data, SERVER_LOG), "ab") as log:
            self._process = subprocess.Popen(  # noqa: S603
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._data, preexec_fn=_die_with_me
            )
        say(f"started the server, process {self._process.pid}")

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def answers(self) -> bool:
        """Return whether the server has loaded its data and answers."""
        probe = socket.socket(socket.AF_UNIX)
        try:
            probe.settimeout(1.0)
            probe.connect(self._socket)
            probe.sendall(b"PING\r\n")
            return probe.recv(64).startswith(b"+PONG")
        except OSError:
            return False
        finally:
            probe.close()

    def stop(self) -> None:
        if self._process is None or not self.running():
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            say("the server did not stop in time: killed")
            self._process.kill()
            self._process.wait()


class EmbeddedServer:
    """One server and its users. `run` returns after the last user left, or when the server cannot be kept running."""

    def __init__(self, server: Server, data: str, run: str, version: str) -> None:
        self._server = server
        self._data = data
        self._version = version
        self._selector = selectors.DefaultSelector()
        self._users: set[socket.socket] = set()
        self._waiting: set[socket.socket] = set()
        self._founder = True  # the process that ran this starter is a user until it closes the pipe
        self._ready = False
        self._was_ready = False
        self._stopping = False
        self._restarts: list[float] = []
        self._start_at: float | None = time.monotonic()
        self._idle_since: float | None = None
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(os.path.join(run, WARDEN_SOCKET))
        self._listener.listen(_BACKLOG)
        self._listener.setblocking(False)
        # A signal must wake the selector: SIGCHLD when the server has ended, SIGTERM to stop.
        self._wake, wake_up = socket.socketpair()
        self._wake.setblocking(False)
        wake_up.setblocking(False)
        self._wake_up = wake_up
        signal.set_wakeup_fd(wake_up.fileno())
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.signal(signal.SIGTERM, self._terminated)
        for source in (self._listener, self._wake, sys.stdin):
            self._selector.register(source, selectors.EVENT_READ)

    def run(self) -> None:
        while not self._stopping:
            if not self._keep_server() or self._deserted():
                return
            for key, _ in self._selector.select(self._pause()):
                self._serve(key.fileobj)

    def close(self) -> None:
        """Refuse new users, then stop the server. New users find no socket and run a starter of their own."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self._data, WHERE))
        self._listener.close()
        self._server.stop()
        for user in self._users:
            user.close()

    def _terminated(self, number: int, frame: object) -> None:
        self._stopping = True

    def _pause(self) -> float | None:
        now = time.monotonic()
        if self._start_at is not None:
            return max(0.0, self._start_at - now)
        if not self._ready:
            return _PROBE_S
        return None if self._idle_since is None else max(0.0, self._idle_since + _LINGER_S - now)

    def _keep_server(self) -> bool:
        """Start the server when it is due, and note when it is ready or dead. False: it cannot be kept running."""
        now = time.monotonic()
        if self._start_at is not None:
            if now < self._start_at:
                return True
            self._start_at = None
            self._server.start()
        if not self._server.running():
            return self._plan_restart(now)
        if not self._ready and self._server.answers():
            self._ready = self._was_ready = True
            write(self._data, VERSION, self._version)
            for user in self._waiting:
                tell(user, READY)
            self._waiting.clear()
        return True

    def _plan_restart(self, now: float) -> bool:
        self._ready = False
        self._restarts = [at for at in self._restarts if now - at < _RESTART_WINDOW_S]
        # A server that never became ready would fail again.
        if not self._was_ready or len(self._restarts) >= _MAX_RESTARTS:
            say("the server ended and is not restarted")
            for user in self._waiting:
                tell(user, FAILED)
            return False
        self._start_at = now + _BACKOFF_S[len(self._restarts)]
        self._restarts.append(now)
        say("the server ended unexpectedly and is restarted")
        return True

    def _deserted(self) -> bool:
        if self._users or self._founder:
            self._idle_since = None
            return False
        now = time.monotonic()
        self._idle_since = self._idle_since or now
        return now - self._idle_since >= _LINGER_S

    def _serve(self, source: object) -> None:
        if source is self._listener:
            with contextlib.suppress(OSError):
                self._admit(self._listener.accept()[0])
        elif source is self._wake:
            with contextlib.suppress(BlockingIOError):
                self._wake.recv(4096)
        elif source is sys.stdin:
            if not os.read(0, 4096):
                self._selector.unregister(source)
                self._founder = False
        elif isinstance(source, socket.socket):
            self._hear(source)

    def _admit(self, user: socket.socket) -> None:
        user.setblocking(False)
        self._users.add(user)
        self._selector.register(user, selectors.EVENT_READ)
        if self._ready:
            tell(user, READY)
        else:
            self._waiting.add(user)

    def _hear(self, user: socket.socket) -> None:
        try:
            if user.recv(4096):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        self._selector.unregister(user)
        self._users.discard(user)
        self._waiting.discard(user)
        user.close()


def _die_with_me() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG


def tell(user: socket.socket, message: bytes) -> None:
    with contextlib.suppress(OSError):
        user.send(message)


def say(text: str) -> None:
    """Write a line to the starter's log."""
    sys.stderr.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} warden {os.getpid()}: {text}\n")
    sys.stderr.flush()


def write(folder: str, name: str, text: str) -> None:
    """Write a small file atomically: readers see all of it or none."""
    new = os.path.join(folder, name + ".new")
    with open(new, "w") as file:
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
    run = tempfile.mkdtemp(prefix="leasehold-")
    if len(os.path.join(run, WARDEN_SOCKET)) > _MAX_SOCKET_PATH:
        os.rmdir(run)
        run = tempfile.mkdtemp(prefix="leasehold-", dir="/tmp")
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
    warden = EmbeddedServer(Server(data, run, binary), data, run, version)
    try:
        write(data, WHERE, run)
        warden.run()
    finally:
        warden.close()
        shutil.rmtree(run, ignore_errors=True)
        say("stopped")
        if end == "remove":
            shutil.rmtree(data, ignore_errors=True)


if __name__ == "__main__":
    main()
