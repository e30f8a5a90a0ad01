"""What the adapter of a peer says: how to enqueue, how to start its worker, how it is set. Standard library only.

It runs in the peer's own environment, as `python -c "from contract import run; from rq_peer import PEER; run(PEER)"`,
so that a task has the same name where it is enqueued and where it runs, with one of:

    facts                          title, versions and variants, as JSON
    enqueue KIND COUNT [--bulk]    put jobs, one by one or with the peer's own call for many; prints the seconds it took
    worker                         become the peer's worker

Jobs are of a kind: `mark` notes its start, sleeps and notes its end; `sync` and `async` do nothing, but the last of
many notes its end, which is how a benchmark knows that all are done.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

URL = "BENCH_URL"
VARIANT = "BENCH_VARIANT"
WORKER = "BENCH_WORKER"
JOURNAL = "BENCH_JOURNAL"
TOKEN = "BENCH_TOKEN"  # noqa: S105  (the name of a job, not a secret)
SECONDS = "BENCH_SECONDS"
KINDS = ("mark", "sync", "async")

Arguments = tuple[str, str, float]
"""Journal, token, seconds: of every job. A journal of "" is written to by nobody."""


@dataclass(frozen=True)
class Variant:
    """One way to set the peer up; `settings` is what the table says of it."""

    name: str
    settings: str


@dataclass(frozen=True)
class Peer:
    """A queue as the benchmarks see it. `enqueue(kind, jobs, bulk)` returns when all are in Redis."""

    title: str
    packages: tuple[str, ...]
    kinds: tuple[str, ...]
    variants: tuple[Variant, ...]
    enqueue: Callable[[str, Sequence[Arguments], bool], None]
    worker: Callable[[], list[str]]


def url() -> str:
    return os.environ[URL]


def variant() -> str:
    return os.environ.get(VARIANT, "default")


def worker_name() -> str:
    return os.environ.get(WORKER, "worker")


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


def noop(journal: str, token: str, seconds: float) -> None:
    if journal:
        note(journal, "end", token)


async def anoop(journal: str, token: str, seconds: float) -> None:
    if journal:
        note(journal, "end", token)


def jobs_of(kind: str, count: int) -> list[Arguments]:
    """What to enqueue: every `mark` is noted, of the others only the last."""
    journal, token = os.environ.get(JOURNAL, ""), os.environ.get(TOKEN, "")
    seconds = float(os.environ.get(SECONDS, "0"))
    if kind == "mark":
        return [(journal, token, seconds)] * count
    return [("", token, seconds)] * (count - 1) + [(journal, token, seconds)]


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
    asked = parser.parse_args()
    if asked.command == "facts":
        versions = {package: version(package) for package in peer.packages}
        variants = [asdict(one) for one in peer.variants]
        print(json.dumps({"title": peer.title, "kinds": peer.kinds, "versions": versions, "variants": variants}))
    elif asked.command == "enqueue":
        jobs = jobs_of(asked.kind, asked.count)
        began = time.perf_counter()
        peer.enqueue(asked.kind, jobs, asked.bulk)
        print(json.dumps({"seconds": time.perf_counter() - began}))
    else:
        command = peer.worker()
        os.execv(command[0], command)  # noqa: S606  (the peer's own worker, in this very process)
