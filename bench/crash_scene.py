"""One job, one worker killed in the middle of it, and what happens then."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from uuid import uuid4

from bench.journal import Journal, Line
from bench.processes import Workers, folder_of_a_scene
from bench.remains import remains
from bench.roster import Adapter
from tenure.redis.embedded.binary import find_server
from tenure.testing.server import RedisServer

Scene = Literal["restarted", "second"]
SCENES: Final[tuple[Scene, ...]] = ("restarted", "second")
"""A new worker is started at once, as a supervisor does; or none, but a second worker was there all along."""

Outcome = Literal["again", "lost", "not yet"]

JOB_S: Final = 5.0
KILL_AFTER_S: Final = 1.5
"""How long the job has been running when its worker is killed."""
SETTLE_S: Final = 5.0
"""After the first job went through: time for the second worker, which was started with the first, to be up too."""
START_S: Final = 90.0
"""A worker that has not run its first job by then is not set up rightly: an error, not an outcome."""
LOST_AFTER_S: Final = 15.0
"""Nothing of the job was in Redis for so long, and its worker is dead: nobody can run it again."""
LOOK_S: Final = 1.0
ENQUEUE_S: Final = 60.0


@dataclass(frozen=True)
class Observation:
    """What was seen: `seconds` from the kill to the second start; `limit` how long was waited for it at most."""

    outcome: Outcome
    seconds: float | None
    finished: bool
    limit: float
    remains: tuple[str, ...]


class Stage:
    """A Redis server, a journal and the workers of one scene."""

    def __init__(self, adapter: Adapter, variant: str, server: RedisServer, folder: Path) -> None:
        self._adapter = adapter
        self._folder = folder
        self._environment = adapter.environment(server.tcp_url, variant, {})
        self.journal = Journal(folder / "journal")
        self.workers = Workers(adapter, self._environment, folder)

    def enqueue(self, seconds: float) -> str:
        """One job that notes its start, sleeps and notes its end; its token."""
        token = f"t{uuid4().hex}"
        job = {"BENCH_JOURNAL": str(self.journal.path), "BENCH_TOKEN": token, "BENCH_SECONDS": str(seconds)}
        done = subprocess.run(
            self._adapter.command("enqueue", "mark", "1"),
            env={**self._environment, **job},
            cwd=self._folder,
            capture_output=True,
            timeout=ENQUEUE_S,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{self._adapter.name} could not enqueue:\n{done.stderr.decode(errors='replace')}")
        return token

    def wait(self, what: str, token: str) -> Line:
        """The job's first line of this kind, which must come."""
        line = self.journal.wait(what, token, 1, START_S)
        if line is None:
            raise RuntimeError(f"{self._adapter.name}: no {what!r} of a job:\n{self.workers.last_words()}")
        return line


def observe(adapter: Adapter, variant: str, scene: Scene, limit: float) -> Observation:
    """Run one scene on a fresh server. Raises `RuntimeError` when the peer does not even run its first job."""
    with folder_of_a_scene() as folder, RedisServer(find_server(), tcp=True) as server:
        stage = Stage(adapter, variant, server, folder)
        with stage.workers as workers:
            # Before any worker: proves that a job of this peer can be found in Redis by its token.
            first = stage.enqueue(0)
            if not remains(server, first):
                raise RuntimeError(f"{adapter.name}: a waiting job was not found in Redis by its token")
            for _ in range(2 if scene == "second" else 1):
                workers.start()
            stage.wait("end", first)
            time.sleep(SETTLE_S)
            token = stage.enqueue(JOB_S)
            start = stage.wait("start", token)
            time.sleep(KILL_AFTER_S)
            killed_at = time.monotonic()
            workers.kill(start.worker)
            if scene == "restarted":
                workers.start()
            return watch(stage, server, token, killed_at, limit)


def watch(stage: Stage, server: RedisServer, token: str, killed_at: float, limit: float) -> Observation:
    """Wait for the second start, for the proof that there can be none, or for the limit."""
    seen_at, left = killed_at, remains(server, token)
    while time.monotonic() < killed_at + limit:
        again = stage.journal.wait("start", token, 2, LOOK_S)
        if again is not None:
            finished = stage.journal.wait("end", token, 1, JOB_S * 3) is not None
            return Observation("again", again.at - killed_at, finished, limit, ())
        left = remains(server, token)
        if left:
            seen_at = time.monotonic()
        elif time.monotonic() - seen_at > LOST_AFTER_S:
            return Observation("lost", None, False, limit, ())
    return Observation("not yet", None, False, limit, tuple(left))
