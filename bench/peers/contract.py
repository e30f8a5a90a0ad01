"""What the adapter of a peer says: how to enqueue, how to start its worker, how it is set. Standard library only.

It runs in the peer's own environment, as `python -c "from contract import run; from rq_peer import PEER; run(PEER)"`,
so that a task has the same name where it is enqueued and where it runs, with one of:

    facts                          title, versions, variants and fast settings, as JSON
    enqueue KIND COUNT [--bulk]    put jobs, one by one or with the peer's own call for many; prints the seconds it took
            [--warm N]             and N more before that, which are not timed
    ping KIND COUNT                put one job at a time, each when the one before has run; prints when each was put
    these KIND [--gap SECONDS]     put the jobs on stdin ([[token, seconds], ...] as JSON), many at once or with gaps
    worker                         become the peer's worker

Jobs are of a kind: `mark` notes its start, sleeps and notes its end; `sync` and `async` do nothing, or wait for
`BENCH_SECONDS`. A worker that was
told how many of those will come (`BENCH_COUNT`) notes when the first and the last of them ran, so that a benchmark
knows how long they took; one that was not notes the end of each that names a journal.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

URL = "BENCH_URL"
VARIANT = "BENCH_VARIANT"
WORKER = "BENCH_WORKER"
JOURNAL = "BENCH_JOURNAL"
TOKEN = "BENCH_TOKEN"  # noqa: S105  (the name of a job, not a secret)
SECONDS = "BENCH_SECONDS"
COUNT = "BENCH_COUNT"
KIND = "BENCH_KIND"
DICT = "BENCH_DICT"
FAST = "fast"
"""The variant with the settings that make the peer fast; crash recovery is watched with the others."""
PING_GAP_S = (0.02, 0.06)
PING_WAIT_S = 15.0
KINDS = ("mark", "sync", "async")

Arguments = tuple[str, Any, float]
"""Journal, token, seconds: of every job. No job writes to the journal "". With `BENCH_DICT` the token is a dict."""
RECORD = {"user": 1729, "name": "thumbnail", "size": [640, 480], "crop": True, "tags": ["a", "b"], "ratio": 1.5}
"""About as long as a token, as JSON."""


@dataclass(frozen=True)
class Variant:
    """One way to set the peer up; `settings` is what the table says of it."""

    name: str
    settings: str


@dataclass(frozen=True)
class Peer:
    """A queue as the benchmarks see it. `enqueue(kind, jobs, bulk)` returns when all are in Redis; without `bulk` it
    takes each of the jobs when the one before is there.

    `fast`: what the variant of that name sets. `sweep`: variants with other fast settings; the first round finds the
    best one for each figure. `no_bulk`: why there is no call for many, `no_single`: for one.
    """

    title: str
    packages: tuple[str, ...]
    kinds: tuple[str, ...]
    variants: tuple[Variant, ...]
    enqueue: Callable[[str, Iterable[Arguments], bool], None]
    worker: Callable[[], list[str]]
    fast: str
    sweep: tuple[Variant, ...] = ()
    no_bulk: str = ""
    no_single: str = ""


def url() -> str:
    return os.environ[URL]


def variant() -> str:
    return os.environ.get(VARIANT, "default")


def is_fast() -> bool:
    """Whether the variant is one of the fast ones."""
    return variant().startswith(FAST)


def worker_name() -> str:
    return os.environ.get(WORKER, "worker")


def kind() -> str:
    """What kind of jobs a worker will get, for those that want to know."""
    return os.environ.get(KIND, "async")


def seconds() -> float:
    """How long a job waits."""
    return float(os.environ.get(SECONDS, "0"))


def is_dict() -> bool:
    """Whether the argument of a job is a dict."""
    return os.environ.get(DICT) == "1"


def counting() -> bool:
    return _last > 0


def program(name: str) -> str:
    """A command of this environment."""
    return str(Path(sys.executable).parent / name)


def note(journal: str, what: str, token: str) -> None:
    """One short write to a file opened for appending: lines of several processes never mix."""
    line = f"{what} {token} {worker_name()} {time.monotonic():.6f}\n"
    handle = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)


def mark(journal: str, token: str, seconds: float) -> None:
    note(journal, "start", token)
    time.sleep(seconds)
    note(journal, "end", token)


async def amark(journal: str, token: str, seconds: float) -> None:
    note(journal, "start", token)
    await asyncio.sleep(seconds)
    note(journal, "end", token)


_ended = itertools.count(1)
_last = int(os.environ.get(COUNT, "0"))


def _counted() -> None:
    number = next(_ended)  # one step of the interpreter, so threads do not disturb each other
    if number == 1:
        note(os.environ[JOURNAL], "start", os.environ[TOKEN])
    if number == _last:
        note(os.environ[JOURNAL], "end", os.environ[TOKEN])


def noop(journal: str, token: Any, seconds: float) -> None:
    if seconds:
        time.sleep(seconds)
    if _last:
        _counted()
    elif journal:
        note(journal, "end", token)


async def anoop(journal: str, token: Any, seconds: float) -> None:
    if seconds:
        await asyncio.sleep(seconds)
    if _last:
        _counted()
    elif journal:
        note(journal, "end", token)


def jobs_of(kind: str, count: int) -> list[Arguments]:
    """What to enqueue: of `mark`, each names the journal."""
    journal, token = os.environ.get(JOURNAL, ""), os.environ.get(TOKEN, "")
    return [(journal if kind == "mark" else "", RECORD if is_dict() else token, seconds())] * count


def pings(count: int, sent: list[float]) -> Iterator[Arguments]:
    """Jobs one at a time, each only when the one before has run and the worker has had time to be idle again."""
    journal = Path(os.environ[JOURNAL])
    draw = random.Random(count)  # noqa: S311  (not a secret)
    for number in range(count):
        time.sleep(draw.uniform(*PING_GAP_S))
        before = journal.stat().st_size if journal.exists() else 0
        sent.append(time.monotonic())
        yield str(journal), f"p{number}", 0.0
        until = time.monotonic() + PING_WAIT_S
        while not journal.exists() or journal.stat().st_size <= before:
            if time.monotonic() > until:
                raise TimeoutError(f"job {number} had not run after {PING_WAIT_S:g} s")
            time.sleep(0.002)


def these(peer: Peer, kind: str, gap: float | None) -> list[float]:
    """Put what stands on stdin; when each lay in the queue, as its put had ended then. To connect is not to wait."""
    journal = os.environ[JOURNAL]
    jobs = [(journal, token, seconds) for token, seconds in json.load(sys.stdin)]
    sent: list[float] = []

    def apart() -> Iterator[Arguments]:
        for job in jobs:
            time.sleep(gap or 0)
            yield job
            sent.append(time.monotonic())

    peer.enqueue(kind, jobs if gap is None else apart(), gap is None)
    return sent or [time.monotonic()] * len(jobs)


def run(peer: Peer) -> None:
    """The command line of an adapter."""
    parser = argparse.ArgumentParser(prog=peer.title)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("facts")
    commands.add_parser("worker")
    enqueue = commands.add_parser("enqueue")
    enqueue.add_argument("kind", choices=peer.kinds)
    enqueue.add_argument("count", type=int)
    enqueue.add_argument("--bulk", action="store_true")
    enqueue.add_argument("--warm", type=int, default=0)
    ping = commands.add_parser("ping")
    ping.add_argument("kind", choices=peer.kinds)
    ping.add_argument("count", type=int)
    given = commands.add_parser("these")
    given.add_argument("kind", choices=peer.kinds)
    given.add_argument("--gap", type=float)
    asked = parser.parse_args()
    if asked.command == "facts":
        print(json.dumps(facts(peer)))
    elif asked.command == "enqueue":
        print(json.dumps({"seconds": timed(peer, asked.kind, asked.count, asked.bulk, asked.warm)}))
    elif asked.command == "ping":
        sent: list[float] = []
        peer.enqueue(asked.kind, pings(asked.count, sent), False)
        print(json.dumps({"sent": sent}))
    elif asked.command == "these":
        print(json.dumps({"sent": these(peer, asked.kind, asked.gap)}))
    else:
        command = peer.worker()
        os.execv(command[0], command)  # noqa: S606  (the peer's own worker, in this very process)


def facts(peer: Peer) -> dict[str, object]:
    return {
        "title": peer.title,
        "kinds": peer.kinds,
        "versions": {package: version(package) for package in peer.packages},
        "variants": [asdict(one) for one in peer.variants],
        "fast": peer.fast,
        "sweep": [asdict(one) for one in peer.sweep],
        "no_bulk": peer.no_bulk,
        "no_single": peer.no_single,
    }


def timed(peer: Peer, kind: str, count: int, bulk: bool, warm: int) -> float:
    """The seconds that it took to put the jobs, without those before that make connections and load what is needed."""
    if warm:
        peer.enqueue(kind, jobs_of(kind, warm), bulk)
    jobs = jobs_of(kind, count)
    began = time.perf_counter()
    peer.enqueue(kind, jobs, bulk)
    return time.perf_counter() - began
