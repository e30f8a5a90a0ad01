"""What schedules cost: a tick among few and many schedules, and how late ticks are with fifty workers.

    python -m bench.ticks [--seconds 60]

Starts a Redis of its own and prints a table in Markdown. The fifty workers are their schedulers and their maintenance
on one event loop, each with a connection of its own, and some of them die and are replaced.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, Final, cast
from zoneinfo import ZoneInfo

from tenure.core import limits
from tenure.core.job import NewJob
from tenure.core.outcome import Completed
from tenure.core.schedules import rules
from tenure.core.schedules.schedule import CatchUp, Overlap, ScheduleSpec, Tick
from tenure.core.steps import Steps
from tenure.engines.native import NativeEngine
from tenure.redis.aio import AsyncDriver
from tenure.redis.sync import SyncDriver
from tenure.runtime.context import WorkerContext
from tenure.runtime.jobs.reports import Reports
from tenure.runtime.ports import Env
from tenure.runtime.scheduler import Scheduler
from tenure.testing.server import RedisServer, available_binaries

QUEUE: Final = "bench"
FAR_MS: Final = 4_000_000_000_000
WORKERS: Final = 50
SCHEDULES: Final = 200
ROUNDS: Final = 50
BURST: Final = 5_000
SIZES: Final = (1_000, 100_000)


def spec(name: str, **changes: Any) -> ScheduleSpec:
    """A schedule of this bench."""
    return ScheduleSpec(name=name, queue=QUEUE, window_ms=limits.HOUR, overlap=Overlap.ALLOW, **changes)


def us_of(server: RedisServer, rounds: Iterable[Steps[Any]], run: Callable[[Steps[Any]], Any], each: int = 1) -> float:
    """Microseconds of Redis for one of `each` things that a round does, where nothing else kept the processor."""
    found: list[float] = []
    for steps in rounds:
        server.command("CONFIG", "RESETSTAT")
        run(steps)
        lines = server.command("INFO", "commandstats").decode().splitlines()
        found += [float(line.split("usec=")[1].split(",")[0]) for line in lines if line.startswith("cmdstat_evalsha:")]
    return sorted(found)[len(found) // 5] / each  # the first call of a script only sends its text


def cost_of_ticks(server: RedisServer, driver: SyncDriver, engine: NativeEngine) -> None:
    """Print the time of Redis for a tick, and for an enqueue, beside this many idle schedules."""
    sys.stdout.write(
        "| idle schedules | µs of a tick | of due schedules | of an enqueue | of maintenance |\n|---|---|---|---|---|\n"
    )
    made = 0
    for size in SIZES:
        for n in range(made, size):
            one = spec(f"idle {n}", every_ms=limits.MINUTE)
            driver.run(engine.put_schedule(one, rules.digest_of(one), "", FAR_MS, FAR_MS))
        made = size
        busy = [spec(f"busy {n}", every_ms=1_000, catch_up=CatchUp.ALL) for n in range(limits.PAGE_MAX)]
        planned = int(time.time()) * 1000 - limits.HOUR
        for one in busy:
            driver.run(engine.remove_schedule(QUEUE, one.name))
            driver.run(engine.put_schedule(one, rules.digest_of(one), "", planned, planned))
        driver.run(engine.due_schedules(QUEUE, 0))
        ticks = [ticks_at(busy, planned + 1_000 * n, f"{size} {n}") for n in range(ROUNDS)]
        ticking = us_of(server, (engine.tick(QUEUE, one) for one in ticks), driver.run, len(busy))
        looking = us_of(server, [engine.due_schedules(QUEUE, limits.PAGE_MAX)], driver.run, len(busy))
        jobs = [NewJob(QUEUE, f"plain {size} {n}", b"p") for n in range(20 * ROUNDS)]
        enqueueing = us_of(server, (engine.enqueue([job]) for job in jobs), driver.run)
        maintaining = us_of(server, (engine.maintain([QUEUE], ["t"]) for _ in range(ROUNDS)), driver.run)
        cells = (f"{size:,}", *(f"{us:.0f}" for us in (ticking, looking, enqueueing, maintaining)))
        sys.stdout.write(f"| {' | '.join(cells)} |\n")


def ticks_at(specs: Sequence[ScheduleSpec], at_ms: int, id: str) -> list[Tick]:
    """The ticks of these schedules, which come every second."""
    after = at_ms + 1_000
    return [
        Tick(
            one.name,
            rules.digest_of(one),
            at_ms,
            one.job(f"{id} {one.name}", at_ms),
            at_ms,
            after,
            after,
            0,
            one.overlap,
        )
        for one in specs
    ]


class Worker:
    """The scheduler and the maintenance of one worker."""

    def __init__(self, url: str, engine: NativeEngine) -> None:
        self.driver = AsyncDriver(url)
        shared = SimpleNamespace(engine=engine, driver=self.driver, env=Env(), queues=(QUEUE,), reports=Reports())
        self.engine = engine
        self.scheduler = Scheduler(cast(WorkerContext, shared), engine, (), "", lambda: f"{random.getrandbits(64):x}")
        self.tasks = [asyncio.create_task(one) for one in (self.scheduler.run(), self.maintain())]

    async def maintain(self) -> None:
        while True:
            done = await self.driver.run(self.engine.maintain([QUEUE], ["t"]))
            self.scheduler.note(QUEUE, done.tick_ms)
            await asyncio.sleep(5 * random.uniform(0.75, 1.25))  # noqa: S311

    async def die(self) -> None:
        for task in self.tasks:
            task.cancel()
        for ended in await asyncio.gather(*self.tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended
        await self.driver.close()


async def burst(url: str, engine: NativeEngine) -> None:
    """Print how late the last of many ticks is that are due at one moment, with one worker."""
    client = AsyncDriver(url)
    at = datetime.now(ZoneInfo("Europe/Berlin")).replace(second=0, microsecond=0) + timedelta(minutes=2)
    due_ms, cron = int(at.timestamp()) * 1000, f"{at.minute} {at.hour} * * *"
    for n in range(BURST):
        one = spec(f"customer {n}", cron=cron, tz="Europe/Berlin", task="t")
        await client.run(engine.put_schedule(one, rules.digest_of(one), "", due_ms, due_ms))
    if time.time() > due_ms / 1000 - 5:
        raise SystemExit("The schedules were not stored in time.")
    worker = Worker(url, engine)
    await asyncio.sleep(due_ms / 1000 - time.time())
    late: list[int] = []
    for _ in range(300):
        await asyncio.sleep(0.2)
        leases = (await client.run(engine.lease("consumer", [QUEUE], 500))).leases
        late += [lease.record.enqueued_ms - due_ms for lease in leases]
        await client.run(engine.settle([(lease, Completed(b"", 0)) for lease in leases]))
        if len(late) == BURST:
            break
    await worker.die()
    sys.stdout.write(
        f"\n{BURST:,} schedules due at one moment, one worker: {len(late):,} jobs, late by at most {max(late):,} ms\n"
    )
    await client.close()


async def lateness(url: str, engine: NativeEngine, seconds: float) -> None:
    """Print how long after their planned times ticks became jobs, and whether each became one."""
    client = AsyncDriver(url)
    now = int(time.time() * 1000)
    for n in range(SCHEDULES):
        one = spec(f"s{n}", every_ms=1_000 * (1 + n % 10), start_ms=now + 37 * n, catch_up=CatchUp.ALL)
        first = rules.first(one, now)
        await client.run(engine.put_schedule(one, rules.digest_of(one), "", first, first))
    workers = [Worker(url, engine) for _ in range(WORKERS)]
    late: list[int] = []
    begin, deaths = time.monotonic(), 0
    warm_ms = now + 10_000  # every worker has maintained once
    while time.monotonic() < begin + seconds:
        await asyncio.sleep(0.2)
        if random.random() < 0.2:  # noqa: S311
            position, deaths = random.randrange(WORKERS), deaths + 1  # noqa: S311
            await workers[position].die()
            workers[position] = Worker(url, engine)
        while leases := (await client.run(engine.lease("consumer", [QUEUE], 200))).leases:
            records = [lease.record for lease in leases]
            late += [one.enqueued_ms - (one.scheduled_ms or 0) for one in records if (one.scheduled_ms or 0) > warm_ms]
            await client.run(engine.settle([(lease, Completed(b"", 0)) for lease in leases]))
    for worker in workers:
        await worker.die()
    late.sort()
    runs = missed = 0
    cursor = 0
    while True:
        page = await client.run(engine.schedule_page(QUEUE, cursor))
        runs += sum(one.state.runs for one in page.schedules)
        missed += sum(one.state.missed for one in page.schedules)
        if not (cursor := page.cursor):
            break
    at = {part: late[min(len(late) - 1, int(len(late) * part))] for part in (0.5, 0.99, 0.999)}
    sys.stdout.write(
        f"\n{WORKERS} workers of which {deaths} died, {SCHEDULES} schedules, {runs:,} ticks, {missed} missed: late by "
        f"{at[0.5]} ms (p50), {at[0.99]} ms (p99), {at[0.999]} ms (p99.9), {late[-1]} ms at most\n"
    )
    await client.close()


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    seconds: float = parser.parse_args().seconds
    *_, binary = available_binaries().values()
    with RedisServer(binary, aof=False) as server:
        engine = NativeEngine("bench")
        with closing(SyncDriver(server.url)) as driver:
            cost_of_ticks(server, driver, engine)
        server.command("FLUSHALL")
        asyncio.run(burst(server.url, NativeEngine("bench")))
        server.command("FLUSHALL")
        asyncio.run(lateness(server.url, NativeEngine("bench"), seconds))


if __name__ == "__main__":
    main()
