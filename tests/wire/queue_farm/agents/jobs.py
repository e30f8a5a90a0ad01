"""An app of Tenure that does what agents/worker.js does."""

from __future__ import annotations

import asyncio
import json
import os
import random
from functools import cache

from redis.asyncio import Redis

from tenure import Job, QueueFarm, Tenure

URL = os.environ["TENURE_URL"]
NAME = f"tenure-{os.environ['HISTORY_NAME']}"
app = Tenure(URL, protocol=QueueFarm())


@cache
def history() -> Redis:
    return Redis.from_url(URL)


@app.handler("default", batch=2, one_lane=True)
async def handle(jobs: list[Job]) -> None:
    lane = jobs[0].lane
    numbers = [json.loads(job.payload)["n"] for job in jobs]

    async def write(what: str) -> None:
        await history().rpush(f"history:{lane}", *(f"{what} {n} {NAME}" for n in numbers))

    await write("start")
    await asyncio.sleep(random.random() * 0.02)
    if random.random() < 0.05:
        await write("fail")
        raise ValueError("again")
    await write("end")
