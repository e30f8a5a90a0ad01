"""What the dashboard costs with many jobs: how long its pages take, their size, and the calls of ten viewers.

    python -m bench.dashboard [--jobs 1000000] [--looks 20]

Half of the jobs have failed, with 20 different errors. It prints a table; the goals are those of the issue that the
dashboard was made for: p95 of a page 100 ms, of Errors 300 ms, five calls a second for ten viewers, 80 MB.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import threading
import time
from contextlib import closing
from http.client import HTTPConnection
from typing import Final

from tenure import Tenure
from tenure.core.job import ErrorInfo
from tenure.core.outcome import Failed
from tenure.core.steps import Command, Steps
from tenure.redis.embedded.binary import find_server
from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer

QUEUE: Final = "orders"
BATCH: Final = 500
VIEWERS: Final = 10
WATCH_S: Final = 20.0
FRAGMENT: Final = {"Accept": "text/vnd.tenure.fragment+html"}


def fill(app: Tenure, driver: SyncDriver, jobs: int) -> str:
    """Enqueue the jobs and fail half of them. Return the id of one that waits."""
    queue, engine = app.queue(QUEUE), app.engine
    for start in range(0, jobs, 5_000):
        queue.enqueue_many([b'{"customer": 7}'] * min(5_000, jobs - start))
    failed = 0
    while failed < jobs // 2:
        leases = driver.run(engine.lease("w", (QUEUE,), BATCH, slots=BATCH)).leases
        driver.run(engine.settle([(one, Failed(error(failed + n))) for n, one in enumerate(leases)]))
        failed += len(leases)
    return app.inspect.page(QUEUE, "ready", limit=1).jobs[0].id


def error(number: int) -> ErrorInfo:
    line = number % 20
    text = f'  File "/app/shop.py", line {line}, in order\n    raise ValueError({number})\nValueError: {number}'
    return ErrorInfo("ValueError", f"no stock for order {number}", text)


def get(port: int, path: str, headers: dict[str, str]) -> int:
    """Return the size of a page."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", f"/{path}", headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    assert answer.status == 200, (path, body[:200])
    connection.close()
    return len(body)


def calls(driver: SyncDriver) -> int:
    """Return how many scripts Redis has run: each is a call. The commands inside are not counted."""
    info = driver.run(_info())
    return sum(map(int, re.findall(r"cmdstat_eval(?:sha)?:calls=(\d+)", info)))


def _info() -> Steps[str]:
    return (yield Command(("INFO", "commandstats"))).decode()  # type: ignore[no-any-return]


def watch(port: int, path: str, until: float) -> None:
    """Look at a page as a browser does: read it again at each change."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/api/v1/events")
    stream = connection.getresponse()
    while time.monotonic() < until:
        if stream.readline().startswith(b"data: "):
            get(port, path, FRAGMENT)
    connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--looks", type=int, default=20)
    given = parser.parse_args()
    with (
        RedisServer(find_server(), aof=False) as server,
        closing(SyncDriver(server.url)) as driver,
        Tenure(server.url) as app,
    ):
        waiting = fill(app, driver, given.jobs)
        words = [sys.executable, "-m", "tenure", "dashboard", "--port", "0"]
        environment = os.environ | {"TENURE_URL": server.url}
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment) as process:
            assert process.stderr is not None
            port = int(re.findall(r":(\d+)/", process.stderr.readline())[0])
            failed = app.inspect.page(QUEUE, "failed", limit=1).jobs[0].id
            paths = {
                "Overview": "", "Queues": "queues", "a queue": f"queues/{QUEUE}", "Jobs": "jobs?state=failed",
                "Jobs by error": "jobs?state=failed&error=ValueError&size=100", "Errors": "errors",
                "a failed job": f"jobs/{QUEUE}/{failed}", "a job that waits": f"jobs/{QUEUE}/{waiting}",
                "Lanes": "lanes", "Schedules": "schedules", "Limits": "limits", "Workers": "workers", "Audit": "audit",
            }  # fmt: skip
            print(f"{given.jobs:,} jobs, half of them failed\n\n| page | p95 in ms | bytes |\n|---|---|---|")
            for name, path in paths.items():
                times, size = [], 0
                for _ in range(given.looks):
                    time.sleep(1.1 if name == "Errors" else 0.2)  # an answer is kept for a second or two
                    began = time.monotonic()
                    size = get(port, path, {})
                    times.append(time.monotonic() - began)
                print(f"| {name} | {1_000 * sorted(times)[int(0.95 * len(times)) - 1]:.0f} | {size:,} |")
            before, until = calls(driver), time.monotonic() + WATCH_S
            pages = list(paths.values())
            threads = [threading.Thread(target=watch, args=(port, pages[n], until)) for n in range(VIEWERS)]
            for thread in threads:
                thread.start()
            while time.monotonic() < until:
                app.queue(QUEUE).enqueue(b"x")
                time.sleep(0.5)
            own = int(WATCH_S / 0.5)
            print(f"\ncalls a second for {VIEWERS} viewers: {(calls(driver) - before - own) / WATCH_S:.1f}")
            for thread in threads:
                thread.join()
            with open(f"/proc/{process.pid}/status") as file:
                print("memory of the dashboard, kB:", re.findall(r"VmRSS:\s+(\d+)", file.read())[0])
            process.terminate()


if __name__ == "__main__":
    main()
