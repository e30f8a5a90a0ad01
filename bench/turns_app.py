"""The app of `bench.turns`: it runs in the checkouts that are compared."""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import socket
import sys
import time
from pathlib import Path

import redis

from tenure import Tenure

URL, REPORT = os.environ["TURNS_URL"], os.environ["TURNS_REPORT"]
JOBS = int(os.environ["TURNS_JOBS"])
WORKERS = int(os.environ["TURNS_WORKERS"])
WARM = 5
GAP_S = 0.03
PING_S = 120.0
app = Tenure(URL)
app.queue_defaults("turns", result_ttl=0)
ran = bytearray(JOBS)
count = 0
began: tuple[float, float, float] = (0.0, 0.0, 0.0)


def clocks() -> tuple[float, float, float]:
    """Seconds: by the wall, of this process, of Redis."""
    with redis.Redis.from_url(URL) as client:
        info = client.info("cpu")
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return time.monotonic(), usage.ru_utime + usage.ru_stime, info["used_cpu_user"] + info["used_cpu_sys"]


def ended(number: int) -> None:
    """Count a job; measure at the first and at the last."""
    global count, began
    count += 1
    ran[number] += 1
    if count == 1:
        began = clocks()
    elif count == JOBS:
        wall, worker, server = (now - before for now, before in zip(clocks(), began, strict=True))
        found = {"worker_us": worker / JOBS * 1e6, "redis_us": server / JOBS * 1e6, "rate": JOBS / wall}
        Path(REPORT).write_text(json.dumps(found | {"ran_once": ran.count(1)}))


@app.task(queue="turns")
async def plain(number: int) -> None:
    ended(number)


@app.task(queue="turns")
async def sleep(number: int) -> None:
    await asyncio.sleep(0)
    ended(number)


@app.task(queue="turns", name="dict")
async def of_dict(number: int, about: dict[str, object]) -> None:
    ended(number)


@app.task(queue="turns")
def sync(number: int) -> None:
    ended(number)


@app.task(queue="turns")
async def ping(number: int) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as pinger:
        pinger.sendto(str(time.monotonic()).encode(), REPORT)


def run_pings() -> None:
    """Run jobs one at a time, after some to warm up and a line from outside. Write how long each waited, in ms."""
    gaps = random.Random(1)  # noqa: S311
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as started, redis.Redis.from_url(URL) as client:
        started.bind(REPORT)
        started.settimeout(PING_S)

        def wait(number: int) -> float:
            time.sleep(gaps.uniform(0.5, 1.5) * GAP_S)
            at = time.monotonic()
            ping.enqueue(number)
            return (float(started.recv(64)) - at) * 1e3

        for number in range(WARM):
            wait(number)
        until = time.monotonic() + PING_S
        while client.info("clients")["blocked_clients"] < WORKERS and time.monotonic() < until:
            time.sleep(0.1)
        sys.stdout.write("warm\n")
        sys.stdout.flush()
        sys.stdin.readline()
        sys.stdout.write(json.dumps([wait(number) for number in range(JOBS)]) + "\n")


def fill(kind: str) -> None:
    about: dict[str, object] = {"name": "Ann", "tags": ["a", "b"], "size": 7}
    match kind:
        case "plain":
            plain.enqueue_many(map(plain.call, range(JOBS)))
        case "sleep":
            sleep.enqueue_many(map(sleep.call, range(JOBS)))
        case "dict":
            of_dict.enqueue_many(of_dict.call(number, about) for number in range(JOBS))
        case "sync":
            sync.enqueue_many(map(sync.call, range(JOBS)))


def settled() -> tuple[int, int]:
    """How many jobs were completed, and how many are left."""
    with app:
        view = app.inspect.queue("turns")
    return view.totals.get("completed", 0), sum(view.counts.values())


if __name__ == "__main__":
    if sys.argv[1] == "check":
        sys.stdout.write(json.dumps(settled()))
    elif sys.argv[1] == "ping":
        with app:
            run_pings()
    else:
        with app:
            fill(sys.argv[1])
