"""How idle clients of one queue share its items: ours and the original clients, in each pairing.

    python -m tests.wire.redis_work_queue.shares --rates 20,120,300 --seconds 5 --only worker+python

Prints each client's share of the mean. Exit status 1: a share is not between 0.7 and 1.3, or items are missing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from tenure.testing.server import RedisServer, available_binaries
from tests.wire.redis_work_queue.originals import Original

LEAST, MOST = 0.7, 1.3
PAIRINGS: Final = (
    "worker+python", "worker+node", "dropin+python", "dropin+node", "asyncio+python", "asyncio+node",
    "worker*4+python", "worker+python*4", "worker*2+dropin*2+python*2+node*2",
)  # fmt: skip
WARM_UP: Final = 200
READY_S: Final = 30.0
DRAIN_S: Final = 10.0
LEASE_S: Final = 10

APP: Final = """
import os
from tenure import Job, Tenure, RedisWorkQueue
app = Tenure(protocol=RedisWorkQueue(prefix="jobs"))
log = open(os.environ["SHARE_LOG"], "ab", buffering=0)
@app.handler("default")
async def run(job: Job) -> None:
    log.write(b"start %s\\n" % job.id.encode())
"""
DROPIN: Final = """
import os, redis
from tenure.compat.redis_work_queue import KeyPrefix, WorkQueue
db, queue = redis.Redis.from_url(os.environ["TENURE_URL"]), WorkQueue(KeyPrefix("jobs"))
with open(os.environ["SHARE_LOG"], "ab", buffering=0) as log:
    while True:
        if item := queue.lease(db, 10, True, 5):
            log.write(b"start %s\\n" % item.id().encode())
            queue.complete(db, item)
"""
ASYNCIO: Final = """
import asyncio, os, redis.asyncio
from tenure.compat.redis_work_queue import AsyncWorkQueue, KeyPrefix
async def main():
    db, queue = redis.asyncio.Redis.from_url(os.environ["TENURE_URL"]), AsyncWorkQueue(KeyPrefix("jobs"))
    with open(os.environ["SHARE_LOG"], "ab", buffering=0) as log:
        while True:
            if item := await queue.lease(db, 10, True, 5):
                log.write(b"start %s\\n" % item.id().encode())
                await queue.complete(db, item)
asyncio.run(main())
"""


@contextmanager
def client(kind: str, server: RedisServer, log: Path) -> Iterator[None]:
    """A process that works on the queue and writes a line for each item."""
    log.touch()
    if kind in ("python", "node"):
        original = Original(kind, server.url, "jobs")
        original.send("consume", str(log), LEASE_S)
        yield
        original.close()
        return
    environ = os.environ | {"TENURE_URL": server.url, "SHARE_LOG": str(log)}
    if kind == "worker":
        (log.parent / "shares_app.py").write_text(APP)
        command = [sys.executable, "-m", "tenure", "worker", "shares_app:app", "--concurrency", "1"]
    else:
        command = [sys.executable, "-c", {"dropin": DROPIN, "asyncio": ASYNCIO}[kind]]
    process = subprocess.Popen(command, cwd=log.parent, env=environ, stderr=subprocess.DEVNULL)
    yield
    process.terminate()
    process.wait()


def counts(logs: dict[str, Path], word: str) -> dict[str, int]:
    """How many items whose ids begin with this word each client has run."""
    return {name: log.read_text().count(f"start {word}") for name, log in logs.items()}


def add(server: RedisServer, id: str) -> None:
    server.command("SET", f"jobs:item:{id}", "x")
    server.command("LPUSH", "jobs:queue", id)


def until(condition: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def measure(server: RedisServer, logs: dict[str, Path], rate: int, seconds: float) -> dict[str, float]:
    """Add items at this rate. Returns each client's share of the mean; what was not run is missing in the shares."""
    total, word = round(rate * seconds), f"r{rate}-"
    began = time.monotonic()
    for number in range(total):
        time.sleep(max(0.0, began + number / rate - time.monotonic()))
        add(server, f"{word}{number}")
    until(lambda: sum(counts(logs, word).values()) >= total, DRAIN_S)
    return {name: count * len(logs) / total for name, count in counts(logs, word).items()}


def play(pairing: str, server: RedisServer, rates: list[int], seconds: float) -> bool:
    """Measure one pairing at each rate, and print it. Returns whether all shares are within the bounds."""
    good = True
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        logs: dict[str, Path] = {}
        for part in pairing.split("+"):
            kind, _, count = part.partition("*")
            for number in range(int(count or 1)):
                logs[f"{kind}{number}"] = folder / f"{kind}{number}.log"
                stack.enter_context(client(kind, server, logs[f"{kind}{number}"]))
        for number in range(WARM_UP):  # until each client has had an item
            add(server, f"warm-{number}")
            if until(lambda: all(counts(logs, "warm").values()), READY_S / WARM_UP):
                break
        for rate in rates:
            shares = measure(server, logs, rate, seconds)
            fine = all(LEAST <= share <= MOST for share in shares.values()) and round(sum(shares.values()), 6) == len(
                logs
            )
            good &= fine
            text = "  ".join(f"{name} {share:.2f}" for name, share in shares.items())
            print(f"{'' if fine else 'NOT '}fair  {pairing:36} {rate:4} a second   {text}", flush=True)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", default="20,120,300")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--only", default="", help="one pairing, as it is printed")
    asked: Any = parser.parse_args()
    rates = [int(rate) for rate in asked.rates.split(",")]
    results = []
    for pairing in [asked.only] if asked.only else PAIRINGS:
        with RedisServer(next(iter(available_binaries().values())), aof=False) as server:
            results.append(play(pairing, server, rates, asked.seconds))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
