"""How fast jobs are put, one by one and many, and what Redis has of it: commands, processor time, memory."""

from __future__ import annotations

from bench.roster import Adapter, Facts
from bench.speed.gauges import read
from bench.speed.stage import Failed, staged
from tenure.testing.server import RedisServer

WARM: int = 20
"""Jobs before those that are timed: connections are made, lazy modules loaded."""


def kind_of(facts: Facts) -> str:
    return "async" if "async" in facts.kinds else "sync"


def one_by_one(adapter: Adapter, facts: Facts, server: RedisServer, count: int) -> dict[str, float]:
    if facts.no_single:
        raise Failed(facts.no_single)
    with staged(adapter, server, kind_of(facts)) as stage:
        before = read(server)
        seconds = stage.put(kind_of(facts), count, bulk=False, warm=WARM)
        spent = read(server).since(before)
    jobs = count + WARM
    return {
        "enqueue_one": count / seconds,
        "commands_enqueue": spent.commands / jobs,
        "server_enqueue": spent.cpu_s / jobs * 1e6,
    }


def many(adapter: Adapter, facts: Facts, server: RedisServer, count: int) -> dict[str, float]:
    if facts.no_bulk:
        raise Failed(facts.no_bulk)
    with staged(adapter, server, kind_of(facts)) as stage:
        return {"enqueue_many": count / stage.put(kind_of(facts), count, bulk=True, warm=WARM)}


def many_dicts(adapter: Adapter, facts: Facts, server: RedisServer, count: int) -> dict[str, float]:
    """The same, with a dict instead of text."""
    if facts.no_bulk:
        raise Failed(facts.no_bulk)
    with staged(adapter, server, kind_of(facts), is_dict=True) as stage:
        return {"enqueue_dicts": count / stage.put(kind_of(facts), count, bulk=True, warm=WARM)}


def memory(adapter: Adapter, facts: Facts, server: RedisServer, count: int) -> dict[str, float]:
    """Nobody is connected at either reading, so all that grew is jobs."""
    with staged(adapter, server, kind_of(facts)) as stage:
        stage.put(kind_of(facts), 1, bulk=not facts.no_bulk)  # what a queue has once, however long it is
        before = read(server)
        stage.put(kind_of(facts), count, bulk=not facts.no_bulk)
        return {"memory_job": read(server).since(before).memory / count}
