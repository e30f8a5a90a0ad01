"""Let each queue work while workers are killed and stopped, connections cut and Redis killed, and judge what was run.

    python -m bench.histories [--only NAME,...] [--faults kill,stop,...] [--seed N] [--jobs N] [--limit SECONDS] [--dry]

Every peer has its safest settings and three workers. The jobs themselves write down when they begin and end, outside of
Redis. What is run replaces its rows in results/histories.json and in the table of docs/explanation/proof.md; the
histories are kept beside them with --keep. --dry only prints.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import uuid4

from bench.environments import CACHE, Unavailable, known_pins
from bench.histories_table import FAULTS, NAMES, Row, keep
from bench.history import judge
from bench.journal import parse
from bench.processes import Workers, end_with_all_that_was_started, folder_of_a_scene, members_of, signal_all
from bench.remains import found
from bench.roster import Adapter, adapters
from tenure.core.errors import RedisError
from tenure.testing.server import RedisServer, available_binaries

SAFEST: Final = {
    "rq": "maintained",
    "saq": "sweep",
    "arq": "timeout",
    "dramatiq": "prompt",
    "celery": "visible",
    "taskiq": "idle",
    "streaq": "idle",
}
"""The variant of each peer that loses least. The others have one only."""
WORKERS: Final = 3
PAGE: Final = 20
"""Jobs for one program that enqueues."""
PUT_S: Final = 45.0
START_S: Final = 90.0
SECONDS: Final = (0.2, 3.0)
"""How long jobs run."""
TIMES: Final = {"kill": 6, "stop": 2, "cut": 12, "everysec": 2, "always": 2, "memory": 3}
"""How often each fault comes."""
STOP_S: Final = 45.0
"""How long a worker stands still: longer than the leases of most."""
MEMORY_S: Final = 3.0
CALM_S: Final = 20.0
"""How long no job may begin after the last of them has ended: a second run would come within this time."""
LOOK_S: Final = 0.5


@dataclass
class Scene:
    """A server, the workers of a peer, the jobs that were put, and the faults that came."""

    adapter: Adapter
    fault: str
    server: RedisServer
    folder: Path
    draw: random.Random
    environment: dict[str, str] = field(init=False)
    workers: Workers = field(init=False)
    names: list[str] = field(default_factory=list)
    put: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    kills: dict[str, float] = field(default_factory=dict)
    stopped: set[str] = field(default_factory=set)
    resumes: list[threading.Timer] = field(default_factory=list)
    came: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.journal = self.folder / "journal"
        self.journal.touch()
        variant = SAFEST.get(self.adapter.name, "default")
        more = {"BENCH_JOURNAL": str(self.journal)}
        self.environment = self.adapter.environment(self.server.tcp_url, variant, more)
        self.workers = Workers(self.adapter, self.environment, self.folder)

    def enqueue(self, count: int) -> None:
        """Put some jobs by a program of the peer. Without its word that it did, they are unknown."""
        jobs = [(f"t{uuid4().hex}", round(self.draw.uniform(*SECONDS), 2)) for _ in range(count)]
        tokens = [token for token, _ in jobs]
        with contextlib.suppress(subprocess.TimeoutExpired):
            done = subprocess.run(
                self.adapter.command("these", "mark"),
                input=json.dumps(jobs).encode(),
                env=self.environment,
                cwd=self.folder,
                capture_output=True,
                timeout=PUT_S,
                check=False,
            )
            if done.returncode == 0:
                self.put += tokens
                return
        self.unknown += tokens

    def text(self) -> str:
        return self.journal.read_text()

    def ended(self) -> set[str]:
        return {line.token for line in parse(self.text()) if line.what == "end"}

    def harm(self) -> None:
        """Let the fault come once."""
        self.came += 1
        HARM[self.fault](self)

    def kill(self) -> None:
        """SIGKILL to a worker with all its processes. Its supervisor starts another at once."""
        with self.lock:
            name = self.draw.choice(self.names)
            self.kills[name] = time.monotonic()
            self.replace(name)

    def replace(self, name: str) -> None:
        self.names.remove(name)
        self.workers.kill(name)
        self.names.append(self.workers.start())

    def supervise(self, over: threading.Event) -> None:
        """Start another worker for each that has ended by itself, as systemd or a container does."""
        while not over.wait(LOOK_S):
            with self.lock:
                for name in self.workers.ended():
                    self.kills[name] = time.monotonic()
                    self.replace(name)

    def stop(self) -> None:
        """SIGSTOP to a worker with all its processes, and SIGCONT later."""
        name = self.draw.choice([name for name in self.names if name not in self.stopped])
        self.stopped.add(name)
        signal_all(set(members_of(name)), signal.SIGSTOP)
        self.resumes.append(threading.Timer(STOP_S, lambda: signal_all(set(members_of(name)), signal.SIGCONT)))
        self.resumes[-1].start()

    def cut(self) -> None:
        """Redis closes all connections, of workers and of programs that enqueue."""
        self.server.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        self.server.command("CLIENT", "KILL", "TYPE", "pubsub", "SKIPME", "yes")

    def restart(self) -> None:
        """Redis dies by SIGKILL, and comes back with what its file has."""
        self.server.kill()
        time.sleep(1.0)
        self.server.start()

    def fill(self) -> None:
        """Redis refuses to write for a while: its memory is full."""
        self.server.command("CONFIG", "SET", "maxmemory", "1")
        time.sleep(MEMORY_S)
        self.server.command("CONFIG", "SET", "maxmemory", "0")


HARM: Final[dict[str, Callable[[Scene], None]]] = {
    "kill": Scene.kill,
    "stop": Scene.stop,
    "cut": Scene.cut,
    "everysec": Scene.restart,
    "always": Scene.restart,
    "memory": Scene.fill,
}


def play(adapter: Adapter, fault: str, seed: int, jobs: int, limit: float, kept: Path | None) -> Row:
    """One peer under one kind of fault. Raises `RuntimeError` when its workers run nothing at all."""
    newest = list(available_binaries().values())[-1]
    sync = ["--appendfsync", "always"] if fault == "always" else []
    with folder_of_a_scene() as folder, RedisServer(newest, tcp=True, args=sync) as server:
        scene = Scene(adapter, fault, server, folder, random.Random(seed))  # noqa: S311 - not a secret
        with scene.workers, contextlib.ExitStack() as stack:
            scene.names += [scene.workers.start() for _ in range(WORKERS)]
            over = threading.Event()
            supervisor = threading.Thread(target=scene.supervise, args=(over,))
            supervisor.start()
            stack.callback(supervisor.join)
            stack.callback(over.set)
            scene.enqueue(WORKERS)
            _wait(lambda: len(scene.ended()) >= WORKERS, START_S)
            if not scene.ended():
                raise RuntimeError(f"{adapter.name} ran nothing:\n{scene.workers.last_words()}")
            with _faults(scene, jobs):
                for _ in range(jobs // PAGE):
                    scene.enqueue(PAGE)
            _wait(lambda: scene.ended().issuperset(scene.put), limit)
            for resume in scene.resumes:
                resume.join()
            _wait(_Calm(scene), CALM_S * 3)
            left = found(server, set(scene.put) - scene.ended())
            text = scene.text()
    if kept is not None:
        kept.mkdir(exist_ok=True)
        puts = "".join(f"put {token} - 0\n" for token in scene.put)
        (kept / f"{adapter.name}-{fault}.gz").write_bytes(gzip.compress((puts + text).encode(), mtime=0))
    verdict = judge(parse(text), scene.put, scene.unknown, left, scene.kills, scene.stopped)
    return Row(adapter.name, fault, seed, scene.came, limit, time.strftime("%Y-%m-%d"), verdict)


class _Calm:
    """Whether nothing has begun or ended for a while."""

    def __init__(self, scene: Scene) -> None:
        self._scene, self._size, self._since = scene, -1, time.monotonic()

    def __call__(self) -> bool:
        size = self._scene.journal.stat().st_size
        if size != self._size:
            self._size, self._since = size, time.monotonic()
        return time.monotonic() - self._since >= CALM_S


@contextlib.contextmanager
def _faults(scene: Scene, jobs: int) -> Iterator[None]:
    """Let faults come while jobs are put and run, at moments that the seed draws; the last soon after the last put."""
    times = TIMES[scene.fault]
    gaps = [scene.draw.uniform(1.0, 2.0) * max(jobs // PAGE, times) / times for _ in range(times)]

    def harm() -> None:
        for gap in gaps:
            time.sleep(gap)
            with contextlib.suppress(RedisError):  # the look at a server that another fault has just ended
                scene.harm()

    thread = threading.Thread(target=harm)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _wait(condition: Callable[[], bool], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(LOOK_S)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.histories", description=__doc__)
    parser.add_argument("--only", default=",".join(NAMES), metavar="NAME,...", help=f"some of {', '.join(NAMES)}")
    parser.add_argument("--faults", default=",".join(FAULTS), metavar="FAULT,...", help=f"some of {', '.join(FAULTS)}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=120, help="jobs of a scene (120)")
    parser.add_argument("--limit", type=float, default=100.0, help="seconds to wait for jobs after the faults (100)")
    parser.add_argument("--cache", type=Path, default=CACHE, help="where the environments are (.bench)")
    parser.add_argument("--keep", type=Path, help="a folder for the histories")
    parser.add_argument("--dry", action="store_true", help="write nothing")
    asked = parser.parse_args()
    names, faults = asked.only.split(","), asked.faults.split(",")
    if unknown := [*(set(names) - set(NAMES)), *(set(faults) - set(FAULTS))]:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    if not PAGE <= asked.jobs <= 10_000 or not 0 < asked.limit <= 3_600:
        parser.error(f"--jobs must be {PAGE} to 10,000, --limit at most an hour")
    name_of_run = uuid4().hex
    end_with_all_that_was_started(name_of_run)
    failed = []
    for name in names:
        try:
            [adapter] = adapters([name], known_pins(), asked.cache, name_of_run)
            facts = adapter.facts()
        except (RuntimeError, Unavailable) as error:
            failed.append(name)
            print(f"{name}: {error}", file=sys.stderr)
            continue
        variant = SAFEST.get(name, "default")
        settings = next(one.settings for one in facts.variants if one.name == variant)
        for fault in faults:
            try:
                row = play(adapter, fault, asked.seed, asked.jobs, asked.limit, asked.keep)
            except RuntimeError as error:
                failed.append(f"{name} {fault}")
                print(f"{name} {fault}: {error}", file=sys.stderr)
                continue
            keep(row, facts, settings, dry=asked.dry)
    if failed:
        raise SystemExit(f"not observed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
