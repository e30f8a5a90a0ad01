"""One peer on a fresh Redis: put jobs, start workers, and wait for what they note. Every process has a time limit."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from bench.journal import Journal, Line
from bench.processes import Workers, folder_of_a_scene
from bench.roster import Adapter
from tenure.testing.server import RedisServer

START_S: Final = 60.0
"""A worker that has not run its first job by then is not set up rightly."""
PUT_S: Final = 240.0
"""For one process that puts jobs."""
TOKEN: Final = "x" * 88
"""Makes the arguments of a job, as JSON, 100 bytes: `["", TOKEN, 0.0]`."""


class Failed(Exception):
    """A peer did not do what it should have: the figure is missing, for this reason. `said`: its own last words, which
    are for whoever runs it and not for the page."""

    def __init__(self, reason: str, said: str = "") -> None:
        super().__init__(reason)
        self.said = said


@dataclass(frozen=True)
class Timed:
    """What `enqueue` of an adapter answers."""

    seconds: float


@dataclass(frozen=True)
class Pinged:
    """What `ping` of an adapter answers: when each job was put."""

    sent: tuple[float, ...]


class Stage:
    """Made by `staged`. `workers` are killed, and all that they started, when it ends."""

    def __init__(self, adapter: Adapter, server: RedisServer, folder: Path, environment: dict[str, str]) -> None:
        self.adapter = adapter
        self.server = server
        self.journal = Journal(folder / "journal")
        self._folder = folder
        self._environment = environment
        self.workers = Workers(adapter, environment, folder)

    def put(self, kind: str, count: int, *, bulk: bool, warm: int = 0) -> float:
        """Put jobs; the seconds that it took."""
        words = ("enqueue", kind, str(count), *(["--bulk"] if bulk else []), "--warm", str(warm))
        return msgspec.json.decode(self._ask(*words), type=Timed).seconds

    def ping(self, kind: str, count: int) -> tuple[float, ...]:
        """Put jobs one at a time; when each was put."""
        return msgspec.json.decode(self._ask("ping", kind, str(count)), type=Pinged).sent

    def these(self, kind: str, jobs: Sequence[tuple[str, float]], gap: float | None) -> tuple[float, ...]:
        """Put these jobs (token, seconds), with one call or with gaps; when each was put."""
        words = ("these", kind, *(["--gap", str(gap)] if gap is not None else []))
        return msgspec.json.decode(self._ask(*words, given=msgspec.json.encode(jobs)), type=Pinged).sent

    def wait(self, what: str, seconds: float, token: str = TOKEN) -> Line:
        """The line of the journal, which must come."""
        line = self.journal.wait(what, token, 1, seconds)
        if line is None:
            missing = "had not run all jobs" if what == "end" else "had not run a job"
            raise Failed(f"its worker {missing} after {seconds:g} s", self.workers.last_words())
        return line

    def _ask(self, *words: str, given: bytes = b"") -> bytes:
        command = self.adapter.command(*words)
        try:
            # Not BENCH_COUNT: what a producer imports must not count the jobs as its own.
            environment = {name: value for name, value in self._environment.items() if name != "BENCH_COUNT"}
            done = subprocess.run(
                command,
                env=environment,
                cwd=self._folder,
                input=given,
                capture_output=True,
                timeout=PUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise Failed(f"putting jobs took more than {PUT_S:g} s") from error
        if done.returncode != 0:
            raise Failed("putting jobs failed", done.stderr.decode(errors="replace") + self.workers.last_words())
        return done.stdout.splitlines()[-1]


@contextmanager
def staged(
    adapter: Adapter,
    server: RedisServer,
    kind: str,
    *,
    count: int = 0,
    variant: str | None = None,
    is_dict: bool = False,
    seconds: float = 0.0,
) -> Iterator[Stage]:
    """A stage on an empty server. `count`: how many jobs its worker is to count; 0: it notes the end of each.
    `variant` None: the fast one. `is_dict`: the argument of the jobs is a dict, not text.
    `seconds`: how long each job waits."""
    server.flush()
    server.command("CONFIG", "RESETSTAT")
    with folder_of_a_scene() as folder:
        more = {
            "BENCH_JOURNAL": str(folder / "journal"),
            "BENCH_TOKEN": TOKEN,
            "BENCH_KIND": kind,
            "BENCH_COUNT": str(count),
            "BENCH_DICT": str(int(is_dict)),
            "BENCH_SECONDS": str(seconds),
        }
        stage = Stage(adapter, server, folder, adapter.environment(server.tcp_url, variant or adapter.fast, more))
        with stage.workers:
            yield stage
