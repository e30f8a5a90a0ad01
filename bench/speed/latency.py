"""How long a job waits when nothing else is to be done, and what a worker costs that has nothing to do."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from typing import Final

from bench.processes import members_of
from bench.roster import Adapter, Facts
from bench.speed.enqueue import kind_of
from bench.speed.gauges import sent
from bench.speed.proc import proportional_mb, resident_mb, spent_s, threads_ns
from bench.speed.results import percentile
from bench.speed.stage import START_S, Failed, Stage, staged
from tenure.testing.server import RedisServer

WARM: Final = 5
"""The first jobs find connections that are just being made."""
REST_S: Final = 2.0


def quiet(
    adapter: Adapter, facts: Facts, server: RedisServer, count: int, seconds: float
) -> dict[str, float | list[float]]:
    """Both of one worker: first some jobs one at a time, then nothing for some seconds."""
    with staged(adapter, server, kind_of(facts)) as stage:
        worker = stage.workers.start()
        waits = latency(stage, kind_of(facts), count)
        time.sleep(REST_S)
        return {"latency_p50": percentile(waits, 0.5), "latency_p99": waits, **idle(stage, [worker], seconds)[0]}


def pick_up(adapter: Adapter, facts: Facts, server: RedisServer, count: int) -> dict[str, float]:
    """The median alone, of a few jobs: to choose between settings."""
    with staged(adapter, server, kind_of(facts)) as stage:
        stage.workers.start()
        return {"latency_p50": percentile(latency(stage, kind_of(facts), count), 0.5)}


def latency(stage: Stage, kind: str, count: int) -> list[float]:
    """From just before the call that enqueues a job to the first line of its handler, in milliseconds, of each job."""
    first_of_all = stage.ping(kind, 1)
    stage.wait("end", START_S, "p0")
    assert len(first_of_all) == 1
    stage.journal.path.unlink()
    put = stage.ping(kind, count + WARM)
    waits = []
    for number, at in enumerate(put):
        waits.append((stage.wait("end", START_S, f"p{number}").at - at) * 1e3)
    if min(waits) < 0:
        raise Failed("a job ran before it was put: the clocks of its processes do not agree")
    return waits[WARM:]


def idle(stage: Stage, workers: Iterable[str], seconds: float) -> tuple[dict[str, float], Counter[str]]:
    """What the workers do in these seconds, in which there are no jobs; and their commands by name."""
    members = [pid for worker in workers for pid in members_of(worker)]
    before, began = threads_ns(members), time.monotonic()
    commands = sent(stage.server, seconds)
    cpu, took = spent_s(before, threads_ns(members)), time.monotonic() - began
    found = {
        "idle_commands": commands.total() / took,
        "idle_cpu": cpu / took * 100,
        "worker_memory": max(map(resident_mb, members)),
        "worker_total": sum(map(proportional_mb, members)),
    }
    return found, commands
