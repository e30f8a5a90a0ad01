"""Measure Tenure beside the npm package queue-farm: a drain of many queues, and the commands of an idle worker.

    python -m bench.farm [--queues N] [--jobs N] [--concurrent N] [--rounds N] [--idle SECONDS]

Each side has one worker process. The sides take turns within one run, so that only the ratios count. Needs Node, npm.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import redis

from tenure.redis.embedded.binary import find_server
from tenure.testing.server import RedisServer

ROOT: Final = Path(__file__).parents[1]
WORKERS: Final = Path(__file__).parent / "farm_workers"
PACKAGES: Final = ("queue-farm@2.2.1", "ioredis@4.31.0")
INSTALL_S: Final = 300
LIMIT_S: Final = 600
"""How long one drain may last."""
START_S: Final = 3.0
"""How long an idle worker runs before its commands are counted."""
SIDES: Final = ("original", "tenure")


def node_modules() -> Path:
    folder = ROOT / ".bench" / "original-queue-farm"
    if not (folder / "node_modules" / "ioredis").exists():
        npm = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), *PACKAGES]
        subprocess.run(npm, check=True, timeout=INSTALL_S)
    return folder / "node_modules"


def start(side: str, url: str, concurrent: int, total: int) -> subprocess.Popen[str]:
    args = (url, str(concurrent), str(total))
    command = (sys.executable, str(WORKERS / "tenure_worker.py"), *args)
    env = dict(os.environ)
    if side == "original":
        command, env["NODE_PATH"] = ("node", str(WORKERS / "original_worker.js"), *args), str(node_modules())
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)


def fill(client: redis.Redis, queues: int, jobs: int) -> None:
    """Push jobs as the original does."""
    for queue in range(queues):
        pipeline = client.pipeline()
        pipeline.sadd("queue-farm:active", f"user:{queue}")
        for job in range(jobs):
            fields: dict[Any, Any] = {
                "queuedAt": 1,
                "data": '{"n":1}',
                "maxAttempts": 3,
                "timeout": 30_000,
                "managerId": "bench",
            }
            pipeline.hset(f"queue-farm:job:{queue}.{job}", mapping=fields)
            pipeline.lpush(f"queue-farm:queue:user:{queue}", f"{queue}.{job}")
        pipeline.execute()


def drain_s(side: str, server: RedisServer, client: redis.Redis, options: argparse.Namespace) -> float:
    client.flushall()
    fill(client, options.queues, options.jobs)
    worker = start(side, f"redis://127.0.0.1:{server.port}/0", options.concurrent, options.queues * options.jobs)
    try:
        return float(worker.communicate(timeout=LIMIT_S)[0])
    finally:
        worker.kill()
        worker.wait()


def idle_commands(side: str, server: RedisServer, client: redis.Redis, options: argparse.Namespace) -> int:
    """How many commands a worker sends while queues are active, but empty. The scripts' own commands count as well."""
    client.flushall()
    names = [f"user:{queue}" for queue in range(options.queues)]
    client.sadd("queue-farm:active", *names)
    worker = start(side, f"redis://127.0.0.1:{server.port}/0", options.concurrent, 0)
    try:
        time.sleep(START_S)
        client.sadd("queue-farm:active", *names)
        before = client.info("stats")["total_commands_processed"]
        time.sleep(options.idle)
        return int(client.info("stats")["total_commands_processed"]) - int(before)
    finally:
        worker.kill()
        worker.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--queues", type=int, default=1_000)
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--concurrent", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--idle", type=float, default=20.0)
    options = parser.parse_args()
    node_modules()
    with RedisServer(find_server(), aof=False, tcp=True) as server, redis.Redis(port=server.port) as client:
        for what, measure in (("drain, s", drain_s), ("idle, commands", idle_commands)):
            found: dict[str, list[float]] = {side: [] for side in SIDES}
            for _ in range(options.rounds):
                for side in SIDES:
                    found[side].append(measure(side, server, client, options))
            original, ours = (statistics.median(found[side]) for side in SIDES)
            print(f"{what}: original {original:.4g}, tenure {ours:.4g}, ratio {original / ours:.1f}", flush=True)


if __name__ == "__main__":
    main()
