"""A Redis server for tests: a real process to stop, kill, freeze and restart on the same data.

    >>> with RedisServer(find_server()) as server:   # doctest: +SKIP
    ...     server.command("PING")
    b'PONG'

On Linux it never outlives the test process, even if that is killed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tenure.core.errors import RedisError
from tenure.core.steps import Arg, Command, Reply, Steps
from tenure.redis.embedded.binary import candidates, version_of
from tenure.redis.sync import SyncDriver
from tenure.testing.death_signal import dies_with_parent
from tenure.testing.ports import Ports

_START_S: Final = 15.0
_STOP_S: Final = 10.0
_COMMAND_MS: Final = 60_000
_SCAN_COUNT: Final = 1_000
_LOG_LINES: Final = 15


def available_binaries() -> dict[str, str]:
    """Return the installed server programs by version, as in `{"6.2": ..., "7.0": ...}`, one for each version."""
    found: dict[str, str] = {}
    for path in candidates():
        version = version_of(path)
        if version is not None:
            found.setdefault("{}.{}".format(*version), path)
    return dict(sorted(found.items()))


def keys_of(server: RedisServer, namespace: str = "") -> dict[bytes, int]:
    """Return all keys with the namespace in their names, and their time to live in milliseconds (-1: no expiry)."""
    found: dict[bytes, int] = {}
    cursor: bytes = b"0"
    while True:
        cursor, keys = server.command("SCAN", cursor, "COUNT", _SCAN_COUNT)
        for key in keys:
            if namespace.encode() in key:
                found[key] = server.command("PTTL", key)
        if cursor == b"0":
            return found


class RedisServer:
    """A server on a unix socket and, with `tcp`, on a port of 127.0.0.1. Its data is in a temporary directory.

    server = RedisServer(path, args=["--requirepass", "secret"], password="secret")
    """

    def __init__(
        self, binary: str, *, aof: bool = True, tcp: bool = False, args: Sequence[str] = (), password: str | None = None
    ) -> None:
        self.binary = binary
        self.directory = Path(tempfile.mkdtemp(prefix="tenure-"))
        self._ports = Ports()
        self.port = self._ports.take() if tcp else 0
        self._password = password
        self._args = [*_options(aof), *args]
        self._process: subprocess.Popen[bytes] | None = None
        # The kernel kills the server when the thread that started it ends: this thread lives as long as this object.
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="redis server")
        self._driver = SyncDriver(self.url, patience_ms=5_000, reply_timeout_ms=_COMMAND_MS)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    @property
    def socket_path(self) -> str:
        return str(self.directory / "s")

    @property
    def url(self) -> str:
        return f"unix://{f':{self._password}@' if self._password else ''}{self.socket_path}"

    @property
    def tcp_url(self) -> str:
        assert self.port, "this server was made without tcp=True"
        return f"redis://{f':{self._password}@' if self._password else ''}127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server is not running"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server, and return when it answers commands."""
        assert not self.running, "the server is running already"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.socket_path)
        command = [self.binary, "--port", str(self.port), "--unixsocket", self.socket_path, *self._args]
        self._process = process = self._starter.submit(self._launch, command).result()
        until = time.monotonic() + _START_S
        while not self._answers():
            if process.poll() is not None or time.monotonic() > until:
                self.kill()
                raise AssertionError(f"{self.binary} did not start:\n{self._log_tail()}")
            time.sleep(0.005)

    def stop(self) -> None:
        """Stop the server with SIGTERM."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the server with SIGKILL: it keeps its files and cleans up nothing."""
        self._end(signal.SIGKILL)

    def restart(self, *, kill: bool = False) -> None:
        """Stop (or kill) the server, and start it again on the same data."""
        self.kill() if kill else self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze the server: the kernel accepts connections, and no command is answered."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def command(self, *args: Arg) -> Reply:
        """Run one command, on a connection of its own."""
        return self._driver.run(_steps(args))

    def flush(self) -> None:
        """Delete all keys and all scripts."""
        self.command("FLUSHALL")
        self.command("SCRIPT", "FLUSH")

    def close(self) -> None:
        """Kill the server and remove its data."""
        self._driver.close()
        self.kill()
        self._ports.close()
        self._starter.shutdown()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _launch(self, command: list[str]) -> subprocess.Popen[bytes]:
        with open(self.directory / "log", "ab") as log:
            return subprocess.Popen(  # noqa: S603
                dies_with_parent(command), cwd=self.directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
            process.send_signal(signal.SIGCONT)
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _answers(self) -> bool:
        if not os.path.exists(self.socket_path):
            return False
        probe = SyncDriver(self.url, patience_ms=0, reply_timeout_ms=1_000)
        try:
            return bool(probe.run(_steps(("PING",))) == b"PONG")
        except RedisError:
            return False
        finally:
            probe.close()

    def _log_tail(self) -> str:
        lines = (self.directory / "log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-_LOG_LINES:])


def _steps(args: tuple[Arg, ...]) -> Steps[Reply]:
    return (yield Command(args))


def _options(aof: bool) -> list[str]:
    persist = ["--appendonly", "yes", "--appendfsync", "everysec"] if aof else ["--appendonly", "no"]
    return ["--save", "", "--maxmemory-policy", "noeviction", "--daemonize", "no", *persist]
