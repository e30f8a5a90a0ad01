"""An engine that is made again from its recipe is the same."""

import json
import subprocess
import sys
from typing import Any

import pytest

from tenure.core.engine import Timing
from tenure.core.errors import UnsupportedFeature
from tenure.engines.native.engine import NativeConfig
from tenure.engines.native.partitions.engine import PartitionedEngine
from tenure.engines.redis_work_queue import RedisWorkQueueEngine
from tenure.engines.redis_work_queue.config import RedisWorkQueueConfig
from tenure.protocols.registry import engine_of, engine_spec_of

TIMING = Timing(beat_ms=100, lease_ms=400)


def test_a_native_engine() -> None:
    engine = PartitionedEngine("shop", NativeConfig(timing=TIMING, max_crashes=9))
    again = engine_of(json.loads(json.dumps(engine_spec_of(engine))))
    assert isinstance(again, PartitionedEngine)
    assert (again.namespace, again.config) == (engine.namespace, engine.config)


def test_an_engine_of_redis_work_queue() -> None:
    engine = RedisWorkQueueEngine("{jobs}", RedisWorkQueueConfig(timing=TIMING, stray_ms=5), {"images": "pictures"})
    again = engine_of(json.loads(json.dumps(engine_spec_of(engine))))
    assert isinstance(again, RedisWorkQueueEngine)
    assert again.config == engine.config
    assert [again.prefix(name) for name in ("default", "images", "x")] == ["{jobs}", "pictures", "{jobs}:x"]


def test_who_makes_one_engine_imports_no_other() -> None:
    """A keeper is a process of its own: what it imports, each worker waits for."""
    script = (
        "import sys, tenure.processes.keeper, tenure.protocols.registry as recipes\n"
        "assert not [name for name in sys.modules if name.startswith('tenure.engines.')]\n"
        f"recipes.engine_of({engine_spec_of(RedisWorkQueueEngine('jobs'))!r})\n"
        "assert not [name for name in sys.modules if name.startswith('tenure.engines.native')]\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_an_engine_that_is_not_known() -> None:
    class Other:
        name = "other"

    other: Any = Other()
    with pytest.raises(UnsupportedFeature, match="other"):
        engine_spec_of(other)
    with pytest.raises(UnsupportedFeature, match="other"):
        engine_of({"protocol": "other", "config": {"timing": {}}})
