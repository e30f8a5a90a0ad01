"""The embedded Redis: a server on a data directory. All openers of the directory share it; the last one stops it.

>>> embedded = open_embedded("./data")           # doctest: +SKIP
>>> embedded.url                                 # doctest: +SKIP
'unix:///tmp/tenure-x3k9v2wq/redis.sock'
>>> embedded.close()                             # doctest: +SKIP
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final
from urllib.parse import quote

from tenure.core.errors import NotConfigured
from tenure.redis.embedded import server
from tenure.redis.embedded.binary import OLDEST, find_server, version_of

START_TIMEOUT_S: Final = 30.0
_SPAWN_TIMEOUT_S: Final = 10.0
_POLL_S: Final = 0.01
_LOG_LINES: Final = 10
_MARK: Final = "tenure-data"
"""A file that marks a directory of Tenure."""


class Embedded:
    """A hold on an embedded server. The server runs while any process has a hold."""

    def __init__(self, url: str, path: str, hold: socket.socket) -> None:
        self.url = url
        self.path = path
        self._hold = hold

    def alive(self) -> bool:
        """Return whether the hold is valid: not after `close`, nor after the server's starter ended."""
        try:
            return self._hold.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def close(self) -> None:
        """Release the server. About half a second after the last release it stops."""
        self._hold.close()


def open_embedded(
    path: str | None = None, *, timeout_s: float = START_TIMEOUT_S, remove: bool | None = None
) -> Embedded:
    """Start the server on this data directory, or join the running one.

        open_embedded("/var/lib/myapp/redis")

    None: a new temporary directory. `remove`: delete the directory when the server stops, if this call starts it; by
    default only for a temporary one. Raises `NotConfigured` if there is no server program, if the directory is not
    usable, or if the server does not start within `timeout_s`; the message shows the end of the server's log.
    """
    folder = os.path.realpath(tempfile.mkdtemp(prefix="tenure-") if path is None else path)
    _prepare(Path(folder))
    end = "remove" if (path is None if remove is None else remove) else "keep"
    until = time.monotonic() + timeout_s
    starter: subprocess.Popen[bytes] | None = None
    try:
        while time.monotonic() < until:
            joined = _join(folder, until)
            if joined is not None:
                return joined
            if starter is None:
                starter = _run_starter(folder, end)
            elif _ended(starter):
                raise _failure(folder, "The embedded Redis could not be started")
            time.sleep(_POLL_S)
    finally:
        if starter is not None and starter.stdin is not None:
            starter.stdin.close()
    raise _failure(folder, f"The embedded Redis did not start within {timeout_s:g} s")


def _prepare(folder: Path) -> None:
    """Create and mark the directory, private to this user. Refuse a directory with other files."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        names = os.listdir(folder)
        if names and _MARK not in names:
            raise NotConfigured(
                f"{folder} holds other files. The embedded Redis needs an empty or a new directory, or one that it "
                "made. Choose another path, as in embedded:./tenure-data."
            )
        if not names:
            folder.chmod(0o700)
            (folder / _MARK).write_text("The data of an embedded Redis, kept by Tenure.\n", "utf-8")
        if folder.stat().st_uid != os.geteuid():
            raise NotConfigured(f"{folder} belongs to another user. Choose another path for the embedded Redis.")
    except OSError as error:
        raise NotConfigured(f"The directory for the embedded Redis cannot be used: {error}.") from None


def _join(folder: str, until: float) -> Embedded | None:
    """Return a hold on the server once it is ready. None: there is no starter, or it is just stopping."""
    try:
        run = Path(folder, server.WHERE).read_text("utf-8")
        found = os.lstat(run)
    except OSError:
        return None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        return None
    hold = socket.socket(socket.AF_UNIX)
    try:
        hold.settimeout(max(_POLL_S, until - time.monotonic()))
        hold.connect(os.path.join(run, server.WARDEN_SOCKET))
        greeting = hold.recv(len(server.FAILED))
    except OSError:
        greeting = b""
    except BaseException:
        hold.close()
        raise
    if greeting == server.READY:
        hold.setblocking(False)
        return Embedded(f"unix://{quote(os.path.join(run, server.SERVER_SOCKET))}", folder, hold)
    hold.close()
    if greeting == server.FAILED:
        raise _failure(folder, "The embedded Redis could not be started")
    return None


def _run_starter(folder: str, end: str) -> subprocess.Popen[bytes]:
    """Run a starter. It counts this process as a user until its standard input is closed."""
    binary = find_server(at_least=_written_by(folder))
    version = "{}.{}".format(*(version_of(binary) or OLDEST))
    command = [sys.executable, "-I", "-S", server.__file__, folder, binary, version, end]
    with open(os.path.join(folder, server.WARDEN_LOG), "ab") as log:
        starter = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd="/", start_new_session=True
        )
    try:
        starter.wait(_SPAWN_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        starter.kill()
        starter.wait()
    if starter.returncode != 0:
        if starter.stdin is not None:
            starter.stdin.close()
        raise _failure(folder, "The process that runs the embedded Redis could not be started")
    return starter


def _ended(starter: subprocess.Popen[bytes]) -> bool:
    """Return whether the starter of this process is gone: no process holds the other end of the pipe."""
    assert starter.stdin is not None
    poll = select.poll()
    poll.register(starter.stdin, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _written_by(folder: str) -> tuple[int, int]:
    """Return the version of the server that wrote the data. An older one could not read it."""
    with contextlib.suppress(OSError, ValueError):
        major, minor = Path(folder, server.VERSION).read_text().split(".")
        return int(major), int(minor)
    return OLDEST


def _failure(folder: str, what: str) -> NotConfigured:
    lines: list[str] = []
    for name in (server.WARDEN_LOG, server.SERVER_LOG):
        with contextlib.suppress(OSError):
            text = Path(folder, name).read_text(errors="replace").rstrip().splitlines()[-_LOG_LINES:]
            lines += [f"  {name}: {line}" for line in text]
    log = "\n".join(lines) or "  (no log)"
    return NotConfigured(f"{what} on {folder}. The last lines of its logs:\n{log}")
