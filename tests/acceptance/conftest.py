"""The command `tenure` as users run it: a process of its own, in a folder of the user's, on a real server."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import pytest

from tenure import Tenure as App
from tests.support.command import Ended, call
from tests.support.forkserver import Child, Forkserver
from tests.support.processes import children, workers

SOURCE = Path(__file__).parents[2] / "src"
LIMIT_S = 150.0
_PROGRAMS = {"dev", "demo"}


class Run:
    """One run of the command. What it writes on stdout and stderr is collected while it runs."""

    def __init__(self, process: Child | subprocess.Popen[str]) -> None:
        self.process = process
        self._grew = threading.Condition()
        self._texts = {"out": "", "err": ""}
        self._readers = [self._read("out"), self._read("err")]

    def _read(self, name: str) -> threading.Thread:
        stream = self.process.stdout if name == "out" else self.process.stderr
        assert stream is not None

        def follow() -> None:
            for line in stream:
                with self._grew:
                    self._texts[name] += line
                    self._grew.notify_all()
            stream.close()

        reader = threading.Thread(target=follow, daemon=True)
        reader.start()
        return reader

    @property
    def out(self) -> str:
        return self._texts["out"]

    @property
    def err(self) -> str:
        return self._texts["err"]

    def wait_for(self, text: str, stream: str = "err") -> Self:
        """Wait until the text was written."""
        until = time.monotonic() + LIMIT_S
        with self._grew:
            while text not in self._texts[stream]:
                left = until - time.monotonic()
                assert left > 0, f"{text!r} was not written in {LIMIT_S:g} s:\n{self.out}\n{self.err}"
                assert any(reader.is_alive() for reader in self._readers), f"no {text!r}:\n{self.out}\n{self.err}"
                self._grew.wait(min(left, 0.2))
        return self

    @property
    def worker(self) -> int:
        """The process of its only worker."""
        (pid,) = workers(self.process.pid)
        return pid

    def signal(self, number: signal.Signals) -> Self:
        self.process.send_signal(number)
        return self

    def end(self, expect: int = 0) -> Self:
        """Wait for the end of the process and check its status."""
        status = self.process.wait(LIMIT_S)
        for reader in self._readers:
            reader.join(LIMIT_S)
        assert status == expect, f"ended with {status}, expected {expect}:\n{self.out}\n{self.err}"
        assert "Traceback" not in self.err, self.err
        return self

    def close(self) -> None:
        """Kill what is left, the workers too: without their parent they would let running jobs finish."""
        left = [] if self.process.poll() is not None else children(self.process.pid)
        self.process.kill()
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(LIMIT_S)
        for reader in self._readers:
            reader.join(LIMIT_S)


class Terminal:
    """A terminal for a process: `inside` is its end, given as stdin, stdout or stderr."""

    def __init__(self) -> None:
        self._outside, self.inside = pty.openpty()

    def wait_for(self, text: str) -> str:
        """What was written since the last time, with this text in it."""
        seen, until = "", time.monotonic() + LIMIT_S
        while text not in seen:
            left = until - time.monotonic()
            assert left > 0, f"{text!r} was not written in {LIMIT_S:g} s:\n{seen}"
            if select.select([self._outside], [], [], left)[0]:
                seen += os.read(self._outside, 65_536).decode()
        return seen

    def type(self, text: str) -> None:
        os.write(self._outside, text.encode())

    def close(self) -> None:
        os.close(self.inside)
        os.close(self._outside)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    terminal = Terminal()
    yield terminal
    terminal.close()


Tenure = Callable[..., Run]


@pytest.fixture(scope="session")
def nursery() -> Iterator[Forkserver]:
    nursery = Forkserver()
    yield nursery
    nursery.close()


def _environment(url: str | None, variables: dict[str, str]) -> dict[str, str]:
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("TENURE_", "REDIS_"))}
    environment = {**outside, "PYTHONPATH": str(SOURCE), "COLUMNS": "200", **variables}
    return environment if url is None else {**environment, "TENURE_URL": url}


def _program(args: Sequence[str], folder: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-W", "error", "-m", "tenure", *args],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def tenure(tmp_path: Path, nursery: Forkserver) -> Iterator[Tenure]:
    """Starts the command: `tenure("worker", "jobs:app", url=server.url)`. Ended at the end of the test.

    Most runs are forks of the `nursery`, as they are many; what follows the code, and what tells Python itself
    something, is a program from its first line on.
    """
    runs: list[Run] = []

    def start(*args: str, url: str | None = None, **variables: str) -> Run:
        environment = _environment(url, variables)
        own = not _PROGRAMS.isdisjoint(args[:1]) or any(name.startswith("PYTHON") for name in variables)
        begin = _program if own else nursery.spawn
        runs.append(Run(begin(list(args), tmp_path, environment)))
        return runs[-1]

    yield start
    for run in runs:
        run.close()


@pytest.fixture
def command(tmp_path: Path) -> Callable[..., Ended]:
    """Runs the command to its end within the process of the test: used as `tenure` is, and much cheaper."""

    def run(*args: str, url: str | None = None, **variables: str) -> Ended:
        return call(list(args), tmp_path, _environment(url, variables))

    return run


@pytest.fixture
def run(command: Callable[..., Ended], redis_url: str) -> Callable[..., tuple[str, str]]:
    """Runs the command to its end; answers what it wrote on stdout and on stderr."""

    def run(*args: str, expect: int = 0, **variables: str) -> tuple[str, str]:
        ended = command(*args, url=redis_url, **variables).end(expect)
        return ended.out, ended.err

    return run


@pytest.fixture
def app(redis_url: str) -> Iterator[App]:
    """A producer without tasks, who looks and acts as well."""
    with App(redis_url) as app:
        yield app


@pytest.fixture
def jobs(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Writes the module that workers run: what the test's file calls `JOBS`."""
    (tmp_path / "jobs.py").write_text(request.module.JOBS)
