"""A PostgreSQL server of Debian's package, on a unix socket in a directory of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

_START_S = 30.0


def binaries() -> Path | None:
    """The directory of the newest server that is installed; None: there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


class Postgres:
    """Starts, stops and restarts a server. It refuses to run as root: then it runs as `nobody`."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self._folder = Path(tempfile.mkdtemp(prefix="tenure-pg-", dir="/tmp"))
        self._user = "nobody" if os.getuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = 0
        if self._user:
            os.chown(self._folder, pwd.getpwnam(self._user).pw_uid, -1)

    def __enter__(self) -> Self:
        command = ["initdb", "--pgdata=data", "--username=tenure", "--auth=trust", "--no-sync", "--encoding=UTF8"]
        self._run(*command, "--no-locale").check_returncode()
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, program: str, *args: str) -> subprocess.CompletedProcess[bytes]:
        command = [str(self._programs / program), *args]
        return subprocess.run(command, cwd=self._folder, user=self._user, capture_output=True, timeout=120)

    def start(self) -> None:
        settings = ("fsync=off", "listen_addresses=", f"unix_socket_directories={self._folder}", "max_connections=60")
        options = [word for setting in settings for word in ("-c", setting)]
        command = [str(self._programs / "postgres"), "-D", "data", *options]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self._folder, user=self._user, stdout=log, stderr=log)
        until = time.monotonic() + _START_S
        while self._run("pg_isready", f"--host={self._folder}", "--username=tenure").returncode:
            assert self._process.poll() is None, (self._folder / "log").read_text()
            assert time.monotonic() < until
            time.sleep(0.05)

    def stop(self) -> None:
        """End the server and all its connections, as `pg_ctl stop -m fast` does."""
        assert self._process is not None
        self._process.send_signal(2)
        self._process.wait(_START_S)

    def new_database(self) -> str:
        """The URL of a new database, for SQLAlchemy and psycopg."""
        self._databases += 1
        name = f"test{self._databases}"
        self._run("createdb", f"--host={self._folder}", "--username=tenure", name).check_returncode()
        return f"postgresql+psycopg://tenure@/{name}?host={self._folder}"


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A server for all tests of a process. Each takes a database of its own."""
    programs = binaries()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    with Postgres(programs) as server:
        yield server
