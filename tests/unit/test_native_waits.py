"""Which workers of the native engine have Redis claim for them when their wait ends."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tenure.core.waiting import Lead, Wake
from tenure.engines.native import NativeEngine
from tenure.engines.native.cluster import NativeClusterEngine
from tenure.engines.native.partitions.engine import PartitionedEngine


def read_partitions(engine: PartitionedEngine, queue: str, number: int) -> None:
    """As its first claim does."""
    steps = engine.partition_count(queue)
    next(steps)
    with suppress(StopIteration):
        steps.send(b"" if number == 1 else str(number).encode())


@pytest.mark.parametrize(("wished_ms", "block_ms"), [(2_000, 2_000), (1, 20), (60_000, 1_800 + 800 - 500)])
def test_a_worker_of_one_queue_waits_until_a_heartbeat_could_still_keep_the_lease(wished_ms: int, block_ms: int):
    engine = PartitionedEngine("tenure")
    read_partitions(engine, "q", 1)
    wait = engine.wait("w", ["q"], wished_ms)
    assert isinstance(wait, Lead)
    assert wait.if_idle
    assert wait.command.block_ms == block_ms
    assert wait.command.args == ("BLPOP", "{tenure:q}:wake", f"{block_ms / 1000:.3f}")


@pytest.mark.parametrize("kind", ["several queues", "partitions", "not read yet", "a cluster"])
def test_other_workers_are_only_woken(kind: str):
    engine = PartitionedEngine("tenure", make=NativeClusterEngine if kind == "a cluster" else NativeEngine)
    if kind != "not read yet":
        read_partitions(engine, "q", 4 if kind == "partitions" else 1)
    queues = ["q", "r"] if kind == "several queues" else ["q"]
    assert isinstance(engine.wait("w", queues, 2_000), Wake)
