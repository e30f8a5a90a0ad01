"""The worker of tenure.compat.queue_farm: drains jobs and prints how long that took, or with 0 waits for jobs."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

from tenure.compat.queue_farm import AsyncWorker


async def main(url: str, concurrent: int, total: int) -> None:
    first, count = 0.0, 0

    async def handle(queue: str, jobs: list[Any]) -> None:
        nonlocal first, count
        first = first or time.perf_counter()
        count += len(jobs)
        if count == total:
            print(time.perf_counter() - first, flush=True)
            await worker.stop()

    worker = AsyncWorker(handle, url, concurrent=concurrent)
    await worker.listen()


asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
