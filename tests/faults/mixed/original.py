"""A worker of an original as a process of its own: `python -m tests.faults.mixed.original hworker URL`. It ends when it
loses its connection."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.faults.mixed.jobs import TIMEOUT_S, WORK_S, note
from tests.wire.hworker.original import Original as Hworker
from tests.wire.worqr.original import Original as Worqr

POLL_S: Final = 0.01
BEAT_S: Final = 1.0
WATCH_S: Final = 3.0


def handle(payload: object) -> None:
    n = int(str(payload))
    note("start", n)
    time.sleep(WORK_S)
    note("end", n)


def hworker(original: Hworker) -> bool:
    """One step of the worker. Returns whether there was a job."""
    if (job := original.pop()) is None:
        return False
    if job != b"false":
        handle(original.decode(job))
        original.succeed(job)
    return True


def worqr(original: Worqr) -> bool:
    if (held := original.dequeue("default")) is None:
        return False
    pid, task = held
    handle(task)
    original.finish(pid)
    return True


def run(step: Callable[[], bool], beat: Callable[[], object], watch: Callable[[], object]) -> None:
    """Work for ever. `beat` and `watch` are called every so often between two jobs."""
    beat_at = watch_at = time.monotonic()
    while True:
        now = time.monotonic()
        if now >= beat_at:
            beat_at = now + BEAT_S
            beat()
        if now >= watch_at:
            watch_at = now + WATCH_S
            watch()
        if not step():
            time.sleep(POLL_S)


def main() -> None:
    kind, url = sys.argv[1:]
    db = redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0))
    if kind == "hworker":
        pool = Hworker(db, "pool", timeout_s=TIMEOUT_S)
        run(lambda: hworker(pool), db.ping, pool.monitor)
    client = Worqr(db, f"original-{os.getpid()}")
    client.start_worker()
    client.start_work("default")
    run(lambda: worqr(client), client.heartbeat, client.cleanup_workers)


if __name__ == "__main__":
    try:
        main()
    except redis.RedisError as error:
        sys.exit(f"the connection is lost: {type(error).__name__}")
