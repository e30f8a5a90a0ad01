"""How fast one worker process empties a full queue, and what it and Redis spend on each job.

Timed from the moment when the first job runs to the moment when the last has run, as the jobs themselves note it: the
start of the worker is not in it.
"""

from __future__ import annotations

import time
from typing import Final

from bench.processes import members_of
from bench.roster import Adapter, Facts
from bench.speed.enqueue import kind_of
from bench.speed.gauges import read
from bench.speed.proc import cpu_s
from bench.speed.stage import START_S, Failed, staged
from tenure.testing.server import RedisServer

DRAIN_S: Final = 180.0
SETTLE_S: Final = 0.3
"""After the last job ran: its worker may still have to end it."""
WAIT_S: Final = 0.001
"""How long a job waits for its answer from outside, as one does that asks a database or another service."""


def drain(
    adapter: Adapter, facts: Facts, server: RedisServer, kind: str, count: int, seconds: float = 0.0
) -> dict[str, float]:
    """Jobs a second by `kind`, and the processor time of Redis and of the worker for each.

    `seconds`: how long each job waits.
    """
    if kind not in facts.kinds:
        raise Failed(f"has no {kind} handlers" if facts.kinds else "runs nothing")
    with staged(adapter, server, kind, count=count, seconds=seconds) as stage:
        stage.put(kind, count, bulk=not facts.no_bulk)
        before = read(server)
        worker = stage.workers.start()
        start = stage.wait("start", START_S)
        worked = cpu_s(members_of(worker))
        end = stage.wait("end", DRAIN_S)
        worked = cpu_s(members_of(worker)) - worked
        time.sleep(SETTLE_S)
        spent = read(server).since(before)
    # The first job had begun when the clock was started.
    found = {f"drain_{kind}": (count - 1) / (end.at - start.at)}
    if kind == "async" or "async" not in facts.kinds:
        found |= {
            "commands_drain": spent.commands / count,
            "server_drain": spent.cpu_s / count * 1e6,
            "worker_drain": worked / count * 1e6,
        }
    return found


def waiting(adapter: Adapter, facts: Facts, server: RedisServer, count: int) -> dict[str, float]:
    """Jobs a second that wait, with async handlers where there are any."""
    if adapter.name == "bare":
        raise Failed("waits for one job at a time; see the loop with 100")
    kind = kind_of(facts)
    return {"drain_io": drain(adapter, facts, server, kind, count, WAIT_S)[f"drain_{kind}"]}


def first_job(adapter: Adapter, facts: Facts, server: RedisServer, count: int) -> dict[str, float]:
    """Milliseconds from the start of a worker's process to its first job, which is there before."""
    kind = kind_of(facts)
    with staged(adapter, server, kind, count=1) as stage:
        stage.put(kind, 1, bulk=not facts.no_bulk)
        began = time.monotonic()
        stage.workers.start()
        return {"start": (stage.wait("start", START_S).at - began) * 1e3}
